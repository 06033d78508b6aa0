"""Kernels are compiled by one process and loaded by all others."""

import os
from pathlib import Path

import pytest

from dirad.core import compilation

MARK = "DIRAD_TEST_MARK"  # names the file in which the other process leaves its number


def leave_a_mark():
    with Path(os.environ[MARK]).open("a", encoding="utf-8") as file:
        print(os.getpid(), compilation._COMPILING in os.environ, file=file)


def fail():
    leave_a_mark()
    raise RuntimeError("no compiler today")


@pytest.fixture
def marks(monkeypatch, tmp_path):
    """Return a function that tells which processes left marks; there is an empty cache."""
    monkeypatch.setenv(MARK, str(tmp_path / "marks"))
    monkeypatch.setattr(compilation, "CACHE_FOLDER", str(tmp_path))
    compilation.compiled_elsewhere.cache_clear()
    yield lambda: (tmp_path / "marks").read_text(encoding="utf-8").splitlines()
    compilation.compiled_elsewhere.cache_clear()


def test_another_process_compiles_and_only_once(marks):
    compilation.compiled_elsewhere(leave_a_mark)
    ((number, compiling),) = [line.split() for line in marks()]
    assert int(number) != os.getpid()
    assert compiling == "True"
    compilation.compiled_elsewhere.cache_clear()  # as a new process would begin
    compilation.compiled_elsewhere(leave_a_mark)
    assert len(marks()) == 1


def test_what_failed_is_tried_again(marks):
    compilation.compiled_elsewhere(fail)
    assert len(marks()) == 1
    compilation.compiled_elsewhere.cache_clear()
    compilation.compiled_elsewhere(fail)
    assert len(marks()) == 2


def test_an_edited_kernel_is_compiled_anew(marks, monkeypatch):
    compilation.compiled_elsewhere(leave_a_mark)
    compilation.compiled_elsewhere.cache_clear()
    monkeypatch.setattr(compilation, "_compiler_digest", lambda: "another")
    compilation.compiled_elsewhere(leave_a_mark)
    assert len(marks()) == 2


@pytest.mark.parametrize(
    ("name", "value"), [("CACHE_FOLDER", ""), ("_COMPILING", "PATH"), ("sys.executable", "")]
)
def test_where_no_other_process_could_help_none_is_started(marks, monkeypatch, name, value):
    monkeypatch.setattr(f"dirad.core.compilation.{name}", value)
    compilation.compiled_elsewhere(leave_a_mark)
    with pytest.raises(FileNotFoundError):
        marks()
