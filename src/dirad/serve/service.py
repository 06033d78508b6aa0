"""Service: all streams of a store, what they accept and what they answer."""

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from dirad.serve import journal, records
from dirad.serve.answers import NO_MODEL, Answers
from dirad.serve.bodies import LateLabels
from dirad.serve.children import Child, ChildDied, ChildTimeout
from dirad.serve.engine import Engine, Work
from dirad.serve.errors import Busy, Conflict, Fenced, NotFound, Refused
from dirad.serve.reading import Body, Reader, is_slow
from dirad.serve.rendering import FORMATS, rendering_handler
from dirad.serve.specification import Specification, check_name
from dirad.serve.store import LOCK_SECONDS, Store
from dirad.serve.writer import Writer

KEEP_SECONDS = 2.0  # between two looks at the lock of the store
STATE_SECONDS = 60.0  # that a state may take to come from the learning process
RENDER_SECONDS = 300.0
MOST_RECORDS = 20_000  # requests of a stream that wait to be learned
RECENT = 20  # events that the state of a stream shows
RATE_SECONDS = 60.0  # over which the rate of a stream is averaged
RATE_STEP = 0.5  # seconds between the times that the rate is made from

log = logging.getLogger("dirad.serve")


@dataclass(frozen=True)
class Limits:
    """How much a server takes."""

    body: int = 16_000_000  # bytes of a request
    rows: int = 20_000  # of a request
    columns: int = 2_000  # inputs of a stream
    streams: int = 200
    pending: int = 100_000  # rows of a stream that wait to be learned
    requests: float = 1000.0  # per second and token, or address where there are no tokens
    public_hooks: bool = False  # may webhooks call public addresses alone?
    event_readers: int = 100  # open connections to /events


@dataclass
class LiveStream:
    """A stream as it is at the moment."""

    row: journal.StreamRow
    answers: Answers | None = None
    events: int = 0
    fault: str | None = None  # why it cannot be used
    _rates: tuple[tuple[float, int], ...] = ()  # when, and samples by then; never changed in place

    def accepted(self, row: journal.StreamRow) -> None:
        """Take notice of accepted rows."""
        now = time.monotonic()
        recent = [one for one in self._rates if now - one[0] <= RATE_SECONDS]
        if len(recent) > 1 and recent[-1][0] - recent[-2][0] < RATE_STEP:
            recent.pop()
        self.row, self._rates = row, (*recent, (now, row.samples))

    def rate(self) -> float:
        """Return the rows per second of the last minute."""
        now = time.monotonic()
        recent = [one for one in self._rates if now - one[0] <= RATE_SECONDS]
        if len(recent) < 2:
            return 0.0
        return (recent[-1][1] - recent[0][1]) / max(now - recent[0][0], 1.0)


EngineMaker = Callable[[Store, Any, Any], Engine]


