"""Compile two programs at the same time, in an empty cache: a second process compiles one.

Numba compiles one function at a time in a process. A second process compiles a program into the
disk cache, from which this process loads it. A program is the same whoever compiled it (see
`whole_program.py`). Where the second process cannot start, fails or takes too long, nothing is in
the cache, and this process compiles the program itself.
"""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from dirad.atomic import claimed
from dirad.core.compilation import CACHE_FOLDER
from dirad.engine.local import cores

LONGEST_WAIT = 120.0  # seconds for another process, before this one compiles by itself
PAUSE = 0.1  # seconds between two looks at a lock

Call = tuple[Any, tuple[Any, ...]]  # a program and its arguments


def all_cached(calls: Sequence[Call]) -> bool:
    """Are these programs loaded or in the disk cache? True also where nothing is cached."""
    return all(
        not hasattr(program, "is_cached") or program.is_cached(*args) for program, args in calls
    )


@contextmanager
def compile_lock() -> Iterator[None]:
    """Let other processes that compile into the same cache wait, and then find the programs there.

    Without this, workers that start together would all compile the same.
    """
    deadline = time.monotonic() + LONGEST_WAIT
    with ExitStack() as stack:
        while CACHE_FOLDER and time.monotonic() < deadline:
            try:
                stack.enter_context(claimed(Path(CACHE_FOLDER) / "compiling"))
                break
            except BlockingIOError:
                time.sleep(PAUSE)
            except OSError:  # a folder that became read-only: every process compiles
                break
        yield


@contextmanager
def run_beside(code: str) -> Iterator[None]:
    """Run Python code in a second process during this block; wait for its end afterwards."""
    process = _start(code)
    try:
        yield
        if process is not None:
            process.wait(LONGEST_WAIT)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()


def _start(code: str) -> "subprocess.Popen[bytes] | None":
    """Start a process that finds the same modules as this one; None where that is impossible."""
    frozen = getattr(sys, "frozen", False)  # then `sys.executable` is not Python
    if frozen or not sys.executable or not CACHE_FOLDER or cores() < 2:
        return None
    path = [entry for entry in sys.path if isinstance(entry, str)]
    try:
        return subprocess.Popen(
            [sys.executable, "-c", f"import sys; sys.path[:] = {path!r}; {code}"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
        )
    except (OSError, ValueError):
        return None
