"""What the steps of a program compute from their sums, in place."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.program import LEAST_SUM, Pooling, Transfer

FEW_SAMPLES = 8  # of which sums along a run are cumulated


def logistic(_: NDArray, z: NDArray) -> None:
    """Without an exponential, which could overflow."""
    z *= 0.5
    np.tanh(z, out=z)
    z *= 0.5
    z += 0.5


def modulated(c: NDArray, z: NDArray, m: NDArray) -> None:
    """σ₁(m) = 4 / (1 + e^(−c·m)) − 1 = 2 · tanh(c·m/2) + 1."""
    z *= 2.0 * np.tanh((0.5 * c) * m) + 1.0


def clipped(c: NDArray, z: NDArray) -> None:
    """Limit to −c … c."""
    np.maximum(z, -c, out=z)
    np.minimum(z, c, out=z)


def logarithm(c: NDArray, z: NDArray) -> None:
    """The logarithm of what is at least c."""
    np.maximum(z, c, out=z)
    np.log(z, out=z)


def square(_: NDArray, z: NDArray) -> None:
    """The square."""
    np.multiply(z, z, out=z)


def exceeds(c: NDArray, z: NDArray) -> None:
    """1 where |z| > c."""
    z[:] = np.abs(z) > c


def filled(c: NDArray, z: NDArray) -> None:
    """c where z is missing."""
    z[:] = np.where(np.isnan(z), c, z)


def missing(_: NDArray, z: NDArray) -> None:
    """1 where z is missing."""
    z[:] = np.isnan(z)


def equals(c: NDArray, z: NDArray) -> None:
    """1 where z is c."""
    z[:] = z == c


IN_PLACE: dict[Transfer, Callable[..., None]] = {
    Transfer.LOGISTIC: logistic,
    Transfer.MODULATED: modulated,
    Transfer.CLIPPED: clipped,
    Transfer.LOGARITHM: logarithm,
    Transfer.SQUARE: square,
    Transfer.EXCEEDS: exceeds,
    Transfer.FILLED: filled,
    Transfer.MISSING: missing,
    Transfer.EQUALS: equals,
}


def transfer(kind: Transfer) -> Any:
    """Return what changes sums in place, given the constants; None where they stay as they are."""
    return IN_PLACE.get(kind)


def pooled(step: Pooling, runs: NDArray) -> NDArray[np.float64]:
    """Return what is computed from runs of values: (runs, values, samples)."""
    if step.transfer == Transfer.SOFTMAX:
        powers = np.exp(runs - runs.max(axis=1, keepdims=True))
        return powers / _sum_of_run(powers)
    if step.transfer == Transfer.SHARE:
        return runs / np.maximum(_sum_of_run(runs), LEAST_SUM)
    least = runs.min(axis=1, keepdims=True)
    mean = _sum_of_run((least / runs) ** step.constant) / runs.shape[1]
    return least * mean ** (-1.0 / step.constant)


def _sum_of_run(runs: NDArray) -> NDArray[np.float64]:
    """Return the sums of (runs, values, samples) over the values, added from first to last.

    The order in which np.sum adds depends on the number of samples.
    """
    if runs.shape[2] < FEW_SAMPLES:
        return runs.cumsum(axis=1)[:, -1:]
    total = runs[:, :1].copy()
    for i in range(1, runs.shape[1]):
        total += runs[:, i : i + 1]
    return total
