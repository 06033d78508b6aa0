"""Work that must not delay answers is done while a core would be idle, where that is possible.

A low priority is not enough for that: Linux lets a process that has a core keep it until the next
tick of its clock, which is up to four milliseconds away, and an answer takes less than one.
"""

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

ENOUGH = 0.15  # cores that this process had, or could have had, for its work to be in idle time
LOOK_SECONDS = 1.0  # between two looks at how much it had
OLD_SECONDS = 5.0  # after which what it had says nothing about the present
CORES = Path("/proc/stat")  # what the cores have done since the machine started; Linux alone has it


class IdleTime:
    """Carries out work in idle time if there is enough of it, and like any other work if not.

    On a machine whose cores are never idle, work in idle time would not come to an end.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, initializer=_yield_to_others)
        self._looked = time.monotonic()
        self._had = available_seconds()
        self._is_enough = False

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns, or raise what it raises."""
        self._look()
        if not self._is_enough:
            return function(*arguments)
        return self._thread.submit(function, *arguments).result()

    def _look(self) -> None:
        """Find out every now and then how much time there was for this process."""
        now = time.monotonic()
        elapsed = now - self._looked
        if elapsed < LOOK_SECONDS:
            return
        before, self._had, self._looked = self._had, available_seconds(), now
        self._is_enough = elapsed < OLD_SECONDS and self._had - before >= ENOUGH * elapsed


def _yield_to_others() -> None:
    """Let all other threads and processes go before this thread."""
    with suppress(AttributeError, OSError):  # not on every system
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threadpool_limits(1)  # some libraries keep this number for each thread


def available_seconds() -> float:
    """Return the seconds that this process has computed, and that any core was idle, so far."""
    own = time.process_time()
    try:
        with CORES.open() as file:
            found = file.readline().split()
        idle, waiting = int(found[4]), int(found[5])
    except (OSError, ValueError, IndexError):  # not on every system
        return own
    return own + (idle + waiting) / os.sysconf("SC_CLK_TCK")
