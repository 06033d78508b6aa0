"""The time column of a stream: it orders the rows, and is not an input."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np

from dirad.tables import values as parsing
from dirad.tables.errors import shown
from dirad.tables.fields import check
from dirad.tables.table import Chunk, Table
from dirad.tables.values import Unusable, Values

NUMBER, LOCAL, ZONED = KINDS = ("number", "date-time", "date-time with time zone")
MAX_WHOLE = 2**63  # above it, whole numbers are rounded as floats are

Moment = float | datetime  # whole numbers stay exact


@dataclass(frozen=True)
class Time:
    """The column that orders the rows of a stream, and the time of the last row learned."""

    name: str
    kind: str  # "number", or an ISO 8601 date-time, all with a time zone or all without
    last: float | str | None = None  # a date-time as text; None: nothing is learned yet

    def __post_init__(self) -> None:
        check(isinstance(self.name, str), "the time has no name")
        check(self.kind in KINDS, f"time {self.name!r}: kind {self.kind!r}")
        valid = self.last is None
        if isinstance(self.last, str):
            moment = date_time(self.last)
            valid = moment is not None and kind_of(moment) == self.kind
        elif type(self.last) in (int, float):
            valid = self.kind == NUMBER and math.isfinite(self.last)  # type: ignore[arg-type]
        check(valid, f"time {self.name!r}: last {self.last!r}")

    @classmethod
    def fit(cls, table: Table, name: str) -> "Time":
        """Return the time column of a table; its first value tells its kind."""
        table.require(name)
        first = next(iter(table.chunks(1)))
        return cls(name, kind_of(moments(first, name, KINDS)[0]))

    def moments(self, chunk: Chunk) -> list[Moment]:
        """Return the time of each row; one that is missing or unreadable is an error."""
        return moments(chunk, self.name, (self.kind,))

    def after(self, moment: Moment) -> "Time":
        """Return it with the time of the last row learned."""
        last = moment.isoformat() if isinstance(moment, datetime) else moment
        return replace(self, last=last)

    def require_later(self, chunk: Chunk, row: int, moment: Moment) -> None:
        """Refuse a row that is earlier than the last row learned."""
        last = date_time(self.last) if isinstance(self.last, str) else self.last
        if last is not None and moment < last:  # type: ignore[operator]
            raise chunk.error(
                row, self.name, f"{moment} is before {last}, up to which the model has learned"
            )


def moments(chunk: Chunk, name: str, kinds: Sequence[str]) -> list[Moment]:
    """Return the times in a column, which must be of one of these kinds."""
    column = _column(chunk, name)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iuf":
        found: list[Any] = column.tolist()
        texts: Sequence[str | None] = [None] * len(found)
    else:
        texts = column.times or () if isinstance(column, Unusable) else chunk.texts(name)
        found = [None if text is None else moment_of(text) for text in texts]
    for row, (moment, text) in enumerate(zip(found, texts, strict=True)):
        if moment is None or moment != moment:
            unreadable = f"{shown(text)} is neither a number nor an ISO 8601 date-time"
            raise chunk.error(row, name, "the time is missing" if text is None else unreadable)
        if isinstance(moment, float) and math.isinf(moment):
            raise chunk.error(row, name, "the time is infinite")
        if kind_of(moment) not in kinds:
            reason = f"{moment} is a {kind_of(moment)}, where the first time is a {kinds[0]}"
            raise chunk.error(row, name, reason)
    return found


def _column(chunk: Chunk, name: str) -> Values:
    """Return a column as it was read, also if it is of a type for times."""
    column = chunk.columns.get(name)
    if isinstance(column, Unusable) and column.times is not None:
        return column
    return chunk.values(name)


def moment_of(text: str) -> Moment | None:
    """Return text as a time, None if it is not one.

    >>> moment_of("17"), moment_of("2.5"), moment_of("soon")
    (17, 2.5, None)
    >>> moment_of("2026-03-29T01:30")
    datetime.datetime(2026, 3, 29, 1, 30)
    """
    number = parsing.number(text)
    if number is None:
        return date_time(text)
    if number.is_integer() and abs(number) < MAX_WHOLE:
        return int(text) if text.lstrip("+-").isdecimal() else int(number)
    return number


def date_time(text: str) -> datetime | None:
    """Return an ISO 8601 date-time, None if the text is not one."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def kind_of(moment: Moment) -> str:
    """Return the kind of a time.

    >>> kind_of(3.0), kind_of(date_time("2026-03-29")), kind_of(date_time("2026-03-29T12:00Z"))
    ('number', 'date-time', 'date-time with time zone')
    """
    if not isinstance(moment, datetime):
        return NUMBER
    return LOCAL if moment.utcoffset() is None else ZONED
