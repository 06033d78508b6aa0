"""How kernels are compiled: safe fast-math, and a disk cache that notices every edit.

Numba's own cache looks at the file of the function it compiles, not at the files of the
functions that one calls. The cache folder is therefore named by a hash of all kernel sources.
It lives outside the package, so a read-only installation works as well.

Of two compiled functions that use the same helper with the same types, the one loaded first lends
its copy of the helper to the other, and copies may round differently: fast-math leaves the order
of a sum to the optimizer. Functions that Python calls for different purposes therefore take
workspaces of different types (`propagate.Workspace` and `propagate.Answers`).
"""

import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config as _config

config: Any = _config  # its settings are made at run time, unseen by type checkers

# Vectorizes sums but keeps NaN and infinity checks meaningful (fastmath=True would not).
SAFE_FAST_MATH = {"reassoc", "nsz", "contract", "arcp"}

_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_FOLDERS = ("core", "growth")


def source_digest() -> str:
    """Return a short hash over the text of every module that may hold a kernel."""
    digest = hashlib.sha256()
    for folder in _KERNEL_FOLDERS:
        for path in sorted((_PACKAGE / folder).glob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    digest.update((_PACKAGE / "params.py").read_bytes())
    return digest.hexdigest()[:16]


def _writable_cache_folder() -> str:
    """Return the first folder that can be written: NUMBA_CACHE_DIR, the user's cache, temp."""
    digest = source_digest()
    cache_home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    roots = [
        os.environ.get("NUMBA_CACHE_DIR"),
        Path(cache_home) / "dirad",
        Path(tempfile.gettempdir()) / f"dirad-{os.getuid() if hasattr(os, 'getuid') else 'user'}",
    ]
    for root in filter(None, roots):
        folder = Path(root) / digest
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                return str(folder)
        except OSError:
            continue
    return ""


CACHE_FOLDER = _writable_cache_folder()


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
