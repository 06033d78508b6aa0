"""Commands on data and model files: every one that the help shows, on real data."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

import dirad
from commands import DIRAD, run
from dirad import cli
from dirad.storage.model_file import packed, read
from dirad.tables import open_table, write_table
from streams import samples


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with flowers.csv, houses.parquet and a stream of three days."""
    folder = tmp_path_factory.mktemp("data")
    iris = load_iris()
    order = np.random.default_rng(0).permutation(150)
    names = np.array(["setosa", "versicolor", "virginica"])
    columns = {
        "sepal length": iris.data[order, 0],
        "sepal width": iris.data[order, 1],
        "petal length": iris.data[order, 2],
        "petal width": iris.data[order, 3],
        "garden": np.array(["north", "south", "east"])[np.arange(150) % 3],
        "species": names[iris.target[order]],
    }
    write_table(folder / "flowers.csv", columns)
    diabetes = load_diabetes()
    table = dict(zip(diabetes.feature_names, diabetes.data.T, strict=True))
    write_table(folder / "patients.parquet", table | {"progress": diabetes.target})
    for name, task in (("day1", 0), ("day2", 1), ("day3", 0)):
        X, y = samples(task, 800, seed=len(name) + task)
        inputs = {f"sensor {i}": X[:, i] for i in range(X.shape[1])}
        write_table(folder / f"{name}.csv", inputs | {"fault": [f"f{label}" for label in y]})
    return folder


@pytest.fixture(scope="module")
def flowers(folder):
    """A model of the flowers."""
    path = folder / "flowers.dirad"
    command = ["fit", folder / "flowers.csv", "--target", "species", "-o", path, "--quiet"]
    assert cli.run([*map(str, command), "--max-edges", "12"]) == 0
    return path


@pytest.fixture(scope="module")
def plant(folder):
    """A continual model that saw two days."""
    path = folder / "plant.dirad"
    command = ["fit", folder / "day1.csv", "--target", "fault", "--continual", "-o", path]
    assert cli.run([*map(str, command), "--quiet"]) == 0
    assert cli.run(["learn", str(path), str(folder / "day2.csv"), "--finish", "--quiet"]) == 0
    return path


# ------------------------------------------------------------------ fit, predict, inspect


def test_fit_tells_what_was_grown(capfdbinary, folder, tmp_path):
    path = tmp_path / "model.dirad"
    code, text, _ = run(
        capfdbinary, "fit", folder / "flowers.csv", "--target", "species", "-o", path, "--json"
    )
    assert code == 0
    found = json.loads(text)["What was grown"]
    assert found["task"] == "classification"
    assert (found["rows"], found["test rows"], found["inputs"]) == (120, 30, 7)
    assert found["test accuracy"] > 0.85
    assert not list(tmp_path.glob("*.checkpoint"))
    assert read(path).provenance["seed"] == 0


def test_the_same_seed_gives_the_same_file(capfdbinary, folder, flowers, tmp_path):
    again = tmp_path / "again.dirad"
    code, _, errors = run(
        capfdbinary, "fit", folder / "flowers.csv", "--target", "species", "-o", again,
        "--max-edges", 12, "--quiet",
    )  # fmt: skip
    assert (code, errors) == (0, "")
    assert again.read_bytes() == flowers.read_bytes()


def test_numbers_are_regressed(capfdbinary, folder, tmp_path):
    path, answers = tmp_path / "p.dirad", tmp_path / "answers.csv"
    data = folder / "patients.parquet"
    code, text, _ = run(
        capfdbinary, "fit", data, "--target", "progress", "--max-edges", 12, "-o", path, "--json"
    )
    assert code == 0
    assert json.loads(text)["What was grown"]["test R²"] > 0.2
    code, text, _ = run(capfdbinary, "predict", path, data, "-o", answers, "--json")
    assert code == 0
    found = json.loads(text)["Answers"]
    predicted = open_table(answers)
    values = np.concatenate([chunk.numbers("prediction") for chunk in predicted.chunks()])
    true = load_diabetes().target
    r2 = 1 - np.sum((values - true) ** 2) / np.sum((true - true.mean()) ** 2)
    assert found["R²"] == pytest.approx(r2)
    assert found["RMSE"] == pytest.approx(np.sqrt(np.mean((values - true) ** 2)))
    model = dirad.load(path)
    assert np.array_equal(values, model.predict(load_diabetes().data))


