"""Kernels: compiled as whole programs, and cached for their user alone."""

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core.codegen import JITCodeLibrary
from numba.core.registry import CPUDispatcher
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]
from numba.core.runtime.nrt import rtsys

from dirad.core import compilation, whole_program

# ------------------------------------------------------------------ whole programs

PROGRAMS = """
import json, sys
import numpy as np
from dirad.core.compilation import kernel

@kernel
def total(x):
    result = 0.0
    for i in range(x.shape[0]):
        result += x[i] * x[i]
    return result

@kernel
def first(x):
    return total(x)

@kernel
def second(x):
    return total(x[1:]) + total(x[:-1])

x = np.random.default_rng(0).normal(size=1001)
found = {name: float(globals()[name](x)).hex() for name in sys.argv[1:]}
compiled = sum(len(k.program._cache_misses) for k in (total, first, second))
print(json.dumps([compiled, found]))
"""


def run_programs(folder, *names):
    """Return how many programs a new process compiled, and the results of those it called."""
    program = folder / "programs.py"
    program.write_text(PROGRAMS)
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    command = [sys.executable, program, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_results_depend_neither_on_who_compiled_nor_on_the_order_of_calls(tmp_path):
    names = ("first", "second", "total")
    compiled, expected = run_programs(tmp_path, *names)
    assert compiled == 3
    for order in (names, names[::-1], ("second", "first", "total")):
        loaded, found = run_programs(tmp_path, *order)
        assert loaded == 0
        assert found == expected
    for i, order in enumerate((names[::-1], ("second", "total", "first"))):
        folder = tmp_path / str(i)
        folder.mkdir()
        assert run_programs(folder, *order) == [3, expected]


def test_inner_functions_belong_to_their_program():
    @compilation.kernel
    def inner(x):
        return max(x, 0.0) + 1.0

    @compilation.kernel
    def outer(x):
        return inner(x) * inner(x + 1.0)

    assert outer(2.0) == 12.0
    assert inner(2.0) == 3.0
    (library,) = [result.library for result in outer.program.overloads.values()]
    assert isinstance(library, whole_program.ProgramLibrary)
    visible = [f.name for f in library.get_defined_functions() if f.linkage.name != "internal"]
    assert all("outer" in name for name in visible)
    (inner_library,) = [result.library for result in inner.overloads.values()]
    assert isinstance(inner_library, whole_program.InnerLibrary)


def test_a_kernel_is_compiled_once_for_all_literal_arguments():
    @compilation.kernel
    def add(x, y):
        return x + y

    @compilation.kernel
    def sums(x):
        return add(x, 1) + add(x, 2) + add(x, x)

    assert sums(3) == 15
    assert len(add.overloads) == 1


def test_other_functions_are_compiled_as_numba_does_it():
    """Compiling a program changes the code generator only for its duration."""
    assert compilation.kernel(lambda x: x + 1)(1) == 2
    context: Any = whole_program.Kernel.targetdescr.target_context
    assert context.codegen()._library_class is JITCodeLibrary


@compilation.borrowed_by_kernels
class Rows(NamedTuple):
    """Arrays that Python passes to kernels."""

    first: np.ndarray
    second: np.ndarray


def test_kernels_keep_no_references_to_arrays_and_lose_none():
    @compilation.kernel
    def total(rows):
        return rows.first.sum() + rows.second[1:].sum()

    @compilation.kernel
    def sums(rows, other):
        chosen = rows if rows.first[0] > 0.0 else other
        copy = chosen.second.copy()
        return total(rows) + total(other) + total(chosen) + copy[0]

    rows = Rows(np.arange(1000.0), np.arange(1000.0))
    other = Rows(np.arange(1000.0), np.arange(1000.0))
    arrays = [*rows, *other]
    before = [sys.getrefcount(array) for array in arrays]
    _nrt_python.memsys_enable_stats()
    live = rtsys.get_allocation_stats()
    for _ in range(100):
        assert sums(rows, other) == 6 * 499_500.0
    assert [sys.getrefcount(array) for array in arrays] == before
    now = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert now.alloc - live.alloc == now.free - live.free
    assert now.mi_alloc - live.mi_alloc == now.mi_free - live.mi_free


WITHOUT = """
from numba.core.codegen import JITCodeLibrary
for cls in JITCodeLibrary.__mro__:
    if "_optimize_final_module" in vars(cls):
        del cls._optimize_final_module
from dirad.core import compilation
compilation.CACHE_FOLDER = ""  # Numba caches only what stands in a file
print(type(compilation._compiled(lambda x: x, {})).__name__)
"""


def test_another_numba_compiles_as_usual():
    done = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert done.stdout.strip() == CPUDispatcher.__name__


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
