"""Numbers of any magnitude: their center and spread, and which of them lie too far out to learn."""

import numpy as np
from numpy.typing import NDArray

MISSING_MARKER_MIN = 1e15  # magnitude from which a number may be a marker for missing data
LARGEST = 1e307  # beyond it, differences of two numbers overflow
TOO_FAR = 1e15  # deviations; farther out, float64 has no digit left for the rest of the column
MAX_SAFE_UNITS = 1e100  # units of an input whose squares, and sums of them, float64 holds with ease
MAX_MEAN_TO_STD = 1e6  # spreads that a center may lie away from 0 before it is computed with care
MIN_RELIABLE_STD = 1e-150  # spread whose square is lost in float64
ROUNDING = 4 * np.finfo(np.float64).eps  # relative spread of equal numbers after some arithmetic


class OutOfRange(ValueError):
    """A value lies too far from the others of its column; `row` and `column` count from 0."""

    def __init__(self, row: int, column: int, value: float, place: str) -> None:
        super().__init__(f"{place}: {too_large_message(value)}")
        self.row, self.column, self.value = row, column, value


def too_large_message(value: float) -> str:
    """Say why a value is out of range."""
    return (
        f"{value:.8g} is so much larger than the rest of the column that float64 cannot hold both; "
        "if it stands for a missing value, mark it as missing"
    )


def mean_and_std(X: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each column.

    Where the squares overflow or vanish, or where the mean is so large that its rounding errors
    would show in the spread, both are computed from shifted and rescaled values. A column whose
    values differ by rounding errors alone has spread 0.

    >>> mean_and_std(np.array([[1e300, 1e12], [3e300, 1e12 + 2]]))
    (array([2.e+300, 1.e+012]), array([1.e+300, 1.e+000]))
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        center = X.mean(axis=0, dtype=np.float64)
        spread = X.std(axis=0, dtype=np.float64)
        careful = ~(np.isfinite(center) & np.isfinite(spread) & (spread > MIN_RELIABLE_STD))
        careful |= np.abs(center) > MAX_MEAN_TO_STD * spread
    for column in np.flatnonzero(careful):
        center[column], spread[column] = _scaled_mean_std(X[:, column])
    return center, spread


def _scaled_mean_std(values: NDArray) -> tuple[float, float]:
    """Return mean and spread of one column, whatever its magnitude."""
    exponent = int(np.frexp(np.abs(values).max(initial=0.0))[1])
    scaled = np.ldexp(values.astype(np.float64), -exponent)  # in [−1, 1], exactly
    shift = float(np.median(scaled))
    left = scaled - shift
    mean, spread = shift + float(left.mean()), float(left.std())
    if spread <= ROUNDING * abs(mean):
        return float(np.ldexp(shift, exponent)), 0.0
    inner = int(np.frexp(spread)[1])  # squares of small differences must not vanish either
    spread = float(np.ldexp(np.ldexp(left, -inner).std(), inner))
    return float(np.ldexp(mean, exponent)), float(np.ldexp(spread, exponent))


def check_range(
    X: NDArray,
    unit: NDArray | float | None = None,
    *,
    before: NDArray | None = None,
    what: str = "X",
) -> None:
    """Refuse the first value that is too large to be learned beside the others.

    `unit` is the usual deviation of each column; without it, the column itself tells, together
    with the rows that came `before`. Only very large numbers are refused: very small ones beside
    ordinary ones count as 0, which is harmless.
    """
    if before is None:
        far = out_of_range(X, unit)
    else:
        far = out_of_range(np.concatenate([before, X]), unit)[len(before) :]
    if far.any():
        row, column = np.argwhere(far)[0].tolist()
        place = f"{what}, row {row}, column {column}"
        raise OutOfRange(row, column, float(X[row, column]), place)


def out_of_range(X: NDArray, unit: NDArray | float | None = None) -> NDArray[np.bool_]:
    """Return which values are too large to be learned beside the others."""
    size = np.abs(X)
    if unit is not None:
        far = (size / TOO_FAR > unit) & (
            (size > MISSING_MARKER_MIN) | (size / MAX_SAFE_UNITS > unit)
        )
        return far | (size > LARGEST)
    far = size > MISSING_MARKER_MIN
    for column in np.flatnonzero(far.any(axis=0)):
        far[:, column] &= _far_from_others(X[:, column])
    return far | (size > LARGEST)


def _far_from_others(values: NDArray) -> NDArray[np.bool_]:
    """Return which values of a column deviate far more from its center than the others do."""
    values = values * 0.25  # so that differences of the largest numbers do not overflow
    far = np.zeros(len(values), bool)
    # Up to three quarters of the values may be markers: then one of the quartiles is none.
    for center in np.quantile(values, (0.25, 0.5, 0.75), method="nearest"):
        deviation = np.abs(values - center)
        varied = deviation[deviation > ROUNDING * abs(center)]
        if len(varied):
            far |= deviation / TOO_FAR > np.quantile(varied, 0.25, method="lower")
    return far
