"""NPZ and IDX: arrays stored row by row, read some rows at a time. Nothing is ever unpickled."""

import math
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, repeat
from lzma import LZMAError
from pathlib import Path
from typing import Any, BinaryIO, cast
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dirad.tables.errors import TableError
from dirad.tables.files import existing_file, failures_named, opened
from dirad.tables.table import Chunk, Table
from dirad.tables.values import Kind, Unusable, Values, iso_texts

PIECE = 2**20  # bytes read at once, so that a false header costs no memory
MAX_COLUMNS = 1_000_000
KINDS: dict[str, Kind] = {  # by NumPy's letter for the type
    "b": "boolean",
    "i": "number",
    "u": "number",
    "f": "number",
    "U": "category",
    "S": "category",
}
# The errors that a damaged NPZ archive causes.
DAMAGE = (BadZipFile, LZMAError, ValueError, NotImplementedError, RuntimeError)
# The third byte of an IDX file gives the type of its numbers; all are big-endian.
IDX_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


@dataclass(frozen=True)
class Array:
    """The header of a stored array: its first axis counts rows, the others are flattened."""

    place: str  # for error messages
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    by_column: bool = False  # Fortran order: can only be read whole

    @property
    def kind(self) -> Kind:
        """The kind of all its columns."""
        return KINDS.get(self.dtype.kind, "unusable") if self.dtype.itemsize else "unusable"

    def names(self) -> tuple[str, ...]:
        """Return the names of its columns: its own name, or x0, x1, … for an array X or x."""
        width = math.prod(self.shape[1:])
        if not 1 <= width <= MAX_COLUMNS or min(self.shape) < 0:
            raise TableError(f"{self.place}: shape {self.shape}, not rows of 1 or more columns")
        if len(self.shape) == 1:
            return (self.name,)
        stem = "x" if self.name == "X" else self.name
        return tuple(f"{stem}{i}" for i in range(width))

    def chunks(self, stream: BinaryIO, rows: int) -> Iterator[Sequence[Values]]:
        """Yield its columns, `rows` rows at a time; a file too short or too long is refused."""
        # Python objects, for example, are never loaded. Dates are, to order rows by them.
        if self.kind == "unusable" and self.dtype.kind != "M":
            yield from repeat([Unusable(f"type {self.dtype}")] * math.prod(self.shape[1:]))
        n_rows = self.shape[0]
        step = n_rows if self.by_column else rows
        for start in range(0, n_rows, step):
            array = self._read(stream, start, min(start + step, n_rows))
            for part in range(0, len(array), rows):
                yield [self._column(column) for column in array[part : part + rows].T]

    def _read(self, stream: BinaryIO, start: int, stop: int) -> NDArray:
        """Read the rows from `start` to `stop`; after the last row the file has to end."""
        shape, n_rows = (stop - start, *self.shape[1:]), self.shape[0]
        n_bytes = math.prod(shape) * self.dtype.itemsize
        content = bytearray()
        while piece := stream.read(min(PIECE, n_bytes - len(content))):
            content += piece
        if len(content) < n_bytes:
            raise TableError(f"{self.place}: ends before row {stop} of {n_rows}")
        if stop == n_rows and stream.read(1):
            raise TableError(f"{self.place}: goes on after its {n_rows} rows")
        array = np.frombuffer(content, self.dtype)
        return array.reshape(shape, order="F" if self.by_column else "C").reshape(stop - start, -1)

    def _column(self, column: NDArray) -> Values:
        if self.dtype.kind == "M":
            return Unusable(f"type {self.dtype}", iso_texts(column))
        if self.dtype.kind == "S":
            return [text.decode("utf-8", "replace") for text in column.tolist()]
        return column.tolist() if self.dtype.kind == "U" else column


# Opens on a stack, array by array, a stream that is positioned at the first row.
OpenArrays = Callable[[ExitStack], Iterator[tuple[Array, BinaryIO]]]


