"""The command that reproduces the paper's tables on changing tasks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    PositiveInt,
    Preset,
    Usage,
    progress_bar,
    spinner,
    warm_up,
    worker_count,
)
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_names, report_changes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.reproduction.protocol import Run, Setting

MOST_TASKS = 5  # there are ten digits, two for a task
TITLES = {
    "paper": "The paper's tables on changing tasks, made again",
    "default": "The paper's protocol with our own settings",
}


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
    """Reproduce the paper's tables and figures on changing tasks, beside the paper's numbers.

    MNIST at 14 × 14, tasks of two digits never seen before, one after the other. A finished
    run is saved at once: after a stop, the next call runs only what is missing.

    ```
    python -m experiments reproduce   # four values of T_CP, detection and routing apart
    python -m experiments reproduce --parts main,told,top_down,batch_300,full_size,recurring
    python -m experiments reproduce --preset default   # the same protocol with our own settings
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
        After a change of the code that should not alter results: repeat the first run of every
        kind that older code made. Where it gives the same result to the last bit, the other
        results of that kind still count, with the seconds they took then.
    """
    from experiments.reproduction import plan
    from experiments.reproduction.tables import sections

    chosen = read_names(parts, plan.PARTS, "--parts")
    if tasks > MOST_TASKS:
        raise Usage(f"--tasks takes at most 5, since there are ten digits, not {tasks}")
    jobs = plan.planned(preset, chosen, runs, tasks, common.seed)
    name = "reproduction" if preset == "paper" else "reproduction-default"
    path = (common.out or Path("results") / "reproduce") / f"{name}.jsonl"
    warm_up(common, preset)
    tables = sections(_measured(jobs, path, recheck, common))
    if preset == "default" or "recurring" in chosen:
        tables.append(_recurring(preset, min(runs, 3), common))
    options: dict[str, Any] = {"preset": preset, "runs": runs, "tasks": tasks, "seed": common.seed}
    if preset == "paper":
        options["parts"] = parts
    pictures = _pictures(preset, common)
    deliver(
        Outcome("reproduce", options, TITLES[preset], tables, pictures=pictures, file=name), common
    )


def _measured(
    jobs: Sequence[tuple["Setting", int]], path: Path, recheck: bool, common: Common
) -> list["Run"]:
    """Return all runs, those of older code checked first if asked for."""
    from experiments.reproduction import plan

    workers = worker_count(common)
    if recheck:
        with progress_bar(common, "recheck") as progress:
            changed = plan.recheck(jobs, path, workers=workers, progress=progress)
        report_changes(common, changed)
    with progress_bar(common, "reproduce") as progress:
        return plan.measure(jobs, path, workers=workers, progress=progress)


def _recurring(preset: Preset, runs: int, common: Common) -> Section:
    """Run streams A B A C B; return their table."""
    from experiments.reproduction.plan import measure_recurring
    from experiments.reproduction.tables import recurring_section

    seeds, workers = range(common.seed, common.seed + runs), worker_count(common)
    with progress_bar(common, "recurring") as progress:
        again = measure_recurring(preset, seeds, workers=workers, progress=progress)
    return recurring_section(again)


def _pictures(preset: str, common: Common) -> dict[str, "Figure"]:
    """Draw how a model of an example adapted, and how its system judges a batch and a sample."""
    from dirad.plot.growth import draw_adaptation
    from experiments.reproduction.figures import draw_flow
    from experiments.reproduction.protocol import example

    with spinner(common, "drawing"):
        system, batch, sample = example(preset, common.seed)
        adaptation = draw_adaptation(system.models[0])
        return {"adaptation": adaptation, "flow": draw_flow(system, batch, sample)}
