"""Time and memory of one measurement, undisturbed by those before it."""

import resource
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

Result = TypeVar("Result")

MEGABYTE = 1e6
_PROCESS = Path("/proc/self")  # of Linux


def timed(action: Callable[[], Result]) -> tuple[Result, float]:
    """Return a result, and the seconds of the processor that it took.

    With one thread that is the time on a machine that has nothing else to do.
    """
    start = time.process_time()
    result = action()
    return result, time.process_time() - start


def shortest(action: Callable[[], object], turns: int) -> float:
    """Return the seconds of the quickest of some turns: what disturbs only adds to them."""
    return min(timed(action)[1] for _ in range(turns))


def peak_memory() -> float:
    """Return the most bytes of memory that this process held, ever or since `forget_peak`."""
    return _memory("VmHWM:")


def forget_peak() -> float:
    """Begin a new peak, where the system can; return the bytes that are held now."""
    with suppress(OSError):
        (_PROCESS / "clear_refs").write_text("5")
    return resident_memory()


def resident_memory() -> float:
    """Return the bytes of memory that this process holds, or its peak if that is unknown."""
    return _memory("VmRSS:")


def _memory(name: str) -> float:
    status = _PROCESS / "status"
    if status.exists():  # what `getrusage` says includes the parent's, from before the exec
        for line in status.read_text("ascii").splitlines():
            if line.startswith(name):
                return 1024.0 * int(line.split()[1])
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(most if sys.platform == "darwin" else 1024 * most)


def alone(function: Callable[..., Result], *arguments: Any) -> Result:
    """Return the result of a call in a process of its own, which computes with one thread.

    Whoever stops waiting, by Ctrl-C say, ends that process too.
    """
    context = get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(there, function, arguments), daemon=True)
    process.start()
    there.close()
    try:
        result, error = here.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the process that measures ended with {process.exitcode}") from None
    finally:
        here.close()
        process.kill()
        process.join()
    if error is not None:
        raise error
    return result


def _send(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Send what a call returns, or raises."""
    try:
        pipe.send((_with_one_thread(function, arguments), None))
    except Exception as error:
        pipe.send((None, error))


def _with_one_thread(function: Callable[..., Result], arguments: tuple[Any, ...]) -> Result:
    with threadpool_limits(1):
        return function(*arguments)
