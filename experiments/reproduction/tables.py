"""The paper's tables on changing tasks, ours beside the paper's."""

from collections.abc import Sequence
from dataclasses import replace

from dirad.report.tables import Section
from dirad.streams.averages import deviation, mean
from experiments.reproduction.accuracy_tables import (
    accuracy_section,
    class_section,
    groups,
    per_run_section,
    retention_section,
)
from experiments.reproduction.detection_tables import (
    check_section,
    difference_section,
    missed_section,
)
from experiments.reproduction.protocol import Run, Setting
from experiments.reproduction.recurrence import Recurrence


def sections(runs: Sequence[Run]) -> list[Section]:
    """Return the whole page."""
    if runs and runs[0].setting.preset == "default":
        return [
            accuracy_section("Average accuracies", runs),
            retention_section(runs),
            sizes_section(runs),
            per_run_section("Accuracies by class", runs),
        ]
    main = [one for one in runs if one.setting == replace(runs_base(one), T_CP=one.setting.T_CP)]
    told = [one for one in runs if one.setting.told]
    top_down = [one for one in runs if one.setting.connectivity == "top_down"]
    others = [one for one in runs if one.setting.side != 14 or one.setting.batch_size]
    found = [check_section()]
    if main:
        found += [
            accuracy_section("Average accuracies", main),
            retention_section(main),
            missed_section("Where missed tasks come from", main),
            sizes_section(main),
            class_section(main),
        ]
        for T_CP in sorted({one.setting.T_CP for one in main}):
            some = [one for one in main if one.setting.T_CP == T_CP]
            found.append(per_run_section(f"Runs at T_CP = {T_CP:.2f}", some))
    if told:
        found.append(accuracy_section("The same, told when a task is new", told))
    if main and told:
        found.append(difference_section(main, told))
    if top_down:
        found += [
            accuracy_section("The other reading: only hidden nodes and outputs predict", top_down),
            missed_section("Where it misses tasks", top_down),
        ]
    for title, some in (
        ("Batches of 300", [one for one in others if one.setting.batch_size == 300]),
        ("The full image, 28 × 28", [one for one in others if one.setting.side == 28]),
    ):
        if some:
            found += [accuracy_section(title, some), sizes_section(some, f"{title}: sizes")]
    return found


def runs_base(one: Run) -> Setting:
    """Return the paper's main setting with this run's number of tasks and seed."""
    return Setting(preset=one.setting.preset, tasks=one.setting.tasks, seed=one.setting.seed)


def sizes_section(runs: Sequence[Run], title: str = "Sizes") -> Section:
    """Return sizes of the networks and steps to stability."""
    rows = []
    for T_CP, some in groups(runs).items():
        models = [model for one in some for model in one.models]
        default = some[0].setting.preset == "default"

        def both(key: str, digits: int = 0, models: Sequence[dict] = models) -> str:
            values = [model[key] for model in models]
            text = f"{mean(values):,.{digits}f}"
            return text if len(values) < 2 else f"{text} ± {deviation(values):,.{digits}f}"

        rows.append(
            {
                "T_CP": "ours" if default else f"{T_CP:.2f}",
                "models": len(models),
                "L0 edges": both("L0_edges"),
                "L0 hidden": both("L0_hidden"),
                "L0 steps": both("L0_steps"),
                "L1 targets": both("L1_targets"),
                "predicted": both("L1_confident"),
                "L1 edges": both("L1_edges"),
                "L1 steps": both("L1_steps"),
                "L1 error": both("L1_error", 3),
                "parameters": both("parameters"),
                "seconds per run": f"{mean(one.seconds for one in some):.0f}",
            }
        )
    note = (
        "Mean ± standard deviation over models. The paper: fewer than 50 edges and 20 hidden nodes "
        "in L0, an L1 error of about 0.05 and more than ten times as many edges in L1. L1 edges: "
        "of the pathways that are kept. L1 error: mean squared error over all targets."
    )
    return Section(title, rows, note)


def recurring_section(runs: Sequence[Recurrence]) -> Section:
    """Return which models were opened and chosen in a stream A B A C B."""
    rows = []
    for one in runs:
        right = sum(a == b for a, b in zip(one.chosen, one.expected, strict=True))
        rows.append(
            {
                "preset": one.preset,
                "seed": one.seed,
                **{
                    f"{'ABACB'[i]} ({i + 1})": f"{models}" + (" new" if opened else "")
                    for i, (models, opened) in enumerate(zip(one.chosen, one.opened, strict=True))
                },
                "as it should": f"{right}/{len(one.expected)}",
                "accuracy at the end": f"{one.accuracy:.2f}",
            }
        )
    note = (
        "Tasks A, B, A again, C, B again, none announced. Cells: the models that took the batches "
        "of that part; 'new' where one was opened. A perfect system shows 0 new, 1 new, 0, 2 new, "
        "1."
    )
    if any(one.preset == "paper" for one in runs):
        note += " T_CP = 0.05."
    return Section("A stream in which tasks come again", rows, note)
