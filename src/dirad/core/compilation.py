"""How kernels are compiled: safe fast-math, and a disk cache that notices every edit.

Numba's own cache looks at the file of the function it compiles, not at the files of the
functions that one calls. The cache folder is therefore named by a hash of all kernel sources.
It lives outside the package, so that a read-only installation works as well, and only this user
can write into it.
"""

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar

Record = TypeVar("Record", bound=tuple)

# Vectorizes sums but keeps NaN and infinity checks meaningful (fastmath=True would not).
SAFE_FAST_MATH = {"reassoc", "nsz", "contract", "arcp"}

_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_FOLDERS = ("core", "growth")


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
            if all(
                _make_private_folder(folder, root_may_own=len(folders) == 1) for folder in folders
            ):
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


def _make_private_folder(folder: Path, root_may_own: bool) -> bool:
    """Make a folder, if it is missing; say whether only this user can write into it.

    In a sticky folder such as /tmp nobody else can replace it afterwards.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    if not hasattr(os, "getuid"):
        return True  # there, temporary files are in a folder of the user's own
    found = folder.lstat()  # of a symbolic link, whoever made it, not its target
    owners = {os.getuid(), 0} if root_may_own else {os.getuid()}
    return stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not found.st_mode & 0o022


CACHE_FOLDER = _safe_cache_folder()


class PendingKernel:
    """A kernel before any kernel is called: Numba takes long to import, and is needed only then."""

    loaded = False  # is Numba in use?
    everyone: list["PendingKernel"] = []  # noqa: RUF012 (of all instances)
    lock = RLock()

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self.function = function
        self.options = options
        self.compiled: Any = None
        self.everyone.append(self)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._load_all()(*args, **named)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._load_all(), name)

    def _load_all(self) -> Any:
        """Replace all pending kernels of this package by kernels of Numba; return this one.

        Numba compiles what the globals of a kernel's module refer to, so that these are replaced.
        """
        with self.lock:
            if self.compiled is None:
                PendingKernel.loaded = True
                for one in self.everyone:
                    one.compiled = _compiled(one.function, one.options)
                self.everyone.clear()
                for name, module in list(sys.modules.items()):
                    own_package = name.partition(".")[0] == __name__.partition(".")[0]
                    if own_package and isinstance(module, ModuleType):
                        for key, value in list(vars(module).items()):
                            if type(value) is PendingKernel:
                                setattr(module, key, value.compiled)
        return self.compiled


def _replace_lock_after_fork() -> None:
    """Begin with a free lock: a thread that held it does not exist in a forked process."""
    PendingKernel.lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_replace_lock_after_fork)


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Return a function compiled when it is first called; cached on disk where there is a folder.

    Numba fixes a function's cache folder when the function is decorated, and only then.
    """
    from numba.core import config as numba_config

    config: Any = numba_config  # its settings are made at run time, unseen by type checkers
    if config.DISABLE_JIT:
        return function
    try:
        from dirad.core.whole_program import Kernel
    except ImportError:  # a version of Numba with other internals
        from numba.core.registry import CPUDispatcher as Kernel
    settings = {"nopython": True, "error_model": "numpy", "nogil": True, **options}
    result = Kernel(function, {}, settings)
    if CACHE_FOLDER:
        before = config.CACHE_DIR
        config.CACHE_DIR = CACHE_FOLDER
        try:
            result.enable_caching()
        finally:
            config.CACHE_DIR = before
    return result


RECORDS_MADE_BY_PYTHON: set[type] = set()


def borrowed_by_kernels(record: type[Record]) -> type[Record]:
    """Declare that kernels are passed such a record, but neither make nor return one.

    Kernels then count no references to its arrays. A kernel that made one would leak its arrays.
    """
    RECORDS_MADE_BY_PYTHON.add(record)
    return record


def _kernel(function: Callable[..., Any], **options: Any) -> Any:
    if PendingKernel.loaded:
        return _compiled(function, options)
    return PendingKernel(function, options)


def kernel(function: Callable[..., Any]) -> Any:
    """Compile a function with fast-math that keeps NaN and infinity."""
    return _kernel(function, fastmath=SAFE_FAST_MATH)


def inlined_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function into each of its callers.

    For a part of a kernel that runs once per unit: as a function of its own it would count
    references to every array it is passed, which takes as long as its arithmetic.
    """
    return _kernel(function, fastmath=SAFE_FAST_MATH, forceinline=True)


def strict_order_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function whose arithmetic keeps the order in which it is written.

    Only a product and a sum may be fused. Used where parameters are computed: the last bits of a
    network then do not depend on how the optimizer orders sums and products.
    """
    return _kernel(function, fastmath={"contract"})


def exact_kernel(function: Callable[..., Any]) -> Any:
    """Compile a function whose results equal those of plain arithmetic to the last bit.

    Nothing is reordered, and no product is fused with a sum. Used where NumPy and SciPy compute the
    same wherever Numba is not loaded.
    """
    return _kernel(function)


def are_kernels_loaded() -> bool:
    """Is Numba in use by this process, so that another kernel costs no import?"""
    return PendingKernel.loaded
