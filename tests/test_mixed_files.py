"""Streams with text columns and missing values in data files, and in a service."""

import csv
import json

import numpy as np
import pytest

from commands import run
from dirad import Client, cli
from dirad.client import ClientError
from dirad.serve.specification import Specification
from dirad.storage import read
from dirad.tables import Encoder
from dirad.tables.fields import Input
from service import serving

COLUMNS = ["t", "colour", "k"]


def rows_of(n, seed=0, *, gaps=0.1, k_gaps=0.0, new=0.0):
    """Return rows of a file, whose label depends on a number in the thousands and a colour."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        t, k = rng.normal(1000, 200), rng.normal()
        colour = ("red", "blue", "green")[i % 3]
        label = "on" if (t > 1000) ^ (colour == "red") else "off"
        there, known, old = rng.random(3) >= (gaps, k_gaps, new)
        found.append([
            f"{t:.1f}" if there else "", colour if old else "violet", f"{k:.3f}" if known else "",
            label,
        ])  # fmt: skip
    return found


def write(path, rows, names=(*COLUMNS, "label")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def fit(data, path, *options):
    command = ["fit", data, "--target", "label", "--continual", "--quiet", "-o", path, *options]
    return cli.run([str(part) for part in command])


@pytest.fixture(scope="module")
def plant(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plant")
    path = folder / "plant.dirad"
    assert fit(write(folder / "day1.csv", rows_of(800)), path) == 0
    return path


@pytest.fixture
def own(plant, tmp_path):
    """A copy of the model for a test."""
    path = tmp_path / "plant.dirad"
    path.write_bytes(plant.read_bytes())
    return path


def test_every_column_can_have_gaps_later(capfdbinary, plant):
    encoding = read(plant).model.encoding_
    assert encoding.indicated.tolist() == [True, False, False, False, False, False, True]
    record = json.loads(run(capfdbinary, "inspect", plant, "--json")[1])
    (colour,) = [row for row in record["Columns"] if row["column"] == "colour"]
    assert colour["becomes"][-2:] == ["colour=(other)", "colour=(missing)"]
    text = run(capfdbinary, "inspect", plant, "--inputs", "--json")[1]
    rows = [row["holds"] for row in json.loads(text)["Inputs"]]
    assert rows[4:6] == ["1 if colour is any other, else 0", "1 if colour is missing, else 0"]


@pytest.mark.parametrize(
    ("change", "name"), [({"new": 1.0}, "colour=(other)"), ({"k_gaps": 1.0}, "k is missing")]
)
def test_a_change_of_categories_or_gaps_is_new(capfdbinary, own, tmp_path, change, name):
    day = write(tmp_path / "day2.csv", rows_of(400, 1, **change))
    code, text, errors = run(capfdbinary, "learn", own, day, "--json")
    assert (code, errors) == (0, "")
    record = json.loads(text)
    assert record["What was recognized"][0]["taken for"] in ("new inputs", "undecided")
    assert f"{name}: 1" in record["Events"][0]
    answers = tmp_path / "answers.csv"
    assert run(capfdbinary, "predict", own, day, "-o", answers, "--novelty", "--quiet")[0] == 0
    with answers.open() as file:
        assert {row["model"] for row in csv.DictReader(file)} == {"1"}


def test_a_file_of_numbers_alone_has_its_columns_as_inputs(capfdbinary, tmp_path):
    numbers = [[t, k, label] for t, _, k, label in rows_of(400, gaps=0.0)]
    day = write(tmp_path / "day.csv", numbers, ["t", "k", "label"])
    assert fit(day, tmp_path / "m.dirad") == 0
    assert read(tmp_path / "m.dirad").model.encoding_.is_identity
    numbers[3][1] = ""
    write(day, numbers, ["t", "k", "label"])
    code, _, errors = run(capfdbinary, "learn", tmp_path / "m.dirad", day)
    assert code == 0
    assert "values are missing for the first time" in errors
    numbers[3][1] = "0.5"
    write(day, numbers, ["t", "k", "label"])
    assert fit(day, tmp_path / "m.dirad", "--gaps") == 0
    assert read(tmp_path / "m.dirad").model.encoding_.indicated.all()
    code, _, errors = run(capfdbinary, "fit", day, "--target", "label", "--gaps")
    assert (code, "--gaps needs --continual" in errors) == (2, True)


def test_parquet_and_csv_lead_to_the_same_model(plant, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = rows_of(800)
    columns = list(zip(*rows, strict=True))
    table = pa.table({
        "t": [float(one) if one else None for one in columns[0]],
        "colour": columns[1],
        "k": [float(one) for one in columns[2]],
        "label": columns[3],
    })  # fmt: skip
    pq.write_table(table, tmp_path / "day1.parquet")
    assert fit(tmp_path / "day1.parquet", tmp_path / "m.dirad") == 0
    X = np.array([[900.0, 0, 1, 0, 0, 0, 0.3], [np.nan, 0, 0, 0, 1, 0, np.nan]])
    found = [read(path).model.predict_proba(X) for path in (plant, tmp_path / "m.dirad")]
    np.testing.assert_array_equal(*found)


def test_an_encoder_of_earlier_files_is_read_as_it_was(plant):
    obj = read(plant).encoder
    for field in obj["inputs"]:
        del field["other"]
    assert not any(field.other for field in Encoder.from_json(obj).inputs)
    with pytest.raises(ValueError, match="input 't': other True"):
        Input("t", "number", other=True)


MIXED = [
    {"name": "t", "gaps": True},
    {"name": "colour", "kind": "category", "categories": ["red", "blue", "green"],
     "gaps": True, "other": True},
    {"name": "k", "gaps": True},
]  # fmt: skip


def test_a_specification_says_what_may_be_missing_or_new():
    one = Specification.from_json({"kind": "classifier", "columns": MIXED})
    assert Specification.of_text(one.text) == one
    assert one.to_json()["columns"][0] == {"name": "t", "kind": "number", "gaps": True}
    assert one.new_learner().missing_features == [0, 6]
    plain = Specification.from_json({"kind": "classifier", "columns": ["u"]})
    assert plain.new_learner().missing_features == "auto"


def test_a_service_takes_gaps_and_new_categories(tmp_path, capfdbinary):
    def sent(rows):
        numbers = [[float(one) if one else None for one in (row[0], row[2])] for row in rows]
        return [[t, row[1], k] for row, (t, k) in zip(rows, numbers, strict=True)]

    first = rows_of(600)
    changed = rows_of(200, 1, new=1.0)
    with serving(tmp_path / "store") as server:
        client = Client(server.url, "plant").create("classifier", MIXED)
        client.partial_fit(sent(first), [row[3] for row in first])
        client.partial_fit(sent(changed), [row[3] for row in changed])
        client.wait()
        (alarm,) = [event for event in client.events() if event["alarm"]]
        assert "colour=(other): 1" in alarm["text"]
        assert set(client.route(sent(changed))) == {1}
        strict = Client(server.url, "strict").create("classifier", COLUMNS[::2])
        with pytest.raises(ClientError, match="the value is missing"):
            strict.partial_fit([[None, 1.0]])
        path = write(tmp_path / "log.csv", [*first[:300], ["", "", "", "on"]])
        command = ("tail", path, "--stream", "tailed", "--url", server.url, "--once", "--create")
        made = ("classifier", "--gaps", "--category", "colour=red,blue")
        code, _, said = run(capfdbinary, *command, *made)
        assert (code, "301 rows sent" in said) == (0, True)
        tailed = Client(server.url, "tailed").wait()
        assert tailed.state()["columns"][1]["categories"] == ["blue", "red"]
        assert tailed.state()["samples"] == 301
        code, _, said = run(capfdbinary, *command, "detector", "--category", "colour")
        assert (code, "as colour=red,blue" in said) == (2, True)
