"""The store: what was committed is there, whatever happens to the files afterwards."""

import shutil
import sqlite3
import struct

import numpy as np
import pytest

from dirad.serve import journal, records
from dirad.serve.errors import Conflict, Fenced, NotFound, Refused, StorageFull
from dirad.serve.hooks import create_hook
from dirad.serve.specification import Specification
from dirad.serve.store import FILE, Store, StoreError, StoreInUse

SPECIFICATION = Specification.from_json({"kind": "classifier", "columns": ["u", "v"]})


def request(n, key=None, digest="", **more):
    X = np.full((n, 2), float(n))
    return journal.Request(records.samples(X, [1] * n), b'{"rows":%d}' % n, key, digest, **more)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    store.own()
    yield store
    store.close()


@pytest.fixture
def stream(store):
    with store.changing() as connection:
        row, is_new = journal.create_stream(connection, "pump", SPECIFICATION, 10)
    assert is_new
    return row.id


def append(store, stream, *requests):
    with store.changing() as connection:
        return [journal.append(connection, stream, one)[0] for one in requests]


def rows_in(store, stream):
    with store.reading() as connection:
        return [one.rows for one in journal.pending(connection, stream, 0, 1000, 10**9, 10**9)]


def test_chunks_of_the_journal_are_bounded_and_never_empty(store, stream):
    append(store, stream, request(3000), request(1500), request(500), request(100))

    def next_rows(after, records=10, rows=2000, size=10**9):
        with store.reading() as connection:
            found = journal.pending(connection, stream, after, records, rows, size)
        return [one.rows for one in found]

    assert next_rows(0) == [3000]
    assert next_rows(1) == [1500, 500]
    assert next_rows(3) == [100]
    assert next_rows(4) == []
    assert next_rows(1, records=1) == [1500]
    assert next_rows(1, size=1) == [1500]


def test_nothing_is_stored_of_a_stream_that_was_deleted(store, stream):
    """Its learning process may be at work on it still."""
    append(store, stream, request(1))
    with store.changing() as connection:
        journal.delete_stream(connection, stream)
    with store.changing() as connection:
        assert journal.add_events(connection, stream, [{"number": 0, "kind": "opened"}]) == []
    with store.changing() as connection:
        journal.store_snapshot(connection, stream, 1, b"state")
    with store.reading() as connection:
        assert journal.snapshot_of(connection, stream) == (0, None)
    with pytest.raises(NotFound):
        create_hook(store, stream, {"url": "http://127.0.0.1:9/", "secret": 20 * "s"})


def test_same_key_is_carried_out_once(store, stream):
    first = append(store, stream, request(3, "a", "x"))
    again = append(store, stream, request(3, "a", "x"))
    assert first == again
    assert rows_in(store, stream) == [3]
    with pytest.raises(Refused, match="another content"):
        append(store, stream, request(4, "a", "y"))


def test_rows_are_numbered_in_order(store, stream):
    answers = append(store, stream, request(3), request(2), request(1))
    assert [answer.split(b",")[0] for answer in answers] == [
        b'{"first_row": 0',
        b'{"first_row": 3',
        b'{"first_row": 5',
    ]


def test_refused_request_changes_nothing(store, stream):
    append(store, stream, request(2, ids=["a", "b"], label_type="number"))
    with pytest.raises(Conflict, match="'b'"):
        append(store, stream, request(2, ids=["b", "c"]))
    with pytest.raises(Refused, match="number"):
        append(store, stream, request(1, label_type="text"))
    assert rows_in(store, stream) == [2]
    with store.reading() as connection:
        assert journal.rows_of_ids(connection, stream, ["b", "a"]) == [1, 0]
        with pytest.raises(Refused, match="'c'"):
            journal.rows_of_ids(connection, stream, ["c"])


