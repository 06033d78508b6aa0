"""`dirad tail FILE`: every complete row once and in order, whatever happens."""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import DIRAD, run
from dirad import Client, ClientError
from dirad.serve import records
from dirad.sources.csv_tail import CsvTail, Pace
from dirad.sources.errors import SourceError
from dirad.sources.position import Position
from dirad.sources.samples import Naming
from service import serving

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

HEADER = "time,u,label\n"


class Crash(Exception):
    """The process ends here."""


class Service:
    """A service in this process that remembers keys, refuses what it should, and can crash us."""

    stream = "s"
    columns = ("u",)

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.labels: list[object] = []
        self.keys: dict[str, object] = {}
        self.crash: str | None = None

    def state(self):
        return {"kind": "classifier", "columns": ["u"]}

    def partial_fit(self, rows, labels, ids, key):
        if self.crash == "before":
            raise Crash
        if any(row[0].startswith("bad") for row in rows):
            raise ClientError(422, "no number")
        if key in self.keys:
            assert self.keys[key] == (rows, labels), "another content"
        else:
            self.keys[key] = (rows, labels)
            self.rows += [int(row[0]) for row in rows]
            self.labels += labels or [None] * len(rows)
        if self.crash == "after":
            raise Crash


class Writer:
    """Writes numbered rows, in pieces, and rotates the file as people do."""

    def __init__(self, path: Path) -> None:
        self.path, self.n, self.half = path, 0, ""
        self.begin()

    def begin(self, header: bool = True) -> None:
        self.file = self.path.open("a", buffering=1)
        if header:
            self.file.write(HEADER)

    def write(self, n: int) -> None:
        for _ in range(n):
            self.file.write(self.rest() if self.half else self.row())

    def row(self) -> str:
        self.n += 1
        return f"t{self.n},{self.n - 1},{(self.n - 1) % 3}\n"

    def rest(self) -> str:
        rest, self.half = self.half, ""
        return rest

    def write_half(self) -> None:
        if not self.half:
            row = self.row()
            cut = len(row) // 2
            self.file.write(row[:cut])
            self.file.flush()
            self.half = row[cut:]

    def shift(self, keep: int) -> None:
        """Rename .1 to .2 and so on, and forget the oldest."""
        for i in range(keep, 0, -1):
            old = self.path.with_name(f"{self.path.name}.{i}")
            if old.exists():
                if i == keep:
                    old.unlink()
                else:
                    old.rename(self.path.with_name(f"{self.path.name}.{i + 1}"))

    def rename(self, keep: int = 5) -> None:
        if self.half:
            self.file.write(self.rest())
        self.shift(keep)
        self.path.rename(f"{self.path}.1")
        self.write(1)  # the writer has not noticed yet
        self.file.close()
        self.begin()

    def copy_and_truncate(self, header: bool, keep: int = 5) -> None:
        if self.half:
            self.file.write(self.rest())
        self.file.flush()
        self.shift(keep)
        shutil.copyfile(self.path, f"{self.path}.1")
        os.truncate(self.path, 0)
        if header:
            self.file.write(HEADER)


def tail_of(service, folder, **pace):
    return CsvTail(
        service, folder / "log.csv", folder / "state", Naming(), Pace(**{"rows": 3} | pace)
    )


OPERATIONS = st.sampled_from(
    ["write"] * 4 + ["half", "rename", "copy", "copy without header", "read", "read", "drain",
     "crash before", "crash after", "crash at first write", "crash at second write"]
)  # fmt: skip


@given(st.lists(st.tuples(OPERATIONS, st.integers(1, 7)), max_size=40))
def test_every_row_once_and_in_order_through_rotations_and_crashes(operations):
    with TemporaryDirectory() as name:
        folder = Path(name)
        service, writer = Service(), Writer(folder / "log.csv")
        tail = tail_of(service, folder)
        tail.step()  # what was rotated before is never read
        for operation, n in operations:
            if operation == "write":
                writer.write(n)
            elif operation == "half":
                writer.write_half()
            elif operation == "rename":
                writer.rename()
                _catch_up(tail, folder)
            elif operation.startswith("copy"):
                _before_copy(tail, operation)
                writer.copy_and_truncate(operation == "copy")
                _catch_up(tail, folder)
            elif operation == "read":
                tail.step()
            elif operation == "drain":
                tail.run(once=True)
            else:
                tail = _crashed(tail, service, folder, operation)
        writer.write(1)
        tail.run(once=True)
    assert service.rows == list(range(writer.n))
    assert service.labels == [i % 3 for i in range(writer.n)]


