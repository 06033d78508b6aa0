"""The paper's tables on PREVAL made again, ours beside the paper's, and where they differ, why."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import ttest_ind

from dirad.experiments import published
from dirad.experiments.ledger import Ledger
from dirad.experiments.protocol import (
    Probe,
    Run,
    Setting,
    accuracies,
    class_accuracies,
    images,
    missed_a_task,
    net_accuracy,
    net_retention,
    run,
    task_retention,
)
from dirad.experiments.runner import Progress, deviation, mean, run_all
from dirad.experiments.streams import recurrence
from dirad.experiments.streams.recurrence import Recurrence

PARTS = ("main", "told", "top_down", "batch_300", "full_size", "recurring")
FEW = 2  # runs with the full image, which take minutes each


class Table(NamedTuple):
    """A table with a title and a remark."""

    title: str
    rows: Sequence[dict[str, Any]]
    note: str = ""


def planned(preset: str, parts: Sequence[str], runs: int, tasks: int, seed: int) -> list[tuple]:
    """Return (setting, number) of every run, the long ones first."""
    base = Setting(preset=preset, tasks=tasks, seed=seed)
    if preset == "default":
        return [(base, number) for number in range(runs)]
    settings = []
    if "full_size" in parts:
        settings += [(replace(base, T_CP=0.05, side=28), min(runs, FEW))]
    if "batch_300" in parts:
        settings += [(replace(base, T_CP=0.05, batch_size=300), runs)]
    if "main" in parts:
        settings += [(replace(base, T_CP=T), runs) for T in published.T_CP]
    if "told" in parts:
        settings += [(replace(base, T_CP=T, told=True), runs) for T in published.T_CP]
    if "top_down" in parts:
        settings += [(replace(base, T_CP=T, connectivity="top_down"), runs) for T in published.T_CP]
    return [(setting, number) for setting, count in settings for number in range(count)]


def check(jobs: Sequence[tuple[Setting, int]]) -> None:
    """Refuse to begin where a data set is missing."""
    for side in {setting.side for setting, _ in jobs}:
        images(side)


def measure(
    jobs: Sequence[tuple[Setting, int]],
    ledger: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return all runs; those that the ledger holds are not made again."""
    check(jobs)
    book = Ledger(ledger)
    keys = [Ledger.key(*job) for job in jobs]
    return [
        restored(plain) for plain in book.made(run, jobs, keys, workers=workers, progress=progress)
    ]


