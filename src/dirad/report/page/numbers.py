"""Rounded numbers, since the page contains every number as text."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def short(values: NDArray | float, digits: int = 4) -> Any:
    """Return numbers with few significant digits, in nested lists; None if not finite.

    >>> short(np.array([1 / 3, np.nan, 2.0]))
    [0.3333, None, 2]
    """
    if np.ndim(values):
        return [short(value, digits) for value in np.asarray(values)]
    if not np.isfinite(values):
        return None
    rounded = float(f"{values:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def binned(values: NDArray[np.float64], most: int) -> tuple[list[int], NDArray[np.float64]]:
    """Return the first index and the mean of each of at most `most` bins.

    >>> binned(np.array([1.0, 3.0, 5.0, 7.0]), 2)
    ([0, 2], array([2., 6.]))
    """
    n = len(values)
    if n <= most:
        return list(range(n)), np.asarray(values, float)
    starts = np.unique(np.linspace(0, n, most, endpoint=False).astype(int))
    return starts.tolist(), np.add.reduceat(values, starts) / np.diff([*starts, n])
