"""What a table holds: one pass over all rows, the kind of each column and its categories."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from dirad.tables import cells
from dirad.tables.chunk import Chunk, Readable, Unusable

Kind = Literal["number", "category", "boolean", "unusable"]

MAX_DISTINCT = 1000  # different values counted per column; memory stays bounded
FEW = 20  # different values that may still be codes rather than measurements


@dataclass
class Summary:
    """What a column holds."""

    n_values: int = 0  # values that are not missing
    n_missing: int = 0
    n_numbers: int = 0  # values that can be read as numbers
    counts: Counter[str] = field(default_factory=Counter)  # of each different value
    counted_all: bool = True  # False: there are more than MAX_DISTINCT, and counting has stopped
    unusable: str | None = None  # the type of a column that cannot be used

    @property
    def kind(self) -> Kind:
        """What the values look like.

        Boolean: true and false alone. Number: numbers alone, or more numbers than other text if
        the values hardly repeat (the other text is then a mistake, and refused when it is read).
        Else category.
        """
        if self.unusable is not None:
            return "unusable"
        if self.counts and {text.lower() for text in self.counts} <= {"true", "false"}:
            return "boolean"
        if self.n_values and self.n_numbers == self.n_values:
            return "number"
        hardly_repeats = len(self.counts) > FEW or 2 * len(self.counts) > self.n_values
        return "number" if 2 * self.n_numbers > self.n_values and hardly_repeats else "category"

    def add(self, values: Readable) -> None:
        """Take in more values."""
        array = isinstance(values, np.ndarray)
        numbers = values.astype(np.float64) if array else cells.numbers(values)
        counted: Counter[str | None] = Counter()
        if numbers is None or self.counted_all:
            counted = cells.counts(values)
        if numbers is None:
            missing = counted[None]
            self.n_numbers += sum(n for text, n in counted.items() if _is_number(text))
        else:
            missing = int(np.count_nonzero(np.isnan(numbers)))
            self.n_numbers += len(values) - missing
        self.n_missing += missing
        self.n_values += len(values) - missing
        self._count(counted)

    def _count(self, counted: Counter[str | None]) -> None:
        if self.counted_all:
            self.counts.update({text: n for text, n in counted.items() if text is not None})
            self.counted_all = len(self.counts) <= MAX_DISTINCT


def _is_number(text: str | None) -> bool:
    return text is not None and cells.number(text) is not None


def scan(chunks: Iterable[Chunk]) -> dict[str, Summary]:
    """Return what each column holds."""
    summaries: dict[str, Summary] = {}
    for chunk in chunks:
        for name, values in chunk.columns.items():
            summary = summaries.setdefault(name, Summary())
            if isinstance(values, Unusable):
                summary.unusable = values.type
            else:
                summary.add(values)
    return summaries
