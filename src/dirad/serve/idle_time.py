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

MOST_BUSY = 0.75  # share of the cores' time that others may take, for work to go on in the rest
LOOK_SECONDS = 1.0  # between two looks at how busy the cores are
OLD_SECONDS = 5.0  # after which what the cores did says nothing about the present
CORES = Path("/proc/stat")  # what the cores have done since the machine started; Linux alone has it


class IdleTime:
    """Carries out work in idle time if there is enough of it, and like any other work if not.

    On a machine whose cores are never idle, work in idle time would not come to an end.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, initializer=_yield_to_others)
        self._looked = time.monotonic()
        self._seen = core_times()
        self._is_enough = False

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns, or raise what it raises."""
        self._look()
        if not self._is_enough:
            return function(*arguments)
        return self._thread.submit(function, *arguments).result()

    def _look(self) -> None:
        """Find out every now and then whether the cores had idle time."""
        now = time.monotonic()
        elapsed = now - self._looked
        if elapsed < LOOK_SECONDS:
            return
        before, self._seen, self._looked = self._seen, core_times(), now
        busy, total = (new - old for new, old in zip(self._seen, before, strict=True))
        self._is_enough = elapsed < OLD_SECONDS and busy < MOST_BUSY * total


def _yield_to_others() -> None:
    """Let all other threads and processes go before this thread."""
    with suppress(AttributeError, OSError):  # not on every system
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threadpool_limits(1)  # some libraries keep this number for each thread


def core_times() -> tuple[int, int]:
    """Return how long the cores have been busy with work of ordinary priority, and in total.

    Both are zero where the system does not tell.
    """
    try:
        with CORES.open() as file:
            found = [int(one) for one in file.readline().split()[1:9]]
    except (OSError, ValueError):
        return 0, 0
    low_priority, idle, waiting = found[1], found[3], found[4]
    return sum(found) - low_priority - idle - waiting, sum(found)
