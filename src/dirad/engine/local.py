"""The engine of one machine: runs in processes, shards of one model in threads."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from dirad.engine.dealing import parts_for

Item = TypeVar("Item")
Result = TypeVar("Result")


class Local:
    """This machine."""

    def finished(
        self, function: Callable[..., Result], jobs: Sequence[Sequence[Any]], workers: int
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number, result) of each job as it is done, by so many processes."""
        # Imported late: threads of one model need neither.
        from joblib import Parallel, delayed, parallel_config
        from threadpoolctl import threadpool_limits

        if workers <= 1:
            with threadpool_limits(1):
                for number, job in enumerate(jobs):
                    yield number, function(*job)
            return
        # More threads would fight over the cores: small matrix products become 15 times slower.
        with parallel_config("loky", inner_max_num_threads=1):
            pool = Parallel(n_jobs=workers, return_as="generator_unordered")
            tasks = (delayed(_numbered)(number, function, job) for number, job in enumerate(jobs))
            yield from pool(tasks)  # type: ignore[misc]

    def spread(
        self,
        function: Callable[[Any, Sequence[Item]], Sequence[Result]],
        shared: Any,
        items: Sequence[Item],
        threads: int,
    ) -> list[Result]:
        """Return ``function(shared, items)``, computed by so many threads."""
        if threads <= 1 or len(items) < 2:
            return list(function(shared, items))
        with ThreadPoolExecutor(threads) as pool:
            parts = pool.map(partial(function, shared), parts_for(threads, items))
            return list(chain.from_iterable(parts))

    def on_every_node(self, function: Callable[..., Any], *args: Any) -> None:
        """Do nothing: there is no other machine."""


def _numbered(
    number: int, function: Callable[..., Result], job: Sequence[Any]
) -> tuple[int, Result]:
    return number, function(*job)


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for."""
    return n_jobs if n_jobs is not None and n_jobs > 0 else cores()