def test_snapshot_replaces_the_journal(store, stream):
    append(store, stream, request(1), request(2), request(3))
    with store.changing() as connection:
        journal.store_snapshot(connection, stream, 2, b"state")
    assert rows_in(store, stream) == [3]
    with store.reading() as connection:
        assert journal.snapshot_of(connection, stream) == (2, b"state")


def test_events_are_stored_once(store, stream):
    found = [{"number": i, "kind": "opened", "text": ""} for i in range(3)]
    with store.changing() as connection:
        assert len(journal.add_events(connection, stream, found[:2])) == 2
        new = journal.add_events(connection, stream, found)
    assert [event["number"] for event in new] == [2]


def test_scores_are_joined_to_few_points(store, stream):
    with store.changing() as connection:
        for part in range(1000):
            journal._add_score(connection, stream, part, journal.Score(10, 5.0 + part % 2))
    with store.reading() as connection:
        found = journal.scores_of(connection, stream, points=100)
    assert len(found) <= 100
    assert sum(one["labelled"] for one in found) == 10_000
    assert all(one["mean"] == pytest.approx(0.55, abs=0.01) for one in found)


def test_second_server_is_refused(store, tmp_path):
    with pytest.raises(StoreInUse, match="process"):
        Store(tmp_path / "store").own(seconds=0.3)


def test_server_that_lost_the_store_is_fenced(store, stream, tmp_path):
    append(store, stream, request(1))
    store._lock.close()  # as if its machine had been away for long
    second = Store(tmp_path / "store")
    second.own()
    with pytest.raises(Fenced):
        append(store, stream, request(2))
    append(second, stream, request(3))
    assert rows_in(second, stream) == [1, 3]
    second.close()


def test_full_disk_refuses_and_keeps_what_is_there(store, stream):
    append(store, stream, request(1))
    with store.reading() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
    with store.engine.connect() as connection:
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 2}")
    with pytest.raises(StorageFull):
        append(store, stream, request(10_000))
    assert rows_in(store, stream) == [1]
    with store.engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    append(store, stream, request(2))
    assert rows_in(store, stream) == [1, 2]


def frames(wal: bytes) -> list[int]:
    """Return the place at which each transaction of a write-ahead log ends."""
    size = struct.unpack(">I", wal[8:12])[0] + 24
    ends, place = [], 32
    while place + size <= len(wal):
        if struct.unpack(">I", wal[place + 4 : place + 8])[0]:  # a commit has the database's size
            ends.append(place + size)
        place += size
    return ends


@pytest.fixture
def written(tmp_path):
    """The files of a store whose last transaction is a record, and where that one begins."""
    store = Store(tmp_path / "store")
    store.own()
    with store.changing() as connection:
        stream = journal.create_stream(connection, "pump", SPECIFICATION, 10)[0].id
    append(store, stream, request(1))
    append(store, stream, request(2))
    wal = (tmp_path / "store" / f"{FILE}-wal").read_bytes()
    main = (tmp_path / "store" / FILE).read_bytes()
    before, after = frames(wal)[-2:]
    assert after == len(wal)
    yield main, wal, before, stream
    store.close()


def torn_files(folder, written, cut, tail):
    """Write the files as a power loss leaves them: the log ends at a byte, or garbage follows."""
    main, wal, _, _ = written
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    (folder / FILE).write_bytes(main)
    (folder / f"{FILE}-wal").write_bytes(wal[:cut] + tail)


def test_power_loss_within_the_last_record(tmp_path, written):
    """The log is cut, or its end is garbage: earlier records are there, and more are accepted."""
    _, wal, before, stream = written
    after, rng = len(wal), np.random.default_rng(0)
    found = set()
    for cut in sorted({*range(before, after, 997), *range(after - 8, after + 1), before + 1}):
        for tail in (b"", rng.bytes(after - cut)):
            torn_files(tmp_path / "torn", written, cut, tail)
            opened = Store(tmp_path / "torn")
            opened.own()
            rows = rows_in(opened, stream)
            assert rows == ([1, 2] if cut == after else [1])
            found.add(tuple(rows))
            append(opened, stream, request(7))
            assert rows_in(opened, stream) == [*rows, 7]
            opened.close()
    assert found == {(1,), (1, 2)}


