"""What a model adds to the covariance that all models share, and what it keeps of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.blas import one_blas_thread
from dirad.immutable import shared


@dataclass(frozen=True, eq=False)
class ClassMoments:
    """Means of the classes of a model, and the scatter around them until it is pooled."""

    n_fitted: int  # samples of which this was computed
    n: float  # samples in the scatter, less the classes whose means they gave
    means: NDArray[np.float64]  # (classes, inputs), skewed inputs by their roots
    scatter: NDArray[np.float64] | None = None  # (inputs, inputs)

    def __deepcopy__(self, memo: dict[Any, Any]) -> "ClassMoments":
        return shared(self, memo)

    @property
    def k(self) -> int:
        """The number of classes."""
        return len(self.means)

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        inputs = self.means.shape[1]
        return self.means.size + (0 if self.scatter is None else inputs * (inputs + 1) // 2)


def class_moments(
    X: NDArray, y: NDArray[np.int64], classes: Sequence[int], own: NDArray[np.int64]
) -> ClassMoments | None:
    """Return the moments of a model's samples, as `CommonInputUnits.symmetric` has them.

    A class that is not among its `own`, of which there are few samples, gets the mean of all.
    """
    here = [label for label in classes if (y == label).any() and label in own]
    if not here:
        return None
    n_fitted, chosen = len(X), np.isin(y, here)
    X, y = X[chosen], y[chosen]
    with one_blas_thread():
        means = np.tile(X.mean(axis=0), (len(classes), 1))
        centred = np.empty_like(X)
        for row, label in enumerate(classes):
            if label in here:
                means[row] = X[y == label].mean(axis=0)
                centred[y == label] = X[y == label] - means[row]
        scatter = centred.T @ centred
    return ClassMoments(n_fitted, float(len(X) - len(here)), means, scatter)
