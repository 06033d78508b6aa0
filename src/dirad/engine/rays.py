"""The engine of a cluster: Ray. What a worker or a node that dies was at is done again.

Everything that Ray hands over is copied before it is used: arrays from its store are read-only,
which is another type to Numba. Every task computes with one thread, as local processes do.
"""

import copy
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from dirad.engine.choice import using
from dirad.engine.dealing import parts_for

Item = TypeVar("Item")
Result = TypeVar("Result")

RETRIES = 100  # of a task whose worker dies; one that kills every worker must end some time
LARGE = 2**20  # bytes from which an array stands in the store once, for all jobs
STORE = 2**29  # bytes of the object store of a cluster that is started here; more goes to disk
PATIENCE = 5.0  # seconds within which a cluster must answer


def ray_package() -> Any:
    """Return Ray, which is told to report nothing to anybody; or say how to install it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of a change
    try:
        return import_module("ray")
    except ImportError as error:
        raise ImportError("the engine ray needs Ray: pip install 'dirad[ray]'") from error


@contextmanager
def on_ray(address: str | None = None, workers: int | None = None) -> Iterator["RayEngine"]:
    """Let Ray do the work of this block, on the cluster at `address` or one that is started here.

    A cluster that is started here has `workers` processes, one per core unless told otherwise, and
    ends with the block. Where this process is connected to a cluster already, that one is used.
    """
    ray = ray_package()
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address, workers)
    try:
        engine = RayEngine()
        with using(engine):
            yield engine
    finally:
        if mine:
            ray.shutdown()


def _connect(ray: Any, address: str | None, workers: int | None) -> None:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address is not None:
        _check(address)
        ray.init(address=address, **quiet)
        return
    ray.init(
        address="local",
        num_cpus=workers,
        include_dashboard=False,
        object_store_memory=STORE,
        **quiet,
    )


def _check(address: str) -> None:
    """Fail at once where nobody answers: Ray would try for minutes, and then end the process."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "/" in host:
        return  # "auto", or a name that only Ray understands
    try:
        socket.create_connection((host, int(port)), PATIENCE).close()
    except OSError as error:
        raise ConnectionError(f"no Ray cluster answers at {address}: {error}") from error


def stored(ray: Any, jobs: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Return jobs in which every large array is a reference to the store, where it is once."""
    references: dict[int, Any] = {}

    def place(part: Any) -> Any:
        if not isinstance(part, np.ndarray) or part.nbytes < LARGE:
            return part
        if id(part) not in references:
            references[id(part)] = ray.put(part)
        return references[id(part)]

    return [[place(part) for part in job] for job in jobs]


def single_threaded(function: Callable[..., Result], *job: Any) -> Result:
    """Return ``function(*job)``, of arguments that may be written, by one thread."""
    with threadpool_limits(1):
        return function(*copy.deepcopy(job))


class RayEngine:
    """The cluster that this process is connected to."""

    def __init__(self) -> None:
        self.ray = ray_package()
        self._task = self.ray.remote(num_cpus=1, max_retries=RETRIES)(single_threaded)

    @property
    def n_cpus(self) -> int:
        """Cores of all nodes."""
        return max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def finished(
        self, function: Callable[..., Result], jobs: Sequence[Sequence[Any]], workers: int = 1
    ) -> Iterator[tuple[int, Result]]:
        """Yield (number, result) of each job as it is done. A cluster has workers of its own.

        No more are sent than there are cores, so that little is left to end by itself where one
        fails or nobody wants to know any more: `ray.cancel` may end this process, when the task
        ends at the same moment.
        """
        work = self.ray.put(function)
        waiting = deque(enumerate(stored(self.ray, jobs)))
        sent: dict[Any, int] = {}
        while waiting or sent:
            for _ in range(min(len(waiting), self.n_cpus - len(sent))):
                number, job = waiting.popleft()
                sent[self._task.remote(work, *job)] = number
            done, _ = self.ray.wait(list(sent))
            yield sent.pop(done[0]), self.answer(done[0])

    def spread(
        self,
        function: Callable[[Any, Sequence[Item]], Sequence[Result]],
        shared: Any,
        items: Sequence[Item],
        threads: int = 1,
    ) -> list[Result]:
        """Return ``function(shared, items)``, of shards made by workers; `shared` is sent once."""
        if len(items) < 2:
            return list(function(shared, items))
        reference = self.ray.put(shared)
        parts = parts_for(self.n_cpus, items)  # what is lost with a worker is little
        made = dict(self.finished(function, [(reference, part) for part in parts]))
        return [result for i in range(len(parts)) for result in made[i]]

    def on_every_node(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function once on every node that computes; one that is gone does not matter."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        tasks = [
            self._task.options(
                num_cpus=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=True),
            ).remote(function, *args)
            for node in self.ray.nodes()
            if node["Alive"] and node["Resources"].get("CPU")
        ]
        for task in tasks:
            self.answer(task)

    def answer(self, reference: Any) -> Any:
        """Return a result, as if it had been computed here; an error is raised as it was there."""
        try:
            return copy.deepcopy(self.ray.get(reference))
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from error
