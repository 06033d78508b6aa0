"""The engine of a cluster: Ray. What a worker or a node that dies was at is done again.

Whoever reaches a port of a Ray cluster can run code there. One that is started here listens on this
machine alone; all others belong on networks that are trusted.

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

from dirad.engine.choice import using
from dirad.engine.dealing import parts_for

Item = TypeVar("Item")
Result = TypeVar("Result")

RETRIES = 10  # of a task whose worker dies; one that kills every worker must end some time
LARGE = 2**20  # bytes from which an array stands in the store once, for all jobs
STORE = 2**29  # bytes of the object store of a cluster that is started here; more goes to disk
CONNECT_WITHIN = 30.0  # seconds in which a cluster must answer
ANSWER_WITHIN = 24 * 3600.0  # seconds in which a task must be done
LOOPBACK = "127.0.0.1"
# HTTP/2, which Ray speaks: how a client begins, and the kind of frame that a server begins with.
GREETING, SETTINGS = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]), 4
REASONS = {  # by the name of an exception of Ray's
    "GetTimeoutError": "there is no answer in the time that it may take",
    "OutOfMemoryError": "a node has no memory left for it",
    "OutOfDiskError": "a node has no room left on its disk",
    "ObjectStoreFullError": "the object store is full",
    "WorkerCrashedError": "every worker that tried it has died",
    "NodeDiedError": "every node that tried it has died",
    "RayActorError": "the process that holds the models has died, each time that it was asked",
    "ObjectLostError": "data that it needs were lost with a node",
}


class ClusterError(RuntimeError):
    """A cluster cannot be reached, or cannot do its work; the message says why."""


def ray_package() -> Any:
    """Return Ray, which is told to report nothing to anybody; or say how to install it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else it warns of a change
    try:
        return import_module("ray")
    except ImportError as error:
        raise ImportError("the engine ray needs Ray: pip install ray") from error


@contextmanager
def on_ray(
    address: str | None = None,
    workers: int | None = None,
    *,
    connect_within: float = CONNECT_WITHIN,
    answer_within: float = ANSWER_WITHIN,
) -> Iterator["RayEngine"]:
    """Let Ray do the work of this block, on the cluster at `address` or one that is started here.

    A cluster that is started here has `workers` processes, one per core unless told otherwise, and
    ends with the block. Where this process is connected to a cluster already, that one is used.
    A cluster must answer, and a task be done, in so many seconds; else that is a `ClusterError`.

    Whoever reaches a port of a cluster can run code on it: use it on trusted networks only. One
    that is started here listens on this machine alone, where other users can reach it.
    """
    ray = ray_package()
    mine = not ray.is_initialized()
    if mine:
        _connect(ray, address, workers, connect_within)
    try:
        engine = RayEngine(answer_within)
        with using(engine):
            yield engine
    finally:
        if mine:
            ray.shutdown()


def _connect(ray: Any, address: str | None, workers: int | None, seconds: float) -> None:
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    # What Ray tells of workers that died it prints to standard output, even so.
    _private(ray, "worker").print_to_stdstream = lambda *_, **__: None
    try:
        if address is not None:
            _check(address, seconds)
            ray.init(address=address, **quiet)
            return
        with _loopback_alone(ray):
            ray.init(
                address="local",
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=STORE,
                _node_ip_address=LOOPBACK,
                **quiet,
            )
    except (ray.exceptions.RayError, OSError, RuntimeError, ValueError) as error:
        where = "can be started" if address is None else f"answers at {address}"
        raise ClusterError(f"Ray: no cluster {where}: {_first_line(error)}") from error


@contextmanager
def _loopback_alone(ray: Any) -> Iterator[None]:
    """Let a cluster that is started in this block listen on this machine alone.

    By itself Ray does so on macOS and Windows; elsewhere it takes 127.0.0.1 for the address by
    which other machines reach this one, and listens on all of them.
    """
    constants = _private(ray, "ray_constants")
    before = constants.ENABLE_RAY_CLUSTER
    constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _private(ray: Any, name: str) -> Any:
    """Return a module of Ray's own, for which there is no setting."""
    return import_module(f"{ray.__name__}._private.{name}")


def _check(address: str, seconds: float) -> None:
    """Fail soon where no cluster answers: Ray would try for minutes, and then end the process."""
    host, _, port = address.rpartition(":")
    if not port.isdigit() or "/" in host or "RAY_USE_TLS" in os.environ:
        return  # "auto", or what only Ray understands
    with socket.create_connection((host, int(port)), seconds) as connection:
        connection.sendall(GREETING)
        with connection.makefile("rb") as answer:
            frame = answer.read(4)  # its length, and its kind
    if frame[3:] != bytes([SETTINGS]):
        raise ConnectionError("this is something else")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


@contextmanager
def clear_errors(ray: Any) -> Iterator[None]:
    """Turn what Ray says when a cluster fails, at length, into one line."""
    try:
        yield
    except ray.exceptions.RayError as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        reasons = [REASONS[kind] for kind in kinds if kind in REASONS]
        raise ClusterError(f"Ray: {(reasons or [_first_line(error)])[0]}") from error


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
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return function(*copy.deepcopy(job))


class RayEngine:
    """The cluster that this process is connected to."""

    def __init__(self, answer_within: float = ANSWER_WITHIN) -> None:
        self.ray = ray_package()
        self.answer_within = answer_within  # seconds
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
        with clear_errors(self.ray):
            work = self.ray.put(function)
            waiting = deque(enumerate(stored(self.ray, jobs)))
            sent: dict[Any, int] = {}
            while waiting or sent:
                for _ in range(min(len(waiting), self.n_cpus - len(sent))):
                    number, job = waiting.popleft()
                    sent[self._task.remote(work, *job)] = number
                done, _ = self.ray.wait(list(sent), timeout=self.answer_within)
                first = done[0] if done else next(iter(sent))  # which says that it is late
                yield sent.pop(first), self.answer(first, 0.0 if not done else None)

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
        with clear_errors(self.ray):
            reference = self.ray.put(shared)
        parts = parts_for(self.n_cpus, items)  # what is lost with a worker is little
        made = dict(self.finished(function, [(reference, part) for part in parts]))
        return [result for i in range(len(parts)) for result in made[i]]

    def on_every_node(self, function: Callable[..., Any], *args: Any) -> None:
        """Call a function once on every node that computes; one that is gone does not matter."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        with clear_errors(self.ray):
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

    def answer(self, reference: Any, seconds: float | None = None) -> Any:
        """Return a result, as if it had been computed here; an error is raised as it was there."""
        seconds = self.answer_within if seconds is None else seconds
        with clear_errors(self.ray):
            try:
                return copy.deepcopy(self.ray.get(reference, timeout=seconds))
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from error
