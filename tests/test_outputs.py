"""What commands write and print where that is hard: no room, no right, no warnings of others."""

import os
import resource
import subprocess
import sys

import numpy as np
import pytest

from commands import DIRAD, run, run_experiment
from dirad import cli
from dirad.cli.app import TALKATIVE, quiet_warnings
from dirad.tables import write_table
from experiments.result_cache import ResultCache

NO_PLACE = "/proc/model.dirad"  # nobody makes files there, not even root
on_linux = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a model and its data."""
    folder = tmp_path_factory.mktemp("data")
    weight = np.random.default_rng(0).normal(size=400)
    kinds = np.where(weight > 0, "a", "b")
    write_table(folder / "data.csv", {"weight": weight, "width": weight**2, "kind": kinds})
    fit = ("fit", folder / "data.csv", "--target", "kind", "--max-edges", 2, "--quiet", "-o")
    assert cli.run([str(part) for part in (*fit, folder / "model.dirad")]) == 0
    return folder


# ------------------------------------------------------------------ places


@on_linux
def test_a_place_that_cannot_be_written_is_told_before_the_work(capfdbinary, folder):
    data, model = folder / "data.csv", folder / "model.dirad"
    for command in (
        ("fit", "missing.csv", "--target", "kind"),
        ("fit", "missing.csv", "--target", "kind", "--continual"),
        ("learn", "missing.dirad", data),
        ("export", model, "--to", "c"),
        ("report", "missing.dirad"),
    ):
        code, text, errors = run(capfdbinary, *command, "-o", NO_PLACE)
        assert (code, text) == (2, ""), command
        assert errors.startswith(f"dirad: --output {NO_PLACE}: cannot be written: "), errors
    code, _, errors = run(capfdbinary, "predict", model, "missing.csv", "-o", "/proc/out.csv")
    assert code == 2
    assert errors.startswith("dirad: --output /proc/out.csv: cannot be written: ")


@on_linux
@pytest.mark.parametrize(
    ("command", "run"),
    [("demo", run), ("stream", run), ("xor", run_experiment), ("digits", run_experiment)],
)
def test_so_is_a_folder(capfdbinary, monkeypatch, command, run):
    def computed(*_):
        pytest.fail("something is computed")

    monkeypatch.setattr("dirad.estimators.progress.load_kernels", computed)
    for out in ("/proc", "/proc/deeper/still"):
        code, text, errors = run(capfdbinary, command, "--out", out)
        assert (code, text) == (2, "")
        assert errors.startswith(f"dirad: --out {out}: cannot be written: ")
    monkeypatch.chdir("/proc")
    code, text, errors = run(capfdbinary, command)
    assert (code, text) == (2, "")
    assert errors.startswith(f"dirad: --out results/{command}: cannot be written: ")


def test_a_check_of_a_folder_makes_none(capfdbinary, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_experiment(capfdbinary, "parity", "--bits", "two")[0] == 2
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------ room


def limited(*command, size=300):
    """Run a command that cannot write files of more than some bytes."""
    return subprocess.run(
        [*DIRAD, *map(str, command)], text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)), check=False,
    )  # fmt: skip


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet"])
def test_answers_without_room_name_their_file(folder, tmp_path, suffix):
    path = tmp_path / f"answers{suffix}"
    size = 60 if suffix == ".csv.gz" else 300
    done = limited("predict", folder / "model.dirad", folder / "data.csv", "-o", path, size=size)
    assert done.returncode == 1
    assert done.stderr == f"dirad: {path}: cannot be written: File too large\n"
    assert not list(tmp_path.iterdir())


def test_models_exports_and_pages_without_room_name_their_file(folder, tmp_path):
    model, path = folder / "model.dirad", tmp_path / "out"
    for command in (
        ("fit", folder / "data.csv", "--target", "kind", "--max-edges", 2),
        ("export", model, "--to", "c"),
        ("report", model),
    ):
        done = limited(*command, "--quiet", "-o", path)
        assert done.returncode == 1
        assert done.stderr == f"dirad: {path}: cannot be written: File too large\n"
        assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_standard_output_without_room_is_one_line(folder):
    model = folder / "model.dirad"
    for command in (
        ("inspect", model),
        ("inspect", model, "--json"),
        ("predict", model, folder / "data.csv"),
        ("export", model, "--to", "c"),
    ):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [*DIRAD, *command, "--quiet"] if command[0] == "predict" else [*DIRAD, *command],
                stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            )  # fmt: skip
        assert done.returncode == 1, command
        assert done.stderr == "dirad: standard output: No space left on device\n", command


def test_many_answers_of_which_a_few_are_read_are_no_failure(folder, tmp_path):
    lines = (folder / "data.csv").read_text().splitlines(keepends=True)
    (tmp_path / "many.csv").write_text("".join([lines[0], *lines[1:] * 100]))
    command = [*DIRAD, "predict", folder / "model.dirad", tmp_path / "many.csv", "--proba"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout.readline().startswith(b"prediction")
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


# ------------------------------------------------------------------ warnings


WARNING = """
import sys, warnings
import numpy as np
from dirad.cli import main
from dirad.estimators.answering import ClassAnswers

def predict(self, X, predict=ClassAnswers.predict):
    np.array([1e308]) * 10
    warnings.warn("will be gone", DeprecationWarning, stacklevel=2)
    warnings.warn("the third\\nrow is \\x1b[31m odd", stacklevel=2)
    exec("import warnings; warnings.warn('not of ours')", {"__name__": "sklearn.other"})
    return predict(self, X)

ClassAnswers.predict = predict
main()
"""


def test_of_all_warnings_only_our_own_are_told_in_one_line(folder):
    command = ("predict", folder / "model.dirad", folder / "data.csv", "-o", folder / "out.csv")
    for more, said in (((), "dirad: the third row is \\x1b[31m odd\n"), (("--quiet",), "")):
        done = subprocess.run(
            [sys.executable, "-c", WARNING, *command, *more], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, said)


def test_whoever_asks_python_for_warnings_gets_them(folder):
    command = ("predict", folder / "model.dirad", folder / "data.csv", "-o", folder / "out.csv")
    done = subprocess.run(
        [sys.executable, "-W", "default", "-c", WARNING, *command], capture_output=True, text=True
    )
    assert "RuntimeWarning: overflow" in done.stderr


def test_large_numbers_warn_nobody(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) * 1e200
    data, model = tmp_path / "large.csv", tmp_path / "large.dirad"
    write_table(data, {"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * 0.5})
    for command in (
        ("fit", data, "--target", "y", "--max-edges", "3", "-o", model),
        ("inspect", model, "--data", data),
    ):
        done = subprocess.run([*DIRAD, *command, "--quiet"], capture_output=True, text=True)
        assert "arning" not in done.stderr, command
        assert done.stderr.count("\n") <= 1


def squared(number):
    np.array([1e308]) * number
    return number**2


def test_workers_of_a_command_warn_nobody_either(capfd):
    from dirad.engine import run_all

    with quiet_warnings(TALKATIVE):
        assert run_all(squared, [(10.0,), (20.0,)], workers=2) == [100.0, 400.0]
    assert "arning" not in capfd.readouterr().err


def test_a_file_of_results_without_room_is_named(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "runs.jsonl"
    with pytest.raises(OSError, match="cannot be written: No space left") as found:
        ResultCache(path).add("a", TALKATIVE)
    assert found.value.filename == str(path)
