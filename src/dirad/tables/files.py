"""Data files as bytes: opened with clear errors, and decompressed if they are gzipped."""

import gzip
import hashlib
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from dirad.tables.errors import TableError

GZIP = b"\x1f\x8b"


@contextmanager
def failures_named(path: Path, *damage: type[Exception]) -> Iterator[None]:
    """Turn system errors, and exceptions of the types `damage`, into a `TableError`."""
    try:
        yield
    except (TableError, BrokenPipeError):  # a broken pipe: the reader of the output has stopped
        raise
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise TableError(f"{path}: damaged or truncated ({error})") from error
    except damage as error:
        raise TableError(f"{path}: damaged ({error})") from error
    except OSError as error:
        raise TableError(f"{path}: {error.strerror or error}") from error


def existing_file(path: str | os.PathLike[str]) -> Path:
    """Return the path, if it is an existing regular file."""
    path = Path(path).expanduser()
    with failures_named(path):
        path.stat()
    if path.is_dir():
        raise TableError(f"{path}: a folder, not a file")
    if not path.is_file():  # files are read more than once, which a pipe does not allow
        raise TableError(f"{path}: not a regular file")
    return path


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be read as bytes; gzipped content is decompressed, whatever its name."""
    with failures_named(path), open(path, "rb") as file:
        if file.peek(2)[:2] == GZIP:
            with gzip.open(file) as unzipped:
                yield cast(BinaryIO, unzipped)
        else:
            yield file


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of a file as it is on disk, in hexadecimal."""
    path = existing_file(path)
    with failures_named(path), open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
