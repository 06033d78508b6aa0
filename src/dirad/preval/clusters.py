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
from dirad.preval.l0 import MANY_INPUTS
from dirad.preval.source_selection import FEW_INPUTS

KMEANS_ITERATIONS = 10
# Share of a class's variance that each doubling of the number of clusters must remove: of pixels it
# is 0.1 and more, of the features of a network some 0.05, as if their distribution were normal.
LEAST_REMOVED = 0.07
LEAST_MOVED = 0.005  # share of samples below which changes of cluster make no difference
ENOUGH_SAMPLES = 80  # of a cluster, which the closest samples of its class join if it has fewer
# Of many inputs and few samples, clusters are samples with those around them: so many in each, and
# so many times as many clusters. They overlap, so that none is small for that. Of 900 samples of a
# class clusters that do not overlap are better, and of 100 all would nearly be the same.
SAMPLES_AROUND, TIMES_AS_MANY = 60, 4
LEAST_TO_OVERLAP, MOST_TO_OVERLAP = 120, 500  # samples of a class


def find_clusters(
    X: NDArray,
    classes: NDArray[np.int64],
    most: int,
    min_samples: float,
    seed: int,
    *,
    overlap: bool = False,
) -> list[NDArray[np.int64]]:
    """Return the samples of each cluster; no cluster spans two classes, but clusters may overlap.

    A class has at most `most` clusters, and fewer where they would hold fewer than `min_samples`
    samples on average. Of many inputs it has one where clusters would leave most of their variance:
    then the same predicts all of its samples, and is fitted best to all of them. With `overlap`,
    few samples of many inputs have several times as many clusters.
    """
    result = []
    for label in np.unique(classes):
        members = np.flatnonzero(classes == label)
        wanted = min(most, int(len(members) / max(min_samples, 1)))
        few = overlap and LEAST_TO_OVERLAP <= len(members) <= MOST_TO_OVERLAP
        few = few and X.shape[1] > MANY_INPUTS
        more = min(most, TIMES_AS_MANY * wanted) if few else 0
        rng = np.random.default_rng(seed % 2**32)
        result += [members[own] for own in _clusters_of_class(X[members], wanted, more, rng)]
    return result


def _clusters_of_class(
    X: NDArray, wanted: int, overlapping: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    """Return the samples of each cluster of a class; so many overlap, or none (0)."""
    everything = np.arange(len(X))
    if wanted < 2 or not np.ptp(X, axis=0).any():
        return [everything]
    if overlapping and X.shape[1] <= FEW_INPUTS:
        return around_samples(X, overlapping)
    assigned = k_means(X, wanted, rng)
    if X.shape[1] > FEW_INPUTS and not are_apart(X, assigned, wanted):
        return [everything]
    if overlapping:
        return around_samples(X, overlapping)
    return [enlarged(X, np.flatnonzero(assigned == label)) for label in np.unique(assigned)]


def around_samples(X: NDArray, n: int) -> list[NDArray[np.int64]]:
    """Return n clusters: samples that lie far apart, each with those closest to it."""
    everything = np.arange(len(X))
    return [closest(X, everything, center, SAMPLES_AROUND) for center in X[far_apart(X, n)]]


def far_apart(X: NDArray, n: int) -> list[int]:
    """Return n rows of X, the first the closest to the mean, each next the farthest from those."""
    chosen = [int(((X - X.mean(axis=0)) ** 2).sum(axis=1).argmin())]
    distance = np.full(len(X), np.inf)
    while len(chosen) < n:
        distance = np.minimum(distance, ((X - X[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(distance.argmax()))
    return chosen


def enlarged(X: NDArray, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the samples of a cluster, joined by those closest to its mean where it has few.

    Clusters that overlap predict better than clusters of few samples.
    """
    others = np.setdiff1d(np.arange(len(X)), own)
    missing = max(ENOUGH_SAMPLES - len(own), 0)
    return np.sort(np.concatenate([own, closest(X, others, X[own].mean(axis=0), missing)]))


def closest(X: NDArray, rows: NDArray[np.int64], center: NDArray, most: int) -> NDArray[np.int64]:
    """Return those of some rows of X that are closest to a center, in their order."""
    distance = ((X[rows] - center) ** 2).sum(axis=1)
    return np.sort(rows[np.argsort(distance, kind="stable")[:most]])


def are_apart(X: NDArray, assigned: NDArray[np.int64], n: int) -> bool:
    """Do the n clusters that samples were assigned to leave little of their variance?"""
    means = [X[assigned == cluster].mean(axis=0) for cluster in np.unique(assigned)]
    apart = np.array(means)[np.unique(assigned, return_inverse=True)[1]] - X.mean(axis=0)
    removed = float((apart**2).sum() / ((X - X.mean(axis=0)) ** 2).sum())
    return 1.0 - removed <= (1.0 - LEAST_REMOVED) ** np.log2(n)


def k_means(X: NDArray, n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the cluster of each row of X: Lloyd's algorithm from centers chosen by k-means++."""
    X = (X - X.mean(axis=0)).astype(np.float32)  # twice as fast, and precise enough to compare
    squares = np.einsum("ij,ij->i", X, X)
    centers = X[[int(rng.integers(len(X)))]]
    distance = ((X - centers[0]) ** 2).sum(axis=1)
    while len(centers) < n:
        share = distance.astype(np.float64)
        share = share / share.sum() if share.any() else None
        chosen = X[[int(rng.choice(len(X), p=share))]]
        centers = np.concatenate([centers, chosen])
        distance = np.minimum(
            distance, np.maximum(squares - 2 * X @ chosen[0] + chosen[0] @ chosen[0], 0)
        )
    assigned = np.full(len(X), -1)
    for _ in range(KMEANS_ITERATIONS):
        nearest = (np.einsum("ij,ij->i", centers, centers) - 2.0 * (X @ centers.T)).argmin(axis=1)
        moved = np.count_nonzero(nearest != assigned)
        assigned = nearest
        if moved <= LEAST_MOVED * len(X):
            break
        count = np.bincount(assigned, minlength=n)
        member = np.zeros((n, len(X)), np.float32)
        member[assigned, np.arange(len(X))] = 1.0
        centers = np.where(
            count[:, None] > 0, member @ X / np.maximum(count, 1)[:, None], centers
        ).astype(np.float32)
    return assigned


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
