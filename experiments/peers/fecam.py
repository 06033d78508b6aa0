"""FeCAM (Goswami et al., 2023): Mahalanobis distance with a covariance per class.

In the authors' order: each input is raised to the power λ (Tukey's transformation, for inputs that
are not negative), a class's covariance is shrunk, twice, and normalized to a correlation matrix;
distances are between vectors of length 1. The log-determinant does not enter.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, solve_triangular

from experiments.peers.statistical import Moments

# Chosen on MNIST of 14 × 14 pixels: see `docs/comparison-notes.md`.
TUKEY = 0.5  # λ
SHRINKAGE = (0.4, 0.4)  # γ₁ of variances, γ₂ of covariances


class FeCAM:
    """One mean and one correlation matrix per class, updated by every batch."""

    def __init__(
        self,
        n_inputs: int,
        shrinkage: tuple[float, float] = SHRINKAGE,
        power: float = TUKEY,
    ) -> None:
        self.n_inputs = n_inputs
        self.shrinkage = shrinkage
        self.power = power
        self.classes: dict[int, Moments] = {}
        self.factors: dict[
            int, NDArray[np.float64]
        ] = {}  # Cholesky's, of classes since their last batch

    def transformed(self, X: NDArray) -> NDArray[np.float64]:
        """Return inputs whose distribution is closer to a Gaussian."""
        return np.maximum(X, 0.0).astype(np.float64) ** self.power

    def learn(self, X: NDArray, y: NDArray) -> None:
        Z = self.transformed(X)
        for label in np.unique(y).tolist():
            self.classes.setdefault(label, Moments(self.n_inputs)).add(Z[y == label])
            self.factors.pop(label, None)

    def distances(self, X: NDArray) -> NDArray[np.float64]:
        """Return the squared distance to every class: (samples, classes)."""
        Z = _unit(self.transformed(X))
        found = []
        for label, moments in self.classes.items():
            if label not in self.factors:
                shrunk = shrink(shrink(moments.covariance(0.0), *self.shrinkage), *self.shrinkage)
                self.factors[label] = np.tril(cho_factor(correlation(shrunk), lower=True)[0])
            difference = Z - _unit(moments.mean[None])
            white = solve_triangular(self.factors[label], difference.T, lower=True)
            found.append(np.sum(white**2, axis=0))
        return np.array(found).T

    def predict(self, X: NDArray) -> NDArray:
        return np.array(list(self.classes))[self.distances(X).argmin(axis=1)]

    @property
    def n_stored(self) -> int:
        return sum(moments.n_stored for moments in self.classes.values())

    @property
    def n_samples_stored(self) -> int:
        return 0


def shrink(covariance: NDArray, variances: float, covariances: float) -> NDArray[np.float64]:
    """Add shares of the mean variance to all variances, of the mean covariance to all others."""
    off = ~np.eye(len(covariance), dtype=bool)
    mean_variance = np.diag(covariance).mean()
    others = covariance[off & (covariance != 0)]  # as the authors do: inputs that vary
    mean_covariance = others.mean() if len(others) else 0.0
    return covariance + np.where(off, covariances * mean_covariance, variances * mean_variance)


def correlation(covariance: NDArray) -> NDArray[np.float64]:
    """Return the matrix scaled to a diagonal of ones."""
    deviation = np.sqrt(np.diag(covariance))
    return covariance / np.outer(deviation, deviation)


def _unit(Z: NDArray) -> NDArray[np.float64]:
    return Z / np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
