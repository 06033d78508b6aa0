"""Data files with missing cells: fit, predict, inspect and export on the command line."""

import csv
import json
import re

import numpy as np
import pytest

from commands import run
from dirad import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table with gaps in every column, the target that they belong to, and a model of it."""
    folder = tmp_path_factory.mktemp("gaps")
    rng = np.random.default_rng(0)
    lines = ["age,colour,smoker,income"]
    for _ in range(300):
        age, gap = round(rng.normal(40, 10), 2), rng.uniform() < 0.2
        colour = rng.choice(["red", "blue", ""])
        smoker = rng.choice(["true", "false", ""], p=[0.45, 0.45, 0.1])
        income = (80 if gap else age) + 10 * (colour == "red") + 5 * (smoker == "true")
        lines.append(f"{'' if gap else age},{colour},{smoker},{income:.2f}")
    (folder / "people.csv").write_text("\n".join(lines) + "\n")
    fit = ("fit", folder / "people.csv", "--target", "income", "--quiet", "-o", folder / "m.dirad")
    assert cli.run([str(part) for part in fit]) == 0
    return folder


def predictions(capfdbinary, folder, tmp_path, rows):
    """Return what the model predicts for some rows."""
    data = tmp_path / "new.csv"
    data.write_text("age,colour,smoker\n" + rows)
    code, text, errors = run(capfdbinary, "predict", folder / "m.dirad", data)
    assert (code, errors) == (0, "")
    return [float(row["prediction"]) for row in csv.DictReader(text.splitlines())]


def test_gaps_are_learned_and_predicted(capfdbinary, folder, tmp_path):
    rows = "30,red,true\n,red,false\n30,,false\n,,\n"
    found = predictions(capfdbinary, folder, tmp_path, rows)
    assert found[:3] == pytest.approx([45, 90, 30], abs=1.0)
    assert found[3] == pytest.approx(80, abs=1.0)


def test_inspect_tells_what_becomes_of_gaps(capfdbinary, folder):
    code, text, _ = run(capfdbinary, "inspect", folder / "m.dirad", "--json")
    record = json.loads(text)
    assert code == 0
    becomes = {row["column"]: row["missing values become"] for row in record["Columns"]}
    assert becomes == {"age": "its mean", "colour": "colour=(missing)", "smoker": "its mean"}
    assert "·age is missing" in str(record["Formula"])
    names = {row["input"] for row in record["Inputs that count most"]}
    assert names <= {"age", "colour=blue", "colour=red", "colour=(missing)", "smoker"}
    text = run(capfdbinary, "inspect", folder / "m.dirad", "--inputs", "--json")[1]
    rows = [list(row.values()) for row in json.loads(text)["Inputs"]]
    assert rows == [
        [0, "age", "the number", "NaN"],
        [1, "colour=blue", "1 if colour is 'blue', else 0", 0],
        [2, "colour=red", "1 if colour is 'red', else 0", 0],
        [3, "colour=(missing)", "1 if colour is missing, else 0", 1],
        [4, "smoker", "1 if true, else 0", "NaN"],
    ]


def test_exports_take_gaps(capfdbinary, folder, tmp_path):
    out = tmp_path / "alone.py"
    export = ("export", folder / "m.dirad", "--quiet", "-o", out)
    assert run(capfdbinary, *export, "--to", "python")[0] == 0
    module: dict = {}
    exec(out.read_text(), module)
    assert module["MAY_BE_MISSING"] == ("age", "smoker")
    inputs = [float("nan"), 0.0, 1.0, 0.0, 0.0]
    (expected,) = predictions(capfdbinary, folder, tmp_path, ",red,false\n")
    assert module["predict"](inputs) == pytest.approx(expected, rel=1e-12)
    assert run(capfdbinary, *export, "--to", "c", "--fixed", 16)[0] == 0
    assert "MODEL_MISSING INT32_MIN" in out.read_text()
    assert run(capfdbinary, *export, "--to", "dot")[0] == 0
    assert 'label="age is missing"' in out.read_text()


def test_gaps_are_refused_by_the_paper(capfdbinary, folder, tmp_path):
    fit = ("fit", folder / "people.csv", "--target", "colour", "--preset", "paper")
    code, text, errors = run(capfdbinary, *fit, "-o", tmp_path / "m.dirad")
    assert (code, text) == (1, "")
    assert "column 'age': the value is missing (--impute median" in errors


def test_medians_are_used_on_request(capfdbinary, folder, tmp_path):
    out = tmp_path / "m.dirad"
    fit = ("fit", folder / "people.csv", "--target", "income", "--impute", "median", "-o", out)
    assert run(capfdbinary, *fit, "--max-edges", 2, "--quiet")[0] == 0
    record = json.loads(run(capfdbinary, "inspect", out, "--json")[1])
    becomes = {row["column"]: row["missing values become"] for row in record["Columns"]}
    assert becomes["age"] == pytest.approx(40, abs=2)
    assert becomes["colour"] in ("blue", "red")
    assert record["Model"]["inputs"] == 4


def test_a_fit_in_parts_gives_the_same_network(capfdbinary, folder, tmp_path, monkeypatch):
    out = tmp_path / "m.dirad"
    fit = ("fit", folder / "people.csv", "--target", "income", "--checkpoint-every", 0, "-o", out)
    from dirad.cli import fit as command

    monkeypatch.setattr(command, "STEPS", 200)
    assert run(capfdbinary, *fit, "--quiet")[0] == 0
    again = predictions(capfdbinary, folder, tmp_path, ",,\n50,red,\n")
    (tmp_path / "new.csv").write_text("age,colour,smoker\n,,\n50,red,\n")
    text = run(capfdbinary, "predict", out, tmp_path / "new.csv")[1]
    assert [float(line) for line in text.split()[1:]] == again


def test_the_report_shows_columns_of_the_file(capfdbinary, folder, tmp_path):
    page = tmp_path / "page.html"
    report = ("report", folder / "m.dirad", "--data", folder / "people.csv", "-o", page)
    assert run(capfdbinary, *report, "--quiet")[0] == 0
    text = page.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert "3 of 3</dd><dt>columns used" in text
    by_name = {one["name"]: one for one in data["responses"]["inputs"]}
    assert by_name.keys() == {"age", "colour", "smoker"}
    colour = by_name["colour"]
    assert colour["grid"] == ["blue", "red", "(missing)"]
    blue, red, gap = colour["mean"][0]
    assert red - blue == pytest.approx(10, abs=1.0)
    assert gap == pytest.approx(blue, abs=1.0)
    assert by_name["age"]["grid"][-1] is None
    assert by_name["age"]["mean"][0][-1] > 70
    names = {name for one in data["samples"]["contributions"] for name, _ in one["bars"]}
    assert {"colour = red", "colour ≠ red", "age is missing"} <= names
    assert run(capfdbinary, "report", folder / "m.dirad", "-o", page, "--quiet")[0] == 0
    found = run(capfdbinary, *report, "--shape", "1", "5")
    assert found[0] == 2
    assert "fitted to missing values" in found[2]
