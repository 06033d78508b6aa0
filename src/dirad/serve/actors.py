"""Learning processes on the nodes of a Ray cluster.

An actor holds the learners of some streams, as a child process does. If its process or its node
dies, another one is started on a node that is left, which opens the learners from their snapshots.
"""

import contextlib
import threading
from typing import Any

from dirad.engine.rays import ray_package
from dirad.serve.children import Answer, ChildDied, ChildTimeout, answered, checked
from dirad.serve.learning import learning_handler
from dirad.serve.records import framed, unpacked

CORES = 0.1  # that an actor reserves: few, so that those of a lost node find a place elsewhere
LOST_NODE = ("node has died", "node was terminated", "node died")  # what Ray says of it


class LearningActor:
    """What runs on a node."""

    def __init__(self) -> None:
        from threadpoolctl import threadpool_limits

        self._limits = threadpool_limits(1)  # as long as this exists
        self._handler = learning_handler()

    def answer(self, request: bytes) -> bytes:
        """Carry out a request of `Learners`."""
        return answered(self._handler, *unpacked(request))


class Actor:
    """A learning process somewhere in the cluster; it is started again when it has died."""

    def __init__(self, name: str) -> None:
        self._ray, self._name = ray_package(), name
        options = {"num_cpus": CORES, "max_restarts": 0, "scheduling_strategy": "SPREAD"}
        self._make = self._ray.remote(**options)(LearningActor)
        self._actor: Any = None
        self._lock = threading.Lock()
        self.starts = 0  # how often it was started

    def ask(self, head: dict[str, Any], body: bytes = b"", seconds: float | None = None) -> Answer:
        """Send a request and wait for the answer; an exception of the handler is raised here."""
        with self._lock:
            if self._actor is None:
                self._actor = self._make.remote()
                self.starts += 1
            errors = self._ray.exceptions
            try:
                reference = self._actor.answer.remote(framed(head, body))
                answer, rest = unpacked(self._ray.get(reference, timeout=seconds))
            except errors.GetTimeoutError:
                self._end()
                raise ChildTimeout(f"not done after {seconds:g} seconds") from None
            except errors.RayError as error:
                self._end()
                raise self._died(error) from error
        return checked(answer), rest

    def kill(self) -> None:
        """End the process at once, whatever it does; an `ask` of another thread fails."""
        actor = self._actor
        if actor is not None:
            with contextlib.suppress(Exception):  # it may be gone, and so may the cluster
                self._ray.kill(actor)

    def close(self) -> None:
        """End the process."""
        self.kill()  # without the lock: a thread may wait for an actor that finds no place
        with self._lock:
            self._end()

    def _end(self) -> None:
        self.kill()
        self._actor = None

    def _died(self, error: Exception) -> ChildDied:
        died = ChildDied(f"the process {self._name} ended unexpectedly ({type(error).__name__})")
        is_away = isinstance(error, self._ray.exceptions.ActorUnavailableError)
        died.is_blameless = is_away or any(words in str(error) for words in LOST_NODE)
        return died
