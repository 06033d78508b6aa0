"""The values of a column: text read as numbers, booleans or categories, and a column's summary."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Text that means "no value", whatever spaces surround it.
MISSING = frozenset({"", "NA", "<NA>", "N/A", "n/a", "NaN", "nan", "null", "NULL"})
WHOLE = re.compile(
    r"[+-]?\d{1,30}(\.0*)?"
)  # a whole number, also as floating-point columns write it
BOOLEANS = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
MAX_DISTINCT = 1000  # distinct values counted per column, so that memory stays bounded
MAX_CODES = 20  # distinct values that may still be codes rather than measurements

Kind = Literal["number", "category", "boolean", "unusable"]


class Unusable(NamedTuple):
    """A column whose type is not number, boolean or text, such as 'timestamp[us]'."""

    type: str
    times: Sequence[str | None] | None = None  # as ISO 8601 text, if that is what the column holds


# A column as it is read: text (None: missing), or an array of numbers (NaN: missing) or booleans.
Readable = list[str] | list[str | None] | NDArray
Values = Readable | Unusable


def category(text: str | None) -> str | None:
    """Strip surrounding spaces; return None if the text means "no value".

    >>> category(" red "), category("NA")
    ('red', None)
    """
    text = text and text.strip()
    return None if text is None or text in MISSING else text


def number(text: str) -> float | None:
    """Return text as a number, or None if it is not a number.

    >>> number("1e3"), number("1_000"), number("abc")
    (1000.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def whole_number(text: str) -> int | None:
    """Return text as a whole number, or None if it is none.

    >>> whole_number("12"), whole_number("1.0"), whole_number("1.5"), whole_number("1_0")
    (12, 1, None, None)
    """
    return int(text.partition(".")[0]) if WHOLE.fullmatch(text) else None


def boolean(text: str) -> float | None:
    """Return 1 for true, 0 for false, None for anything else.

    >>> boolean("True"), boolean("0"), boolean("maybe")
    (1.0, 0.0, None)
    """
    return BOOLEANS.get(text.lower())


def parse(
    texts: Sequence[str | None], parse_one: Callable[[str], float | None]
) -> tuple[NDArray[np.float64], int]:
    """Return a column of text as numbers (NaN: missing), and the first row that fails, or -1."""
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(map(category, texts)):
        if text is not None:
            value = parse_one(text)
            if value is None:
                return values, row
            values[row] = value
    return values, -1


def parse_numbers(texts: Sequence[str | None]) -> tuple[NDArray[np.float64], int]:
    """Do the same as `parse(texts, number)`, but faster if no value is missing."""
    try:
        values = np.fromiter(map(float, texts), np.float64, len(texts))  # type: ignore[arg-type]
        if "_" not in "".join(texts):  # type: ignore[arg-type]
            return values, -1
    except (ValueError, TypeError):  # a missing value, or text that is not a number
        pass
    return parse(texts, number)


def text_of(value: float | bool) -> str | None:
    """Return a number or a boolean as text, None for NaN.

    >>> text_of(3.0), text_of(0.5), text_of(True)
    ('3', '0.5', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return None
    return str(int(value)) if float(value).is_integer() else repr(value)


def iso_texts(times: NDArray[np.datetime64], zone: str = "") -> list[str | None]:
    """Return times as ISO 8601 text, to the microsecond; None where one is missing.

    >>> iso_texts(np.array(["2026-03-29T01:30", "NaT"], "M8[s]"), "+00:00")
    ['2026-03-29T01:30:00.000000+00:00', None]
    """
    texts = np.datetime_as_string(times.astype("M8[us]")).tolist()
    return [None if text == "NaT" else text + zone for text in texts]


def count(values: Readable) -> Counter[str]:
    """Return how often each category occurs in a column; missing values are not counted."""
    if isinstance(values, np.ndarray):
        distinct, times = np.unique(values, return_counts=True)
        pairs = zip(map(text_of, distinct.tolist()), times.tolist(), strict=True)
    else:
        pairs = ((category(text), n) for text, n in Counter(values).items())
    counts: Counter[str] = Counter()
    for text, n in pairs:
        if text is not None:
            counts[text] += n
    return counts


@dataclass
class Summary:
    """What a column contains, accumulated chunk by chunk."""

    n_rows: int = 0  # rows
    n_values: int = 0  # values that are not missing
    n_numbers: int = 0  # values that can be read as numbers
    counts: Counter[str] = field(default_factory=Counter)  # of each distinct value
    counted_all: bool = True  # False: more than MAX_DISTINCT distinct values; counting stopped
    unusable: str | None = None  # the type of a column that cannot be used

    @property
    def has_gaps(self) -> bool:
        """Is a value missing?"""
        return self.n_values < self.n_rows

    @property
    def kind(self) -> Kind:
        """The kind of the column.

        Boolean: only true and false. Number: only numbers, or more numbers than other text if
        values rarely repeat (the other text is then a mistake, and refused when it is read).
        Otherwise category.
        """
        if self.unusable is not None:
            return "unusable"
        if self.counts and {text.lower() for text in self.counts} <= {"true", "false"}:
            return "boolean"
        if self.n_values and self.n_numbers == self.n_values:
            return "number"
        rarely_repeats = len(self.counts) > MAX_CODES or 2 * len(self.counts) > self.n_values
        return "number" if 2 * self.n_numbers > self.n_values and rarely_repeats else "category"

    def add(self, values: Values) -> None:
        """Include the values of one more chunk."""
        if isinstance(values, Unusable):
            self.unusable = values.type
            return
        if isinstance(values, np.ndarray):
            numbers, failed = values.astype(np.float64), -1
        else:
            numbers, failed = parse_numbers(values)
        counts: Counter[str] = Counter()
        if failed >= 0 or self.counted_all:
            counts = count(values)
        if failed < 0:
            n_values = n_numbers = int(np.count_nonzero(~np.isnan(numbers)))
        else:
            n_values = counts.total()
            n_numbers = sum(n for text, n in counts.items() if number(text) is not None)
        self.n_rows += len(values)
        self.n_values += n_values
        self.n_numbers += n_numbers
        if self.counted_all:
            self.counts.update(counts)
            self.counted_all = len(self.counts) <= MAX_DISTINCT
