"""Many independent runs, done by the engine in use; results come in the order of the jobs.

A run depends on its job alone (its seed is part of the job) and every process computes with one
thread, so the results are the same for any engine and any number of workers.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from dirad.engine.choice import current

Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # called with the number of runs done and of all runs


def run_all(
    function: Callable[..., Result],
    jobs: Iterable[Sequence[Any]],
    *,
    workers: int = 1,
    progress: Progress | None = None,
    on_result: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Return ``[function(*job) for job in jobs]``, computed by the engine in use.

    Put long jobs first, so that no process is left alone with one at the end. `on_result` is
    called with the index and the result of each job as soon as it is done.
    """
    jobs = list(jobs)
    report = progress or (lambda done, total: None)
    report(0, len(jobs))
    results: dict[int, Result] = {}
    for number, result in current().finished(function, jobs, min(workers, len(jobs))):
        results[number] = result
        if on_result is not None:
            on_result(number, result)
        report(len(results), len(jobs))
    return [results[number] for number in range(len(jobs))]
