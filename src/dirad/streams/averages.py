"""Means and their spread, as tables show them."""

import math
from collections.abc import Iterable


def mean(values: Iterable[float]) -> float:
    """Return the mean, or NaN if there are no values."""
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def deviation(values: Iterable[float]) -> float:
    """Return the sample standard deviation, or NaN of fewer than two values.

    >>> deviation([1.0, 3.0])
    1.4142135623730951
    """
    values = list(values)
    if len(values) < 2:
        return math.nan
    center = mean(values)
    return math.sqrt(math.fsum((value - center) ** 2 for value in values) / (len(values) - 1))


def standard_error(values: Iterable[float]) -> float:
    """Return the standard error of the mean, or NaN of fewer than two values."""
    values = list(values)
    return deviation(values) / math.sqrt(len(values)) if values else math.nan


def spread(values: Iterable[float], digits: int = 2, missing: str = "") -> str:
    """Return mean ± standard deviation of the values that are not NaN; `missing` if none is left.

    >>> spread([0.5, float("nan"), 0.75], 1)
    '0.6 ± 0.2'
    """
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return missing
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {deviation(values):.{digits}f}"
