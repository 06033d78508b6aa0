"""How kernels are compiled: safe fast-math, and a disk cache that notices every edit.

Numba's own cache looks at the file of the function it compiles, not at the files of the
functions that one calls. The cache folder is therefore named by a hash of all kernel sources.
It lives outside the package, so a read-only installation works as well, and only this user can
write into it.

Of two compiled functions that use the same helper with the same types, the one loaded first lends
its copy of the helper to the other, and copies may round differently: fast-math leaves the order
of a sum to the optimizer. Functions that Python calls for different purposes therefore take
workspaces of different types (`propagate.Workspace` and `propagate.GradientWorkspace`). For the
same reason a process that compiles may round otherwise than those that load what it compiled: what
rounds is compiled by a process of its own (`compiled_elsewhere`), and all others load it.
"""

import hashlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from llvmlite import binding
from numba.core import config as _config

config: Any = _config  # its settings are made at run time, unseen by type checkers

# Vectorizes sums but keeps NaN and infinity checks meaningful (fastmath=True would not).
SAFE_FAST_MATH = {"reassoc", "nsz", "contract", "arcp"}

_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_FOLDERS = ("core", "growth")
_COMPILING = "DIRAD_COMPILING"  # set for a process that compiles for others


def _sources() -> list[Path]:
    """Return every module that may hold a kernel."""
    found = [path for folder in _KERNEL_FOLDERS for path in (_PACKAGE / folder).glob("*.py")]
    return [*sorted(found), _PACKAGE / "params.py"]


def source_digest() -> str:
    """Return a short hash over the text of every module that may hold a kernel."""
    digest = hashlib.sha256()
    for path in _sources():
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _compiler_digest() -> str:
    """Return a short hash over all else that Numba's cache depends on."""
    features = binding.get_host_cpu_features().flatten()
    parts = [numba.__version__, binding.get_host_cpu_name(), features, sys.version, str(_PACKAGE)]
    parts += [str(path.stat().st_mtime_ns) for path in _sources()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _safe_cache_folder() -> str:
    """Return the first folder that can be used: in NUMBA_CACHE_DIR, the user's cache, temp.

    Cached kernels are pickles, which run code when they are loaded: whoever can write into the
    folder could run code as this user. Where no folder is safe there is no cache.
    """
    digest = source_digest()
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    candidates = [[root, root / digest] for root in _own_roots()]
    if chosen:  # that folder itself is the user's choice, and may be an administrator's
        candidates.insert(0, [Path(chosen) / digest])
    for folders in candidates:
        try:
            folders[0].parent.mkdir(parents=True, exist_ok=True)
            if all(_made_private(folder, root_too=len(folders) == 1) for folder in folders):
                with tempfile.TemporaryFile(dir=folders[-1]):
                    return str(folders[-1])
        except OSError:
            continue
    return ""


def _own_roots() -> Iterator[Path]:
    """Yield the folders that are made for this user's caches, the best first."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):  # else there is no home
        yield Path(home) / "dirad"
    with suppress(OSError):  # nor, on a system that cannot be written, a place for temporary files
        user = os.getuid() if hasattr(os, "getuid") else "user"
        yield Path(tempfile.gettempdir()) / f"dirad-{user}"


def _made_private(folder: Path, root_too: bool) -> bool:
    """Make a folder, if it is missing; say whether only this user can write into it.

    In a sticky folder such as /tmp nobody else can replace it afterwards.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    if not hasattr(os, "getuid"):
        return True  # there, temporary files are in a folder of the user's own
    found = folder.lstat()  # of a symbolic link, whoever made it, not its target
    owners = {os.getuid(), 0} if root_too else {os.getuid()}
    return stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not found.st_mode & 0o022


CACHE_FOLDER = _safe_cache_folder()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function with the project's settings; cached on disk where a folder can be had."""
    settings = {"fastmath": SAFE_FAST_MATH, "error_model": "numpy", "nogil": True}
    if not CACHE_FOLDER:
        return numba.njit(**settings)(function)
    # Numba fixes a function's cache folder when it is decorated, and only then.
    before = config.CACHE_DIR
    config.CACHE_DIR = CACHE_FOLDER
    try:
        return numba.njit(cache=True, **settings)(function)
    finally:
        config.CACHE_DIR = before


@cache
def compiled_elsewhere(example: Callable[[], object]) -> None:
    """Let another process call a function of a module, unless one did: what it needs is cached.

    Where that is impossible (no cache folder, no interpreter to start), this process compiles.
    """
    if not CACHE_FOLDER or config.DISABLE_JIT or not sys.executable or _COMPILING in os.environ:
        return
    module, name = example.__module__, example.__qualname__
    done = Path(CACHE_FOLDER) / f"{module}.{name}.{_compiler_digest()}"
    if done.exists():
        return
    code = f"import sys; sys.path[:] = {sys.path!r}; from {module} import {name}; {name}()"
    child = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, _COMPILING: "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    if child.returncode == 0:
        done.touch()
