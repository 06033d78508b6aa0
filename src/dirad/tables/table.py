"""Table: a data file as named columns, read chunk by chunk."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from dirad.tables.chunk import Chunk
from dirad.tables.error import TableError, first_repeated, no_column, shown
from dirad.tables.scan import Kind, Summary, scan

CHUNK_ROWS = 10_000


class Column(NamedTuple):
    """A column's name and kind."""

    name: str
    kind: Kind


def numbered(stem: str, n: int) -> tuple[str, ...]:
    """Return names for columns that have none.

    >>> numbered("x", 3)
    ('x0', 'x1', 'x2')
    """
    return tuple(f"{stem}{i}" for i in range(n))


@dataclass(frozen=True)
class Table:
    """A data file: its columns, and its rows as a stream that can be started again and again."""

    path: Path
    format: str  # "csv", "parquet", "npz" or "idx"
    names: tuple[str, ...]
    read: Callable[[int], Iterator[Chunk]]  # rows per chunk -> the chunks
    n_rows: int | None = None  # None: not known before all was read
    kinds: Mapping[str, Kind] | None = None  # None: the file does not say; its values do
    files: tuple[Path, ...] = ()  # all that is read: the path alone, or images and labels
    has_header: bool = True  # False: the columns got their names here

    def __post_init__(self) -> None:
        repeated = first_repeated(self.names)
        if repeated is not None:
            raise TableError(f"{self.path}: two columns are named {shown(repeated)}")

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """What each column holds, by name: one pass over the file."""
        return scan(self.chunks())

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Names and kinds; of a text file they are known after one pass over it."""
        if self.kinds is not None:
            return tuple(Column(name, self.kinds[name]) for name in self.names)
        return tuple(Column(name, self.summaries[name].kind) for name in self.names)

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Yield all rows in order, `rows` at a time; memory does not grow with the file."""
        if rows < 1:
            raise ValueError(f"rows must be 1 or more, not {rows}")
        return self.read(rows)

    def require(self, name: str) -> None:
        """Refuse a column that is not there."""
        if name not in self.names:
            if self.has_header:
                raise no_column(self.path, name, self.names)
            raise TableError(
                f"{self.path}: no column {shown(name)}; it has no header (its first line holds "
                f"numbers), so that its columns are named {self.names[0]} to {self.names[-1]}"
            )
