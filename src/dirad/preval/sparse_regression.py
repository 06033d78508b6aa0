"""Sparse linear regression of many targets at once, from a covariance matrix alone.

Forward selection: the source that reduces a target's squared error most joins its sources, one
after the other. With the sources made orthogonal to those chosen before (a Cholesky factorization
that grows by a row per step), every step costs a few products of matrices for all targets together,
and the weights are exact.
"""

import numpy as np
from numpy.typing import NDArray

TARGETS_AT_ONCE = 256  # whose factorizations are held at a time
MAX_MATRIX = 4096  # variables up to which all covariances are held; of more, rows are computed


class Covariance:
    """The covariances of some variables, from samples."""

    def __init__(self, X: NDArray) -> None:
        self.n = len(X)
        self.mean = X.mean(axis=0)
        self.centered = X - self.mean
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
    for start in range(0, len(targets), TARGETS_AT_ONCE):
        part = slice(start, start + TARGETS_AT_ONCE)
        sources[part], weights[part] = _select(
            covariance, targets[part], allowed[part], most, ridge, least_gain
        )
    return sources, weights


def _select(
    covariance: Covariance,
    targets: NDArray[np.int64],
    allowed: NDArray[np.bool_],
    most: int,
    ridge: float,
    least_gain: float,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    n, rows = len(targets), np.arange(len(targets))
    shared = covariance.rows(targets)  # covariance of the target's remainder and each source's
    own = np.tile(covariance.variance + ridge, (n, 1))  # variance of each source's remainder
    left = covariance.variance[targets]  # variance of the target's remainder
    floor = 1e-9 * own
    open_to = allowed & (own > 0)
    factor = np.zeros((n, most, allowed.shape[1]))
    projections = np.zeros((n, most))
    sources = np.zeros((n, most), np.int64)
    for step in range(most):
        gain = np.where(open_to & (own > floor), shared**2 / np.maximum(own, floor), -1.0)
        chosen = gain.argmax(axis=1)
        best = gain[rows, chosen]
        pays = (best > 0) & (best > least_gain * left)
        if not pays.any():
            break
        sources[:, step] = chosen
        open_to[rows, chosen] = False
        scale = np.where(pays, 1.0 / np.sqrt(np.maximum(own[rows, chosen], 1e-300)), 0.0)
        column = covariance.rows(chosen)
        column[rows, chosen] += ridge
        before = factor[:, :step]
        column -= (before[rows, :, chosen][:, None, :] @ before)[:, 0]
        column *= scale[:, None]
        projections[:, step] = shared[rows, chosen] * scale
        factor[:, step] = column
        shared -= projections[:, step, None] * column
        own -= column**2
        left -= projections[:, step] ** 2
        open_to &= pays[:, None]
    upper = np.take_along_axis(factor, sources[:, None, :].repeat(most, axis=1), axis=2)
    return sources, _solved(np.triu(upper), projections)


def _solved(upper: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve upper triangular systems; a row of zeros, of no source, gives weight 0."""
    result = np.zeros(right.shape)
    for place in range(right.shape[1] - 1, -1, -1):
        rest = right[:, place] - (upper[:, place, place + 1 :] * result[:, place + 1 :]).sum(axis=1)
        pivot = upper[:, place, place]
        result[:, place] = np.where(pivot > 0, rest / np.where(pivot > 0, pivot, 1.0), 0.0)
    return result
