"""The command line: what it prints, what it writes, and how it fails."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import dirad
from dirad import cli
from dirad.cli.app import EXPERIMENTS, Common
from dirad.cli.outcome import Outcome, deliver
from dirad.report.tables import Section, cell, columns_of, markdown, print_sections


def run(capsys, *arguments):
    code = cli.run(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_help_teaches_by_example(capsys):
    code, text, _ = run(capsys, "--help")
    assert code == 0
    assert "dirad demo" in text
    for command in (
        "demo",
        "stream",
        "fit",
        "predict",
        "learn",
        "inspect",
        "export",
        "report",
        "features",
        "tail",
    ):
        code, text, _ = run(capsys, command, "--help")
        assert code == 0
        assert f"dirad {command}" in text.split("Usage", 1)[1].split("\n", 1)[1]


def test_an_experiment_says_where_it_is_now(capsys):
    for command in EXPERIMENTS:
        code, text, errors = run(capsys, command, "--nonsense")
        assert (code, text) == (2, "")
        assert errors == (
            f"dirad: `dirad {command}` is now `python -m experiments {command}`, run from a "
            "checkout of the repository\n"
        )


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


def test_results_are_written_through_links_and_whole_or_not_at_all(tmp_path):
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
