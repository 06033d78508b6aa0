"""Peers that expand the inputs at random and keep second-order sums of the result.

RanPAC (McDonnell et al., 2023): rectified random projections and ridge regression on the classes.
RanDumb (Prabhu et al., 2024): random Fourier features, one mean per class, a shared covariance.

Both depend only on sums over samples, so that no order of the classes changes what they learn.
A second-order matrix of 1,000, 5,000 or 25,000 features has 0.5, 12.5 or 312.5 million numbers.

Constants were chosen on MNIST of 14 × 14 pixels: see `docs/comparison-notes.md`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

MOST_IN_DOUBLE = 10_000  # features: beyond, single precision halves some 5 GB
RANPAC_PENALTY = 100.0
RANDUMB_WIDTH = 1.0  # of the kernel: times the γ of scikit-learn's "scale", the authors' choice


class Readout(NamedTuple):
    """Linear scores of the classes."""

    labels: NDArray[np.int64]
    weights: NDArray  # (features, classes)
    biases: NDArray  # (classes,)

    def predict(self, H: NDArray) -> NDArray:
        """Return the class of the highest score."""
        return self.labels[(H @ self.weights + self.biases).argmax(axis=1)]


class SecondOrderSums:
    """Sums of features and of their products over all samples, and by class."""

    def __init__(self, n_features: int) -> None:
        precision = np.float64 if n_features <= MOST_IN_DOUBLE else np.float32
        self.products = np.zeros((n_features, n_features), precision)  # Σ h·hᵀ
        self.sums: dict[int, NDArray[np.float64]] = {}  # Σ h of each class
        self.counts: dict[int, int] = {}

    def add(self, H: NDArray[np.float32], y: NDArray) -> None:
        """Take one batch."""
        self.products += H.T @ H
        for label in np.unique(y).tolist():
            own = H[y == label]
            self.sums[label] = self.sums.get(label, 0.0) + own.sum(axis=0, dtype=np.float64)
            self.counts[label] = self.counts.get(label, 0) + len(own)

    def ridge(self, penalty: float) -> Readout:
        """Return ridge regression of the classes' indicators on the features."""
        labels = np.array(list(self.sums))
        left = self.products.copy()
        left[np.diag_indices_from(left)] += penalty
        right = np.array(list(self.sums.values())).T
        weights = solve(left, right, assume_a="pos", overwrite_a=True)
        return Readout(labels, weights.astype(np.float32), np.zeros(len(labels), np.float32))

    def discriminant(self, shrinkage: float | None = None) -> Readout:
        """Return linear discriminant analysis with equal class probabilities.

        `shrinkage` is the share of the covariance that is replaced by its mean variance; None: by
        the oracle approximation.
        """
        labels = np.array(list(self.sums))
        counts = np.array(list(self.counts.values()), float)
        means = np.array(list(self.sums.values())) / counts[:, None]
        covariance = self.products - (means.T * counts) @ means
        covariance /= max(counts.sum() - len(labels), 1.0)
        share = oas_shrinkage(covariance, counts.sum()) if shrinkage is None else shrinkage
        ridge = share * np.trace(covariance) / len(covariance)
        covariance *= 1.0 - share
        covariance[np.diag_indices_from(covariance)] += ridge
        weights = solve(covariance, means.T, assume_a="pos", overwrite_a=True)
        biases = -0.5 * np.sum(means.T * weights, axis=0)
        return Readout(labels, weights.astype(np.float32), biases.astype(np.float32))

    @property
    def n_stored(self) -> int:
        """The half of a symmetric matrix; a sum and a count of every class."""
        k = len(self.products)
        return k * (k + 1) // 2 + len(self.sums) * (k + 1)


def oas_shrinkage(covariance: NDArray, n_samples: float) -> float:
    """Return the oracle approximating shrinkage (Chen et al., 2010), as in scikit-learn's `OAS`."""
    squared_mean = float(np.trace(covariance) / len(covariance)) ** 2
    mean_square = float(np.einsum("ij,ij->", covariance, covariance)) / covariance.size
    excess = (n_samples + 1.0) * (mean_square - squared_mean / len(covariance))
    return 1.0 if excess <= 0 else min((mean_square + squared_mean) / excess, 1.0)


class RanPAC:
    """Rectified random projections and ridge regression."""

    def __init__(
        self,
        n_inputs: int,
        n_features: int = 1000,
        penalty: float = RANPAC_PENALTY,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.weights = rng.standard_normal((n_inputs, n_features), np.float32)
        self.penalty = penalty
        self.sums = SecondOrderSums(n_features)
        self.readout: Readout | None = None  # of all samples so far

    def features(self, X: NDArray) -> NDArray[np.float32]:
        """Return the random features of samples."""
        return np.maximum(X.astype(np.float32) @ self.weights, 0.0)

    def learn(self, X: NDArray, y: NDArray) -> None:
        self.sums.add(self.features(X), y)
        self.readout = None

    def predict(self, X: NDArray) -> NDArray:
        if self.readout is None:
            self.readout = self.sums.ridge(self.penalty)
        return self.readout.predict(self.features(X))

    @property
    def n_stored(self) -> int:
        return self.n_reproducible + self.sums.n_stored

    @property
    def n_reproducible(self) -> int:
        """Of these, the random weights, which a seed gives again."""
        return self.weights.size

    @property
    def n_samples_stored(self) -> int:
        return 0


class RanDumb:
    """Random Fourier features of a Gaussian kernel, and streaming discriminant analysis.

    As in the authors' program, the kernel's γ is 1 / (inputs · variance of the inputs), and the
    covariance is shrunk by the oracle approximation, unless `shrinkage` is given. The variance of
    the inputs is that of the first batch.
    """

    def __init__(
        self,
        n_inputs: int,
        n_features: int = 1000,
        shrinkage: float | None = None,
        width: float = RANDUMB_WIDTH,
        seed: int = 0,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.weights = rng.standard_normal((n_inputs, n_features), np.float32)
        self.phases = rng.uniform(0, 2 * np.pi, n_features).astype(np.float32)
        self.shrinkage = shrinkage
        self.width = width
        self.gamma: float | None = None
        self.sums = SecondOrderSums(n_features)
        self.readout: Readout | None = None  # of all samples so far

    def features(self, X: NDArray) -> NDArray[np.float32]:
        """Return the random features of samples, whose products approach the kernel."""
        assert self.gamma is not None
        angles = X.astype(np.float32) @ self.weights
        angles *= np.float32(np.sqrt(2 * self.gamma))
        angles += self.phases
        return np.float32(np.sqrt(2 / len(self.phases))) * np.cos(angles)

    def learn(self, X: NDArray, y: NDArray) -> None:
        if self.gamma is None:
            self.gamma = self.width / (X.shape[1] * max(float(X.var()), 1e-12))
        self.sums.add(self.features(X), y)
        self.readout = None

    def predict(self, X: NDArray) -> NDArray:
        if self.readout is None:
            self.readout = self.sums.discriminant(self.shrinkage)
        return self.readout.predict(self.features(X))

    @property
    def n_stored(self) -> int:
        return self.n_reproducible + self.sums.n_stored + 1  # γ

    @property
    def n_reproducible(self) -> int:
        """Of these, the random weights and phases, which a seed gives again."""
        return self.weights.size + self.phases.size

    @property
    def n_samples_stored(self) -> int:
        return 0
