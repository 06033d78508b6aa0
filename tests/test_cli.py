"""The command line: what it prints, what it writes, and how it fails."""

import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

import dirad
from dirad import cli, datasets
from dirad.report.tables import Section, cell, columns_of, markdown, print_sections
from experiments import pairs


def run(capsys, *arguments):
    code = cli.run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_parity_prints_json_and_writes_its_files(capsys, tmp_path):
    out = tmp_path / "found"
    command = ("parity", "--bits", "2-3", "--seeds", "2", "--workers", "1", "--json")
    code, text, _ = run(capsys, *command, "--out", str(out))
    assert code == 0
    record = json.loads(text)
    assert record == json.loads((out / "parity.json").read_text("utf-8"))
    assert record["command"].startswith("dirad parity --bits 2-3 --seeds 2")
    rows = record["sections"][0]["rows"]
    assert [row["bits"] for row in rows if row["method"] == "DIRAD"] == [2, 3]
    assert "| bits | method | solved |" in (out / "parity.md").read_text("utf-8")
    assert list(out.glob("*.png"))
    assert str(tmp_path) not in text


def test_quiet_prints_only_the_folder(capsys, tmp_path):
    command = ("parity", "--bits", "2", "--seeds", "1", "--workers", "1", "--quiet")
    code, text, errors = run(capsys, *command, "--out", str(tmp_path))
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
def test_bad_arguments_give_one_line_and_code_2(capsys, arguments, says):
    code, text, errors = run(capsys, *arguments)
    assert (code, text) == (2, "")
    assert errors.count("\n") == 1
    assert says in errors


def test_a_missing_data_set_is_told_as_it_is(capsys, monkeypatch):
    def missing():
        raise datasets.DatasetMissing("mnist was not found: do this")

    monkeypatch.setattr(pairs, "mnist", missing)
    code, text, errors = run(capsys, "pairs", "--pairs", "1")
    assert (code, text, errors) == (1, "", "dirad: mnist was not found: do this\n")


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_folder_that_cannot_be_made_is_told_before_anything_is_computed(capsys, tmp_path, below):
    (tmp_path / "file").write_text("")
    code, text, errors = run(
        capsys, "parity", "--bits", "2", "--out", str(tmp_path / "file" / below)
    )
    assert (code, text) == (2, "")
    assert "--out" in errors
    assert errors.count("\n") == 1


def test_help_teaches_by_example(capsys):
    code, text, _ = run(capsys, "--help")
    assert code == 0
    assert "dirad demo" in text
    for command in ("xor", "parity", "pairs", "digits", "tabular", "ablate", "reproduce", "demo"):
        code, text, _ = run(capsys, command, "--help")
        assert code == 0
        assert f"dirad {command}" in text.split("Usage", 1)[1].split("\n", 1)[1]


def test_the_quick_demo_grows_three_networks_and_notices_three_tasks(capsys, tmp_path):
    code, text, _ = run(capsys, "demo", "--quick", "--json", "--out", str(tmp_path))
    assert code == 0
    networks, _, events, accuracies = (part["rows"] for part in json.loads(text)["sections"])
    assert len(networks) == 3
    assert networks[0]["right"] == 1.0
    kinds = [row["event"] for row in events if "stable" not in row["event"]]
    assert kinds == [
        "model 0 opened",
        "model 1 opened",
        "model 2 opened",
        "model 0 chosen",
        "model 1 chosen",
    ]
    assert float(accuracies[0]["after 6 digits"]) > 0.9
    assert len(list(tmp_path.glob("*.png"))) == 8


ROWS = [
    {"size": 5, "method": "a|b", "accuracy": 0.5, "accuracy_se": 0.25, "edges": 2.0},
    {"size": 5, "method": "c", "difference": -0.125, "difference_se": float("nan")},
]


def test_cells_join_what_belongs_together():
    assert columns_of(ROWS) == ["size", "method", "accuracy", "edges", "difference"]
    assert cell(ROWS[0], "accuracy") == "0.5000 ± 0.2500"
    assert cell(ROWS[1], "difference") == "−0.1250"  # one value has no spread
    assert cell(ROWS[1], "accuracy") == "–"
    assert cell({"edges": 7, "edges_max": 9}, "edges") == "7 (max 9)"
    assert cell({"within_one_se": False}, "within_one_se") == "no"


def test_tables_render_on_the_terminal_and_in_markdown():
    console = Console(width=120, record=True, file=io.StringIO())
    print_sections(console, [Section("A title", ROWS, "a remark")])
    text = console.export_text()
    assert "A title" in text
    assert "a remark" in text
    assert "0.5000 ± 0.2500" in text
    document = markdown("Top", "Made so.", [Section("A title", ROWS, "a remark")])
    assert document.startswith("# Top\n\nMade so.\n\n## A title\n\na remark\n\n| size |")
    assert "a\\|b" in document


PRESSED = """
import sys

class Press:
    def find_spec(self, name, *_):
        if name == "dirad.cli":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Press())
from dirad.__main__ import main
main()
"""


def test_ctrl_c_while_modules_are_loaded():
    done = subprocess.run([sys.executable, "-c", PRESSED], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "dirad: stopped\n")


def test_names_are_imported_when_they_are_used():
    program = "import dirad, sys; print('numpy' in sys.modules); dirad.Params; dirad.nothing"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
    assert "module 'dirad' has no attribute 'nothing'" in done.stderr
    assert set(dirad.__all__) <= set(dir(dirad))
    assert all(getattr(dirad, name) for name in dirad.__all__)


def test_told_to_end_a_command_ends_its_workers_too(tmp_path):
    program = "from dirad.cli import main; main()"
    options = ["--bits", "8", "--seeds", "40", "--workers", "2", "--quiet", "--out", str(tmp_path)]
    command = subprocess.Popen(
        [sys.executable, "-c", program, "parity", *options], stderr=subprocess.PIPE
    )
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


def test_results_are_written_through_links_and_whole_or_not_at_all(tmp_path):
    from dirad.cli.app import Common, Outcome, deliver

    class Unfinished:
        def savefig(self, path, **_):
            Path(path).write_text("half")
            raise OSError(28, "No space left on device")

    true = tmp_path / "true.json"
    (tmp_path / "toy.json").symlink_to(true)
    (tmp_path / "toy-a.png").write_text("old")
    outcome = Outcome(
        "toy", {}, "Toys", [Section("Some", [{"a": 1}])], pictures={"a": Unfinished()}
    )
    with pytest.raises(OSError, match="No space left on device") as found:
        deliver(outcome, Common(out=tmp_path, quiet=True))
    assert found.value.filename == str(tmp_path / "toy-a.png")
    assert (tmp_path / "toy.json").is_symlink()
    assert json.loads(true.read_text("utf-8"))["title"] == "Toys"
    assert (tmp_path / "toy-a.png").read_text() == "old"
