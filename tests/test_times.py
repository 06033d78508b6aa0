"""The column of times that orders the rows of a stream (`--time`)."""

import csv
import json
import os
import signal
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dirad
from commands import run
from dirad import cli
from dirad.storage.model_file import packed, read
from dirad.tables import (
    Encoder,
    TableError,
    Time,
    in_time_order,
    open_table,
    time_order,
    write_table,
)
from streams import samples

START = datetime(2026, 3, 29)


def table_of(folder, times, name="data.csv"):
    """A file whose column `row` counts its rows."""
    path = folder / name
    path.write_text("t,row\n" + "".join(f"{time},{row}\n" for row, time in enumerate(times)))
    return open_table(path)


def rows(table, size=3):
    return [int(row) for chunk in table.chunks(size) for row in chunk.numbers("row")]


# ------------------------------------------------------------------ tables


@pytest.mark.parametrize(
    ("times", "kind", "order"),
    [
        (["1", "2", "2", "10"], "number", [0, 1, 2, 3]),
        (["10", "2", "-1.5", "2", "1e1"], "number", [2, 1, 3, 0, 4]),
        ([f"{2**60 + 1}", f"{2**60}"], "number", [1, 0]),
        (["2026-03-29", "2026-03-28 23:59:59.5", "2026-03-28"], "date-time", [2, 1, 0]),
        (
            ["2026-03-29T02:30+02:00", "2026-03-29T01:00Z", "2026-03-29T02:30+02:00"],
            "date-time with time zone",
            [0, 2, 1],
        ),
    ],
)
def test_rows_are_sorted_by_time_and_ties_keep_their_order(times, kind, order, tmp_path):
    table = table_of(tmp_path, times)
    time = Time.fit(table, "t")
    assert time.kind == kind
    result = in_time_order(table, time)
    assert rows(result) == rows(result, 100) == order
    assert (result is table) == (order == sorted(order))
    lines = [line for chunk in result.chunks(2) for line in chunk.rows]
    assert lines == [row + 2 for row in order]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["1", "", "3"], "line 3, column 't': the time is missing"),
        (["2026-01-01", "NA"], "line 3, column 't': the time is missing"),
        (["1", "2", "noon"], "line 4, column 't': 'noon' is neither a number nor an ISO 8601"),
        (["1", "inf"], "line 3, column 't': the time is infinite"),
        (["1", "2026-01-01"], "line 3, column 't': 2026-01-01 00:00:00 is a date-time, where"),
        (["2026-01-01", "2026-01-02T00:00Z"], "line 3, .* is a date-time with time zone, where"),
    ],
)
def test_times_that_cannot_be_used_are_named(times, message, tmp_path):
    table = table_of(tmp_path, times)
    with pytest.raises(TableError, match=rf"data\.csv, {message}"):
        in_time_order(table, Time.fit(table, "t"))


def test_a_large_file_is_not_sorted_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(time_order, "MAX_SORTED", 7)
    table = table_of(tmp_path, ["2026-01-02", "2026-01-03", "2026-01-01", "2026-01-04"])
    message = (
        r"data\.csv, line 4, column 't': 2026-01-01 00:00:00 is before 2026-01-03 00:00:00, .*"
        "more than 7 values"
    )
    with pytest.raises(TableError, match=message):
        in_time_order(table, Time.fit(table, "t"))
    table = table_of(tmp_path, range(100))  # in order, it may be as large as it likes
    assert in_time_order(table, Time.fit(table, "t")) is table


def test_types_for_times(tmp_path):
    moments = [START + timedelta(hours=h) for h in (5, 3, 4)]
    zoned = [moment.replace(tzinfo=UTC) for moment in moments]
    columns = {
        "t": pa.array(moments, pa.timestamp("ns")),
        "zoned": pa.array(zoned, pa.timestamp("ms", "Europe/Berlin")),
        "day": pa.array([moment.date() for moment in moments]),
        "some": pa.array([True, None, False]),
        "row": [0, 1, 2],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=2)
    np.savez(tmp_path / "t.npz", t=np.array(moments, "M8[s]"), row=[0, 1, 2])
    for name, column, kind, order in [
        ("t.parquet", "t", "date-time", [1, 2, 0]),
        ("t.parquet", "zoned", "date-time with time zone", [1, 2, 0]),
        ("t.parquet", "day", "date-time", [0, 1, 2]),
        ("t.npz", "t", "date-time", [1, 2, 0]),
    ]:
        table = open_table(tmp_path / name)
        time = Time.fit(table, column)
        assert (time.kind, rows(in_time_order(table, time))) == (kind, order)
    sorted_table = in_time_order(open_table(tmp_path / "t.parquet"), Time("t", "date-time"))
    assert [chunk.texts("some") for chunk in sorted_table.chunks(3)] == [[None, "false", "true"]]
    with pytest.raises(TableError, match="column 't' holds timestamp"):
        Encoder.fit(open_table(tmp_path / "t.parquet"), "row", task="regression")


