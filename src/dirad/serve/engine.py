"""Engine: learning processes that carry out the journals of all streams.

A thread for each process takes the next records of a stream from the store, lets the process learn
them, stores the events, publishes new states for the answers, and takes snapshots. Snapshots bound
the learning that a restart would have to repeat to some seconds.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

from dirad.serve import journal
from dirad.serve.children import Answer, Child, ChildDied, HandlerError
from dirad.serve.errors import Fenced, Refused
from dirad.serve.learning import LONGEST_WAIT, learning_handler
from dirad.serve.store import Store

CHUNK_RECORDS = 100
CHUNK_ROWS = 2_000  # few, so that new states for the answers and snapshots are never far off
CHUNK_BYTES = 1_000_000
REPLAY_SECONDS = 3.0  # of learning that a restart repeats at most, for all streams of a process
QUIET_SECONDS = 1.0  # without new records, after which a snapshot is taken
RETRY_SECONDS = 1.0  # after the store or the process failed
LONGEST_REST = 60.0  # of a stream that the process could not go on with, again and again
MOST_FAILURES = 4  # of the process by one record alone, with which the record is left out

log = logging.getLogger("dirad.serve")


class Process(Protocol):
    """Who learns: a child process, or an actor on another machine."""

    starts: int

    def ask(self, head: dict[str, Any], body: bytes = b"", seconds: float | None = None) -> Answer:
        """Carry out a request of `Learners`."""
        ...

    def kill(self) -> None:
        """End at once."""

    def close(self) -> None:
        """End."""


@dataclass
class Work:
    """What an engine knows of a stream."""

    row: journal.StreamRow
    seq: int  # the last record that was learned
    accepted: int  # the last record that was accepted
    rows: int = 0  # rows that were learned
    snapshot: int = 0  # the last record in the snapshot
    unsaved: float = 0.0  # seconds of learning since the snapshot
    news: bool = False  # does the process have a state that was not published?
    is_open: int = 0  # the start of the process in which the learner was opened; 0: in none
    changed: float = field(default_factory=time.monotonic)  # when records were last learned
    suspects: int = 0  # up to this record there is one by which the process died, or failed
    culprit: int = 0  # the record that was learned alone when that happened last
    failures: int = 0  # of the process by that record
    rest: float = 0.0  # seconds of the last pause after a failure
    rests_until: float = 0.0  # on the clock of `time.monotonic`
    events: list[dict[str, Any]] = field(default_factory=list)  # that are not stored yet

    @property
    def waits(self) -> bool:
        """Are there records to learn?"""
        return self.accepted > self.seq

    @property
    def is_suspected(self) -> bool:
        """Is there a record to learn that may end the process?"""
        return self.suspects > self.seq

    @property
    def rests(self) -> bool:
        """Did the process fail to go on with it just now?"""
        return time.monotonic() < self.rests_until

    @property
    def can_learn(self) -> bool:
        """Are there records to learn now?"""
        return self.waits and not self.rests


Published = Callable[[journal.StreamRow, bytes], None]
HasEvents = Callable[[journal.StreamRow, list[dict[str, Any]]], None]


class Engine:
    """Lets processes learn what is accepted."""

    def __init__(
        self,
        store: Store,
        processes: Sequence[Process],
        published: Published,
        has_events: HasEvents,
    ) -> None:
        self._store, self._published, self._has_events = store, published, has_events
        self._threads = [LearningThread(self, process) for process in processes]
        self.is_closing = False
        self.is_fenced = False  # has another server taken over the store?

    @classmethod
    def local(
        cls, store: Store, published: Published, has_events: HasEvents, processes: int
    ) -> "Engine":
        """Return an engine with learning processes on this machine."""
        children = [Child(learning_handler, f"learning-{i}") for i in range(processes)]
        return cls(store, children, published, has_events)

    def start(self) -> None:
        """Begin to learn."""
        for one in self._threads:
            one.thread.start()

    def add(self, row: journal.StreamRow, learned: int, rows: int) -> None:
        """Take on a stream whose snapshot includes all records up to `learned`."""
        owner = min(self._threads, key=lambda one: len(one.work))
        owner.add(Work(row, learned, row.seq, rows, learned))

    def drop(self, name: str) -> None:
        """Forget a stream."""
        with suppress(KeyError):
            self._thread_of(name).drop(name)

    def accepted(self, row: journal.StreamRow) -> None:
        """Take notice of new records of a stream; it may have been deleted just now."""
        with suppress(KeyError):
            self._thread_of(row.name).accepted(row)

    def learned(self, name: str) -> Work:
        """Return how far the learning of a stream has come."""
        return self._thread_of(name).work[name]

    def state(self, name: str) -> "Future[bytes]":
        """Ask for the present state of a learner; it comes between two pieces of learning."""
        return self._thread_of(name).ask_state(name)

    def close(self) -> None:
        """Take snapshots of what was learned, and end the processes."""
        self.is_closing = True
        for one in self._threads:
            one.wake.set()
        for one in self._threads:
            if one.thread.is_alive():
                one.thread.join(30)
            one.process.close()

    @property
    def processes(self) -> list[Process]:
        """The learning processes."""
        return [one.process for one in self._threads]

    def _thread_of(self, name: str) -> "LearningThread":
        for one in self._threads:
            if name in one.work:
                return one
        raise KeyError(name)


class LearningThread:
    """One learning process with its streams, and the thread that feeds it."""

    def __init__(self, engine: Engine, process: Process) -> None:
        self.engine, self.process = engine, process
        self.work: dict[str, Work] = {}
        self.wake = threading.Event()
        self._lock = threading.Lock()
        self._asked: list[tuple[str, Future[bytes]]] = []
        self._dropped: list[str] = []
        self.thread = threading.Thread(target=self._run, name="dirad-learning", daemon=True)

    def add(self, work: Work) -> None:
        with self._lock:
            self.work[work.row.name] = work
        self.wake.set()

    def drop(self, name: str) -> None:
        with self._lock:
            if self.work.pop(name, None) is not None:
                self._dropped.append(name)

    def accepted(self, row: journal.StreamRow) -> None:
        work = self.work.get(row.name)
        if work is not None and row.seq > work.accepted:
            work.accepted, work.row = row.seq, row
            self.wake.set()

    def ask_state(self, name: str) -> "Future[bytes]":
        future: Future[bytes] = Future()
        with self._lock:
            self._asked.append((name, future))
        self.wake.set()
        return future

    # ---------------------------------------------------------------- the thread

    def _run(self) -> None:
        with suppress(ChildDied):
            self.process.ask({"do": "ping"})  # kernels are loaded before the first rows arrive
        while not self.engine.is_closing:
            try:
                busy = self._round()
            except ChildDied as error:
                log.warning("%s; it is started again", error)
                busy = False
            except Fenced as error:
                log.error("%s", error)
                self.engine.is_fenced = True
                return
            except Refused as error:  # the store is full or away: try again
                log.warning("learning waits: %s %s", error, getattr(error, "reason", ""))
                busy = False
                time.sleep(RETRY_SECONDS)
            except Exception:
                log.exception("learning failed; trying again")
                busy = False
                time.sleep(RETRY_SECONDS)
            if not busy:
                self.wake.wait(QUIET_SECONDS)
                self.wake.clear()
        self._close()

    def _round(self) -> bool:
        """Let every stream learn its next records; say whether there is more to do."""
        with self._lock:
            all_work, dropped = list(self.work.values()), self._dropped
            self._dropped = []
        for name in dropped:
            self.process.ask({"do": "close", "stream": name})
        self._answer_states()
        # A stream by whose records the process may die comes last, so that it delays no other.
        for work in sorted(all_work, key=lambda one: one.is_suspected):
            if work.can_learn and not self.engine.is_closing:
                self._do(self._learn, work)
                self._answer_states()
                self._publish_overdue(all_work)
        all_work = [work for work in all_work if not work.rests]
        if sum(work.unsaved for work in all_work) > REPLAY_SECONDS:
            self._do(self._snapshot, max(all_work, key=lambda work: work.unsaved))
        if any(work.can_learn for work in all_work):
            return True
        for work in all_work:
            self._store_events(work)
            if work.news:
                self._do(self._publish, work)
            elif work.seq > work.snapshot and time.monotonic() - work.changed > QUIET_SECONDS:
                self._do(self._snapshot, work)
        return False

    def _do(self, step: Callable[[Work], None], work: Work) -> None:
        """Do something for a stream; if the process cannot, the stream rests, and others go on."""
        try:
            step(work)
        except HandlerError as error:
            work.rest = min(max(2 * work.rest, RETRY_SECONDS), LONGEST_REST)
            work.rests_until = time.monotonic() + work.rest
            log.error("stream %s: %s; trying again in %g s", work.row.name, error, work.rest)

    def _publish_overdue(self, all_work: list[Work]) -> None:
        """Publish the states of streams that are learned, even while others still wait."""
        now = time.monotonic()
        for work in all_work:
            is_overdue = work.news and not work.waits and now - work.changed > LONGEST_WAIT
            if is_overdue and not work.rests:
                self._do(self._publish, work)

    def _learn(self, work: Work) -> None:
        """Let the process learn the next records of a stream."""
        stream = work.row.id
        self._open(work)  # first: where it begins depends on what the process knows
        with self.engine._store.reading() as connection:
            most = 1 if work.is_suspected else CHUNK_RECORDS
            found = journal.pending(connection, stream, work.seq, most, CHUNK_ROWS, CHUNK_BYTES)
        if not found:  # the stream was deleted
            work.accepted = work.seq
            return
        entries = [[one.seq, one.kind, one.rows, len(one.payload), one.skipped] for one in found]
        head = {"records": entries, "more": found[-1].seq < work.accepted}
        try:
            answer, state = self._ask("learn", work, head, b"".join(one.payload for one in found))
        except (ChildDied, HandlerError) as error:
            if not (isinstance(error, ChildDied) and error.is_blameless):
                self._blame(work, found)
            work.is_open = 0  # what the learner is now is not known
            raise
        work.rest = 0.0
        work.events += answer["events"]
        work.unsaved += answer["seconds"]
        work.changed = time.monotonic()
        work.news = answer["news"]
        if state:
            self.engine._published(work.row, state)
        try:
            self._store_events(work)
        finally:  # last: who sees that the rows are learned finds their events and their answers
            work.seq, work.rows = answer["seq"], answer["rows"]

    def _store_events(self, work: Work) -> None:
        """Store the events of what was learned; they wait here as long as the store is away."""
        if work.events:
            with self.engine._store.changing() as connection:
                new = journal.add_events(connection, work.row.id, work.events)
            work.events = []
            if new:
                self.engine._has_events(work.row, new)

    def _blame(self, work: Work, found: list[Any]) -> None:
        """Leave out a record that has ended the process several times, all by itself.

        After a failure, the records are learned again from the snapshot on, and those that were
        learned together one by one.
        """
        work.suspects = max(work.suspects, found[-1].seq)
        if len(found) > 1:
            return
        if found[0].seq != work.culprit:
            work.culprit, work.failures = found[0].seq, 0
        work.failures += 1
        if work.failures >= MOST_FAILURES:
            with self.engine._store.changing() as connection:
                journal.skip_record(connection, work.row.id, found[0].seq)
            log.error("stream %s: record %d is left out", work.row.name, found[0].seq)

    def _publish(self, work: Work) -> None:
        _, state = self._ask("state", work)
        if state:
            self.engine._published(work.row, state)
        work.news = False

    def _snapshot(self, work: Work) -> None:
        """Store the state, so that the records before it need not be learned again."""
        answer, state = self._ask("state", work)
        self._store_events(work)  # before the records that would bring them again are deleted
        if state:
            with self.engine._store.changing() as connection:
                journal.store_snapshot(connection, work.row.id, answer["seq"], state)
            self.engine._published(work.row, state)
        work.snapshot, work.unsaved, work.news = answer["seq"], 0.0, False

    def _answer_states(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, []
        for name, future in asked:
            try:
                _, state = self._ask("state", self.work[name])
                future.set_result(state)
            except BaseException as error:
                future.set_exception(error)

    def _ask(
        self, do: str, work: Work, head: dict[str, Any] | None = None, body: bytes = b""
    ) -> Answer:
        """Ask the process about a stream, whose learner is opened first if it is not."""
        self._open(work)
        return self.process.ask({"do": do, "stream": work.row.name} | (head or {}), body)

    def _open(self, work: Work) -> None:
        """Open the learner at its snapshot, unless the process has it already."""
        if work.is_open and work.is_open == self.process.starts:
            return
        with self.engine._store.reading() as connection:
            _, state = journal.snapshot_of(connection, work.row.id)
        name, specification = work.row.name, work.row.specification.text
        opening = {"do": "open", "stream": name, "specification": specification}
        answer, _ = self.process.ask(opening, state or b"")
        work.is_open, work.seq, work.rows = self.process.starts, answer["seq"], answer["rows"]
        work.events = []  # those after the snapshot come again

    def _close(self) -> None:
        """Take the last snapshots; whatever fails is learned again after the next start."""
        for work in list(self.work.values()):
            try:
                if work.seq > work.snapshot:
                    self._snapshot(work)
            except Exception as error:
                log.warning("no snapshot of %s: %s", work.row.name, error)
