"""Clusters within classes, and the gating network that tells them apart.

What predicts one cluster of a class (a slanted seven) does not predict another (an upright one).
Clusters are found by k-means within each class. A network with softmax outputs learns to tell them
apart; its outputs are the mixture weights of L1's pathways, each of which serves one cluster.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import SOFTMAX, Network
from dirad.growth.adapt import Adaptation, Data, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.inference import respond
from dirad.params import Params
from dirad.preval.settings import weight_decay_for

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

    network: Network  # gating network: states of L0's nodes -> mixture weights
    classes: NDArray[np.int64]  # (clusters,) the class of each cluster
    history: History  # of the gating network

    @property
    def n(self) -> int:
        """The number of clusters."""
        return len(self.classes)

    def weights(self, states: NDArray) -> NDArray[np.float64]:
        """Return the mixture weight of each cluster: (samples, clusters), adding up to 1."""
        return respond(self.network, states)

    def cover(self, classes: Sequence[int]) -> bool:
        """Are there clusters of all these classes, so that mixture weights also tell the class?"""
        return self.n > 1 and bool(np.isin(classes, self.classes).all())

    def by_class(self, weights: NDArray, classes: Sequence[int]) -> NDArray[np.float64]:
        """Return the sum of the weights over the clusters of each class: (samples, classes)."""
        columns = [self.classes == label for label in classes]
        return np.stack([weights[:, column].sum(axis=1) for column in columns], axis=1)


@dataclass
class ClusterTraining:
    """The gating network while it is trained."""

    assigned: NDArray[np.int64]  # (samples,) the cluster of each training sample
    classes: NDArray[np.int64]  # (clusters,) the class of each cluster
    adaptation: Adaptation
    history: History = field(default_factory=History)

    @property
    def n(self) -> int:
        """The number of clusters."""
        return len(self.classes)

    @property
    def done(self) -> bool:
        """Is the training over? A single cluster needs none."""
        return self.n == 1 or self.adaptation.stable

    def data(self, states: NDArray) -> Data:
        """Return the training data: the states, and which cluster each sample is of."""
        return new_data(states, np.eye(self.n)[self.assigned], self.adaptation.params)

    def finished(self) -> Clusters:
        """Return the clusters with their network as it is now."""
        return Clusters(self.adaptation.state.network, self.classes, self.history)


def new_cluster_training(
    n_states: int,
    assigned: NDArray[np.int64],
    sample_classes: NDArray[np.int64],
    params: Params,
    seed: int,
) -> ClusterTraining:
    """Return a gating network without edges; `params.max_edges` is per cluster."""
    n = int(assigned.max()) + 1
    classes = np.zeros(n, np.int64)
    classes[assigned] = sample_classes
    params = params.replace(
        max_edges=params.max_edges * n, prior=weight_decay_for(params, len(assigned))
    )
    state = new_state(n_states, n, transfer=SOFTMAX, seed=seed, n_samples=len(assigned))
    return ClusterTraining(assigned, classes, Adaptation(state, params))