def _before_copy(tail, operation):
    """A file without a header can follow only one that was seen."""
    if operation == "copy without header":
        tail.step()


def _catch_up(tail, folder):
    """Read before a file that was not read is deleted."""
    if len(list(folder.glob("log.csv.*"))) > 3:
        tail.run(once=True)


def _crashed(tail, service, folder, operation):
    """Let the next step end somewhere, and start again."""
    kind, write, writes = operation.removeprefix("crash "), Position.write, []

    def failing(position, path):
        writes.append(position)
        if len(writes) == (1 if "first" in kind else 2):
            raise Crash
        write(position, path)

    with pytest.MonkeyPatch.context() as patch:
        if kind.startswith("at"):
            patch.setattr(Position, "write", failing)
        else:
            service.crash = kind
        with suppress(Crash):
            tail.step()
        service.crash = None
    return tail_of(service, folder)


def test_unfinished_lines_blank_lines_and_other_line_ends(tmp_path, caplog):
    service = Service()
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xef\xbb\xbfu, label\r\n1,a\r\n\r\n2,\n3")
    tail = tail_of(service, tmp_path, rows=10)
    tail.run(once=True)
    assert (service.rows, service.labels) == ([1, 2], ["a", None])
    with path.open("ab") as file:
        file.write(b"0,b\n4,half")
    tail.run(once=True)
    assert service.rows == [1, 2, 30]
    path.rename(tmp_path / "log.csv-20260101")
    path.write_text("label,u\nc,5\n")
    tail.run(once=True)
    assert service.rows == [1, 2, 30, 5]
    assert service.labels == ["a", None, "b", "c"]
    assert "log.csv, line 6: the last line has no end" in caplog.text


def test_a_refused_row_ends_it_or_is_left_out(tmp_path, caplog):
    service = Service()
    path = tmp_path / "log.csv"
    path.write_text("u\n1\n2\nbad\n3\n4,4\n5\n")
    for _ in range(2):  # it stays where it is
        with pytest.raises(SourceError, match=r"log\.csv, line 4: no number \(--skip-bad"):
            tail_of(service, tmp_path, rows=10).run(once=True)
    assert service.rows == [1, 2]
    tail_of(service, tmp_path, rows=10, skip_bad=True).run(once=True)
    assert service.rows == [1, 2, 3, 5]
    assert "line 4: no number; the row is left out" in caplog.text
    assert "line 6: 2 fields, and the header has 1; the row is left out" in caplog.text


def test_old_rotated_files_are_left_alone_and_lost_ones_are_reported(tmp_path, caplog):
    service = Service()
    path = tmp_path / "log.csv"
    (tmp_path / "log.csv.1").write_text("u\n7\n")
    path.write_text("u\n1\n")
    tail_of(service, tmp_path).run(once=True)
    assert service.rows == [1]
    path.unlink()
    path.write_text("u\n8\n9\n")  # under the same name, or even the same number
    tail_of(service, tmp_path).run(once=True)
    assert service.rows == [1, 8, 9]
    assert "rows that were written after it may be missing" in caplog.text


