"""Names and labels that would do something to who reads them: terminals, spreadsheets, XML."""

import csv
import json
import os
import pty
import re
import subprocess
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from commands import DIRAD, run
from dirad import cli
from dirad.export import to_dot, to_svg
from dirad.names import visible
from dirad.storage.model_file import packed, read
from dirad.tables import open_table, write_table

HOSTILE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
CLEAR = "\x1b[2J\x1b]0;owned\x07"  # clears the screen, and names the window
TURNED = "a\u202eb\u2066c"  # reads as another text
ONE_BYTE = "\x9b31m\x7f"  # an escape sequence of one character


def table(path, **columns):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=60)
    kinds = np.where(weight > 0, f"red{CLEAR}{ONE_BYTE}", f"=HYPERLINK(1,{TURNED})")
    inputs = {
        f"weight{CLEAR}{TURNED}": weight,
        "garden": [f"g{ONE_BYTE}{i % 2}" for i in range(60)],
    }
    write_table(path, inputs | {f"kind{ONE_BYTE}": kinds} | columns)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data and a model, all of whose names are hostile."""
    folder = tmp_path_factory.mktemp(f"data{ONE_BYTE}")
    table(folder / "data.csv")
    fit = ("fit", folder / "data.csv", "--target", f"kind{ONE_BYTE}", "--max-edges", 3)
    assert cli.run([str(a) for a in (*fit, "--quiet", "-o", folder / "model.dirad")]) == 0
    return folder


def test_control_characters_are_shown_escaped():
    assert visible("a\x1b[0m\x9b\u202e\n\tb") == "a\\x1b[0m\\x9b\\u202e\n\tb"
    assert visible("naïve – σ₁ 日本") == "naïve – σ₁ 日本"
    assert visible(os.fsdecode(b"\xff")).encode() == b"\\udcff"


def test_nothing_that_is_printed_commands_the_terminal(capfdbinary, folder, tmp_path):
    model, data, target = folder / "model.dirad", folder / "data.csv", f"kind{ONE_BYTE}"
    extra = table(tmp_path / "more.csv", **{f"extra{CLEAR}": [1] * 60})
    wrong = tmp_path / "wrong.csv"
    wrong.write_text(data.read_text("utf-8").replace(f"g{ONE_BYTE}0", CLEAR), "utf-8")
    out = folder / "made"
    stream = ("fit", data, "--target", target, "--continual", "--batch-size", 20, "--begin", 20)
    for code, command in [
        (0, ("fit", data, "--target", target, "--max-edges", 2, "-o", out)),
        (0, (*stream, "--finish", "-o", out)),
        (0, ("learn", out, data)),
        (0, ("inspect", out)),
        (0, ("inspect", model, "--data", data)),
        (0, ("inspect", model, "--inputs")),
        (0, ("predict", model, extra, "-o", folder / "answers.csv")),
        (0, ("export", model, "--to", "c", "-o", out)),
        (0, ("report", model, "-o", out)),
        (1, ("predict", model, wrong)),
        (1, ("inspect", folder / f"no{CLEAR}")),
        (2, ("fit", data, "--target", f"no{CLEAR}")),
        (2, ("fit", data, "--target", target, f"--no{CLEAR}")),
        (2, ("fit", data, "--target", target, "-o", f"no{CLEAR}/model")),
    ]:
        for more in ((), ("--json",)):
            if command[:2] == ("predict", model) and more and "-o" not in command:
                continue
            found, text, errors = run(capfdbinary, *command, *more)
            assert found == code, (command, errors)
            assert not HOSTILE.search(text), (command, HOSTILE.search(text))
            assert not HOSTILE.search(errors), (command, errors)
            if more and code == 0:
                json.loads(text)
    told = json.loads(run(capfdbinary, "inspect", model, "--json")[1])
    assert f"weight{CLEAR}{TURNED}" in [row["column"] for row in told["Columns"]]
    assert "\\x1b[2J" in run(capfdbinary, "inspect", model, "--inputs")[1]


def seen_in_a_terminal(*command):
    """Return what a command writes where its standard output is a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([*DIRAD, *command], stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        seen = b""
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:  # the other end was closed
            pass
    os.close(ours)
    assert process.returncode == 0
    return seen.decode().replace("\r\n", "\n")


def test_answers_in_a_terminal_are_escaped_but_not_in_a_pipe(capfdbinary, folder):
    command = ("predict", folder / "model.dirad", folder / "data.csv")
    assert not HOSTILE.search(seen_in_a_terminal(*command))
    assert CLEAR in run(capfdbinary, *command)[1]
    assert not HOSTILE.search(
        seen_in_a_terminal("export", folder / "model.dirad", "--to", "formula")
    )


# ------------------------------------------------------------------ spreadsheets


FORMULAS = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "＝1"]


def test_formulas_are_answers_unless_they_are_to_be_escaped(capfdbinary, folder, tmp_path):
    command = ("predict", folder / "model.dirad", folder / "data.csv")
    for option, said in (((), "=HYPERLINK"), (("--escape-formulas",), "'=HYPERLINK")):
        text = run(capfdbinary, *command, *option)[1]
        answers = {row["prediction"][: len(said)] for row in csv.DictReader(text.splitlines())}
        assert answers == {said, f"red{CLEAR}"[: len(said)]}
        path = tmp_path / "answers.tsv"
        assert run(capfdbinary, *command, *option, "-o", path, "--quiet")[0] == 0
        assert said in path.read_text("utf-8")
    code, _, errors = run(capfdbinary, *command, "--escape-formulas", "-o", tmp_path / "a.parquet")
    assert code == 2
    assert "--escape-formulas" in errors


def test_only_text_that_begins_like_a_formula_is_escaped(tmp_path):
    path = tmp_path / "a.csv"
    plain = ["a=b", "'=x", "-5", "+1e3", "", "x", None]
    columns = {"=name": [*FORMULAS, *plain], "number": [-1.5] * 14}
    write_table(path, columns, escape_formulas=True)
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["'=name", "number"]
    assert [row["'=name"] for row in rows] == [f"'{f}" for f in FORMULAS] + [p or "" for p in plain]
    assert {row["number"] for row in rows} == {"-1.5"}
    write_table(path, columns)
    assert next(iter(open_table(path).chunks())).texts("=name")[0] == "=1+1"


# ------------------------------------------------------------------ drawings


@pytest.mark.parametrize(
    "name", [CLEAR, "\x00", "&#27;", "&lt;", "<b>&", ']]>"\\', "\ufffe\x0b", "é"]
)
def test_a_drawing_is_xml_whatever_the_names(folder, name):
    model = read(folder / "model.dirad").model
    model.feature_names_in_ = np.array([f"{name}{i}" for i in range(3)], object)
    model.classes_ = np.array(["other", f"{name}!"])
    text = to_svg(model)
    texts = {"".join(part.itertext()) for part in ET.fromstring(text).iter() if "text" in part.tag}
    assert f"{visible(name)}!" in texts
    assert not HOSTILE.search(to_dot(model))


def test_a_drawing_is_written(capfdbinary, folder, tmp_path):
    path = tmp_path / "network.svg"
    assert run(capfdbinary, "export", folder / "model.dirad", "--to", "svg", "-o", path)[0] == 0
    ET.parse(path)
    assert packed(read(folder / "model.dirad").model)