class Service:
    """The streams of a store: one writer, learning processes, and the states that answer."""

    def __init__(
        self,
        store: Store,
        limits: Limits,
        make_engine: EngineMaker,
        lock_seconds: float = LOCK_SECONDS,
    ) -> None:
        self.store, self.limits = store, limits
        self.streams: dict[str, LiveStream] = {}
        self.listeners: list[Callable[[str, list[dict[str, Any]]], None]] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.is_away = False  # could the database not be used, when it was last looked at?
        store.own(lock_seconds)
        self.engine = make_engine(store, self._publish, self._has_events)
        self.reader = Reader()
        self.renderer = Child(rendering_handler, "rendering")
        self.writer = Writer(store, self.accepted)
        self._open_streams()
        self.engine.start()
        threading.Thread(target=self._keep, name="dirad-lock", daemon=True).start()

    def _open_streams(self) -> None:
        with self.store.reading() as connection:
            for row in journal.all_streams(connection):
                seq, state = journal.snapshot_of(connection, row.id)
                live = LiveStream(row, events=journal.count_events(connection, row.id))
                self.streams[row.name] = live
                try:
                    live.answers = None if state is None else Answers(row.specification, state)
                except Exception as error:  # whatever it is, the other streams go on
                    live.fault = f"the stored state of stream {row.name!r} cannot be read: {error}"
                    log.error("%s; all its requests are answered with 503", live.fault)
                    continue
                rows = 0 if live.answers is None else live.answers.progress.rows
                self.engine.add(row, seq, rows)

    def close(self) -> None:
        """Write everything down, and end."""
        self._closing.set()
        self.writer.close()
        self.engine.close()
        self.reader.close()
        self.renderer.close()
        self.store.close()

    @property
    def is_ready(self) -> bool:
        """Can requests be accepted?"""
        return not self.engine.is_fenced and not self._closing.is_set()

    def _keep(self) -> None:
        """Look after the lock of the store."""
        while not self._closing.wait(KEEP_SECONDS):
            try:
                self.store.keep()
                self.is_away = False
            except Fenced as error:
                log.error("%s", error)
                self.engine.is_fenced = True
                return
            except Refused as error:
                self.is_away = True
                log.warning("%s %s", error, getattr(error, "reason", ""))
            except Exception:
                self.is_away = True
                log.exception("the lock of the store could not be looked after; trying again")

    # ---------------------------------------------------------------- streams

    def stream(self, name: str) -> LiveStream:
        """Return a stream by its name."""
        live = self._any_stream(name)
        if live.fault is not None:
            raise Refused(f"{live.fault:.500} (a backup has an older one)", 503)
        return live

    def _any_stream(self, name: str) -> LiveStream:
        live = self.streams.get(name)
        if live is None:
            raise NotFound(f"there is no stream {name!r:.80}")
        return live

    def learned(self, name: str) -> Work:
        """Return how far the learning of a stream has come."""
        try:
            return self.engine.learned(name)
        except KeyError:  # it was deleted just now
            raise NotFound(f"there is no stream {name!r:.80}") from None

    def create(self, name: str, specification: Specification) -> bool:
        """Create a stream; False if it exists already, exactly so."""
        check_name(name)
        with self._lock:
            with self.store.changing() as connection:
                row, is_new = journal.create_stream(
                    connection, name, specification, self.limits.streams
                )
            if name not in self.streams:  # also where it was created, but the answer was lost
                self.streams[name] = LiveStream(row)
                self.engine.add(row, 0, 0)
        return is_new

    def delete(self, name: str) -> None:
        """Delete a stream and everything that it learned."""
        with self._lock:
            live = self._any_stream(name)
            with self.store.changing() as connection:
                journal.delete_stream(connection, live.row.id)
            del self.streams[name]
            self.engine.drop(name)

    def describe_all(self, names: list[str]) -> list[dict[str, Any]]:
        """Return the states of streams; those that are deleted or cannot be used are left out."""
        found = []
        for name in names:
            live = self.streams.get(name)
            if live is None or live.fault is not None:
                continue
            with suppress(NotFound):
                found.append(self.describe(name))
        return found

    def describe(self, name: str) -> dict[str, Any]:
        """Return the state of a stream."""
        live = self.stream(name)
        work = self.learned(name)
        answers = live.answers
        with self.store.reading() as connection:
            recent = journal.events_of(connection, live.row.id, live.events - RECENT - 1, RECENT)
        return {
            "name": name,
            **live.row.specification.to_json(),
            "created": live.row.created,
            "samples": live.row.samples,
            "learned": work.rows,
            "pending": live.row.samples - work.rows,
            "current": not work.waits and not work.news,  # do answers come from all of it?
            "rate": round(live.rate(), 2),
            "models": 0 if answers is None else len(answers.system.models),
            "events": live.events,
            "recent_events": recent,
            "refused": 0 if answers is None else answers.progress.n_refused,
            "too_late": 0 if answers is None else answers.progress.late,
        }

    # ---------------------------------------------------------------- learning

    def accept(
        self, name: str, content_type: str, content: bytes, key: str | None, digest: str
    ) -> "Future[bytes]":
        """Accept the rows of a body: the result is the answer as JSON, once they are on disk."""
        live = self.stream(name)
        self._check_pending(live, 1)
        request = self.reader.samples(self._body(live, content_type, content), live.answers)
        self._check_pending(live, request.record.rows)
        return self.writer.submit(live.row.id, replace(request, key=key, digest=digest))

    def _body(self, live: LiveStream, content_type: str, content: bytes) -> Body:
        row, most = live.row, self.limits.rows
        return Body(row.id, row.specification, content_type, content, most)

    def accept_labels(
        self, name: str, late: LateLabels, key: str | None = None, digest: str = ""
    ) -> "Future[bytes]":
        """Accept late labels, by the numbers or by the ids of rows."""
        live = self.stream(name)
        self._check_pending(live, 0)
        numbers = late.numbers
        if numbers is None:
            with self.store.reading() as connection:
                numbers = journal.rows_of_ids(connection, live.row.id, late.ids or [])
        wrong = [one for one in numbers if one >= live.row.samples]
        if wrong:
            raise Refused(f"there is no row {wrong[0]}: {live.row.samples} were accepted so far")
        record = records.late_labels(numbers, late.labels)
        answer = json.dumps({"labels": len(late.labels)}).encode()
        request = journal.Request(record, answer, key, digest, label_type=late.label_type)
        return self.writer.submit(live.row.id, request)

    def finish(self, name: str, key: str | None = None) -> "Future[bytes]":
        """Let all models of a stream be finished with the samples so far."""
        live = self.stream(name)
        self._check_pending(live, 0)
        request = journal.Request(records.finish(), b"{}", key, "finish")
        return self.writer.submit(live.row.id, request)

    def remove(self, name: str, model: int, key: str | None = None) -> "Future[bytes]":
        """Let a model of a stream be removed."""
        live, digest = self.stream(name), f"remove {model}"
        if model not in [one.number for one in self.answers(name).system.models]:
            # An earlier request with this key may have removed it: then its answer is repeated.
            with self.store.reading() as connection:
                if key is None or journal.answered(connection, live.row.id, key, digest) is None:
                    raise NotFound(f"there is no model {model}")
        self._check_pending(live, 0)
        request = journal.Request(records.remove(model), b"{}", key, digest)
        return self.writer.submit(live.row.id, request)

    def _check_pending(self, live: LiveStream, rows: int) -> None:
        """Refuse more rows where too many wait to be learned, and more requests likewise."""
        work = self.learned(live.row.name)
        if live.row.seq - work.seq > MOST_RECORDS:
            raise Busy(f"{MOST_RECORDS} requests wait to be learned, and no more are taken", 5)
        waiting = live.row.samples - work.rows
        if waiting + rows > self.limits.pending:
            seconds = 1 + waiting / 20_000
            raise Busy(f"{waiting} rows wait to be learned, and no more are taken", seconds)

    def accepted(self, row: journal.StreamRow) -> None:
        """Take notice of a request that is on disk."""
        live = self.streams.get(row.name)
        if live is None or live.row.id != row.id:
            return
        live.accepted(row)
        self.engine.accepted(row)

    # ---------------------------------------------------------------- answers

    def predict(self, name: str, content_type: str, content: bytes, *, explain: bool) -> bytes:
        """Return the answers for the rows of a body, as JSON."""
        answers = self.answers(name)
        body = self._body(self.stream(name), content_type, content)
        if is_slow(content_type, content):
            return self.reader.predictions(body, answers, explain=explain)
        return body.predictions(answers, explain=explain)

    def is_light(self, name: str, content_type: str, content: bytes) -> bool:
        """Say whether `predict` takes less time than to hand it over to a thread."""
        live = self.stream(name)
        body = self._body(live, content_type, content)
        return live.answers is None or body.is_light(live.answers)

    def answers(self, name: str) -> Answers:
        """Return the last complete state of a stream."""
        answers = self.stream(name).answers
        if answers is None:
            raise Conflict(NO_MODEL)
        return answers

    def events(self, name: str, after: int, most: int = 1000) -> list[dict[str, Any]]:
        """Return the events of a stream after a number."""
        live = self.stream(name)
        with self.store.reading() as connection:
            return journal.events_of(connection, live.row.id, after, most)

    def scores(self, name: str) -> list[dict[str, Any]]:
        """Return how well a stream was predicted, over time."""
        live = self.stream(name)
        with self.store.reading() as connection:
            return journal.scores_of(connection, live.row.id)

    def report(self, name: str) -> bytes:
        """Return the page about what a stream has learned."""
        return self._rendered(name, {"do": "report", "title": f"Stream {name}"})

    def export(self, name: str, to: str, number: int | None) -> bytes:
        """Return the models of a stream in another form; models that learn are finished in it."""
        if to not in FORMATS:
            raise Refused(f"to must be one of {', '.join(FORMATS)}, got {to!r:.40}")
        if to == "dirad":
            self.answers(name)
            return self._state(name)
        return self._rendered(name, {"do": "export", "to": to, "number": number})

    def _rendered(self, name: str, head: dict[str, Any]) -> bytes:
        specification = self.answers(name).specification
        state = self._state(name)
        head["names"] = list(specification.encoder.feature_names)
        try:
            return self.renderer.ask(head, state, RENDER_SECONDS)[1]
        except ValueError as error:
            raise Refused(f"this cannot be made: {error}") from None
        except (ChildDied, ChildTimeout) as error:
            raise Refused(f"this cannot be made: {error}", 503) from None

    def _state(self, name: str) -> bytes:
        """Return the present state of a learner."""
        try:
            return self.engine.state(name).result(STATE_SECONDS)
        except KeyError:  # it was deleted just now
            raise NotFound(f"there is no stream {name!r:.80}") from None
        except (TimeoutError, ChildDied, ValueError):
            raise Refused("the learning process is busy: try again", 503, Retry_After="5") from None

    def _publish(self, row: journal.StreamRow, state: bytes) -> None:
        live = self.streams.get(row.name)
        if live is None or live.row.id != row.id:
            return
        answers = Answers(row.specification, state, is_own=True)
        try:
            answers.prepare()  # here, and not in the thread that answers
        except Exception:  # whatever it is, learning goes on
            log.exception("stream %s: its new state gave no answer", row.name)
        if live.answers is None or live.answers.progress.seq <= answers.progress.seq:
            live.answers = answers

    def _has_events(self, row: journal.StreamRow, events: list[dict[str, Any]]) -> None:
        live = self.streams.get(row.name)
        if live is not None and live.row.id == row.id:
            live.events = max(live.events, events[-1]["number"] + 1)
            for listener in list(self.listeners):
                listener(row.name, events)


def default_processes() -> int:
    """Return how many learning processes leave a core to the answers."""
    return max(1, (os.cpu_count() or 2) - 1)
