"""The rows of a table in order of time."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dirad.tables.errors import TableError
from dirad.tables.table import Chunk, Table
from dirad.tables.times import Time
from dirad.tables.values import Unusable, Values, text_of

MAX_SORTED = 5_000_000  # values of a table that is sorted in memory


def in_time_order(table: Table, time: Time) -> Table:
    """Return a table with its rows in order of time; rows of the same time keep their order.

    All times are read first. A table that is in order is returned as it is, to be read some rows at
    a time. Any other is sorted in memory, unless it is too large: then the first row that goes back
    in time is an error.
    """
    n_values, refusal = 0, None
    last: Any = None
    for chunk in table.chunks():
        moments = time.moments(chunk)
        n_values += len(chunk) * len(table.names)
        if refusal is None:
            refusal = _step_back(chunk, time.name, last, moments)
        if refusal is not None and n_values > MAX_SORTED:
            raise refusal
        last = moments[-1]
    return table if refusal is None else _sorted(table, time)


def _step_back(chunk: Chunk, name: str, last: Any, moments: list[Any]) -> TableError | None:
    """Return the error of the first row that is earlier than the row before, if there is one."""
    for row, moment in enumerate(moments):
        if last is not None and moment < last:
            return chunk.error(
                row,
                name,
                f"{moment} is before {last}, the time of the row above, and a file of more than "
                f"{MAX_SORTED:,} values is not sorted in memory: sort it by this column",
            )
        last = moment
    return None


def _sorted(table: Table, time: Time) -> Table:
    """Return the table with its rows in memory, sorted by time."""
    chunks = list(table.chunks())
    moments: list[Any] = [moment for chunk in chunks for moment in time.moments(chunk)]
    order = sorted(range(len(moments)), key=moments.__getitem__)
    whole = _joined(chunks)

    def read(n: int) -> Iterator[Chunk]:
        for start in range(0, len(order), n):
            yield _picked(whole, order[start : start + n])

    return replace(table, read=read, n_rows=len(order))


def _joined(chunks: Sequence[Chunk]) -> Chunk:
    """Return the rows of some chunks as one."""
    columns: dict[str, Values] = {}
    for name, first in chunks[0].columns.items():
        parts: list[Any] = [chunk.columns[name] for chunk in chunks]
        if isinstance(first, Unusable):
            times = None if first.times is None else [t for part in parts for t in part.times]
            columns[name] = first._replace(times=times)
        elif all(isinstance(part, np.ndarray) for part in parts):
            columns[name] = np.concatenate(parts)
        else:  # booleans are text where one is missing
            columns[name] = [text for part in parts for text in _as_texts(part)]
    rows = [row for chunk in chunks for row in chunk.rows]
    return replace(chunks[0], columns=columns, rows=rows)


def _as_texts(values: Any) -> list[str | None]:
    return [text_of(v) for v in values.tolist()] if isinstance(values, np.ndarray) else values


def _picked(chunk: Chunk, rows: list[int]) -> Chunk:
    """Return some rows of a chunk."""
    columns = {name: _values_at(values, rows) for name, values in chunk.columns.items()}
    return replace(chunk, columns=columns, rows=[chunk.rows[row] for row in rows])


def _values_at(values: Any, rows: list[int]) -> Any:
    if isinstance(values, np.ndarray):
        return values[rows]
    if isinstance(values, Unusable):
        times = None if values.times is None else [values.times[row] for row in rows]
        return values._replace(times=times)
    return [values[row] for row in rows]
