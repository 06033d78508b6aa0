"""Prototypes of a class: the centres that k-means finds. The nearest prototype's class answers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

ITERATIONS = 20  # of Lloyd's algorithm


class Prototypes(NamedTuple):
    """The centres of one class."""

    centres: NDArray[np.float64]  # (prototypes, inputs)

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return minus the squared distance to the nearest, up to a constant of the sample."""
        distance = (self.centres**2).sum(axis=1) - 2 * X @ self.centres.T
        return -distance.min(axis=1)

    @property
    def n_stored(self) -> int:
        return self.centres.size


def fit_prototypes(
    X: NDArray[np.float64], rng: np.random.Generator, n_prototypes: int
) -> Prototypes:
    """Return at most so many prototypes; all samples, where there are no more of them."""
    if len(X) <= n_prototypes:
        return Prototypes(X)
    seed = int(rng.integers(2**31))
    means = KMeans(n_prototypes, max_iter=ITERATIONS, random_state=seed).fit(X)
    return Prototypes(means.cluster_centers_)
