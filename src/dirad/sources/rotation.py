"""Rotated files: which there are, and which of them is the one that was read so far."""

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

MARK = 4096  # bytes before a place by which the place is recognized
HEAD = 65536  # bytes by which a file is recognized as a copy of another
ROTATED = re.compile(r"[.-]\d[\dT._-]*")  # log.csv.1, log.csv-20260131; not log.csv.1.gz
LOOKS = 100  # at a folder whose files are being renamed


class Changed(Exception):
    """A file is no longer what it was."""


class Found(NamedTuple):
    """A file at some moment."""

    path: Path
    device: int
    inode: int
    size: int
    modified: int  # ns

    @property
    def identity(self) -> tuple[int, int]:
        """Which file it is, whatever its name."""
        return self.device, self.inode


def files_of(path: Path) -> list[Found]:
    """Return a file and those that it was rotated to, oldest first; the file itself is the last.

    While files are renamed, one may be seen twice or not at all: two looks must agree.
    """
    found = _look(path)
    for _ in range(LOOKS):
        again = _look(path)
        if again == found:
            break
        found = again
    return found


def _look(path: Path) -> list[Found]:
    found: list[tuple[tuple[int, int, int, str], Found]] = []
    with os.scandir(path.parent) as entries:
        names = [entry.name for entry in entries if entry.name.startswith(path.name)]
    for name in names:
        ending = name[len(path.name) :]
        if ending and not ROTATED.fullmatch(ending):
            continue
        try:
            stat = os.stat(path.parent / name)
        except OSError:
            continue
        one = Found(path.parent / name, stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        found.append((_age(ending, stat.st_mtime_ns), one))
    found.sort(key=lambda pair: pair[0])
    return [one for _, one in found]


def _age(ending: str, modified: int) -> tuple[int, int, int, str]:
    """Return what sorts files from old to new; of .2 and .1, the first is older."""
    number = int(ending[1:]) if re.fullmatch(r"\.\d{1,4}", ending) else 0
    return (0 if ending else 1), modified, -number, ending


@contextmanager
def opened(found: Found) -> Iterator[int]:
    """Open a file that was found; raise `Changed` if another one has its name by now."""
    try:
        handle = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Changed from None
    try:
        stat = os.fstat(handle)
        if (stat.st_dev, stat.st_ino) != found.identity:
            raise Changed
        yield handle
    finally:
        os.close(handle)


def mark_of(before: bytes) -> str:
    """Return the mark of a place in a file, by what is before it.

    >>> mark_of(b"a,b") == mark_of(b"a,b"), mark_of(b"a,b") == mark_of(b"a,c")
    (True, False)
    """
    return hashlib.sha256(before[-MARK:]).hexdigest() if before else ""


def mark_at(handle: int, offset: int) -> str | None:
    """Return the mark of a place in an open file; None if the file is shorter."""
    n = min(offset, MARK)
    raw = os.pread(handle, n, offset - n)
    return mark_of(raw) if len(raw) == n else None


def is_prefix(one: Found, other: Found) -> bool:
    """Say whether two files begin in the same way, as a file and its copy do."""
    n = min(one.size, other.size, HEAD)
    with opened(one) as first, opened(other) as second:
        return os.pread(first, n, 0) == os.pread(second, n, 0)