def test_predict_writes_answers_and_chances(capfdbinary, folder, flowers):
    code, text, errors = run(capfdbinary, "predict", flowers, folder / "flowers.csv", "--proba")
    assert code == 0
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 150
    assert list(rows[0]) == ["prediction", "p(setosa)", "p(versicolor)", "p(virginica)"]
    for row in rows:
        chances = {name: float(row[f"p({name})"]) for name in ("setosa", "versicolor", "virginica")}
        assert max(chances, key=chances.get) == row["prediction"]
    assert "accuracy" in errors


def test_columns_are_found_by_name(capfdbinary, folder, flowers, tmp_path):
    table = open_table(folder / "flowers.csv")
    chunk = next(iter(table.chunks()))
    turned = {name: chunk.values(name) for name in reversed(table.names) if name != "species"}
    write_table(tmp_path / "turned.csv", turned | {"extra": [1] * 150})
    one = run(capfdbinary, "predict", flowers, folder / "flowers.csv")
    other = run(capfdbinary, "predict", flowers, tmp_path / "turned.csv")
    assert one[0] == other[0] == 0
    assert one[1] == other[1]
    assert "ignored columns" in other[2]
    assert "extra" in other[2]


def test_inspect_tells_all_that_counts(capfdbinary, folder, flowers):
    code, text, _ = run(capfdbinary, "inspect", flowers, "--data", folder / "flowers.csv", "--json")
    assert code == 0
    found = json.loads(text)
    assert found["Model"]["classes"] == ["setosa", "versicolor", "virginica"]
    assert [row["becomes"] for row in found["Columns"]][4] == [
        "garden=east", "garden=north", "garden=south",
    ]  # fmt: skip
    assert found["Model"]["edges"] <= 12
    assert found["Model"]["test accuracy"] > 0.85
    assert found[f"On {folder / 'flowers.csv'}"]["rows"] == 150
    names = {row["input"] for row in found["Inputs that count most"]}
    assert names & {"petal length", "petal width"}
    assert any("petal" in row["equation"] for row in found["Formula"])
    assert run(capfdbinary, "inspect", flowers)[0] == 0


# ------------------------------------------------------------------ streams


def test_learn_says_what_was_known_and_what_was_new(capfdbinary, folder, plant, tmp_path):
    path = tmp_path / "third.dirad"
    code, text, _ = run(
        capfdbinary, "learn", plant, folder / "day3.csv", "-o", path, "--finish", "--json"
    )
    assert code == 0
    found = json.loads(text)
    first, *rest = [row["taken for"] for row in found["What was recognized"]]
    assert (first, set(rest)) == ("back", {"known"})
    assert {row["model"] for row in found["What was recognized"]} == {0}
    assert found["Answers before learning"]["accuracy"] > 0.9
    model = dirad.load(path)
    assert [one.phase for one in model.models_] == ["stable", "stable"]
    assert [entry["file"] for entry in read(path).provenance["data"]] == [
        "day1.csv", "day2.csv", "day3.csv",
    ]  # fmt: skip


def test_a_continual_model_tells_who_answers(capfdbinary, folder, plant):
    code, text, _ = run(capfdbinary, "predict", plant, folder / "day2.csv", "--novelty")
    assert code == 0
    rows = list(csv.DictReader(text.splitlines()))
    assert np.mean([row["model"] == "1" for row in rows]) > 0.9
    assert np.mean([float(row["novelty"]) for row in rows]) < 1
    assert np.mean([row["known"] == "true" for row in rows]) > 0.85
    assert run(capfdbinary, "inspect", plant)[0] == 0


def test_labels_may_be_missing(capfdbinary, folder, plant, tmp_path):
    text = (folder / "day3.csv").read_text().splitlines()
    bare = [line.rsplit(",", 1)[0] for line in text]
    (tmp_path / "bare.csv").write_text("\n".join(bare) + "\n")
    code, text, _ = run(
        capfdbinary, "learn", plant, tmp_path / "bare.csv", "-o", tmp_path / "m", "--json"
    )
    assert code == 0
    assert {row["model"] for row in json.loads(text)["What was recognized"]} == {0}