def recheck(
    jobs: Sequence[tuple[Setting, int]],
    ledger: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[str]:
    """Let runs by other code count again where it makes no difference (see `Ledger.recheck`).

    Returns the settings to which it makes one.
    """
    check(jobs)
    keys, kinds = [Ledger.key(*job) for job in jobs], [str(setting) for setting, _ in jobs]
    return Ledger(ledger).recheck(run, jobs, keys, kinds, workers=workers, progress=progress)


def restored(plain: Any) -> Run:
    """Return a run from its line in the ledger."""
    return Run(
        **{
            **plain,
            "setting": Setting(**plain["setting"]),
            "tests": [{int(k): v for k, v in test.items()} for test in plain["tests"]],
            "probes": [Probe(**probe) for probe in plain["probes"]],
        }
    )


def measure_recurring(
    preset: str, seeds: Sequence[int], *, workers: int = 1, progress: Progress | None = None
) -> list[Recurrence]:
    """Return what a preset does in a stream A B A C B."""
    jobs = [(preset, seed) for seed in seeds]
    return run_all(recurrence.measure_recurring, jobs, workers=workers, progress=progress)


# ------------------------------------------------------------------ sections


def sections(runs: Sequence[Run]) -> list[Table]:
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


def recurring_section(runs: Sequence[Recurrence]) -> Table:
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
        note += " T_CP = 0.05: the only value at which the paper's rule fires regularly."
    return Table("A stream in which tasks come again", rows, note)


def spread(values: Sequence[float]) -> str:
    """Return mean ± standard deviation.

    >>> spread([0.5, 0.7])
    '0.60 ± 0.14'
    """
    values = list(values)
    if not values:
        return "–"
    if len(values) == 1:
        return f"{values[0]:.2f}"
    return f"{mean(values):.2f} ± {deviation(values):.2f}"


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the probability of so different means if the truth is the same (Welch's test)."""
    result: Any = ttest_ind(a, b, equal_var=False)
    return float(result.pvalue)


def check_section() -> Table:
    """Return how well the paper's tables follow from its own per-run tables."""
    rows = []
    for T_CP in published.T_CP:
        runs = published.RUNS[T_CP]
        found = [one for one in runs if not missed_a_task(one)]
        derived = [*accuracies(runs), *accuracies(found)]
        printed = [*published.ACCURACIES[T_CP][0], *published.ACCURACIES[T_CP][1]]
        kept = [*net_retention(runs), *net_retention(found), *task_retention(found).values()]
        kept_printed = [value for part in published.RETENTION[T_CP] for value in part]
        rows.append(
            {
                "T_CP": f"{T_CP:.2f}",
                "largest difference, accuracies": f"{largest(derived, printed):.3f}",
                "largest difference, retention": f"{largest(kept, kept_printed):.3f}",
                "missed, derived": len(runs) - len(found),
                "missed, printed": published.ACCURACIES[T_CP][2],
            }
        )
    note = (
        "The paper's averages computed again from its per-run tables. They agree to a unit or two "
        "of the last digit if retention is the mean over runs of accuracy after ÷ before (the "
        "caption says the reverse) and TX+Y leaves out every run that missed any task. So all "
        "tables below are computed, from our runs and from the paper's."
    )
    return Table("First: do the paper's tables follow from its runs?", rows, note)


def largest(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest difference between two lists."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def groups(runs: Sequence[Run]) -> dict[float, list[Run]]:
    """Return the runs by T_CP."""
    return {
        T_CP: [one for one in runs if one.setting.T_CP == T_CP]
        for T_CP in sorted({one.setting.T_CP for one in runs})
    }


def accuracy_section(title: str, runs: Sequence[Run]) -> Table:
    """Return accuracies after each task, with and without runs that missed one."""
    tasks = runs[0].setting.tasks
    rows: list[dict[str, Any]] = []
    reasons = []
    for T_CP, some in groups(runs).items():
        ours = [one.tests for one in some]
        found = [one.tests for one in some if not one.missed]
        ours_default = some[0].setting.preset == "default"
        label = "ours" if ours_default else f"{T_CP:.2f}"
        row: dict[str, Any] = {"T_CP": label, "source": "ours"}
        theirs = [] if ours_default else list(published.RUNS.get(T_CP, ()))
        for task in range(tasks):
            values = [net_accuracy(tests, task) for tests in ours]
            row[f"T{task + 1}"] = spread(values)
            if theirs and task < 3 and len(values) > 1:
                p = welch(values, [net_accuracy(tests, task) for tests in theirs])
                row[f"T{task + 1}"] += f" (p {p:.2f})"
                if p < 0.05:
                    reasons.append(f"T{task + 1} at {T_CP:.2f}")
        for task in range(tasks):
            row[f"T{task + 1}, none missed"] = spread([net_accuracy(t, task) for t in found])
        row["missed"] = f"{len(ours) - len(found)}/{len(ours)}"
        row["false alarms"] = f"{mean(one.false_alarms[-1] for one in some):.2f}"
        row["right model"] = f"{mean(one.routed[-1] for one in some):.2f}"
        rows.append(row)
        if theirs and tasks == 3:
            kept = [one for one in theirs if not missed_a_task(one)]
            paper: dict[str, Any] = {"T_CP": label, "source": "paper"}
            for task in range(3):
                paper[f"T{task + 1}"] = spread([net_accuracy(t, task) for t in theirs])
                paper[f"T{task + 1}, none missed"] = spread([net_accuracy(t, task) for t in kept])
            paper["missed"] = f"{len(theirs) - len(kept)}/{len(theirs)}"
            rows.append(paper)
    for name, value in (("chance", lambda x: 1 / (2 * x)), ("latest task only", lambda x: 1 / x)):
        rows.append(
            {"T_CP": name, "source": ""} | {f"T{x}": f"{value(x):.2f}" for x in range(1, tasks + 1)}
        )
    note = (
        "Mean ± standard deviation over runs; p: Welch's test of our runs against the paper's. "
        "'None missed': runs in which every task was detected. False alarms: share of fresh "
        "batches of known tasks, after the last task, that would open a model. Right model: share "
        "of test samples that reach the model of their own task."
    )
    if reasons:
        note += f" Different from the paper (p < 0.05): {', '.join(reasons)}."
    return Table(title, rows, note)


def retention_section(runs: Sequence[Run]) -> Table:
    """Return what is left of an accuracy after the next task."""
    rows = []
    for T_CP, some in groups(runs).items():
        default = some[0].setting.preset == "default"
        label = "ours" if default else f"{T_CP:.2f}"
        sources: list[tuple[str, Sequence, Sequence]] = [
            ("ours", [one.tests for one in some], [one.tests for one in some if not one.missed])
        ]
        if not default and T_CP in published.RUNS and some[0].setting.tasks == 3:
            theirs = published.RUNS[T_CP]
            sources.append(("paper", theirs, [one for one in theirs if not missed_a_task(one)]))
        for source, every, found in sources:
            row = {"T_CP": label, "source": source}
            without = net_retention(found)
            for i, value in enumerate(net_retention(every)):
                inner = (
                    f"{without[i]:.2f}" if i < len(without) and without[i] == without[i] else "–"
                )
                row[f"ALL+{i + 2}"] = f"{value:.2f} ({inner})"
            for name, value in task_retention(found).items():
                row[name] = f"{value:.2f}" if value == value else "–"
            rows.append(row)
    note = (
        "Mean over runs of accuracy after ÷ before the task was introduced; in parentheses, and in "
        "columns TX+Y, without runs that missed a task."
    )
    return Table("Retention", rows, note)


def missed_section(title: str, runs: Sequence[Run]) -> Table:
    """Return whether the paper's rule can fire at all, by T_CP."""
    rows = []
    dead_models = dead_misses = live_models = live_misses = 0
    for T_CP, some in groups(runs).items():
        limits, own, following, misses = [], [], [], 0
        for one in some:
            for probe in one.probes:
                # The latest model before a change of task decides with the older ones.
                task = owner_task(one, probe.model)
                if task is None or task + 1 >= one.setting.tasks:
                    continue
                missed = not one.detected[task + 1]
                dead = probe.limit >= 1.0
                dead_models, live_models = dead_models + dead, live_models + (not dead)
                dead_misses += dead and missed
                live_misses += (not dead) and missed
                limits.append(probe.limit)
                own.append(float(np.mean(probe.own)))
                following.append(float(np.mean(probe.next)))
                misses += missed
        rows.append(
            {
                "T_CP": f"{T_CP:.2f}",
                "R_IS": spread([m["R_IS"] for one in some for m in one.models]),
                "limit (1+ε)R_IS": spread(limits),
                "invalid share, own task": spread(own),
                "invalid share, next task": spread(following),
                "limit of 1 or more": f"{sum(x >= 1 for x in limits)}/{len(limits)}",
                "next task missed": f"{misses}/{len(limits)}",
            }
        )
    note = (
        "Invalid shares: mean over 20 fresh batches, judged by the model of the latest detected "
        f"task. Where its limit is 1 or more, no batch can ever be new: {dead_misses} of "
        f"{dead_models} such changes of task were missed, and {live_misses} of the {live_models} "
        "others."
    )
    return Table(title, rows, note)


def difference_section(main: Sequence[Run], told: Sequence[Run]) -> Table:
    """Return, for each cell that differs from the paper's, how much of it detection explains."""
    rows = []
    for T_CP, some in groups(main).items():
        theirs = published.RUNS[T_CP]
        kept = [one for one in theirs if not missed_a_task(one)]
        hinted = groups(told).get(T_CP, [])
        dead = [probe.limit >= 1.0 for one in some for probe in one.probes if probe.next]
        for task in (1, 2):
            ours = [net_accuracy(one.tests, task) for one in some]
            p = welch(ours, [net_accuracy(tests, task) for tests in theirs])
            routed = [net_accuracy(one.tests, task) for one in hinted]
            paper = [net_accuracy(tests, task) for tests in kept]
            rows.append(
                {
                    "T_CP": f"{T_CP:.2f}",
                    "cell": f"T{task + 1}",
                    "ours": spread(ours),
                    "paper": spread([net_accuracy(tests, task) for tests in theirs]),
                    "p": f"{p:.2f}",
                    "missed, ours": f"{sum(one.missed for one in some)}/{len(some)}",
                    "rule cannot fire": f"{sum(dead)}/{len(dead)}",
                    "ours, told": spread(routed),
                    "paper, none missed": spread(paper),
                    "p of these": f"{welch(routed, paper):.2f}" if len(routed) > 1 else "–",
                }
            )
    note = (
        "T1 agrees everywhere. Later tasks differ where the rule cannot fire: a model whose R_IS "
        "is above 1/(1+ε) = 0.83 can never call a batch new, whatever it holds. R_IS grows with "
        "T_CP, because a sample is invalid as soon as one node in a hundred is conflicted, and of "
        "150 to 200 confidently predicted nodes nearly always some are. In the paper fewer tasks "
        "were missed at T_CP of 0.10 and more, so its R_IS must have been lower; its text does not "
        "say by what. Told when a task is new, our system shows what routing alone does ('ours, "
        "told'), beside those of the paper's runs that missed none."
    )
    return Table("What differs from the paper, and why", rows, note)


def owner_task(one: Run, model: int) -> int | None:
    """Return the task that a model was opened for."""
    opened = [task for task, detected in enumerate(one.detected) if detected]
    return opened[model] if model < len(opened) else None


def sizes_section(runs: Sequence[Run], title: str = "Sizes") -> Table:
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
    return Table(title, rows, note)


def class_section(runs: Sequence[Run]) -> Table:
    """Return mean accuracies by class after the last task."""
    rows = []
    for T_CP, some in groups(runs).items():
        for source, tests in (
            ("ours", [one.tests for one in some]),
            ("paper", published.RUNS.get(T_CP, ())),
        ):
            if tests:
                found = class_accuracies(tests)
                rows.append(
                    {"T_CP": f"{T_CP:.2f}", "source": source}
                    | {f"C{d}": f"{a:.2f} ({n})" if n else "–" for d, (a, n) in found.items()}
                )
    return Table(
        "Mean accuracies by class, after the last task", rows, "In parentheses: the number of runs."
    )


def per_run_section(title: str, runs: Sequence[Run]) -> Table:
    """Return a table of single runs by class."""
    rows = []
    for one in runs:
        row: dict[str, Any] = {"run": one.number + 1}
        for task, test in enumerate(one.tests):
            row[f"T{task + 1}"] = ", ".join(f"{d}: {a:.2f}" for d, a in test.items())
        row["detected"] = " ".join("yes" if found else "no" for found in one.detected)
        rows.append(row)
    return Table(title, rows, "Class: accuracy. Detected: was a model opened for the task?")
