"""The commands of the experiments: what they print, what they write, and how they fail."""

import json
import subprocess
import time
from pathlib import Path

import pytest

from commands import EXPERIMENTS, run_experiment
from dirad import datasets
from dirad.cli import app as dirad_commands
from dirad.cli.app import EXPERIMENTS as MOVED
from experiments import pairs
from experiments.commands import app

COMMANDS = {name for name in app if not name.startswith("-")}


def test_parity_prints_json_and_writes_its_files(capfdbinary, tmp_path):
    out = tmp_path / "found"
    command = ("parity", "--bits", "2-3", "--seeds", "2", "--workers", "1", "--json")
    code, text, _ = run_experiment(capfdbinary, *command, "--out", str(out))
    assert code == 0
    record = json.loads(text)
    assert record == json.loads((out / "parity.json").read_text("utf-8"))
    assert record["command"].startswith("python -m experiments parity --bits 2-3 --seeds 2")
    rows = record["sections"][0]["rows"]
    assert [row["bits"] for row in rows if row["method"] == "DIRAD"] == [2, 3]
    assert "| bits | method | solved |" in (out / "parity.md").read_text("utf-8")
    assert list(out.glob("*.png"))
    assert str(tmp_path) not in text


def test_quiet_prints_only_the_folder(capfdbinary, tmp_path):
    command = ("parity", "--bits", "2", "--seeds", "1", "--workers", "1", "--quiet")
    code, text, errors = run_experiment(capfdbinary, *command, "--out", str(tmp_path))
    assert (code, text.strip(), errors) == (0, str(tmp_path), "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("parity", "--bits", "two"), "--bits takes numbers"),
        (("parity", "--bits", "8-2"), "from 2 to 12"),
        (("parity", "--bits", "1"), "from 2 to 12"),
        (("parity", "--seeds", "0"), "--seeds"),
        (("parity", "--seeds", "many"), "--seeds"),
        (("parity", "--workers", "0"), "--workers"),
        (("pairs", "--pairs", "46"), "--pairs"),
        (("pairs", "--preset", "best"), "--preset"),
        (("ablate", "--parts", "ladder,roof"), "'roof'"),
        (("reproduce", "--parts", "main,roof"), "'roof'"),
        (("reproduce", "--tasks", "6"), "at most 5"),
        (("parity", "--nonsense"), "--nonsense"),
        (("nonsense",), "nonsense"),
    ],
)
def test_bad_arguments_give_one_line_and_code_2(capfdbinary, arguments, says):
    code, text, errors = run_experiment(capfdbinary, *arguments)
    assert (code, text) == (2, "")
    assert errors.count("\n") == 1
    assert says in errors


def test_a_missing_data_set_is_told_as_it_is(capfdbinary, monkeypatch):
    def missing():
        raise datasets.DatasetMissing("mnist was not found: do this")

    monkeypatch.setattr(pairs, "mnist", missing)
    code, text, errors = run_experiment(capfdbinary, "pairs", "--pairs", "1")
    assert (code, text, errors) == (1, "", "dirad: mnist was not found: do this\n")


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_made_is_told_at_once(capfdbinary, tmp_path, below):
    (tmp_path / "file").write_text("")
    command = ("parity", "--bits", "2", "--out", tmp_path / "file" / below)
    code, text, errors = run_experiment(capfdbinary, *command)
    assert (code, text) == (2, "")
    assert "--out" in errors
    assert errors.count("\n") == 1


def test_told_to_end_a_command_ends_its_workers_too(tmp_path):
    options = ["--bits", "8", "--seeds", "40", "--workers", "2", "--quiet", "--out", str(tmp_path)]
    command = subprocess.Popen([*EXPERIMENTS, "parity", *options], stderr=subprocess.PIPE)
    workers = awaited(lambda: children_of(command.pid, "popen_loky"))
    command.terminate()
    assert b"stopped" in command.communicate(timeout=60)[1]
    assert command.returncode == 130
    assert awaited(lambda: not any(Path(f"/proc/{number}").exists() for number in workers))


def children_of(number, name):
    found = subprocess.run(["pgrep", "-P", str(number), "-f", name], capture_output=True, text=True)
    return found.stdout.split()


def awaited(condition, seconds=120):
    for _ in range(10 * seconds):
        if found := condition():
            return found
        time.sleep(0.1)
    return condition()


def test_help_teaches_by_example(capfdbinary):
    code, text, _ = run_experiment(capfdbinary, "--help")
    assert code == 0
    assert "python -m experiments xor" in text
    for command in COMMANDS:
        code, text, _ = run_experiment(capfdbinary, command, "--help")
        assert code == 0
        examples = text.split("Usage", 1)[1].split("\n", 1)[1]
        assert f"python -m experiments {command}" in examples


def test_every_command_is_of_one_program():
    assert set(MOVED) <= COMMANDS
    assert not COMMANDS & set(dirad_commands)
