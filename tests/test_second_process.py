"""Which programs a fit compiles, in which process, and that networks are the same in any case."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dirad.core import second_process

FIT = """
import json, sys, time
import numpy as np
from dirad import DIRADClassifier
from dirad.core import second_process
from dirad.growth import adapt

def refused(code):
    return None

def failing(code):
    return started("raise SystemExit(1)")

def stuck(code):
    return started("import time; time.sleep(600)")

started = second_process._start
second_process.LONGEST_WAIT = 3.0 if sys.argv[1] == "stuck" else 600.0
if sys.argv[1] != "usual":
    second_process._start = globals()[sys.argv[1]]
X = np.random.default_rng(0).normal(size=(150, 3))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
model = DIRADClassifier(preset=sys.argv[2], max_steps=300, random_state=0).fit(X, y)
programs = (adapt.run_steps, adapt.complete_step, adapt.run_paper_steps)
print(json.dumps({
    "compiled": [k.py_func.__name__ for k in programs if k.program._cache_misses],
    "loaded": [k.py_func.__name__ for k in programs if k.program._cache_hits],
    "network": [model.network_.edges.tobytes().hex(), model.network_.bias.tobytes().hex()],
}))
"""


def fit(folder: Path, second: str = "usual", preset: str = "default") -> dict:
    """Return what a new process compiled and loaded, and the network of its fit."""
    done = subprocess.run(
        [sys.executable, "-c", FIT, second, preset],
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def default_fit(tmp_path_factory):
    """A default fit in an empty cache."""
    folder = tmp_path_factory.mktemp("usual")
    return folder, fit(folder)


def test_a_default_fit_compiles_rounds_here_and_steps_in_a_second_process(default_fit):
    _, found = default_fit
    assert found["compiled"] == ["complete_step"]
    assert found["loaded"] == ["run_steps"]


def test_a_later_fit_compiles_nothing_and_grows_the_same_network(default_fit):
    folder, first = default_fit
    found = fit(folder)
    assert found["compiled"] == []
    assert found["network"] == first["network"]


@pytest.mark.slow
@pytest.mark.parametrize("second", ["failing", "refused", "stuck"])
def test_without_a_second_process_a_fit_compiles_all_and_grows_the_same_network(
    second, default_fit, tmp_path
):
    found = fit(tmp_path, second)
    assert found["compiled"] == ["run_steps", "complete_step"]
    assert found["network"] == default_fit[1]["network"]


@pytest.mark.slow
def test_a_fit_of_the_paper_compiles_its_own_program_alone(tmp_path):
    found = fit(tmp_path, preset="paper")
    assert found["compiled"] == ["run_paper_steps"]
    assert found["loaded"] == []


def test_a_second_process_that_takes_too_long_is_ended(monkeypatch):
    started = []
    start = second_process._start
    monkeypatch.setattr(second_process, "LONGEST_WAIT", 0.1)
    monkeypatch.setattr(
        second_process, "_start", lambda code: started.append(start(code)) or started[0]
    )
    before = time.monotonic()
    with second_process.run_beside("import time; time.sleep(600)"):
        pass
    assert time.monotonic() - before < 60
    assert started[0].returncode is not None


def test_an_error_ends_the_second_process(monkeypatch):
    started = []
    start = second_process._start
    monkeypatch.setattr(
        second_process, "_start", lambda code: started.append(start(code)) or started[0]
    )
    with (
        pytest.raises(KeyboardInterrupt),
        second_process.run_beside("import time; time.sleep(600)"),
    ):
        raise KeyboardInterrupt
    assert started[0].returncode is not None


@pytest.mark.parametrize(
    ("module", "name", "value"),
    [(sys, "executable", None), (sys, "frozen", True), (second_process, "CACHE_FOLDER", "")],
)
def test_where_no_second_process_can_help_none_is_started(module, name, value, monkeypatch):
    monkeypatch.setattr(module, name, value, raising=False)
    assert second_process._start("pass") is None


def test_an_interpreter_that_is_missing_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with second_process.run_beside("pass"):
        pass


def test_processes_compile_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.setattr(second_process, "CACHE_FOLDER", str(tmp_path))
    monkeypatch.setattr(second_process, "LONGEST_WAIT", 0.5)
    with second_process.compile_lock():
        before = time.monotonic()
        with second_process.compile_lock():  # waits, and then goes on without
            assert time.monotonic() - before >= 0.5
    before = time.monotonic()
    with second_process.compile_lock():
        assert time.monotonic() - before < 0.5
