"""A stand-in for L1 while a model adapts: every input predicted linearly from all others.

In closed form: with P the inverse of the inputs' covariance, input i is best predicted from the
others with an error of (P·x)ᵢ/Pᵢᵢ. It costs one inverse, needs some hundred samples, and lets a
task that changes before its model is stable be noticed.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import linalg


class Sketch:
    """The linear prediction of every input from the others."""

    def __init__(self, X: NDArray, ridge: float) -> None:
        """Fit to samples (n, inputs) in common units; `ridge` is added to every variance.

        An infinite one leaves the mean as the prediction.
        """
        self.n = len(X)
        self.mean = X.mean(axis=0)
        if ridge == float("inf"):
            self.weights = np.eye(X.shape[1])
            return
        covariance = np.atleast_2d(np.cov(X.T)) if len(X) > 1 else np.zeros((X.shape[1],) * 2)
        # Of few samples the covariance is known badly: more is added.
        ridge = ridge * (1.0 + X.shape[1] / max(len(X), 1))
        precision = linalg.inv(covariance + ridge * np.eye(X.shape[1]))
        self.weights = precision / np.diag(precision)[:, None]

    @property
    def n_parameters(self) -> int:
        """Numbers kept: means, and weights where there are any."""
        n = len(self.mean)
        return n if np.array_equal(self.weights, np.eye(n)) else n * n

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of every input: (samples, inputs)."""
        return (X - self.mean) @ self.weights.T