def _table(path: Path, format: str, files: tuple[Path, ...], open_arrays: OpenArrays) -> Table:
    """Return the table of some arrays side by side."""
    with ExitStack() as stack:
        arrays = [array for array, _ in open_arrays(stack)]
    n_rows = _common_rows(path, arrays)
    names = [array.names() for array in arrays]
    kinds: dict[str, Kind] = {}
    for array, own in zip(arrays, names, strict=True):
        kinds |= dict.fromkeys(own, array.kind)

    def read(rows: int) -> Iterator[Chunk]:
        with ExitStack() as stack:
            parts = [array.chunks(stream, rows) for array, stream in open_arrays(stack)]
            for start in range(0, n_rows, rows):
                columns = chain(*(next(part) for part in parts))
                chunk = dict(zip(chain(*names), columns, strict=True))
                yield Chunk(str(path), chunk, range(start + 1, min(start + rows, n_rows) + 1))

    return Table(path, format, tuple(chain(*names)), read, n_rows, kinds, files)


def _common_rows(path: Path, arrays: Sequence[Array]) -> int:
    """Return the number of rows, which must be the same for all arrays."""
    if not arrays:
        raise TableError(f"{path}: no array in it")
    first = arrays[0]
    n_rows = first.shape[0]
    for array in arrays:
        if array.shape[0] != n_rows:
            raise TableError(
                f"{path}: {array.place} has {array.shape[0]:,} rows, {first.place} {n_rows:,}"
            )
    if n_rows == 0:
        raise TableError(f"{path}: no rows")
    if all(array.kind == "unusable" for array in arrays):
        raise TableError(f"{path}: no array of numbers, booleans or text")
    return n_rows


def open_npz(path: Path) -> Table:
    """Open arrays of equal length: a one-dimensional array is a column of the same name.

    An array X of more dimensions gives columns x0, x1, …; any other gives columns named by its name
    and a number. Single values are left out.
    """

    def open_arrays(stack: ExitStack) -> Iterator[tuple[Array, BinaryIO]]:
        stack.enter_context(failures_named(path, *DAMAGE))
        archive = stack.enter_context(ZipFile(path))
        for info in archive.infolist():
            if not info.filename.endswith(".npy"):
                found = f"holds {info.filename!r}, not an array"
                raise TableError(f"{path}: {found}: this is not an NPZ file")
            name = info.filename.removesuffix(".npy")
            stream = stack.enter_context(archive.open(info))
            shape, by_column, dtype = _npy_header(stream)
            if shape:
                array = Array(f"{path}, array {name!r}", name, dtype, shape, by_column)
                yield array, cast(BinaryIO, stream)

    return _table(path, "npz", (path,), open_arrays)


def _npy_header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Read the header of an array: its shape, whether it is stored by columns, its type."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(stream)


def open_idx(path: Path, labels: Path | None = None) -> Table:
    """Open images in MNIST's format (columns x0, x1, …: pixels) and their labels (column label).

    If no file of labels is given, it is looked for beside the images under MNIST's names
    (train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or gzipped); without one there is no
    column `label`. A file of labels can be opened alone.
    """
    if labels is None:
        labels = find_labels(path)
    files = (path,) if labels is None else (path, existing_file(labels))

    def open_arrays(stack: ExitStack) -> Iterator[tuple[Array, BinaryIO]]:
        for file in files:
            stream = stack.enter_context(opened(file))
            dtype, shape = read_idx_header(stream, str(file))
            yield Array(str(file), "X" if len(shape) > 1 else "label", dtype, shape), stream

    return _table(path, "idx", files, open_arrays)


def find_labels(images: Path) -> Path | None:
    """Return the file of labels whose name corresponds to a file of images, if there is one."""
    if "images" not in images.name:
        return None
    name = re.sub(r"idx\d", "idx1", images.name.replace("images", "labels")).removesuffix(".gz")
    candidates = (images.with_name(name), images.with_name(name + ".gz"))
    return next((path for path in candidates if path.is_file()), None)


def read_idx_header(stream: BinaryIO, place: str) -> tuple[np.dtype, tuple[int, ...]]:
    """Return type and shape of an IDX file: 0, 0, type, number of axes; then each axis' length.

    >>> import io
    >>> read_idx_header(io.BytesIO(bytes([0, 0, 8, 1, 0, 0, 0, 5])), "labels")
    (dtype('uint8'), (5,))
    """
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in IDX_TYPES or magic[3] == 0:
        raise TableError(f"{place}: not an IDX file")
    axes = stream.read(4 * magic[3])
    if len(axes) < 4 * magic[3]:
        raise TableError(f"{place}: ends inside its header")
    return np.dtype(IDX_TYPES[magic[2]]), struct.unpack(f">{magic[3]}I", axes)
