"""The command that compares our continual learner with its peers."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    PositiveInt,
    Usage,
    progress_bar,
    spinner,
    warm_up,
    worker_count,
)
from dirad.cli.outcome import Outcome
from experiments.commands.app import app, deliver, read_names, report_changes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.comparison.plan import Job, Series
    from experiments.comparison.run import Result


@app.command
def compare(
    *,
    data: str = "mnist,fashion-mnist,digits",
    parts: str = "main,sizes,alarms,samples,ablation,streams,reused",
    methods: str | None = None,
    orders: PositiveInt = 8,
    recheck: Flag = False,
    common: Common = DEFAULTS,
) -> None:
    """Compare our continual learner with its peers on the same streams.

    Five tasks of two classes each (other data sets: see --data), every sample once, no sign where a
    task ends. Peers: a Gaussian per task or per class, streaming LDA, nearest mean, random
    features, RanPAC and RanDumb with 1,000 and 5,000 features, FeCAM, PEC, factor analysers, a
    variational autoencoder and k-means prototypes per class, a perceptron fine-tuned, with EWC
    (told, and driven by our detection), with replay and GDumb, a Hoeffding tree, ADWIN, and joint
    training as the ceiling. A finished run is saved at once: after a stop, the next call runs only
    what is missing.

    All of it takes about two hours on two cores; 28 × 28 another hour.

    ```
    python -m experiments compare --data digits --parts main --orders 2    # a minute
    python -m experiments compare                                          # all but 28 × 28
    python -m experiments compare --data mnist,mnist-28,fashion-mnist,digits
    ```

    Parameters
    ----------
    data
        Of mnist (14 × 14), mnist-28, fashion-mnist (14 × 14), digits (scikit-learn's, 8 × 8),
        letters (16 measures; 13 tasks of two), cifar-10 (features of a frozen network) and
        cifar-10-10tasks (the same, class by class), quickdraw (14 × 14; 20 tasks of 5 classes) and
        quickdraw-features.
    parts
        Of main (all methods), wide (25,000 features: 5 GB and half an hour a run, only on request),
        sizes (ours, smaller), alarms (false ones, of many models, on mnist and fashion-mnist),
        samples (tasks that are seen briefly), ablation (what each part of ours is worth), streams
        (recurring, gradual, early and other changes), reused (labels that do not tell the task:
        reused, of changing rules, or none). Sizes, samples, streams and ablation are on mnist; of
        ablation something is on mnist-28.
    methods
        Only these, as the tables name them, separated by semicolons [default: all].
    orders
        Random orders of the classes.
    recheck
        After a change of the code that should not alter results: repeat the first run of every
        kind that older code made. Where it gives the same result to the last bit, the other
        results of that kind still count, with the seconds they took then.
    """
    from experiments.comparison import plan
    from experiments.comparison.data_sets import SPLITS
    from experiments.comparison.methods import METHODS
    from experiments.comparison.tables import sections

    chosen = read_names(parts, plan.PARTS, "--parts")
    names = read_names(data, list(SPLITS), "--data")
    wanted = None if methods is None else read_names(methods, list(METHODS), "--methods", ";")
    runs = _planned(chosen, names, orders, common.seed, wanted)
    if not runs.jobs and not any(one.jobs for one in runs.series):
        raise Usage(f"--parts {parts} has nothing to do on --data {data}")
    plan.check(runs.jobs)
    warm_up(common, "default", "paper")
    found = _measured(runs, recheck, common)
    with spinner(common, "drawing"):
        pictures = _pictures(found[0], names if "main" in chosen else [])
    options: dict[str, Any] = {"data": data, "parts": parts, "orders": orders, "seed": common.seed}
    if methods is not None:
        options["methods"] = methods
    title, tables = "Continual learning without task labels: ours and its peers", sections(*found)
    outcome = Outcome("compare", options, title, tables, pictures=pictures, file="comparison")
    deliver(outcome, common)


class Runs(NamedTuple):
    """What is to be run."""

    jobs: list["Job"]  # of methods
    streams: "Series | None"
    alarms: "Series | None"
    reused: "Series | None"

    @property
    def series(self) -> list["Series"]:
        """The runs beside those of methods."""
        return [one for one in (self.streams, self.alarms, self.reused) if one is not None]


def _planned(
    parts: list[str], data: list[str], orders: int, seed: int, methods: list[str] | None
) -> Runs:
    from experiments.comparison import plan

    return Runs(
        plan.planned(parts, data, orders, seed, methods),
        plan.streams(orders, seed) if "streams" in parts else None,
        plan.alarms(data, orders, seed) if "alarms" in parts else None,
        plan.reused(data, orders, seed) if "reused" in parts else None,
    )


def _rechecked(runs: Runs, path: Path, common: Common) -> list[str]:
    """Return the kinds of runs whose results have changed."""
    from experiments.comparison import plan

    workers = worker_count(common)
    with progress_bar(common, "recheck") as progress:
        changed = plan.recheck(runs.jobs, path, workers=workers, progress=progress)
    for one in runs.series:
        with progress_bar(common, f"recheck {one.name}") as progress:
            changed += one.recheck(path, workers=workers, progress=progress)
    return changed


def _measured(runs: Runs, recheck: bool, common: Common) -> tuple[list["Result"], list, list, list]:
    """Return results of methods, scores of streams, false alarms, and runs with reused labels."""
    from dirad.streams.run import StreamScores
    from experiments.comparison import plan
    from experiments.comparison.alarms import Alarms
    from experiments.comparison.reused import Reused

    path = (common.out or Path("results") / "compare") / "comparison.jsonl"
    if recheck:
        report_changes(common, _rechecked(runs, path, common))
    workers = worker_count(common)
    with progress_bar(common, "compare") as progress:
        results = plan.execute(runs.jobs, path, workers=workers, progress=progress)
    found: list[list[Any]] = []
    for one, record in ((runs.streams, StreamScores), (runs.alarms, Alarms), (runs.reused, Reused)):
        if one is None:
            found.append([])
            continue
        with progress_bar(common, one.name) as progress:
            plain = one.execute(path, workers=workers, progress=progress)
        found.append([record(**fields) for fields in plain])
    return results, found[0], found[1], found[2]


def _pictures(results: list["Result"], data: list[str]) -> dict[str, "Figure"]:
    """Draw accuracy by task, and accuracy by size, for every data set."""
    from experiments.comparison.curves import curves, sized_points
    from experiments.comparison.figures import draw_sizes, draw_tasks
    from experiments.comparison.scenario import standard

    pictures: dict[str, Figure] = {}
    for name in data:
        some = [one for one in results if one.scenario == standard(name)]
        accuracies, stored = curves(some)
        title = standard(name).name
        pictures[f"{name}-tasks"] = draw_tasks(accuracies, title)
        pictures[f"{name}-sizes"] = draw_sizes(accuracies, stored, title, sized_points(some))
    return pictures
