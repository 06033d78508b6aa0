"""Kernels are compiled by one process and loaded by all others."""

import os
import subprocess
import sys
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


# ------------------------------------------------------------------ whose cache it is

KERNEL = """
from dirad.core import compilation
twice = compilation.kernel(lambda x: x + x)
assert twice(3) == 6
print(compilation.CACHE_FOLDER)
"""


def cache_folder(temp, **variables):
    """Return the folder that a process uses which has no cache of its own but in `temp`."""
    environment = {**os.environ, "TMPDIR": str(temp), "XDG_CACHE_HOME": "/dev/null/cache"}
    environment.pop("NUMBA_CACHE_DIR", None)
    program = temp / "kernel.py"  # Numba caches what stands in a file
    program.write_text(KERNEL)
    done = subprocess.run(
        [sys.executable, program],
        env=environment | variables, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def places(tmp_path):
    """A folder for temporary files, the cache that would be made in it, and its inner folder."""
    root = tmp_path / f"dirad-{os.getuid()}"
    return tmp_path, root, root / compilation.source_digest()


def test_a_cache_is_for_its_owner_alone(places):
    temp, root, folder = places
    before = os.umask(0)
    try:
        assert cache_folder(temp) == str(folder)
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (root, folder)] == [0o700, 0o700]
    assert cache_folder(temp) == str(folder)


NO_TEMP = """
import tempfile
def none():
    raise FileNotFoundError("No usable temporary directory found")
tempfile.gettempdir = none
"""


def test_kernels_work_where_nothing_can_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "KERNEL", NO_TEMP + KERNEL)
    assert cache_folder(tmp_path) == ""


def writable_by_all(path):
    path.chmod(0o777)


def owned_by_another(path):
    if os.getuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 12345, 12345)


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize("planted", [writable_by_all, owned_by_another, linked])
@pytest.mark.parametrize("place", [1, 2])
def test_a_planted_cache_is_not_used_and_kernels_work_without(places, planted, place):
    places[2].mkdir(parents=True, mode=0o700)
    places[1].chmod(0o700)
    planted(places[place])
    assert cache_folder(places[0]) == ""


@pytest.mark.parametrize("planted", [writable_by_all, owned_by_another, linked])
@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_planted_folder_in_another_cache_is_passed_over(places, planted, variable):
    temp, _, folder = places
    chosen = temp / "chosen"
    own = chosen if variable == "NUMBA_CACHE_DIR" else chosen / "dirad"
    (own / folder.name).mkdir(parents=True, mode=0o700)
    assert cache_folder(temp, **{variable: str(chosen)}) == str(own / folder.name)
    planted(own / folder.name)
    assert cache_folder(temp, **{variable: str(chosen)}) == str(folder)
