"""Linear prediction of every input from all others, used in place of L1 while a model adapts.

In closed form: with P the inverse of the inputs' covariance, input i is best predicted from the
others with an error of (P·x)ᵢ/Pᵢᵢ. It costs one inverse, needs about a hundred samples, and detects
a task that changes before its model is stable.

For n samples Z of more than n inputs, the covariance ZᵀZ/(n−1) + r·1 has the inverse (1 − BᵀB)/r,
where B = L⁻¹Z and L·Lᵀ = Z·Zᵀ + (n−1)·r·1, so that no matrix of inputs by inputs is needed. Where
an input varies so much more than the others that 1 − BᵀB loses its digits, the inverse is used.
"""

import numpy as np
from numpy.typing import NDArray

CANCELLATION_LIMIT = 1e-6  # of 1 − BᵀB, below which too many digits are lost


class LinearInputPredictor:
    """The linear prediction of every input from the others."""

    def __init__(self, X: NDArray, ridge: float) -> None:
        """Fit to samples (n, inputs) in common units; `ridge` is added to every variance.

        With an infinite ridge the mean is the prediction.
        """
        self.n, inputs = X.shape
        self.mean = X.mean(axis=0)
        # Errors are W·z, or (z − Bᵀ·B·z)/remainder where there is one.
        self.weights = np.zeros((0, inputs))
        self.remainder: NDArray[np.float64] | None = np.ones(inputs)
        if ridge == float("inf"):
            return
        # From few samples the covariance is estimated badly: the ridge is higher.
        ridge = ridge * (1.0 + inputs / max(self.n, 1))
        if self.n < inputs:
            self.weights = woodbury_factor(X - self.mean, ridge)
            remainder = 1.0 - (self.weights**2).sum(axis=0)
            self.remainder = remainder
            if remainder.min() > CANCELLATION_LIMIT:
                return
        covariance = np.atleast_2d(np.cov(X.T)) if self.n > 1 else np.zeros((inputs, inputs))
        from scipy import linalg  # imported late: only training needs it

        precision = linalg.inv(covariance + ridge * np.eye(inputs))
        self.weights, self.remainder = precision / np.diag(precision)[:, None], None

    @property
    def n_parameters(self) -> int:
        """Numbers kept: means, and weights other than those that are 1."""
        n = len(self.mean)
        if self.remainder is None:
            return n * n
        return self.weights.size + 2 * n if len(self.weights) else n

    def residuals(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of every input: (samples, inputs)."""
        Z = X - self.mean
        if self.remainder is None:
            return Z @ self.weights.T
        return (Z - (Z @ self.weights.T) @ self.weights) / self.remainder


def woodbury_factor(Z: NDArray, ridge: float) -> NDArray[np.float64]:
    """Return B as above; ones, which leave no remainder, where the factorization fails."""
    from scipy import linalg

    products = Z @ Z.T + max(len(Z) - 1, 1) * ridge * np.eye(len(Z))
    try:
        lower = linalg.cholesky(products, lower=True)
    except linalg.LinAlgError:
        return np.ones((1, Z.shape[1]))
    return linalg.solve_triangular(lower, Z, lower=True)
