"""Chunk: some rows of a table, each column as numbers, as booleans or as text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.tables import cells
from dirad.tables.error import TableError, no_column, shown, to_drop


class Unusable(NamedTuple):
    """A column of a type that is neither number nor boolean nor text: 'timestamp[us]', say."""

    type: str


# A column as it was read: text (None where a format knows missing values), or an array of numbers
# (NaN: missing) or booleans.
Readable = list[str] | list[str | None] | NDArray
Values = Readable | Unusable


@dataclass(frozen=True)
class Chunk:
    """Rows of a table that follow each other; every complaint names file, row and column."""

    file: str
    columns: Mapping[str, Values]
    rows: Sequence[int]  # of each row: its line in a text file, else its number from 1
    unit: str = "row"  # "line" in text files

    def __len__(self) -> int:
        return len(self.rows)

    def refusal(self, row: int, name: str, reason: str) -> TableError:
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
                f"{self.file}: column {shown(name)} holds {values.type}, neither numbers nor "
                f"booleans nor text: leave it out ({to_drop([name])})"
            )
        return values

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, NaN where a value is missing."""
        values = self.values(name)
        if isinstance(values, np.ndarray):
            return values.astype(np.float64)
        numbers = cells.numbers(values)
        return numbers if numbers is not None else self._each(name, cells.number, "is no number")

    def booleans(self, name: str) -> NDArray[np.float64]:
        """Return a column of true and false (or 1 and 0) as 1 and 0, NaN where one is missing."""
        values = self.values(name)
        if isinstance(values, np.ndarray) and values.dtype == bool:
            return values.astype(np.float64)
        return self._each(name, cells.truth, "is neither true nor false")

    def texts(self, name: str) -> list[str | None]:
        """Return a column as text without blanks around it, None where a value is missing."""
        values = self.values(name)
        if isinstance(values, np.ndarray):
            return [cells.text_of(value) for value in values.tolist()]
        return [cells.category(text) for text in values]

    def _each(
        self, name: str, parse: Callable[[str], float | None], complaint: str
    ) -> NDArray[np.float64]:
        parsed = np.full(len(self), np.nan)
        for row, text in enumerate(self.texts(name)):
            if text is not None:
                value = parse(text)
                if value is None:
                    raise self.refusal(row, name, f"{shown(text)} {complaint}")
                parsed[row] = value
        return parsed
