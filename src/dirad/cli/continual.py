"""Commands on systems of models: streams whose tasks change unannounced."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    Outcome,
    PositiveInt,
    Preset,
    Usage,
    app,
    deliver,
    progress_bar,
    spinner,
    tell_changed,
    warm_up,
    worker_count,
)
from dirad.report.tables import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@app.command
def reproduce(
    *,
    preset: Preset = "paper",
    parts: str = "main,told",
    runs: PositiveInt = 8,
    tasks: PositiveInt = 3,
    recheck: Flag = False,
    common: Common = DEFAULTS,
) -> None:
    """Make the paper's tables and figures on changing tasks again, beside the paper's numbers.

    MNIST at 14 × 14, tasks of two digits never seen before, one after the other. A run that is
    finished is kept at once: stopped at any moment, the next call makes only what is missing.

    ```
    dirad reproduce                       # four values of T_CP, detection and routing apart
    dirad reproduce --parts main,told,top_down,batch_300,full_size,recurring
    dirad reproduce --preset default      # the same protocol with our own settings
    ```

    Parameters
    ----------
    preset
        The paper's settings, or our own.
    parts
        Of the paper's settings: main (the tables), told (told when a task is new: routing alone),
        top_down (the other reading of which nodes may predict), batch_300, full_size (28 × 28; two
        runs of some minutes), recurring (a stream A B A C B; of our own settings always).
    runs
        Runs per setting.
    tasks
        Tasks per run, of two digits each: at most 5.
    recheck
        Of what other code made, make the first run of each setting again; where it comes out as it
        did, to the last bit, the others count, with the seconds they took then. For changes that
        ought to change nothing.
    """
    from dirad.experiments import reproduce as experiment
    from dirad.experiments.protocol import example
    from dirad.plot.conflicts import draw_flow
    from dirad.plot.growth import draw_adaptation

    chosen = [part.strip() for part in parts.split(",")]
    for part in chosen:
        if part not in experiment.PARTS:
            raise Usage(f"--parts takes {', '.join(experiment.PARTS)}, not {part!r}")
    if tasks > 5:
        raise Usage(f"--tasks takes at most 5, since there are ten digits, not {tasks}")
    jobs = experiment.planned(preset, chosen, runs, tasks, common.seed)
    folder = common.out or Path("results") / "reproduce"
    warm_up(common, preset)
    name = "reproduction" if preset == "paper" else "reproduction-default"
    ledger = folder / f"{name}.jsonl"
    if recheck:
        with progress_bar(common, "recheck") as progress:
            changed = experiment.recheck(
                jobs, ledger, workers=worker_count(common), progress=progress
            )
        tell_changed(common, changed)
    with progress_bar(common, "reproduce") as progress:
        found = experiment.measure(jobs, ledger, workers=worker_count(common), progress=progress)
    tables = experiment.sections(found)
    if preset == "default" or "recurring" in chosen:
        with progress_bar(common, "recurring") as progress:
            again = experiment.measure_recurring(
                preset,
                range(common.seed, common.seed + min(runs, 3)),
                workers=worker_count(common),
                progress=progress,
            )
        tables.append(experiment.recurring_section(again))
    pictures: dict[str, Figure] = {}
    with spinner(common, "drawing"):
        system, batch, sample = example(preset, common.seed)
        pictures["adaptation"] = draw_adaptation(system.models[0])
        pictures["flow"] = draw_flow(system, batch, sample)
    options: dict[str, Any] = {"preset": preset, "runs": runs, "tasks": tasks, "seed": common.seed}
    if preset == "paper":
        options["parts"] = parts
    deliver(
        Outcome(
            "reproduce",
            options,
            "The paper's tables on changing tasks, made again"
            if preset == "paper"
            else "The paper's protocol with our own settings",
            [Section(*table) for table in tables],
            pictures=pictures,
            file=name,
        ),
        common,
    )
