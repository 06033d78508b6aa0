"""Clusters within classes, found by k-means.

What predicts one cluster of a class (a slanted seven) does not predict another (an upright one), so
L1 has a predictor of its own for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.history import History

KMEANS_ITERATIONS = 20


def find_clusters(
    X: NDArray, classes: NDArray[np.int64], most: int, min_samples: int, seed: int
) -> NDArray[np.int64]:
    """Return the cluster of each sample, numbered from 0; no cluster spans two classes.

    A class has at most `most` clusters, and fewer where they would hold fewer than `min_samples`
    samples on average.
    """
    from scipy.cluster.vq import kmeans2  # imported late: only training needs it

    result = np.zeros(len(X), np.int64)
    number = 0
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        wanted = min(most, len(members) // max(min_samples, 1))
        found = np.zeros(len(members), np.int64)
        if wanted > 1 and np.ptp(X[members], axis=0).any():
            # k-means may leave a cluster empty: the others are renumbered.
            _, assigned = kmeans2(
                X[members],
                wanted,
                minit="++",
                iter=KMEANS_ITERATIONS,
                missing="warn",
                rng=seed % 2**32,
            )
            found = np.unique(assigned, return_inverse=True)[1]
        result[members] = number + found
        number += int(found.max()) + 1
    return result


@dataclass(frozen=True)
class Clusters:
    """The clusters of a finished L1."""

    classes: NDArray[np.int64]  # (clusters,) the class of each cluster
    network: Network | None = None  # in models of dirad 0.1: states -> mixture weights
    history: History | None = None  # of that network

    @property
    def n(self) -> int:
        """The number of clusters."""
        return len(self.classes)

    def cover(self, classes: Sequence[int]) -> bool:
        """Are there clusters of all these classes, so that they also tell the class?"""
        return self.n > 1 and bool(np.isin(classes, self.classes).all())

    def sum_by_class(self, weights: NDArray, classes: Sequence[int]) -> NDArray[np.float64]:
        """Return the sum of the weights over the clusters of each class: (samples, classes)."""
        columns = [self.classes == label for label in classes]
        return np.stack([weights[:, column].sum(axis=1) for column in columns], axis=1)
