"""Scaling of the inputs: units common to all models of a system, and a scaling per model."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import mean_and_std
from dirad.preval.source_selection import FEW_INPUTS

MAX_UNITS = 1e100  # inputs are clipped to this many units before they are evaluated
MAX_SPREADS = 1e6  # inputs of L0 are clipped to this many spreads from their mean
FLAGS_PER_NUMBER = 32  # bits
MIN_SPREAD = 0.1  # of an input, as a share of the root mean square of all
MAX_RANGE_TO_MEDIAN = (
    10.0  # times the median range: inputs that differ by more have units of their own
)


class CommonInputUnits:
    """Learned once, from the first samples, and then fixed: so scores of models are comparable."""

    def __init__(self) -> None:
        self._unit: NDArray[np.float64] | None = None
        # Inputs of which the root is taken where a covariance is pooled; None: of none of them.
        self._rooted: NDArray[np.bool_] | None = None

    def fit_once(self, X: NDArray) -> None:
        """Take the units from these samples, if there are none yet.

        Inputs of similar range, such as pixels, keep their proportions and share a unit; where
        some range is ten times the median, each input has its own. A constant input gets the median
        unit.
        """
        if self.is_known:
            return
        if X.shape[1] > FEW_INPUTS:
            self._rooted = more_symmetric_by_roots(X)
        spread = mean_and_std(X)[1]
        with np.errstate(over="ignore"):
            span = np.where(spread > 0, np.ptp(X, axis=0), 0.0)
        varied = span[span > 0]
        if len(varied) and varied.max() > MAX_RANGE_TO_MEDIAN * np.median(varied):
            median = float(np.median(spread[spread > 0]))
            self._unit = np.where(spread > 0, spread, median)
        else:
            # Squared as multiples of a power of two, which is exact, so that nothing overflows.
            exponent = np.frexp(spread.max(initial=0.0))[1]
            mean_square = np.mean(np.ldexp(spread, -exponent) ** 2)
            self._unit = np.full(X.shape[1], float(np.ldexp(np.sqrt(mean_square), exponent)) or 1.0)

    def set_once(self, unit: NDArray[np.float64]) -> None:
        """Take these units, if there are none yet."""
        if not self.is_known:
            self._unit = unit

    @property
    def is_known(self) -> bool:
        """Have the units been learned?"""
        return self._unit is not None

    @property
    def unit(self) -> NDArray[np.float64]:
        """The units: (inputs,)."""
        assert self._unit is not None
        return self._unit

    def symmetric(self, X: NDArray) -> NDArray[np.float64]:
        """Return inputs in these units, the skewed ones by their roots."""
        result = X / self.unit
        if self._rooted is not None:
            root = np.sqrt(np.abs(result, where=self._rooted, out=np.zeros_like(result)))
            np.copyto(result, np.copysign(root, result), where=self._rooted)
        return result

    def clip(self, X: NDArray) -> NDArray:
        """Return inputs clipped to what float64 arithmetic can hold; ordinary ones unchanged."""
        with np.errstate(over="ignore"):
            limit = MAX_UNITS * (1.0 if self._unit is None else self._unit)
        return np.clip(X, -limit, limit)

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        flags = 0 if self._rooted is None else -(-len(self._rooted) // FLAGS_PER_NUMBER)
        return flags + (0 if self._unit is None else len(np.unique(self._unit)))


def more_symmetric_by_roots(X: NDArray) -> NDArray[np.bool_]:
    """Return which inputs are never negative, and at least as symmetric by their roots.

    So are most features of a network with rectified units, and counts.
    """
    return (X >= 0).all(axis=0) & (skewness(np.sqrt(np.maximum(X, 0.0))) <= skewness(X))


def skewness(X: NDArray) -> NDArray[np.float64]:
    """Return the absolute skewness of each column; 0 where it is constant."""
    mean, spread = mean_and_std(X)
    varied = spread > 0
    with np.errstate(over="ignore", invalid="ignore"):
        standard = (X - mean) / np.where(varied, spread, 1.0)
        return np.where(varied, np.abs(np.mean(standard**3, axis=0)), 0.0)


@dataclass(frozen=True)
class InputScaling:
    """Inputs are standardized by the mean and spread of a task's first samples."""

    offset: NDArray[np.float64]  # (inputs,)
    spread: NDArray[np.float64]  # (inputs,)

    def standardize(self, X: NDArray) -> NDArray[np.float64]:
        """Return the standardized inputs."""
        return (X - self.offset) / self.spread

    def standardize_and_clip(self, X: NDArray) -> NDArray[np.float64]:
        """Return standardized inputs, clipped so that float32 holds the squares of products."""
        return np.clip(self.standardize(X), -MAX_SPREADS, MAX_SPREADS)


def fit_scaling(X: NDArray, unit: NDArray[np.float64]) -> InputScaling:
    """Return the scaling by the mean and spread of samples.

    An input that did not vary yet may vary later: then by about as much as the others.
    """
    offset, spread = mean_and_std(X)
    floor = MIN_SPREAD * float(np.sqrt(np.mean((spread / unit) ** 2)))
    spread = np.maximum(spread, floor * unit) if floor > 0 else np.ones(len(spread))
    return InputScaling(offset, spread)
