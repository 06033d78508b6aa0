"""A stand-in for L1 while a model adapts: every input predicted linearly from all others.

In closed form: with P the inverse of the inputs' covariance, input i is best predicted from the
others with an error of (P·x)ᵢ/Pᵢᵢ. It costs one inverse, needs some hundred samples, and lets a
task that changes before its model is stable be noticed.

Of n samples Z of more than n inputs, the covariance ZᵀZ/(n−1) + r·1 has the inverse (1 − BᵀB)/r,
where B = L⁻¹Z and L·Lᵀ = Z·Zᵀ + (n−1)·r·1. So nothing is held for pairs of inputs. Where an input
varies so much more than the others that too few digits of 1 − BᵀB are left, the inverse is taken.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

FEW_DIGITS = 1e-6  # of 1 − BᵀB, below which it is not to be relied on


class Sketch:
    """The linear prediction of every input from the others."""

    def __init__(self, X: NDArray, ridge: float) -> None:
        """Fit to samples (n, inputs) in common units; `ridge` is added to every variance.

        An infinite one leaves the mean as the prediction.
        """
        self.n, inputs = X.shape
        self.mean = X.mean(axis=0)
        # Errors are W·z, or, where `own` is known, (z − Bᵀ·B·z)/own.
        self.weights = np.zeros((0, inputs))
        self.own: NDArray[np.float64] | None = np.ones(inputs)
        if ridge == float("inf"):
            return
        # Of few samples the covariance is known badly: more is added.
        ridge = ridge * (1.0 + inputs / max(self.n, 1))
        if self.n < inputs:
            self.weights = factor(X - self.mean, ridge)
            self.own = own = 1.0 - (self.weights**2).sum(axis=0)
            if own.min() > FEW_DIGITS:
                return
        covariance = np.atleast_2d(np.cov(X.T)) if self.n > 1 else np.zeros((inputs, inputs))
        precision = linalg.inv(covariance + ridge * np.eye(inputs))
        self.weights, self.own = precision / np.diag(precision)[:, None], None

    @property
    def n_parameters(self) -> int:
        """Numbers kept: means, and weights where there are any; a weight of 1 is none."""
        n = len(self.mean)
        if self.own is None:
            return n * n
        return self.weights.size + 2 * n if len(self.weights) else n

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of every input: (samples, inputs)."""
        Z = X - self.mean
        if self.own is None:
            return Z @ self.weights.T
        return (Z - (Z @ self.weights.T) @ self.weights) / self.own


def factor(Z: NDArray, ridge: float) -> NDArray[np.float64]:
    """Return B, as above; where L cannot be found, a B of which no digit is left."""
    products = Z @ Z.T + max(len(Z) - 1, 1) * ridge * np.eye(len(Z))
    try:
        lower = linalg.cholesky(products, lower=True)
    except linalg.LinAlgError:
        return np.ones((1, Z.shape[1]))
    return linalg.solve_triangular(lower, Z, lower=True)
