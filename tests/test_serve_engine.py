"""The engine: what it does when learning fails, and when some streams wait for others."""

import time

import numpy as np
import pytest

from dirad.serve import engine, journal, records
from dirad.serve.children import ChildDied, answered, checked
from dirad.serve.learner import StreamLearner
from dirad.serve.learning import Learners
from dirad.serve.records import unpacked
from dirad.serve.specification import Specification
from dirad.serve.store import Store

DETECTOR = Specification.from_json({"kind": "detector", "columns": ["u", "v"]})
BAD = 7  # the record at which the process fails


class Fragile:
    """A learning process within this one, which fails at a record of the stream `bad`."""

    def __init__(self, way: str) -> None:
        self.way, self.starts = way, 0
        self.learners: Learners | None = None

    def ask(self, head, body=b"", seconds=None):
        if self.learners is None:
            self.learners, self.starts = Learners(), self.starts + 1
        is_bad = head.get("stream") == "bad" and head["do"] == "learn"
        if is_bad and [BAD, False] in [[one[0], one[4]] for one in head["records"]]:
            if self.way == "dies":
                self.learners = None
                raise ChildDied("the process ended unexpectedly")
            # Those before it are learned, as by a process that fails in the middle.
            place = [one[0] for one in head["records"]].index(BAD)
            answered(self.learners.handle, head | {"records": head["records"][:place]}, body)
            checked({"error": "no memory"})
        answer, rest = unpacked(answered(self.learners.handle, head, body))
        return checked(answer), rest

    def kill(self):
        pass

    close = kill


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path)
    store.own()
    yield store
    store.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(engine, "RETRY_SECONDS", 0.01)
    monkeypatch.setattr(engine, "QUIET_SECONDS", 0.05)


def stream_of(store, name, found):
    """Create a stream with records in its journal."""
    with store.changing() as connection:
        row, _ = journal.create_stream(connection, name, DETECTOR, 10)
        for record in found:
            _, row = journal.append(connection, row.id, journal.Request(record, b"{}"))
    return row


def until(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.01)


def samples(n, rows=60):
    rng = np.random.default_rng(0)
    return [records.samples(rng.normal(size=(rows, 2)), None) for _ in range(n)]


@pytest.mark.parametrize("way", ["dies", "fails"])
def test_a_record_that_ends_the_process_four_times_is_left_out(store, way, caplog):
    """Neither the records around it nor other streams suffer."""
    found, process = samples(20), Fragile(way)
    expected = StreamLearner(DETECTOR)
    for seq, record in enumerate(found, 1):
        if seq == BAD:
            expected.skip(seq, record.rows)
        else:
            expected.carry_out(seq, record.kind, record.payload)
    learning = engine.Engine(store, [process], lambda *_: None, lambda *_: None)
    for name in ("bad", "other"):
        learning.add(stream_of(store, name, found), 0, 0)
    learning.start()
    until(lambda: not learning.learned("other").waits)
    until(lambda: not learning.learned("bad").waits)
    assert learning.learned("bad").rows == 20 * 60
    assert learning.state("bad").result(10) == expected.state()
    learning.close()
    left_out = [one for one in caplog.messages if "is left out" in one]
    assert left_out == [f"stream bad: record {BAD} is left out"]
    if way == "dies":
        assert process.starts == 6  # the first death is of all records together


class Slow:
    """A process that takes long to learn, and never publishes by itself."""

    starts = 1

    def ask(self, head, body=b"", seconds=None):
        if head["do"] == "learn":
            time.sleep(0.05)
            last = head["records"][-1][0]
            return {"events": [], "seconds": 0.0, "seq": last, "rows": last, "news": True}, b""
        return {"seq": 1, "rows": 1} if head["do"] == "state" else {"seq": 0, "rows": 0}, b"state"

    def kill(self):
        pass

    close = kill


def test_a_state_is_published_while_a_neighbour_learns_on(store, monkeypatch):
    monkeypatch.setattr(engine, "CHUNK_RECORDS", 1)
    monkeypatch.setattr(engine, "LONGEST_WAIT", 0.3)
    published = []
    learning = engine.Engine(
        store, [Slow()], lambda row, _: published.append(row.name), lambda *_: None
    )
    learning.add(stream_of(store, "quiet", samples(1, 1)), 0, 0)
    learning.add(stream_of(store, "busy", samples(100, 1)), 0, 0)
    learning.start()
    until(lambda: published)
    assert published == ["quiet"]
    assert learning.learned("busy").waits
    assert not learning.learned("quiet").news
    learning.close()
