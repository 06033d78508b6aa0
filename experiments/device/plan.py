"""Runs whose results are kept in a file, so that an interrupted command goes on where it was."""

import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dirad.export.compact
from dirad.engine import Progress
from experiments.result_cache import ResultCache

OURS = "DIRAD"
COMPACT = tuple(
    f"dirad.export.compact.{one.name}"
    for one in pkgutil.iter_modules(dirad.export.compact.__path__)
)
CODE = (
    *COMPACT,
    *(f"experiments.device.{name}" for name in ("digits", "sensors", "trees", "rectifiers")),
    "experiments.baselines.perceptron",
    "experiments.baselines.pruned_mlp",
)


def execute(
    function: Callable[..., Any],
    jobs: Sequence[tuple],
    method_at: int,
    path: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the results of `function` for all jobs; those that the file holds are not repeated.

    The method is in this place of a job: peers are not run again when our models change.
    """
    found: dict[str, Any] = {}
    for ours in (True, False):
        some = {
            ResultCache.key(function.__module__, *job): job
            for job in jobs
            if (job[method_at] == OURS) == ours
        }
        done = len(found)

        def report(number: int, _: int, done: int = done) -> None:
            if progress is not None:
                progress(done + number, len(jobs))

        cache = ResultCache(path, CODE, models=ours)
        made = cache.run(
            function, list(some.values()), list(some), workers=workers, progress=report
        )
        found |= zip(some, map(dict, made), strict=True)
    return [found[ResultCache.key(function.__module__, *job)] for job in jobs]