def test_a_stream_is_brought_to_its_end_without_more_rows(capfdbinary, folder, tmp_path):
    path = tmp_path / "young.dirad"
    data = folder / "day1.csv"
    fit = ("fit", data, "--target", "fault", "--continual", "--quiet", "-o", path)
    assert run(capfdbinary, *fit)[0] == 0
    code, _, errors = run(capfdbinary, "export", path, "--to", "c")
    assert code == 2
    assert f"dirad learn {path} --finish" in errors
    assert run(capfdbinary, "learn", path)[0] == 2
    assert run(capfdbinary, "learn", path, "--finish", "--quiet")[0] == 0
    assert run(capfdbinary, "export", path, "--to", "c", "-o", tmp_path / "m.h")[0] == 0
    assert run(capfdbinary, *fit, "--finish")[0] == 0
    assert dirad.load(path).models_[0].phase == "stable"


def test_a_reader_who_has_seen_enough_is_no_failure(folder, flowers):
    command = " ".join(["dirad() { " + f"{sys.executable} -c 'from dirad.cli import main; main()'",
                        '"$@"; }; set -o pipefail;'])  # fmt: skip
    for part in (
        f"dirad inspect {flowers} | true",
        f"dirad predict {flowers} {folder}/flowers.csv | head -1",
    ):
        done = subprocess.run(["bash", "-c", f"{command} {part}"], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr


# ------------------------------------------------------------------ export and report


@pytest.mark.parametrize("to", ["c", "onnx", "python", "formula", "dot", "svg"])
def test_every_export_is_written(capfdbinary, flowers, tmp_path, to):
    path = tmp_path / "exported"
    code, text, errors = run(capfdbinary, "export", flowers, "--to", to, "-o", path, "--json")
    assert code == 0, errors
    assert json.loads(text)["Export"]["bytes"] == path.stat().st_size > 100


@pytest.mark.parametrize("to", ["arduino", "zephyr"])
@pytest.mark.parametrize("output", ["flowers", "flowers.zip"])
def test_a_library_is_a_new_folder_or_a_zip_file(capfdbinary, flowers, tmp_path, to, output):
    path = tmp_path / output
    options = ("--to", to, "--name", "flowers", "--fixed", 16, "-o", path)
    code, text, errors = run(capfdbinary, "export", flowers, *options, "--json")
    assert code == 0, errors
    found = json.loads(text)["Export"]
    assert found["library"] == str(path)
    assert 0 < found["largest error within the ranges"] < 0.1
    if path.is_dir():
        assert found["files"] == sum(one.is_file() for one in path.rglob("*"))
        assert (path / "src" / "flowers.h").exists()
        code, _, errors = run(capfdbinary, "export", flowers, *options)
        assert code == 2
        assert f"--output {path}: this folder is not empty: name a new one" in errors
    else:
        assert zipfile.is_zipfile(path)


def test_fixed_point_states_its_error(capfdbinary, flowers, tmp_path):
    path = tmp_path / "fixed.h"
    code, text, _ = run(
        capfdbinary, "export", flowers, "--to", "c", "--fixed", 16, "-o", path, "--json"
    )  # fmt: skip
    assert code == 0
    assert 0 < json.loads(text)["Export"]["largest error within the ranges"] < 0.1


@pytest.mark.parametrize("fixed", [(), ("--fixed", 16), ("--fixed", 32)])
def test_a_continual_model_is_exported_with_its_novelty(
    capfdbinary, folder, plant, tmp_path, fixed
):
    path, given = tmp_path / "plant.h", ("--calibrate", folder / "day2.csv")
    for more in ((), (*given, "--false-alarms", "0.02")):
        arguments = (plant, "--to", "c", *fixed, *more, "-o", path, "--json")
        code, text, errors = run(capfdbinary, "export", *arguments)
        assert code == 0, errors
        assert "int model_is_known(const" in path.read_text()
        rate = "0.02f" if more else "0.05f"
        assert f"#define MODEL_FALSE_ALARMS {rate}\n" in path.read_text()
        share = json.loads(text)["Export"].get("share of rows that another model answers")
        assert (share is not None) == bool(more and fixed)
        assert share is None or share < 0.02


def test_a_network_that_learns_is_exported(capfdbinary, flowers, tmp_path):
    path = tmp_path / "learn.h"
    arguments = (flowers, "--to", "c", "--learn", "--name", "flower", "-o", path)
    code, _, errors = run(capfdbinary, "export", *arguments)
    assert code == 0, errors
    assert "static dirad_network flower =" in path.read_text()
    assert "static inline int dirad_step(" in path.read_text()


def test_an_exported_module_answers_like_the_model(capfdbinary, folder, flowers):
    code, text, _ = run(capfdbinary, "export", flowers, "--to", "python")
    assert code == 0
    space = {}
    exec(compile(text, "exported", "exec"), space)
    found = read(flowers)
    X = np.random.default_rng(0).uniform(0, 8, (50, 7))
    expected = found.model.predict_proba(X)
    assert np.allclose([space["predict_proba"](row.tolist()) for row in X], expected, atol=1e-9)


def test_the_report_is_one_page(capfdbinary, folder, flowers, plant, tmp_path):
    for model, data in ((flowers, "flowers.csv"), (plant, "day2.csv")):
        path = tmp_path / "report.html"
        code, _, errors = run(capfdbinary, "report", model, "--data", folder / data, "-o", path)
        assert code == 0, errors
        text = path.read_text()
        assert text.startswith("<!")
        assert "http://" not in text.split("<body")[0]


# ------------------------------------------------------------------ errors


def test_errors_name_file_column_and_option(capfdbinary, folder, flowers, plant, tmp_path):
    bad = tmp_path / "bad.csv"
    lines = (folder / "flowers.csv").read_text().splitlines()
    cells = lines[3].split(",")
    wrong = {
        "text.csv": ",".join(["tall", *cells[1:]]),
        "category.csv": ",".join([*cells[:4], "moon", cells[5]]),
    }
    for name, line in wrong.items():
        (tmp_path / name).write_text("\n".join([*lines[:3], line, *lines[4:]]) + "\n")
    (tmp_path / "narrow.csv").write_text("a,b\n1,2\n")
    (tmp_path / "one.csv").write_text("a,b\n" + "".join(f"{i},x\n" for i in range(20)))
    bad.write_bytes(b"\x00\x01")
    csv_file, day = folder / "flowers.csv", folder / "day1.csv"
    stream = ("fit", day, "--target", "fault", "--continual")
    before = csv_file.read_bytes(), day.read_bytes(), flowers.read_bytes(), plant.read_bytes()
    for arguments, code, said in [
        (("fit", tmp_path / "no.csv", "--target", "y"), 1, "no.csv"),
        (("fit", csv_file, "--target", "colour"), 2, "colour"),
        (("fit", csv_file), 2, "--target"),
        (("fit", tmp_path / "one.csv", "--target", "b"), 1, "column 'b'"),
        (("fit", csv_file, "--target", "species", "--finish"), 2, "--finish"),
        (("fit", csv_file, "--target", "species", "-o", tmp_path), 2, "this is a folder"),
        (("export", flowers, "--to", "c", "-o", tmp_path), 2, "this is a folder"),
        (("report", flowers, "-o", tmp_path), 2, "this is a folder"),
        (("fit", csv_file, "--target", "species", "--drop", "roof"), 2, "--drop: "),
        (("fit", csv_file, "--target", "species", "--begin", "50"), 2, "--begin"),
        (("fit", csv_file, "--target", "species", "--test", "1"), 2, "--test"),
        (("fit", csv_file, "--target", "species", "-o", tmp_path / "a" / "b"), 2, "--output"),
        (("fit", csv_file, "--target", "species", "--resume"), 2, "--resume"),
        (("fit", csv_file, "--target", "species", "-o", csv_file), 2, "this file is an input"),
        (("fit", csv_file, "--target", "species", "--drop", "species"), 2, "--drop species"),
        ((*stream, "--max-edges", "3"), 2, "--max-edges"),
        ((*stream, "--task", "regression"), 1, "--task classification"),
        ((*stream, "--test", "0.3"), 2, "--test"),
        ((*stream, "--preset", "paper"), 2, "--preset paper"),
        (("predict", flowers, csv_file, "-o", csv_file), 2, "this file is an input"),
        (("predict", flowers, csv_file, "-o", flowers), 2, "this file is an input"),
        (("learn", plant, day, "-o", day), 2, "this file is an input"),
        (("export", flowers, "--to", "c", "-o", flowers), 2, "this file is an input"),
        (("report", flowers, "-o", flowers), 2, "this file is an input"),
        (("report", flowers, "--data", csv_file, "-o", csv_file), 2, "this file is an input"),
        (("predict", tmp_path / "no.dirad", csv_file), 1, "no.dirad"),
        (("predict", csv_file, csv_file), 1, "flowers.csv"),
        (("predict", flowers, tmp_path / "narrow.csv"), 1, "'sepal length', 'sepal width'"),
        (("predict", flowers, tmp_path / "text.csv"), 1, "'tall'"),
        (("predict", flowers, tmp_path / "category.csv"), 1, "'moon'"),
        (("predict", flowers, csv_file, "--novelty"), 2, "--novelty"),
        (("predict", flowers, csv_file, "-o", tmp_path / "out.xls"), 1, "out.xls"),
        (("learn", flowers, csv_file), 2, "--continual"),
        (("learn", plant, csv_file), 1, "sensor 0"),
        (("export", flowers, "--to", "rust"), 2, "--to"),
        (("export", flowers, "--to", "onnx"), 2, "--output"),
        (("export", flowers, "--to", "arduino"), 2, "a new folder or a zip file"),
        (("export", flowers, "--to", "zephyr", "-o", flowers), 2, "a file already"),
        (("export", flowers, "--to", "dot", "--fixed", "16"), 2, "--fixed"),
        (("report", flowers, "--shape", "3", "3"), 2, "--shape"),
        (("inspect", bad), 1, "bad.csv"),
    ]:
        found, text, errors = run(capfdbinary, *arguments)
        assert found == code, (arguments, errors)
        assert said in errors, (arguments, errors)
        assert errors.startswith("dirad: ")
        assert errors.count("\n") == 1
        assert not text
        if code == 2:
            assert f"see dirad {arguments[0]} --help" in errors
    assert "line 4" in run(capfdbinary, "predict", flowers, tmp_path / "text.csv")[2]
    after = csv_file.read_bytes(), day.read_bytes(), flowers.read_bytes(), plant.read_bytes()
    assert after == before


def test_unseen_categories_may_be_zero(capfdbinary, folder, flowers, tmp_path):
    text = (folder / "flowers.csv").read_text().replace("north", "moon")
    (tmp_path / "moon.csv").write_text(text)
    code, _, _ = run(capfdbinary, "predict", flowers, tmp_path / "moon.csv", "--unseen", "zero")
    assert code == 0


# ------------------------------------------------------------------ stopped and killed


def fit_command(folder, path, *more):
    data = folder / "flowers.csv"
    return [*DIRAD, "fit", data, "--target", "species", "-o", path, "--checkpoint-every", "0",
            "--quiet", *more]  # fmt: skip


def test_ctrl_c_leaves_a_checkpoint_that_goes_on(folder, tmp_path):
    path = tmp_path / "model.dirad"
    checkpoint = tmp_path / "model.dirad.checkpoint"
    process = subprocess.Popen(fit_command(folder, path), stderr=subprocess.PIPE)
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    if process.returncode == 0:
        pytest.skip("the fit was faster than the signal")
    assert process.returncode == 130
    assert b"--resume continues" in errors
    assert not path.exists()
    assert dirad.load(checkpoint).predict([[5, 3, 1, 0.2, 0, 0, 1]])[0] == "setosa"
    subprocess.run(fit_command(folder, path, "--resume"), check=True)
    subprocess.run(fit_command(folder, tmp_path / "whole"), check=True)
    assert path.read_bytes() == (tmp_path / "whole").read_bytes()
    assert not checkpoint.exists()


@pytest.mark.slow
def test_killed_at_twenty_random_moments_the_network_is_the_same(folder, tmp_path):
    """Every kill falls into the growing: after a checkpoint that this very process wrote."""
    path, rng = tmp_path / "model.dirad", np.random.default_rng(0)
    checkpoint = tmp_path / "model.dirad.checkpoint"
    subprocess.run(fit_command(folder, tmp_path / "whole"), check=True)
    whole = (tmp_path / "whole").read_bytes()

    def last_written():
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    steps = []  # of the network in the checkpoint that a killed process left
    while len(steps) < 20:
        again, before = ["--resume"] if checkpoint.exists() else [], last_written()
        process = subprocess.Popen(fit_command(folder, path, *again))
        while last_written() == before and process.poll() is None:
            time.sleep(0.001)
        time.sleep(float(rng.exponential(0.02)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if path.exists():  # it was faster: the same file, and all over again
            assert path.read_bytes() == whole
            path.unlink()
            continue
        steps.append(dirad.load(checkpoint).n_steps_)
    assert len(set(steps)) > 5, steps
    subprocess.run(fit_command(folder, path, "--resume"), check=True)
    assert path.read_bytes() == whole


def test_a_stopped_stream_goes_on(capfdbinary, folder, tmp_path, monkeypatch):
    whole, path = tmp_path / "whole.dirad", tmp_path / "model.dirad"
    command = ["fit", folder / "day1.csv", "--target", "fault", "--continual", "--quiet", "-o"]
    assert run(capfdbinary, *command, whole)[0] == 0
    partial_fit = dirad.PREVALClassifier.partial_fit
    calls = []

    def interrupted(self, X, y=None, classes=None):
        calls.append(len(X))
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return partial_fit(self, X, y, classes)

    monkeypatch.setattr(dirad.PREVALClassifier, "partial_fit", interrupted)
    code, _, errors = run(capfdbinary, *command, path)
    assert code == 130
    assert "after row 600" in errors
    assert not path.exists()
    assert run(capfdbinary, *command, path, "--resume")[0] == 0
    assert packed(dirad.load(path)) == packed(dirad.load(whole))


# ------------------------------------------------------------------ streams of a few rows


def first_rows(source, path, n, first=0):
    lines = source.read_text().splitlines(keepends=True)
    path.write_text("".join([lines[0], *lines[1 + first : 1 + first + n]]))
    return path


def test_rows_that_fill_no_batch_are_told(capfdbinary, folder, tmp_path):
    few, model = first_rows(folder / "day1.csv", tmp_path / "few.csv", 150), tmp_path / "few.dirad"
    fit = ["fit", few, "--target", "fault", "--continual", "-o", model]
    code, text, _ = run(capfdbinary, *fit)
    assert code == 0
    assert "rows that wait for a batch" in text
    assert "150" in text
    code, _, errors = run(capfdbinary, "predict", model, few)
    assert code == 2
    assert f"{model} has no model yet: 150 rows wait" in errors
    code, text, _ = run(capfdbinary, *fit, "--finish", "--json")
    told = json.loads(text)
    assert told["What was recognized"][0]["rows"] == "0–149"
    assert "Not learned yet" not in told
    assert any("opened" in event for event in told["Events"])
    assert run(capfdbinary, "predict", model, few)[0] == 0


def test_smaller_batches_for_short_tasks(capfdbinary, folder, tmp_path):
    model = tmp_path / "short.dirad"
    day1 = first_rows(folder / "day1.csv", tmp_path / "1.csv", 150)
    day2 = first_rows(folder / "day2.csv", tmp_path / "2.csv", 150)
    sizes = ["--batch-size", 25, "--begin", 100]
    fit = ["fit", day1, "--target", "fault", "--continual", "-o", model, "--quiet"]
    assert run(capfdbinary, *fit, *sizes)[0] == 0
    code, text, _ = run(capfdbinary, "learn", model, day2, "--json")
    assert code == 0
    assert json.loads(text)["What was recognized"][0]["taken for"] == "new inputs"
    assert len(json.loads(text)["Models"]) == 2


def test_rows_are_answered_by_what_was_learned_before_them(capfdbinary, folder, tmp_path):
    """However the rows of a stream are cut into files."""
    answers = []
    for cuts in ([360], [40, 320], [240, 120]):
        model = tmp_path / "cut.dirad"
        start = first_rows(folder / "day1.csv", tmp_path / "start.csv", 360)  # 160 wait
        fit = ["fit", start, "--target", "fault", "--continual", "-o", model, "--quiet"]
        assert run(capfdbinary, *fit)[0] == 0
        right = first = 0
        for n in cuts:
            part = first_rows(folder / "day2.csv", tmp_path / "part.csv", n, first)
            told = json.loads(run(capfdbinary, "learn", model, part, "--json")[1])
            right += round(told["Answers before learning"]["accuracy"] * n)
            first += n
        answers.append(right)
    assert answers[0] == answers[1] == answers[2]
    assert answers[0] > 60  # the last of them are answered by a model that learned such rows


# ------------------------------------------------------------------ what is said of exports


def test_export_without_graphviz_is_one_line(capfdbinary, flowers, monkeypatch):
    monkeypatch.setenv("PATH", "")
    code, text, errors = run(capfdbinary, "export", flowers, "--to", "svg")
    assert (code, text) == (1, "")
    assert errors.startswith("dirad: this export needs the program `dot` of Graphviz")
    assert errors.count("\n") == 1


def test_export_errors_name_the_option(capfdbinary, flowers, plant):
    for arguments, said in [
        ((plant, "--to", "formula"), "--number: choose one of the models 0, 1"),
        ((plant, "--to", "dot"), "--number: choose one of the models 0, 1"),
        ((plant, "--to", "svg", "--number", "7"), "--number 7: the models are 0, 1"),
        ((flowers, "--to", "svg", "--number", "0"), "--number"),
        ((plant, "--to", "c", "--learn"), "--learn is for a single network"),
        ((flowers, "--to", "c", "--learn", "--fixed", "16"), "--learn is for floating point"),
        ((flowers, "--to", "python", "--learn"), "--learn is for --to c"),
        ((plant, "--to", "c", "--false-alarms", "1"), "--false-alarms: must be between 0 and 1"),
        ((plant, "--to", "dot", "--number", "0", "--false-alarms", "0.1"), "--false-alarms is"),
        (
            (flowers, "--to", "c", "--false-alarms", "0.1"),
            "--false-alarms is for a continual model",
        ),
        (
            (flowers, "--to", "c", "--calibrate", flowers),
            "--calibrate is for a continual model, in C",
        ),
        ((flowers, "--to", "zephyr", "-o", "m", "--bytes", "900"), "--bytes is for --to c"),
        ((flowers, "--to", "c", "--name", "9 bad"), "--name: must be letters, digits and _"),
        ((flowers, "--to", "python", "--name", "good"), "--name is for C"),
        (
            (flowers, "--to", "arduino", "--name", "Arduino", "-o", "m.zip"),
            "--to arduino: the name",
        ),
        ((flowers, "--to", "c", "--low", "0"), "--low is for fixed point"),
        ((flowers, "--to", "onnx", "-o", "m.onnx", "--high", "9"), "--high is for fixed point"),
        ((flowers, "--to", "c", "--fixed", "16", "--low", "3"), "--low is 3, but an input ends at"),
        (
            (flowers, "--to", "c", "--bytes", "900", "--low", "3", "--high", "1"),
            "--low is 3, but --high is 1",
        ),
        ((flowers, "--to", "c", "--bytes", "900", "--learn"), "--learn is for numbers in float"),
        ((flowers, "--to", "c", "--fixed", "16", "--high", "nan"), "--high: must be a finite"),
        ((flowers, "--to", "c", "--fixed", "16", "--high", "1e12"), "--fixed 16: a value of"),
        ((flowers, "--to", "c", "--fixed", "16", "--high", "3e4"), "--fixed 16: probabilities may"),
    ]:
        code, text, errors = run(capfdbinary, "export", *arguments)
        assert (code, text) == (2, ""), (arguments, errors)
        assert errors.startswith(f"dirad: {said}"), errors
        assert "ValueError" not in errors
        assert "None" not in errors


def test_export_to_onnx_tells_its_ends(capfdbinary, flowers, tmp_path):
    path = tmp_path / "m.onnx"
    code, text, _ = run(capfdbinary, "export", flowers, "--to", "onnx", "-o", path, "--json")
    assert code == 0
    found = json.loads(text)["Export"]
    assert found["input X"] == "float64, samples × 7"
    assert found["output label"] == "string, samples"
    assert found["output probabilities"] == "float64, samples × 3"


def test_every_input_is_listed_in_order(capfdbinary, flowers, tmp_path):
    code, text, _ = run(capfdbinary, "export", flowers, "--to", "c", "-o", tmp_path / "m.h")
    assert code == 0
    assert f"dirad inspect {flowers} --inputs" in text
    code, text, _ = run(capfdbinary, "inspect", flowers, "--inputs", "--json")
    assert code == 0
    rows = json.loads(text)["Inputs"]
    assert [row["place"] for row in rows] == list(range(7))
    assert [row["input"] for row in rows][3:5] == ["petal width", "garden=east"]
    assert rows[4]["holds"] == "1 if garden is 'east', else 0"
    bare = tmp_path / "bare.dirad"
    dirad.save(dirad.load(flowers), bare)
    code, text, _ = run(capfdbinary, "inspect", bare, "--inputs", "--json")
    assert code == 0
    assert len(json.loads(text)["Inputs"]) == 7


def test_many_categories_are_listed_and_many_numbers_folded(capfdbinary, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(0, 1, (300, 20))
    columns = {f"p{i}": X[:, i] for i in range(20)} | {
        "code": [f"c{i % 40:02}" for i in range(300)]
    }
    write_table(tmp_path / "wide.csv", columns | {"y": X[:, 0] * 2})
    path = tmp_path / "wide.dirad"
    fit = ("fit", tmp_path / "wide.csv", "--target", "y", "--max-edges", 3, "-o", path, "--quiet")
    assert run(capfdbinary, *fit)[0] == 0
    code, text, _ = run(capfdbinary, "inspect", path)
    assert code == 0
    lines = text[text.index("Columns") : text.index("Inputs that count")].splitlines()
    assert any("p2 " in line for line in lines)
    assert not any("p3 " in line for line in lines)
    assert any("… p19: 17 more" in line for line in lines)
    code, text, _ = run(capfdbinary, "inspect", path, "--inputs")
    assert code == 0
    assert all(f"code=c{i:02} " in text for i in range(40))
    assert all(f"p{i} " in text for i in range(20))
    code, text, _ = run(capfdbinary, "inspect", path, "--json")
    assert len(json.loads(text)["Columns"]) == 21


def test_what_has_no_model_yet_says_what_to_do(capfdbinary, folder, tmp_path):
    few, path = first_rows(folder / "day1.csv", tmp_path / "few.csv", 20), tmp_path / "few.dirad"
    fit = ("fit", few, "--target", "fault", "--continual", "-o", path, "--quiet")
    assert run(capfdbinary, *fit)[0] == 0
    for command in (("export", path, "--to", "c"), ("report", path, "-o", tmp_path / "r.html")):
        code, _, errors = run(capfdbinary, *command)
        assert code == 2
        assert "has no model yet: 20 rows wait for a batch of 200" in errors
        assert f"dirad learn {path} --finish" in errors


def test_a_page_of_some_rows_tells_of_the_whole_file(
    capfdbinary, folder, flowers, tmp_path, monkeypatch
):
    monkeypatch.setattr("dirad.cli.report.SAMPLES", 50)
    data, page = folder / "flowers.csv", tmp_path / "r.html"
    assert run(capfdbinary, "report", flowers, "--data", data, "-o", page, "--quiet")[0] == 0
    said = "50 samples: the model was fitted to 120 of the 150 rows of this file<"
    assert said in page.read_text()


def test_rows_that_were_fitted_to_are_told(capfdbinary, folder, flowers, plant, tmp_path):
    data, page = folder / "flowers.csv", tmp_path / "r.html"
    code, text, _ = run(capfdbinary, "inspect", flowers, "--data", data)
    assert code == 0
    assert "The model was fitted to 120 of these rows." in text
    code, text, _ = run(capfdbinary, "inspect", flowers, "--data", data, "--json")
    assert json.loads(text)[f"On {data}"]["rows fitted to"] == 120
    held_out = json.loads(text)["Model"]["test accuracy"]
    lines = data.read_text().splitlines()
    other = tmp_path / "other.csv"
    other.write_text("\n".join(lines[:100]) + "\n")
    code, text, _ = run(capfdbinary, "inspect", flowers, "--data", other, "--json")
    assert "rows fitted to" not in json.loads(text)[f"On {other}"]
    for given, said in (
        (data, "150 samples: the model was fitted to 120 of these rows<"),
        (other, "99 samples<"),
    ):
        assert run(capfdbinary, "report", flowers, "--data", given, "-o", page, "--quiet")[0] == 0
        html = page.read_text()
        assert said in html
        assert f"<dd>{held_out:.4g}</dd><dt>accuracy on 30 held-out rows<" in html
    assert run(capfdbinary, "report", flowers, "-o", page, "--quiet")[0] == 0
    assert "accuracy on 30 held-out rows<" in page.read_text()
    day = folder / "day2.csv"
    assert run(capfdbinary, "report", plant, "--data", day, "-o", page, "--quiet")[0] == 0
    assert "800 samples: the model was fitted to all of these rows<" in page.read_text()


def test_brackets_in_names_are_printed(capfdbinary, tmp_path):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=60)
    columns = {"weight [kg]": weight, "kind": np.where(weight > 0, "[a]", "[/b]")}
    write_table(tmp_path / "data [1].csv", columns)
    path = tmp_path / "model [1].dirad"
    fit = ["fit", tmp_path / "data [1].csv", "--target", "kind", "-o", path]
    code, text, _ = run(capfdbinary, *fit)
    assert code == 0
    assert "[1].dirad" in text
    text = run(capfdbinary, "inspect", path)[1]
    assert "weight [kg]" in text
    assert "[/b]" in text
