"""Rows and labels as JSON has them, in requests of a fitting size."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS = 1000  # of a request, at most
VALUES = 200_000  # of a request, at most: rows times columns


def parts_of(rows: list[list[Any]]) -> list[slice]:
    """Return the rows of each request.

    >>> parts_of([[0.0] * 100_000] * 5)
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    size = max(1, min(ROWS, VALUES // max(len(rows[0]), 1)))
    return [slice(start, start + size) for start in range(0, len(rows), size)]


def rows_of(X: Any, columns: Callable[[], list[str]]) -> list[list[Any]]:
    """Return rows as plain lists; the columns of a data frame are found by name.

    `columns` gives the names of the stream's columns, for which the service may have to be asked.
    """
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        names = columns()
        given = [str(name) for name in X.columns]
        missing = [name for name in names if name not in given]
        unknown = [name for name in given if name not in names]
        if missing or unknown:
            what = f"column {missing[0]!r} is missing" if missing else ""
            raise ValueError(what or f"there is no column {unknown[0]!r} in the stream")
        values = [list(X[name]) for name in names]
        return [list(map(plain, row)) for row in zip(*values, strict=True)]
    if isinstance(X, np.ndarray) and X.dtype.kind == "f" and np.isfinite(X).all():
        rows = X.tolist()  # the usual case, made fast
    else:
        rows = [list(map(plain, row)) if np.ndim(row) else row for row in X]
    if not rows or not all(isinstance(row, list) for row in rows):
        raise ValueError("X must have rows and columns: an array (samples, columns)")
    return rows


def listed(values: Any, n: int | None, what: str) -> list[Any] | None:
    """Return labels, ids or numbers as a plain list."""
    if values is None:
        return None
    if isinstance(values, np.ndarray):
        values = np.ravel(values)
    found = [plain(one) for one in values]
    if n is not None and len(found) != n:
        raise ValueError(f"{what} has {len(found)} values, and there are {n} rows")
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON has it; None where it is missing.

    >>> plain(np.int64(3)), plain(float("nan")), plain("a")
    (3, None, 'a')
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value).__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, float) and math.isinf(value):
        raise ValueError("a value is infinite")
    return value if isinstance(value, int | float | str) else str(value)
