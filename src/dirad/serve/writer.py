"""A thread that adds requests to the journal, as many as wait in one transaction.

To bring a transaction to the disk takes milliseconds, whatever it holds: requests that arrive
meanwhile share the next one.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import NamedTuple

from dirad.serve import journal
from dirad.serve.errors import Refused, StoreAway
from dirad.serve.store import Store

MOST = 64  # requests in one transaction
LOOK_SECONDS = 1.0  # between two looks at whether the store is back

log = logging.getLogger("dirad.serve")


class _Waiting(NamedTuple):
    stream: int
    request: journal.Request
    future: "Future[bytes]"


class Writer:
    """Adds requests to the journal of a store."""

    def __init__(self, store: Store, accepted: Callable[[journal.StreamRow], None]) -> None:
        self._store, self._accepted = store, accepted
        # Streams with a request that may be in the journal although the store gave no answer.
        self._uncertain: set[int] = set()
        self._next_look = 0.0  # on the clock of `time.monotonic`
        self._queue: queue.Queue[_Waiting | None] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="dirad-writer", daemon=True)
        self._thread.start()

    def submit(self, stream: int, request: journal.Request) -> "Future[bytes]":
        """Add a request; the result is its answer, once it is on disk."""
        future: Future[bytes] = Future()
        future.set_running_or_notify_cancel()  # a client that leaves cannot cancel it any more
        self._queue.put(_Waiting(stream, request, future))
        return future

    def close(self) -> None:
        """Write what waits, and end."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        going_on = True
        while going_on:
            try:
                group = [self._queue.get(timeout=LOOK_SECONDS if self._uncertain else None)]
            except queue.Empty:
                self._look()
                continue
            if self._uncertain and time.monotonic() > self._next_look:
                self._look()  # also while other streams have requests all the time
            while len(group) < MOST and not self._queue.empty():
                group.append(self._queue.get())
            going_on = None not in group
            waiting = [one for one in group if one is not None]
            if not self._write(waiting) and len(waiting) > 1:
                for one in waiting:  # one of them was refused: it must not harm the others
                    self._write([one])

    def _write(self, group: list[_Waiting]) -> bool:
        """Write requests in one transaction; False if nothing was written and nobody was told."""
        if not group:
            return True
        try:
            with self._store.changing() as connection:
                found = [journal.append(connection, one.stream, one.request) for one in group]
        except BaseException as error:
            if isinstance(error, StoreAway):
                self._uncertain.update(one.stream for one in group)
                self._next_look = time.monotonic() + LOOK_SECONDS
            if len(group) > 1 and not (isinstance(error, Refused) and error.status >= 500):
                return False
            for one in group:
                one.future.set_exception(error)
            return True
        for one, (answer, stream) in zip(group, found, strict=True):
            self._tell(stream)
            one.future.set_result(answer)
        return True

    def _tell(self, stream: journal.StreamRow) -> None:
        """Tell of a request that is on disk; whatever fails there, this thread goes on."""
        try:
            self._accepted(stream)
        except Exception:
            log.exception("stream %s: a request was accepted, and not noticed", stream.name)

    def _look(self) -> None:
        """Take notice of what was written although the store gave no answer."""
        self._next_look = time.monotonic() + LOOK_SECONDS
        try:
            with self._store.reading() as connection:
                found = journal.all_streams(connection)
        except Refused:
            return
        for stream in found:
            if stream.id in self._uncertain:
                self._tell(stream)
        self._uncertain.clear()
