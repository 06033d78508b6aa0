"""Files that are written whole or not at all, and by one process at a time."""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on every system: there, nothing is locked
    fcntl = None

SHORT = 40  # characters of a file's name in that of its new content: together 255 bytes at most
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)  # said without a name


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a new file beside `path` to write; it takes the place of `path` when all went well.

    Whatever happens, a reader finds the old file or the new one, whole; a file that could not be
    written is removed. Of a symbolic link the target is replaced, and the link stays.
    """
    target = destination(path)
    with named(path):
        part = _new_file(target)
    with named(path, part):
        try:
            yield part
            _sync(part)
            os.chmod(part, _permissions(target))
            os.replace(part, target)
        except BaseException:
            with suppress(OSError):
                part.unlink()
            raise
    with suppress(OSError):  # some file systems cannot sync a folder
        _sync(target.parent)


@contextmanager
def new_folder(path: str | Path) -> Iterator[Path]:
    """Give a folder beside `path` to fill; it becomes `path`, which must be new or empty.

    Whatever happens, there is the whole folder or none.
    """
    target = check_new_folder(path)
    with named(path):
        prefix = f".{target.name[:SHORT]}."
        part = Path(tempfile.mkdtemp(prefix=prefix, suffix=".part", dir=target.parent))
    with named(path, part):
        try:
            yield part
            for inside in (part, *part.rglob("*")):
                with suppress(OSError):  # some file systems cannot sync a folder
                    _sync(inside)
            os.chmod(part, 0o777 & ~_mask())
            with suppress(FileNotFoundError):
                target.rmdir()
            part.rename(target)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
    with suppress(OSError):
        _sync(target.parent)


def check_new_folder(path: str | Path) -> Path:
    """Return where a new folder will be, symbolic links followed; refuse what holds something."""
    target = Path(os.path.realpath(path))
    if os.path.lexists(target) and not target.is_dir():
        raise FileExistsError(errno.EEXIST, "there is a file already: name a new folder", str(path))
    if target.is_dir() and os.listdir(target):
        why = "this folder is not empty: name a new one"
        raise FileExistsError(errno.EEXIST, why, str(path))
    if not target.parent.is_dir():
        why = f"there is no folder {Path(path).parent}"
        raise FileNotFoundError(errno.ENOENT, why, str(path))
    return target


def destination(path: str | Path) -> Path:
    """Return the file that a path means, symbolic links followed; refuse what is no place for one.

    A file that is not there can be made: this is tried, so that nothing is computed in vain.
    """
    target = Path(os.path.realpath(path))
    try:
        found = os.stat(path)
    except FileNotFoundError:
        found = None  # a new file, or a link to one
    except OSError as error:
        loop = error.errno == errno.ELOOP
        why = "a symbolic link that leads back to itself" if loop else error.strerror
        raise OSError(error.errno, why, str(path)) from error
    if found is not None and stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "this is a folder; name a file in it", str(path))
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if not target.parent.is_dir():
        why = f"there is no folder {target.parent if os.path.islink(path) else Path(path).parent}"
        raise FileNotFoundError(errno.ENOENT, why, str(path))
    with named(path):
        _new_file(target).unlink()
    return target


def _new_file(target: Path) -> Path:
    """Make an empty file, of no other name, beside another."""
    prefix = f".{target.name[:SHORT]}."
    handle, name = tempfile.mkstemp(prefix=prefix, suffix=".part", dir=target.parent)
    os.close(handle)
    return Path(name)


@contextmanager
def named(path: str | Path, part: Path | None = None) -> Iterator[None]:
    """Let what the system says name the file that was to be written, not its new content."""
    try:
        yield
    except OSError as error:
        nameless = error.filename is None and error.errno in FULL
        if part is not None and not nameless and str(error.filename) != str(part):
            raise  # of another file
        why = f"cannot be written: {error.strerror}"
        raise OSError(error.errno, why, str(path)) from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _permissions(path: Path) -> int:
    """Return those of the file that is replaced, else those of any new file."""
    if path.exists():
        return path.stat().st_mode & 0o777
    return 0o666 & ~_mask()


def _mask() -> int:
    """Return the permissions that new files do not get."""
    mask = os.umask(0)
    os.umask(mask)
    return mask


# ------------------------------------------------------------------ one process at a time


@contextmanager
def claimed(path: str | Path) -> Iterator[Callable[[], bool]]:
    """Let no other process claim the file in this block; refuse it where another one did.

    Yields a function that says whether the file is still what it was: those who write it without
    a claim are not kept from it. The system ends a claim with its process, however that ends.
    """
    target = destination(path)
    lock = target.with_name(_lock_name(target.name))
    handle = None if fcntl is None else _locked(lock, path)
    try:
        before = _digest(target)
        yield lambda: _digest(target) == before
    finally:
        if handle is not None:
            with suppress(OSError):
                lock.unlink()  # while it is locked: a file of that name is the one that is locked
            os.close(handle)


def _lock_name(name: str) -> str:
    """Return the name of a lock file; a long name is shortened and made unique by a digest.

    >>> _lock_name("plant.dirad")
    '.plant.dirad.lock'
    """
    if len(name) <= SHORT:
        return f".{name}.lock"
    return f".{name[:SHORT]}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}.lock"


def _locked(lock: Path, path: str | Path) -> int:
    """Return a handle on a lock file that this process alone has locked."""
    assert fcntl is not None
    while True:
        with named(path):
            handle = _opened(lock)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            why = "another process is about to write this file"
            raise BlockingIOError(error.errno, why, str(path)) from None
        except OSError:
            return handle  # a file system without locks
        if _is_at(handle, lock):
            return handle
        os.close(handle)  # whoever had it before has removed it


def _opened(lock: Path) -> int:
    """Open a lock file; it may be there already, and belong to another user."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        return os.open(lock, os.O_RDWR | os.O_CREAT | flags, 0o666)
    except PermissionError:
        return os.open(lock, os.O_RDONLY | flags)


def _is_at(handle: int, path: Path) -> bool:
    """Say whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _digest(path: Path) -> bytes | None:
    """Return the digest of a file, None where there is none that can be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return None
