"""Table and Chunk: a data file as named columns, read some rows at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.tables import values as parsing
from dirad.tables.errors import TableError, drop_options, first_repeated, no_column, shown
from dirad.tables.values import Kind, Readable, Summary, Unusable, Values

CHUNK_ROWS = 10_000


@dataclass(frozen=True)
class Chunk:
    """Consecutive rows of a table; every error names the file, the row and the column."""

    file: str
    columns: Mapping[str, Values]
    rows: Sequence[int]  # of each row: its line in a text file, otherwise its number from 1
    unit: str = "row"  # "line" in text files

    def __len__(self) -> int:
        return len(self.rows)

    def error(self, row: int, name: str, reason: str) -> TableError:
        """Return the error for one value; `row` counts from 0 within the chunk."""
        place = f"{self.file}, {self.unit} {self.rows[row]}, column {shown(name)}"
        return TableError(f"{place}: {reason}")

    def values(self, name: str) -> Readable:
        """Return a column as it was read."""
        if name not in self.columns:
            raise no_column(self.file, name, self.columns)
        values = self.columns[name]
        if isinstance(values, Unusable):
            raise TableError(
                f"{self.file}: column {shown(name)} holds {values.type}, not numbers, booleans or "
                f"text; leave it out ({drop_options([name])})"
            )
        return values

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, NaN where a value is missing."""
        values = self.values(name)
        if isinstance(values, np.ndarray):
            return values.astype(np.float64)
        numbers, failed = parsing.parse_numbers(values)
        self._refuse(failed, name, "is not a number")
        return numbers

    def booleans(self, name: str) -> NDArray[np.float64]:
        """Return a column of true and false (or 1 and 0) as 1 and 0, NaN where one is missing."""
        values = self.values(name)
        if isinstance(values, np.ndarray) and values.dtype == bool:
            return values.astype(np.float64)
        booleans, failed = parsing.parse(self.texts(name), parsing.boolean)
        self._refuse(failed, name, "is neither true nor false")
        return booleans

    def texts(self, name: str) -> list[str | None]:
        """Return a column as text without surrounding spaces, None where a value is missing."""
        values = self.values(name)
        if isinstance(values, np.ndarray):
            return [parsing.text_of(value) for value in values.tolist()]
        return [parsing.category(text) for text in values]

    def _refuse(self, failed: int, name: str, reason: str) -> None:
        if failed >= 0:
            raise self.error(failed, name, f"{shown(self.texts(name)[failed])} {reason}")


class Column(NamedTuple):
    """A column's name and kind."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Table:
    """A data file: its columns, and its rows as a stream that can be read repeatedly."""

    path: Path
    format: str  # "csv", "parquet", "npz" or "idx"
    names: tuple[str, ...]
    read: Callable[[int], Iterator[Chunk]]  # rows per chunk -> the chunks
    n_rows: int | None = None  # None: unknown until the whole file has been read
    kinds: Mapping[str, Kind] | None = None  # None: found from the values
    files: tuple[Path, ...] = ()  # all files that are read: images and labels, for example
    has_header: bool = True  # False: the columns are named x0, x1, …

    def __post_init__(self) -> None:
        repeated = first_repeated(self.names)
        if repeated is not None:
            raise TableError(f"{self.path}: two columns are named {shown(repeated)}")

    @cached_property
    def summaries(self) -> dict[str, Summary]:
        """A summary of each column, by name; takes one pass over the file."""
        summaries = {name: Summary() for name in self.names}
        for chunk in self.chunks():
            for name, values in chunk.columns.items():
                summaries[name].add(values)
        return summaries

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """Names and kinds; for a text file this takes one pass over it."""
        if self.kinds is not None:
            return tuple(Column(name, self.kinds[name]) for name in self.names)
        return tuple(Column(name, self.summaries[name].kind) for name in self.names)

    def chunks(self, rows: int = CHUNK_ROWS) -> Iterator[Chunk]:
        """Yield all rows in order, `rows` at a time; memory does not grow with the file."""
        if rows < 1:
            raise ValueError(f"rows must be 1 or more, not {rows}")
        return self.read(rows)

    def require(self, name: str) -> None:
        """Raise an error if there is no column of this name."""
        if name in self.names:
            return
        if self.has_header:
            raise no_column(self.path, name, self.names)
        raise TableError(
            f"{self.path}: no column {shown(name)}; it has no header (its first line holds "
            f"numbers), so its columns are named {self.names[0]} to {self.names[-1]}"
        )
