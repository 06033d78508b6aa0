"""The progress bar of compilation: shown when kernels are compiled, and only then."""

import pytest

from dirad.core import compilation
from dirad.core.compilation import kernel
from dirad.estimators import progress


def compile_something():
    assert kernel(lambda x: abs(x) + 1)(-1) == 2


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path):
    """Kernels that an earlier run has compiled would not be compiled again."""
    monkeypatch.setattr(compilation, "CACHE_FOLDER", str(tmp_path))


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "DELAY", -1.0)  # seconds


def test_a_bar_tells_what_is_compiled(at_once, capsys):
    with progress.compilation_progress(verbose=True):
        compile_something()
    said = capsys.readouterr()
    assert "Compiling the kernels for this machine, once" in said.err
    assert said.out == ""


def test_nothing_is_said_when_nothing_is_compiled(at_once, capsys):
    with progress.compilation_progress(verbose=True):
        pass
    assert capsys.readouterr().err == ""


def test_nothing_is_said_about_a_short_compilation(capsys):
    with progress.compilation_progress(verbose=True):
        compile_something()
    assert capsys.readouterr().err == ""


def test_nothing_is_said_where_stderr_is_no_terminal(at_once, capsys):
    with progress.compilation_progress():
        compile_something()
    assert capsys.readouterr().err == ""


def test_another_live_display_goes_on(at_once, capsys):
    from rich.console import Console

    with Console(stderr=True).status("busy"), progress.compilation_progress(verbose=True):
        compile_something()