def test_it_says_what_is_wrong(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("v,label\n1,2\n")
    with pytest.raises(SourceError, match=r"log\.csv, line 1: the header has no column 'u'"):
        tail_of(Service(), tmp_path).run(once=True)
    path.write_text("u,u\n1,2\n")
    with pytest.raises(SourceError, match="same name"):
        tail_of(Service(), tmp_path).run(once=True)
    path.write_text("u\n" + "1" * 1_100_000)
    with pytest.raises(SourceError, match="line 2: longer than"):
        tail_of(Service(), tmp_path).run(once=True)
    (tmp_path / "state").write_text("{}")
    with pytest.raises(SourceError, match="not the position of a file"):
        tail_of(Service(), tmp_path)


# ------------------------------------------------------------------ with a real service


def accepted(store: Path) -> list[float]:
    """Return all rows that a store has accepted, in order; see `remember`."""
    with sqlite3.connect(next(store.glob("*.sqlite"))) as database:
        found = database.execute("SELECT payload FROM kept ORDER BY seq").fetchall()
    rows = [records.rows_of(*records.unpacked(payload)) for (payload,) in found]
    return np.concatenate(rows)[:, 0].tolist() if rows else []


def remember(store: Path) -> None:
    """Keep all records of a journal, which snapshots would shorten."""
    with sqlite3.connect(next(store.glob("*.sqlite")), timeout=30) as database:
        database.executescript(
            "CREATE TABLE kept (seq INTEGER PRIMARY KEY, payload BLOB);"
            "CREATE TRIGGER keep AFTER INSERT ON journal WHEN NEW.kind = 'samples' BEGIN "
            "INSERT INTO kept VALUES (NEW.seq, NEW.payload); END;"
        )


def start_tail(path: Path, url: str, *options: str) -> "subprocess.Popen[str]":
    command = [*DIRAD, "tail", str(path), "--stream", "s", "--url", url, "--create", "detector"]
    paced = ["--column", "u", "--every", "0.02", "--rows", "20", *options]
    return subprocess.Popen([*command, *paced], stderr=subprocess.PIPE, text=True)


def scribble(writer: Writer, rng: random.Random, end: threading.Event) -> None:
    """Write and rotate at random until told to end."""
    while not end.is_set():
        draw = rng.random()
        if draw < 0.90:
            writer.write(rng.randrange(1, 30))
        elif draw < 0.94:
            writer.write_half()
        elif draw < 0.97:
            writer.rename(keep=1000)
        else:
            writer.copy_and_truncate(header=rng.random() < 0.5, keep=1000)
        time.sleep(rng.random() * 0.02)


def test_killed_at_random_moments_nothing_is_lost_or_repeated(tmp_path):
    rng = random.Random(0)
    path, store = tmp_path / "log.csv", tmp_path / "store"
    writer = Writer(path)
    writer.write(3)
    said = ""
    with serving(store) as server:
        remember(store)
        first = start_tail(path, server.url, "--once")  # what was rotated before is never read
        said += first.communicate(timeout=60)[1]
        end = threading.Event()
        writing = threading.Thread(target=scribble, args=(writer, random.Random(1), end))
        writing.start()
        for number in range(4):
            process = start_tail(path, server.url)
            time.sleep(0.8 + rng.random())
            if number == 2:
                server.restart()
            process.send_signal(signal.SIGKILL)
            said += process.communicate()[1]
        end.set()
        writing.join()
        writer.write(1)
        last = start_tail(path, server.url, "--once")
        said += last.communicate(timeout=60)[1]
        assert last.returncode == 0, said
        samples = Client(server.url, "s").state()["samples"]
    assert accepted(store) == list(range(writer.n)), said
    assert samples == writer.n > 1000


def test_the_command_learns_labels_and_ends_cleanly(tmp_path, capfdbinary):
    path = tmp_path / "pump.csv"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    with path.open("w") as file:
        file.write("when;u;v;fault\n")
        for i, (u, v) in enumerate(X.tolist()):
            file.write(f"10:{i};{u};{v};{'yes' if u > 0 else 'no'}\n")
    with serving(tmp_path / "store") as server:
        options = ["--stream", "pump", "--url", server.url, "--delimiter", ";", "--target", "fault"]
        code, _, said = run(capfdbinary, "tail", path, *options, "--once")
        assert code == 1
        assert "there is no stream 'pump' (--create classifier creates it)" in said
        made = ["--create", "classifier", "--column", "u", "--column", "v"]
        code, _, said = run(capfdbinary, "tail", path, *options, *made, "--once")
        assert code == 0
        assert "300 rows sent" in said
        code, _, said = run(capfdbinary, "tail", path, *options, "--once")
        assert (code, "0 rows sent" in said) == (0, True)
        client = Client(server.url, "pump").wait()
        assert client.state()["samples"] == 300
        assert (client.predict(X) == np.where(X[:, 0] > 0, "yes", "no")).mean() > 0.9
        process = start_tail(
            path, server.url, "--state", str(tmp_path / "other"), "--delimiter", ";"
        )
        for _ in range(600):  # until it has begun
            if (tmp_path / "other").exists():
                break
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=120)
        assert process.returncode == 130
        assert "stopped; " in said
        assert json.loads((tmp_path / "other").read_text())["stream"] == "s"
    code, _, said = run(capfdbinary, "tail", path, "--stream", "a/b")
    assert (code, "--stream" in said) == (2, True)
    code, _, said = run(capfdbinary, "tail", tmp_path, "--stream", "s")
    assert (code, "this is a folder" in said) == (2, True)
