"""L1 of our models: a sparse linear predictor per cluster and target, in closed form.

For each cluster one covariance matrix of the states of L0's nodes is computed; from it, forward
regression chooses the sources of every target and solves for their weights.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.blas import one_blas_thread
from dirad.core.compose import compose_gated
from dirad.core.sparse_regression import Covariance, forward_regression
from dirad.engine import current
from dirad.preval.clusters import SAMPLES_AROUND, Clusters, find_clusters
from dirad.preval.connectivity import allowed_sources, is_output
from dirad.preval.predictor import L0States, Predictor
from dirad.preval.settings import Settings
from dirad.preval.source_selection import forbid_neighbours

# Samples of a cluster for which the ridge is doubled, times the root of the number of inputs: the
# more inputs, the less certain their covariances are.
RIDGE_DOUBLING_SAMPLES = 8.5
MIN_STATE_STD = 1e-3  # of a state: below, its mean predicts it well enough
MAX_CLUSTER_EDGES = 9600  # of many inputs, each is predicted by fewer
# An edge must explain this share of what is left of its target's variance; of few samples, more,
# but less so of clusters that overlap: their ridge is high, and many of them answer together.
LEAST_SHARE, LEAST_SHARE_TIMES_SAMPLES, WHERE_THEY_OVERLAP = 0.006, 1.0, 0.5


class SharedData(NamedTuple):
    """What all clusters are fitted with."""

    states: NDArray[np.float64]  # (samples, states)
    clusters: list[NDArray[np.int64]]  # the samples of each
    overlap: bool  # are they samples with those around them?
    targets: NDArray[np.int64]  # columns of the states that are predicted: inputs come first
    allowed: NDArray[np.bool_]  # (targets, states) which states may predict which target
    n_inputs: int
    settings: Settings


def fit_exact_l1(
    states: L0States,
    X: NDArray,
    settings: Settings,
    seed: int,
    classes: NDArray[np.int64],
    threads: int = 1,
    memory: float = 1.0,
    *,
    overlap: bool = False,
) -> Predictor:
    """Return the L1 of a finished L0, fitted to X, inputs as L0 sees them, and their classes.

    So many samples as `memory` says are worth an independent one: the fewer these are, the fewer
    clusters there are. Where they are few, clusters may `overlap`: see `find_clusters`.
    """
    network = states.network
    targets = np.flatnonzero(~is_output(network, states.nodes))
    # The order in which BLAS adds may depend on its number of threads.
    with one_blas_thread():
        values = states.of(X)
        inputs = values[:, : network.n_inputs]
        least = settings.mode_samples * memory
        clusters = find_clusters(inputs, classes, settings.modes, least, seed, overlap=overlap)
        allowed = _allowed(states, targets, settings.connectivity)
        around = overlap and all(len(own) == SAMPLES_AROUND for own in clusters)
        shared = SharedData(values, clusters, around, targets, allowed, network.n_inputs, settings)
        parts = current().spread(fit_clusters, shared, range(len(clusters)), threads)
    bias, sources, weights = (np.array(column) for column in zip(*parts, strict=True))
    cluster_class = np.array([classes[own[0]] for own in clusters])
    composed = compose_gated(bias, sources, weights, states.n)
    return Predictor(states, targets, composed, Clusters(cluster_class))


def fit_clusters(
    shared: SharedData, clusters: Sequence[int]
) -> list[tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]]:
    """Return bias, sources and weights of every target, for each of some clusters."""
    return [_fit_cluster(shared, cluster) for cluster in clusters]


def _fit_cluster(
    shared: SharedData, cluster: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    settings, targets = shared.settings, shared.targets
    covariance = Covariance(shared.states[shared.clusters[cluster]])
    n, mean = covariance.n, covariance.mean
    varied = covariance.variance >= MIN_STATE_STD**2
    allowed = shared.allowed & varied & varied[targets][:, None]
    forbid_neighbours(allowed, covariance, shared.n_inputs, settings.near)
    doubling = RIDGE_DOUBLING_SAMPLES * np.sqrt(shared.n_inputs)
    ridge = settings.ridge * (1.0 + (doubling / n) ** 2)
    most = min(settings.l1.max_edges, max(MAX_CLUSTER_EDGES // max(shared.n_inputs, 1), 1))
    times = WHERE_THEY_OVERLAP if shared.overlap else LEAST_SHARE_TIMES_SAMPLES
    least = max(LEAST_SHARE, times / n)
    sources, weights = forward_regression(covariance, targets, allowed, most, ridge, least)
    bias = mean[targets] - (weights * mean[sources]).sum(axis=1)
    return bias, sources, weights


def _allowed(states: L0States, targets: NDArray[np.int64], connectivity: str) -> NDArray[np.bool_]:
    """Return which states may predict which target: (targets, states)."""
    nodes = states.nodes[targets]
    own = allowed_sources(states.network, nodes, states.nodes, connectivity)
    # An input is predicted from what earlier models predict of it, not of other inputs.
    same = nodes[:, None] == np.arange(states.network.n_inputs)
    return np.hstack([own, *([same] * len(states.earlier))])
