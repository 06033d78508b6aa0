"""Files as bytes: opened or refused with a reason, unzipped where they are gzipped."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from dirad.tables.error import TableError

GZIP = b"\x1f\x8b"


@contextmanager
def failures_named(path: Path, *damage: type[Exception]) -> Iterator[None]:
    """Turn what the system says, and exceptions of kind `damage`, into a `TableError`."""
    try:
        yield
    except (TableError, BrokenPipeError):  # whoever reads the output has seen enough
        raise
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{path}: damaged or cut off ({error})") from error
    except damage as error:
        raise TableError(f"{path}: damaged ({error})") from error
    except OSError as error:
        raise TableError(f"{path}: {error.strerror or error}") from error


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that is there and is a file."""
    path = Path(path).expanduser()
    with failures_named(path):
        path.stat()
    if path.is_dir():
        raise TableError(f"{path}: a folder, not a file")
    if not path.is_file():  # it is read more than once, which a pipe cannot be
        raise TableError(f"{path}: not a regular file")
    return path


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be read as bytes; what is gzipped, whatever its name, is unzipped."""
    with failures_named(path), open(path, "rb") as file:
        if file.peek(2)[:2] == GZIP:
            with gzip.open(file) as unzipped:
                yield cast(BinaryIO, unzipped)
        else:
            yield file


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as it lies on the disk, in hexadecimal."""
    path = existing_file(path)
    with failures_named(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
