"""What can go wrong with a request, and when it is sent again."""

import logging
import math
import random
import time
from typing import Any

FIRST_WAIT, LONGEST_WAIT = 0.1, 10.0  # seconds between two tries, unless the server names them
TRANSIENT = (429, 502, 503, 504, 507)  # statuses after which the same request may succeed

log = logging.getLogger("dirad.client")


class ClientError(Exception):
    """A request that failed.

    Attributes
    ----------
    status : int or None
        The HTTP status; None if the server could not be reached.
    detail : str
        What the server says.
    accepted : int
        For `partial_fit`: how many rows, counted from the first, were accepted before.
    """

    def __init__(self, status: int | None, detail: str, accepted: int = 0) -> None:
        super().__init__(detail if status is None else f"{detail} (status {status})")
        self.status, self.detail, self.accepted = status, detail, accepted


class Tries:
    """The times at which a request is sent again."""

    def __init__(self, patience: float | None) -> None:
        self._end = math.inf if patience is None else time.monotonic() + patience
        self._pause = FIRST_WAIT
        self._is_told = False

    def wait(self, status: int | None, detail: str, after: str = "") -> None:
        """Wait before the next try, for as long as the server asks; fail if that is too late."""
        pause = float(after) if after.isdecimal() else self._pause * random.uniform(0.5, 1.0)
        if time.monotonic() + pause > self._end:
            raise ClientError(status, detail)
        if not self._is_told:
            log.warning("%s; trying again", detail)
            self._is_told = True
        time.sleep(pause)
        self._pause = min(2 * self._pause, LONGEST_WAIT)


def detail_of(answer: Any) -> str:
    """Return what the server says, whoever it is."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200] or answer.reason_phrase
