"""Which runs the comparison consists of; each is run once and its result saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from dirad.engine import Progress
from experiments.result_cache import ResultCache
from experiments.tabular.catalogue import BY_NAME, DataSet
from experiments.tabular.methods import DIRAD, TREE, check_installed
from experiments.tabular.run import Run, run
from experiments.tabular.source import load

# Modules that a result depends on, beside those of our models. The list of data sets is not among
# them: the key of a run has the checksum of its data.
CODE = tuple(f"experiments.tabular.{name}" for name in ("methods", "run", "size", "source"))
OUR_CODE = (
    *CODE,
    "experiments.tabular.our_settings",
    "dirad.encoding",
    "dirad.estimators.growing",
    "dirad.estimators.fitting",
)


class Job(NamedTuple):
    """The arguments of one run."""

    data: str
    fold: int
    method: str
    seed: int
    budget: int = 0  # stored numbers that a tree of equal size may have


def planned(names: Sequence[str], methods: Sequence[str], folds: int, seed: int) -> list[Job]:
    """Return every run but those of the trees, which follow; large data sets come first."""
    largest_first = sorted(names, key=lambda name: -_cells(BY_NAME[name]))
    return [
        Job(name, fold, method, seed)
        for name in largest_first
        for method in methods
        for fold in range(folds)
        if method != TREE
    ]


def trees(runs: Sequence[Run], seed: int) -> list[Job]:
    """Return the runs of trees that store no more numbers than DIRAD does on the same fold."""
    return [Job(one.data, one.fold, TREE, seed, one.stored) for one in runs if one.method == DIRAD]


def check(names: Sequence[str], methods: Sequence[str]) -> None:
    """Raise an error before the first run if data or packages are missing."""
    check_installed(methods)
    for name in names:
        load(BY_NAME[name])


def execute(
    jobs: Sequence[Job],
    path: Path,
    *,
    finished: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return the results of all runs; those whose results the file holds are not repeated.

    If `finished`, nothing is run: methods are left out on data sets where a run is missing.
    """
    if finished:
        jobs = finished_of(jobs, path)
    found: dict[str, Run] = {}
    for ours in (True, False):  # peers are not run again when our models change
        some = {key(job): job for job in jobs if (job.method == DIRAD) == ours}
        done = len(found)

        def report(number: int, _: int, done: int = done) -> None:
            if progress is not None:
                progress(done + number, len(jobs))

        cache = _cache(path, ours=ours)
        made = cache.run(run, list(some.values()), list(some), workers=workers, progress=report)
        found |= {name: Run(**one) for name, one in zip(some, made, strict=True)}
    return [found[key(job)] for job in jobs]


def finished_of(jobs: Sequence[Job], path: Path) -> list[Job]:
    """Return the runs of those methods and data sets of which the file holds all runs."""
    caches = {ours: _cache(path, ours=ours) for ours in (True, False)}
    missing = {
        (job.data, job.method)
        for job in jobs
        if key(job) not in caches[job.method == DIRAD].results
    }
    return [job for job in jobs if (job.data, job.method) not in missing]


def _cache(path: Path, *, ours: bool) -> ResultCache:
    """Return the results of our models, or of the other methods."""
    return ResultCache(path, OUR_CODE if ours else CODE, models=ours)


def key(job: Job) -> str:
    """Return what a run depends on."""
    return ResultCache.key("tables", BY_NAME[job.data].checksum, *job)


def _cells(data: DataSet) -> int:
    return data.rows * data.inputs * max(data.classes, 1)