def test_a_missing_time_of_a_type_for_times_is_named(tmp_path):
    pq.write_table(pa.table({"t": pa.array([START, None]), "row": [0, 1]}), tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", t=np.array([START, "NaT"], "M8[us]"), row=[0, 1])
    np.savez(tmp_path / "n.npz", t=np.array([0.0, np.nan]), row=[0, 1])
    for name in ("t.parquet", "t.npz", "n.npz"):
        table = open_table(tmp_path / name)
        with pytest.raises(TableError, match=rf"{name}, row 2, column 't': the time is missing"):
            in_time_order(table, Time.fit(table, "t"))


def test_the_time_is_no_input(tmp_path):
    (tmp_path / "d.csv").write_text("t,x,y\n3,1,0.5\n1,2,1.5\n2,3,0\n")
    table = open_table(tmp_path / "d.csv")
    encoder = Encoder.fit(table, "y", "regression", time="t")
    assert encoder.feature_names == ("x",)
    assert encoder.ignored(table) == ()
    later = encoder.learned_until(3)
    assert Encoder.from_json(json.loads(json.dumps(later.to_json()))) == later
    old = {key: value for key, value in encoder.to_json().items() if key != "time"}
    assert Encoder.from_json(old).time is None
    for broken in (
        {"name": "x"}, {"name": 3}, {"kind": "year"}, {"last": "soon"}, {"last": True},
        {"last": float("inf")}, {"last": "2026-01-01"}, {"kind": "date-time", "last": 3},
        {"kind": "date-time", "last": "2026-01-01T00:00Z"}, {"more": 1},
    ):  # fmt: skip
        obj = later.to_json()
        obj["time"] |= broken
        with pytest.raises(ValueError, match="not a valid encoder"):
            Encoder.from_json(obj)


# ------------------------------------------------------------------ commands


def write_day(path, task, start, *, order=None, numbers=False):
    """Write 500 rows of a task, two per minute, in this order."""
    X, y = samples(task, 500, seed=3)
    times = [start + timedelta(minutes=i // 2) for i in range(500)]
    columns = {f"sensor {i}": X[:, i] for i in range(X.shape[1])}
    columns["recorded"] = [
        time.timestamp() if numbers else time.isoformat(sep=" ") for time in times
    ]
    columns["fault"] = [f"f{label}" for label in y]
    columns["second"] = [time.isoformat() for time in times]
    order = range(500) if order is None else order
    write_table(path, {name: [values[i] for i in order] for name, values in columns.items()})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two days, the first one also shuffled (but rows of one minute), and a model of it."""
    folder = tmp_path_factory.mktemp("days")
    write_day(folder / "day1.csv", 0, START)
    write_day(folder / "day2.csv", 1, START + timedelta(minutes=249))
    minutes = np.random.default_rng(0).permutation(250)
    write_day(
        folder / "mixed.csv", 0, START, order=[i for m in minutes for i in (2 * m, 2 * m + 1)]
    )
    model = folder / "plant.dirad"
    fit = ["fit", folder / "day1.csv", "--target", "fault", "--continual", "--time", "recorded"]
    fit += ["--drop", "second"]
    assert cli.run([*map(str, fit), "-o", str(model), "--quiet"]) == 0
    return folder


def test_the_order_of_a_file_does_not_matter(capfdbinary, folder, tmp_path):
    fit = ("fit", folder / "mixed.csv", "--target", "fault", "--continual", "--time", "recorded")
    fit += ("--drop", "second")
    code, text, errors = run(capfdbinary, *fit, "-o", tmp_path / "m", "--json")
    assert code == 0
    assert "not in order of recorded" in " ".join(errors.split())
    one, other = read(tmp_path / "m"), read(folder / "plant.dirad")
    assert packed(one.model) == packed(other.model)
    assert one.encoder == other.encoder
    assert one.encoder["time"]["last"] == "2026-03-29T04:09:00"
    assert one.model.n_features_in_ == 16
    spans = json.loads(text)["What was recognized"]
    assert spans[0]["from"] == "2026-03-29 00:00:00"
    assert spans[-1]["until"] == "2026-03-29 03:19:00"  # of the last whole batch


def test_learn_and_predict_find_the_time_by_themselves(capfdbinary, folder, tmp_path):
    plant, path = folder / "plant.dirad", tmp_path / "m"
    code, text, errors = run(capfdbinary, "learn", plant, folder / "day2.csv", "-o", path, "--json")
    assert code == 0, errors  # it may start at the time of the last row
    assert "recorded" not in errors
    assert json.loads(text)["What was recognized"][0]["from"] == "2026-03-29 04:09:00"
    assert read(path).encoder["time"]["last"] == "2026-03-29T08:18:00"
    code, text, errors = run(capfdbinary, "predict", path, folder / "mixed.csv")
    assert (code, "recorded" in errors) == (0, False)
    predicted = [row["prediction"] for row in csv.DictReader(text.splitlines())]
    (chunk,) = open_table(folder / "mixed.csv").chunks()
    assert np.mean([a == b for a, b in zip(predicted, chunk.texts("fault"), strict=True)]) > 0.9
    code, text, _ = run(capfdbinary, "inspect", path, "--json")
    assert json.loads(text)["Model"]["learned until"] == "2026-03-29T08:18:00"


def test_nothing_is_learned_from_the_past(capfdbinary, folder, tmp_path):
    before = (folder / "plant.dirad").read_bytes()
    write_day(tmp_path / "early.csv", 1, START + timedelta(minutes=248))
    write_day(tmp_path / "numbers.csv", 1, START + timedelta(minutes=249), numbers=True)
    lines = (folder / "day2.csv").read_text().splitlines()
    bare = [line.rsplit(",", 3)[0] for line in lines]
    (tmp_path / "bare.csv").write_text("\n".join(bare) + "\n")
    for name, said in [
        ("early.csv", "early.csv, line 2, column 'recorded': 2026-03-29 04:08:00 is before "
                      "2026-03-29 04:09:00, up to which the model has learned"),
        ("numbers.csv", "is a number, where the first time is a date-time"),
        ("bare.csv", "bare.csv: no column 'recorded'"),
    ]:  # fmt: skip
        code, _, errors = run(capfdbinary, "learn", folder / "plant.dirad", tmp_path / name)
        assert (code, said in errors) == (1, True), errors
    assert (folder / "plant.dirad").read_bytes() == before


def test_the_time_may_be_said_later_or_have_another_name(capfdbinary, folder, tmp_path):
    learn = ("learn", tmp_path / "m", tmp_path / "renamed.csv", "--quiet")
    text = (folder / "day2.csv").read_text()
    (tmp_path / "renamed.csv").write_text(text.replace("recorded", "when", 1))
    (tmp_path / "m").write_bytes((folder / "plant.dirad").read_bytes())
    assert run(capfdbinary, *learn)[0] == 1
    for name, said in [("fault", "as the target"), ("sensor 1", "as an input"), ("no", "no col")]:
        code, _, errors = run(capfdbinary, *learn, "--time", name)
        assert (code, said in errors) == (2, True)
    assert run(capfdbinary, *learn, "--time", "when")[0] == 0
    assert read(tmp_path / "m").encoder["time"]["name"] == "when"
    fit = ("fit", folder / "day1.csv", "--target", "fault", "--continual", "-o", tmp_path / "m")
    assert run(capfdbinary, *fit, "--drop", "recorded", "--drop", "second", "--quiet")[0] == 0
    assert read(tmp_path / "m").encoder["time"] is None
    assert run(capfdbinary, *learn, "--time", "when")[0] == 0
    assert read(tmp_path / "m").encoder["time"]["last"] == "2026-03-29T08:18:00"


def test_a_sorted_stream_can_be_resumed(capfdbinary, folder, tmp_path, monkeypatch):
    plant = tmp_path / "m"
    plant.write_bytes((folder / "plant.dirad").read_bytes())
    learn = ("learn", plant, tmp_path / "day2.csv", "--quiet")
    write_day(tmp_path / "day2.csv", 1, START + timedelta(days=1), order=range(499, -1, -1))
    assert run(capfdbinary, *learn)[0] == 0
    whole = plant.read_bytes()
    plant.write_bytes((folder / "plant.dirad").read_bytes())

    learned, calls = dirad.PREVALClassifier.partial_fit, []

    def interrupted(self, X, y):
        calls.append(self)
        if len(calls) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return learned(self, X, y)

    with monkeypatch.context() as patch:
        patch.setattr(dirad.PREVALClassifier, "partial_fit", interrupted)
        assert run(capfdbinary, *learn)[0] == 130
    code, _, errors = run(capfdbinary, *learn, "--time", "second", "--resume")
    assert (code, "with another --time" in errors) == (2, True)
    assert run(capfdbinary, *learn, "--resume")[0] == 0
    assert plant.read_bytes() == whole


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--time", "recorded"), "--time needs --continual"),
        (("--continual", "--time", "fault"), "--time fault: this is the target"),
        (("--continual", "--time", "hour"), "--time: "),
        (("--continual", "--time", "recorded", "--category", "recorded"), "--category recorded"),
    ],
)
def test_options_that_make_no_sense(capfdbinary, folder, tmp_path, options, said):
    fit = ("fit", folder / "day1.csv", "--target", "fault", "-o", tmp_path / "m")
    code, _, errors = run(capfdbinary, *fit, *options)
    assert (code, said in errors) == (2, True)
