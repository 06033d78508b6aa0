"""Blocks: arrays that lie in a file row after row, read some rows at a time."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from dirad.tables.chunk import Chunk, Readable, Unusable, Values
from dirad.tables.error import TableError
from dirad.tables.scan import Kind
from dirad.tables.table import Table, numbered

PIECE = 2**20  # bytes read at once, so that a false header costs no memory
MAX_COLUMNS = 1_000_000


@dataclass(frozen=True)
class Block:
    """What a header says of an array: its first axis counts rows, the others are flattened."""

    place: str  # for complaints
    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    by_column: bool = False  # Fortran order: can only be read whole

    @property
    def n_rows(self) -> int:
        return self.shape[0]

    @property
    def width(self) -> int:
        return math.prod(self.shape[1:])

    @property
    def kind(self) -> Kind:
        if self.dtype.itemsize == 0:
            return "unusable"
        kinds: dict[str, Kind] = {"b": "boolean", "U": "category", "S": "category"}
        return kinds.get(self.dtype.kind, "number" if self.dtype.kind in "iuf" else "unusable")

    def names(self) -> tuple[str, ...]:
        """Return the names of its columns: its own name, or x0, x1, … of an array X or x."""
        if not 1 <= self.width <= MAX_COLUMNS or min(self.shape) < 0:
            raise TableError(f"{self.place}: shape {self.shape}, not rows of 1 or more columns")
        if len(self.shape) == 1:
            return (self.name,)
        return numbered("x" if self.name == "X" else self.name, self.width)

    def rows(self, stream: BinaryIO, rows: int) -> Iterator[Sequence[Values]]:
        """Yield the columns of `rows` rows at a time; a file too short or too long is refused."""
        if self.kind == "unusable":  # Python objects, say: never loaded
            yield from repeat([Unusable(f"type {self.dtype}")] * self.width)
        step = self.n_rows if self.by_column else rows
        for start in range(0, self.n_rows, step):
            array = self._read(stream, start, min(start + step, self.n_rows))
            for part in range(0, len(array), rows):
                yield [self._column(column) for column in array[part : part + rows].T]

    def _read(self, stream: BinaryIO, start: int, stop: int) -> NDArray:
        """Read the rows from `start` to `stop`, with which the file has to end if they do."""
        shape = (stop - start, *self.shape[1:])
        n_bytes = math.prod(shape) * self.dtype.itemsize
        content = _take(stream, n_bytes)
        if len(content) < n_bytes:
            raise TableError(f"{self.place}: ends before row {stop} of {self.n_rows}")
        if stop == self.n_rows and stream.read(1):
            raise TableError(f"{self.place}: goes on after its {self.n_rows} rows")
        array = np.frombuffer(content, self.dtype)
        return array.reshape(shape, order="F" if self.by_column else "C").reshape(stop - start, -1)

    def _column(self, column: NDArray) -> Readable:
        if self.dtype.kind == "S":
            return [text.decode("utf-8", "replace") for text in column.tolist()]
        return column.tolist() if self.dtype.kind == "U" else column


def _take(stream: BinaryIO, n: int) -> bytearray:
    """Read n bytes, or what there is."""
    content = bytearray()
    while len(content) < n and (piece := stream.read(min(PIECE, n - len(content)))):
        content += piece
    return content


def _common_rows(path: Path, blocks: Sequence[Block]) -> int:
    """Return how many rows all blocks have."""
    first = blocks[0]
    for block in blocks:
        if block.n_rows != first.n_rows:
            raise TableError(
                f"{path}: {block.place} has {block.n_rows:,} rows, {first.place} {first.n_rows:,}"
            )
    if first.n_rows == 0:
        raise TableError(f"{path}: no rows")
    if all(block.kind == "unusable" for block in blocks):
        raise TableError(f"{path}: no array of numbers, booleans or text")
    return first.n_rows


def open_blocks(
    path: Path,
    format: str,
    blocks: Sequence[Block],
    streams: Callable[[ExitStack], Iterator[BinaryIO]],
    files: tuple[Path, ...],
) -> Table:
    """Return the table of some blocks side by side.

    `streams` opens, on the stack given, one stream per block that stands at its first row.
    """
    n_rows = _common_rows(path, blocks)
    names = [block.names() for block in blocks]
    kinds: dict[str, Kind] = {
        name: block.kind for block, own in zip(blocks, names, strict=True) for name in own
    }

    def read(rows: int) -> Iterator[Chunk]:
        with ExitStack() as stack:
            parts = [b.rows(s, rows) for b, s in zip(blocks, streams(stack), strict=True)]
            for start in range(0, n_rows, rows):
                columns = chain(*(next(part) for part in parts))
                chunk = dict(zip(chain(*names), columns, strict=True))
                yield Chunk(str(path), chunk, range(start + 1, min(start + rows, n_rows) + 1))

    return Table(path, format, tuple(chain(*names)), read, n_rows, kinds, files)
