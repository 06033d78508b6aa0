"""Sparse linear regression of many targets, from a covariance matrix alone.

Forward selection: the source that reduces a target's squared error most joins its sources, one
after the other. The sources are made orthogonal to those chosen before (a Cholesky factorization
that grows by a row per step), so that the weights are exact, and a step costs a few passes over the
sources.
"""

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import strict_order_kernel

MAX_MATRIX = 4096  # variables up to which all covariances are held; of more, rows are computed
MIN_REMAINDER = 1e-9  # share of a source's variance that those chosen before must leave


class Covariance:
    """The covariances of some variables, from samples."""

    def __init__(self, X: NDArray) -> None:
        self.n = len(X)
        self.mean = X.mean(axis=0)
        self.centered = np.ascontiguousarray(X - self.mean)
        self.variance: NDArray[np.float64] = (self.centered**2).mean(axis=0)
        self.matrix: NDArray[np.float64] | None = None
        if X.shape[1] <= MAX_MATRIX:
            self.matrix = self.centered.T @ self.centered / self.n

    def rows(self, variables: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the covariances of some variables with all: a new array."""
        if self.matrix is not None:
            return self.matrix[variables]
        return self.centered[:, variables].T @ self.centered / self.n


def forward_regression(
    covariance: Covariance,
    targets: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    most: int,
    ridge: float,
    least_gain: float = 0.0,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return up to `most` sources of each target and their weights: (targets, sources) each.

    `targets` are some of the variables, and `allowed` says which variables may predict which.
    `ridge` is added to the variance of every source. A source joins only if it explains more than
    `least_gain` of what is left of the target's variance; places without a source have weight 0.
    """
    sources = np.zeros((len(targets), most), np.int64)
    weights = np.zeros((len(targets), most))
    matrix = np.zeros((0, 0)) if covariance.matrix is None else covariance.matrix
    data = matrix, covariance.centered, covariance.variance
    _select(*data, targets, np.ascontiguousarray(allowed), ridge, least_gain, sources, weights)
    return sources, weights


@strict_order_kernel
def _select(matrix, centered, variance, targets, allowed, ridge, least_gain, sources, weights):
    """Write the sources and weights of every target, one target after the other."""
    n, most = len(variance), sources.shape[1]
    factor = np.empty((most, n))
    shared = np.empty(n)  # covariance of the target's remainder and each source's
    own = np.empty(n)  # variance of each source's remainder; infinite if it cannot be chosen
    projections = np.empty(most)
    for i in range(len(targets)):
        _covariances(matrix, centered, targets[i], shared)
        left = variance[targets[i]]  # variance of the target's remainder
        for j in range(n):
            free = allowed[i, j] and variance[j] + ridge > 0
            own[j] = variance[j] + ridge if free else np.inf
        count = 0
        while count < most:
            chosen, gain = _best_source(shared, own)
            if gain <= 0 or gain <= least_gain * left:
                break
            row = factor[count]
            _covariances(matrix, centered, chosen, row)
            row[chosen] += ridge
            for k in range(count):
                share = factor[k, chosen]
                for j in range(n):
                    row[j] -= share * factor[k, j]
            scale = 1.0 / np.sqrt(own[chosen])
            projection = shared[chosen] * scale
            for j in range(n):
                row[j] *= scale
                shared[j] -= projection * row[j]
                rest = own[j] - row[j] * row[j]
                own[j] = rest if rest > MIN_REMAINDER * (variance[j] + ridge) else np.inf
            own[chosen] = np.inf
            left -= projection * projection
            projections[count], sources[i, count] = projection, chosen
            count += 1
        for k in range(count - 1, -1, -1):  # the factorization is upper triangular
            rest = projections[k]
            for j in range(k + 1, count):
                rest -= factor[k, sources[i, j]] * weights[i, j]
            weights[i, k] = rest / factor[k, sources[i, k]]


@strict_order_kernel
def _best_source(shared, own):
    """Return the source that explains most, the first of equals, and how much it explains."""
    best, most = 0, -1.0
    for j in range(len(own)):
        gain = shared[j] * shared[j] / own[j]
        if gain > most:
            best, most = j, gain
    return best, most


@strict_order_kernel
def _covariances(matrix, centered, variable, result):
    """Write the covariances of a variable with all, which are held or computed here."""
    if len(matrix):
        result[:] = matrix[variable]
        return
    result[:] = 0.0
    for i in range(len(centered)):
        share = centered[i, variable] / len(centered)
        for j in range(len(result)):
            result[j] += share * centered[i, j]
