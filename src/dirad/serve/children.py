"""Child processes that answer one request after the other, over a pipe, without pickle.

A child ends by itself when its parent does, however that ends, because its pipe is then closed.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from threadpoolctl import threadpool_limits

from dirad.serve.idle_time import IdleTime
from dirad.serve.records import framed, unpacked

Answer = tuple[dict[str, Any], bytes]
Handler = Callable[[dict[str, Any], bytes], Answer]


class ChildDied(Exception):
    """The child ended before it answered."""

    is_blameless = False  # was what it did certainly not the reason?


class HandlerError(ValueError):
    """A request that could not be carried out; the message is that of the handler's own error."""


class ChildTimeout(Exception):
    """The child took too long, and was ended."""


class Child:
    """A process that carries out requests; it is started again when it has died."""

    def __init__(
        self, make_handler: Callable[[], Handler], name: str, max_memory: int | None = None
    ) -> None:
        self._make_handler, self._name, self._max_memory = make_handler, name, max_memory
        self._process: Any = None
        self._pipe: Connection | None = None
        self._lock = threading.Lock()
        self.starts = 0  # how often it was started

    def start(self) -> None:
        """Start the process if it does not run."""
        with self._lock, contextlib.suppress(OSError):
            self._started()

    def ask(self, head: dict[str, Any], body: bytes = b"", seconds: float | None = None) -> Answer:
        """Send a request and wait for the answer; an exception of the handler is raised here."""
        with self._lock:
            pipe = self._started()
            try:
                pipe.send_bytes(framed(head, body))
                if seconds is not None and not pipe.poll(seconds):
                    self._end()
                    raise ChildTimeout(f"not done after {seconds:g} seconds")
                answer, rest = unpacked(pipe.recv_bytes())
            except (EOFError, OSError) as error:
                self._end()
                raise ChildDied(f"the process {self._name} ended unexpectedly") from error
        return checked(answer), rest

    def kill(self) -> None:
        """End the process at once, whatever it does; an `ask` of another thread fails."""
        process = self._process
        if process is not None and process.pid is not None:
            with contextlib.suppress(OSError):
                process.kill()

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    @property
    def pid(self) -> int | None:
        """The number of the process, None if it is not running."""
        return None if self._process is None else self._process.pid

    def _started(self) -> Connection:
        if self._pipe is None or not self._process.is_alive():
            self._end()
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            arguments = (other, self._make_handler, self._max_memory)
            self._process = context.Process(
                target=_serve, args=arguments, name=self._name, daemon=True
            )
            self._process.start()
            other.close()
            self.starts += 1
        assert self._pipe is not None
        return self._pipe

    def _end(self) -> None:
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.kill()
            self._process.join()
        self._pipe = self._process = None


def _serve(pipe: Connection, make_handler: Callable[[], Handler], max_memory: int | None) -> None:
    """Answer requests until the parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to end
    with contextlib.suppress(AttributeError, OSError):
        os.nice(10)  # answers go before learning
    if max_memory is not None:
        _limit_memory(max_memory)
    handler, idle_time = make_handler(), IdleTime()
    threadpool_limits(1)  # threads of BLAS would take the cores from answers
    while True:
        try:
            head, body = unpacked(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        answer = idle_time.run(answered, handler, head, body)
        with contextlib.suppress(OSError):
            pipe.send_bytes(answer)


def answered(handler: Handler, head: dict[str, Any], body: bytes) -> bytes:
    """Return the answer to a request, or what is wrong with the request, as one piece."""
    try:
        return framed(*handler(head, body))
    except (ValueError, TypeError, KeyError, MemoryError, RecursionError, ImportError) as error:
        return framed({"error": str(error)[:2000] or type(error).__name__})


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the head of an answer; raise the error that it brings."""
    if "error" in answer:
        raise HandlerError(answer["error"])
    return answer


def _limit_memory(size: int) -> None:
    """Let allocations beyond `size` bytes fail."""
    try:
        import resource
    except ImportError:  # not on every system
        return
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
