"""Dependence between samples in time order: how many independent samples they are worth.

The mean of n samples in time order varies as the mean of n/τ independent ones would. τ is the
*integrated autocorrelation time*: 1 for independent samples, about (1 + φ)/(1 − φ) for a
first-order autoregression with coefficient φ.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

MIN_BLOCKS = 16  # of one length, from which an autocorrelation is estimated
MAX_COLUMNS = 64  # that are looked at: of more, those that vary most
SIGNIFICANCE = 1e-3  # of autocorrelations, from which a stream is taken for dependent
CLIP = 3.0  # standard deviations beyond which a value is taken for less extreme
MIN_SPREAD = 1e-9  # of values clipped to ±3, below which a column is constant
MIN_VARYING = 20  # values that must vary, of a column whose autocorrelation is estimated
MAD_TO_STD = 1.4826  # standard deviations per median absolute deviation, of a normal distribution

TESTED_AT_ONCE = 8.0  # independent samples that a test should at least have
MAX_BATCHES = 16  # that are tested together


class Memory(NamedTuple):
    """The autocorrelation times τ of a task: all 1 if its samples are independent."""

    inputs: float = 1.0
    errors: float = 1.0  # of L1, which are tested
    losses: float = 1.0  # of L0: how improbable it finds the right class

    @property
    def independent(self) -> bool:
        """Does no sample depend on those before it?"""
        return self.inputs <= 1.0

    def batches_to_test(self, batch_size: int) -> int:
        """Return how many batches are tested together, so that they can tell anything."""
        needed = TESTED_AT_ONCE * max(self.errors, self.losses) / batch_size
        return 1 if self.independent else min(max(math.ceil(needed), 1), MAX_BATCHES)


def autocorrelation_time(
    X: NDArray, steps: Sequence[int] = (), significance: float = SIGNIFICANCE
) -> float:
    """Return the largest τ of the columns of X; 1 if nothing shows dependence.

    The rows of X are in time order. Besides the values, how far they are from their mean is looked
    at: bursts change the spread alone. Steps at the rows named do not count. `significance` is the
    probability that independent samples are taken for dependent.
    """
    if len(X) < MIN_BLOCKS:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):  # huge values have no finite spread
        values = standardized(X, steps)
    values = np.hstack([values, standardized(np.abs(values), steps)])
    n_lengths = int(np.log2(len(X) / MIN_BLOCKS)) + 1
    limit = float(ndtri(1.0 - significance / max(values.shape[1] * n_lengths, 1)))
    tau = np.ones(values.shape[1])
    dependent = np.zeros(values.shape[1], bool)  # at the length before
    means = values
    for length in 2 ** np.arange(n_lengths):
        m, variance = len(means), np.maximum(means.var(axis=0), np.finfo(float).tiny)
        centred = means - means.mean(axis=0)
        correlation = (centred[1:] * centred[:-1]).sum(axis=0) / (m * variance)
        significant = correlation * np.sqrt(m) > limit
        # Blocks that are longer than the memory are nearly independent: the variance of their
        # means tells τ. Shorter ones are extrapolated; the estimate is too low by a known amount
        # (Kendall, 1954).
        unbiased = np.minimum(correlation + (1.0 + 3.0 * correlation) / m, 1.0 - 1.0 / m)
        here = np.where(significant, unbiased, np.maximum(correlation, 0.0))
        estimate = length * variance * (1.0 + here) / (1.0 - here)
        tau = np.where(significant | dependent, estimate, tau)
        dependent = significant
        even = m - m % 2
        means = 0.5 * (means[:even:2] + means[1:even:2])
    return max(float(tau.max(initial=1.0)), 1.0)


def trend_time(X: NDArray, significance: float = SIGNIFICANCE, tau: float = 1.0) -> float:
    """Return τ of the column of X with the strongest linear trend; 1 without a significant one.

    Where a trend makes up the share R² of the variance of n samples, their mean varies as that of
    n/τ independent ones, τ = 1 + n R². In few samples it shows long before autocorrelations do.
    `tau` is the autocorrelation time but for the trend.

    >>> round(trend_time(np.arange(100.0)[:, None]))
    101
    """
    n = len(X)
    if n < MIN_BLOCKS:
        return 1.0
    with np.errstate(over="ignore", invalid="ignore"):
        values = standardized(X, ())
    clock = np.linspace(-1.0, 1.0, n)
    squared = np.square(clock @ values) / (n * np.sum(clock**2))  # R² of each column
    limit = float(ndtri(1.0 - 0.5 * significance / max(values.shape[1], 1)))
    largest = float(squared.max(initial=0.0))
    return 1.0 + n * largest if n * largest > tau * limit**2 else 1.0


def standardized(X: NDArray, steps: Sequence[int]) -> NDArray[np.float64]:
    """Return the columns that vary most, standardized; extreme values are made less extreme.

    The rows between steps are centred by themselves.
    """
    if not len(steps):  # medians change no deviation: those of other columns are not needed
        X = most_varied(X)
    X = most_varied(centred(X, np.median, steps))
    scale = np.median(np.abs(X), axis=0) * MAD_TO_STD
    scale = np.where(scale > 0, scale, np.maximum(X.std(axis=0), np.finfo(float).tiny))
    X = centred(np.clip(X / scale, -CLIP, CLIP), np.mean, steps)
    spread = X.std(axis=0)
    # By how few values a column varies: those of a sparse one are next to each other by chance.
    squares = np.square(X)
    few = squares.sum(axis=0) ** 2 < MIN_VARYING * np.square(squares).sum(axis=0)
    varied = (spread > MIN_SPREAD) & ~few  # NaN is neither
    return X[:, varied] / spread[varied]


def most_varied(X: NDArray) -> NDArray:
    """Return the columns that vary most, in their order."""
    if X.shape[1] <= MAX_COLUMNS:
        return X
    return X[:, np.sort(np.argsort(-X.std(axis=0), kind="stable")[:MAX_COLUMNS])]


def without_class_means(X: NDArray, y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return inputs as deviations from the mean of their class.

    Classes that come and go move the inputs, and are no sign that samples of a class depend on each
    other.
    """
    result = X.astype(np.float64)
    for code in np.unique(y):
        result[y == code] -= X[y == code].mean(axis=0)
    return result


def largest_step(X: NDArray) -> int:
    """Return the row of X at which its means change most, by least squares.

    >>> largest_step(np.repeat([0.0, 5.0], [30, 20])[:, None])
    30
    """
    X = standardized(X, ())
    rows = np.arange(1, len(X))[:, None]
    gain = np.cumsum(X, axis=0)[:-1] ** 2 / (rows * (len(X) - rows))
    return int(gain.sum(axis=1).argmax()) + 1 if len(gain) else 0


def change_point(scores: NDArray) -> tuple[int, float]:
    """Return where the mean of scores rises most clearly, and the z statistic of the rise.

    >>> change_point(np.array([0.0, 0.0, 0.0, 1.0, 1.0]))[0]
    3
    """
    n = len(scores)
    if n < 2:
        return 0, 0.0
    first = np.arange(1, n)
    total = np.cumsum(scores)
    rise = (total[-1] - total[:-1]) / (n - first) - total[:-1] / first
    z = rise / np.sqrt(1.0 / first + 1.0 / (n - first))
    at = int(z.argmax())
    return at + 1, float(z[at])


def centred(
    X: NDArray, center: Callable[..., NDArray], steps: Sequence[int]
) -> NDArray[np.float64]:
    """Return X without the center of its rows, of those between steps each."""
    parts = [part for part in np.split(X, steps) if len(part)]
    return np.concatenate([part - center(part, axis=0) for part in parts])