@pytest.mark.slow
def test_power_loss_at_every_byte_of_the_last_record(tmp_path, written):
    _, wal, before, _ = written
    after, rng = len(wal), np.random.default_rng(0)
    assert after - before > 4096
    for cut in range(before, after + 1):
        for tail in (b"", rng.bytes(after - cut)):
            torn_files(tmp_path / "torn", written, cut, tail)
            connection = sqlite3.connect(tmp_path / "torn" / FILE)
            found = connection.execute("SELECT rows FROM journal ORDER BY seq").fetchall()
            assert found == ([(1,), (2,)] if cut == after else [(1,)])
            assert connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
            connection.close()


def test_foreign_and_newer_files_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / FILE).write_bytes(b"this is no database, but a text" * 100)
    with pytest.raises(StoreError, match="no store"):
        Store(tmp_path / "other")
    Store(tmp_path / "newer").close()
    with sqlite3.connect(tmp_path / "newer" / FILE) as connection:
        connection.execute("UPDATE about SET version = 99")
    with pytest.raises(StoreError, match="newer"):
        Store(tmp_path / "newer")


@pytest.mark.parametrize(
    ("described", "words"),
    [
        ([], "an object"),
        ({"kind": "oracle", "columns": ["a"]}, "kind"),
        ({"kind": "detector", "columns": []}, "columns"),
        ({"kind": "detector", "columns": ["a", "a"]}, "'a'"),
        ({"kind": "detector", "columns": ["label"]}, "label"),
        ({"kind": "detector", "columns": [{"name": "c", "kind": "category"}]}, "categories"),
        ({"kind": "detector", "columns": ["a"], "settings": {"false_alarms": 2}}, "false_alarms"),
        ({"kind": "regressor", "columns": ["a"], "settings": {"models": "shared"}}, "models"),
        ({"kind": "detector", "columns": ["a"], "settings": {"batch_size": 10**9}}, "batch_size"),
        ({"kind": "detector", "columns": ["a"], "settings": {"max_models": 0}}, "max_models"),
        ({"kind": "detector", "columns": ["a"], "seed": 1}, "seed"),
    ],
)
def test_specification_that_makes_no_sense_is_refused(described, words):
    with pytest.raises(Refused, match=words):
        Specification.from_json(described)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ({"kind": "text"}, "number, boolean, category"),
        ({"kind": "category", "categories": ["a", 1]}, "list of texts"),
        ({"kind": "category", "categories": ["a", "a"]}, "the same"),
        ({"kind": "category", "categories": ["a", "NA"]}, "means that a value is missing"),
        ({"kind": "category", "categories": ["a "]}, "space"),
        ({"kind": "category", "categories": ["a"], "fill": "b"}, "'b' is no value of a category"),
        ({"categories": ["a"]}, "a number has no categories"),
        ({"other": True}, "a number has no other categories"),
        ({"gaps": "yes"}, "true or false"),
        ({"gaps": True, "fill": 1.0}, "not both"),
        ({"fill": 10**400}, "no value of a number"),
        ({"kind": "boolean", "fill": 1}, "no value of a boolean"),
    ],
)
def test_column_that_makes_no_sense_is_refused(column, words):
    with pytest.raises(Refused, match=words):
        Specification.from_json({"kind": "detector", "columns": [{"name": "c"} | column]})


def test_specification_survives_json():
    described = {
        "kind": "classifier",
        "columns": ["a", {"name": "c", "kind": "category", "categories": ["x", "y"]}],
        "settings": {"false_alarms": 0.001},
    }
    found = Specification.from_json(described)
    assert Specification.from_json(found.to_json()) == found
    assert Specification.of_text(found.text) == found
    assert found.encoder.feature_names == ("a", "c=x", "c=y")
