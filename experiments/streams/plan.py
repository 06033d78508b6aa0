"""Which runs the experiment consists of; each is run once and its result saved."""

from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

from dirad.engine import Progress
from experiments.result_cache import ResultCache
from experiments.streams.data import WIND
from experiments.streams.ours import PREVAL
from experiments.streams.run import Run, method_of, run

# Modules that a result depends on, beside those of our models.
CODE = tuple(
    f"experiments.streams.{name}"
    for name in ("data", "flows", "peers", "recordings", "run", "shuffled", "turbines")
)
ESTIMATORS = tuple(
    f"dirad.estimators.{path.name.removesuffix('.py')}"
    for path in sorted(files("dirad.estimators").iterdir(), key=lambda path: path.name)
    if path.name.endswith(".py") and path.name != "__init__.py"
)
FOLLOWERS = ("dirad.streams.novel_classes", "dirad.streams.regimes")  # of streams without labels
OUR_CODE = ("dirad.inference", *ESTIMATORS, *FOLLOWERS, "experiments.streams.ours")


class Job(NamedTuple):
    """The arguments of one run."""

    stream: str
    method: str
    seed: int
    limit: int


def planned(
    streams: Sequence[str], methods: Sequence[str], seeds: Sequence[int], limit: int
) -> list[Job]:
    """Return every run, without those of methods that the kind of stream does not have."""
    return [
        Job(stream, method, seed, limit)
        for stream in streams
        for method in methods
        for seed in seeds
        if stream != WIND or method_of(method).regressor is not None
    ]


def execute(
    jobs: Sequence[Job], path: Path, *, workers: int = 1, progress: Progress | None = None
) -> list[Run]:
    """Return the results of all runs; those whose results the file holds are not repeated."""
    found: dict[str, Run] = {}
    for ours in (True, False):  # peers are not run again when our models change
        some = {ResultCache.key("streams", *job): job for job in jobs}
        some = {key: job for key, job in some.items() if (job.method == PREVAL) == ours}
        done = len(found)

        def report(number: int, _: int, done: int = done) -> None:
            if progress is not None:
                progress(done + number, len(jobs))

        cache = ResultCache(path, (*CODE, *OUR_CODE) if ours else CODE, models=ours)
        made = cache.run(run, list(some.values()), list(some), workers=workers, progress=report)
        found |= {key: Run(**one) for key, one in zip(some, made, strict=True)}
    return [found[ResultCache.key("streams", *job)] for job in jobs]


def execute_ours(
    function: Callable[..., Any],
    jobs: Sequence[Sequence[Any]],
    path: Path,
    module: str,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the results of runs of our models alone, by a function of this module."""
    keys = [ResultCache.key(module, *job) for job in jobs]
    cache = ResultCache(path, (*CODE, *OUR_CODE, module))
    return [
        dict(one) for one in cache.run(function, jobs, keys, workers=workers, progress=progress)
    ]
