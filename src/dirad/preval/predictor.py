"""A finished L1: it predicts the states of L0's nodes, and never changes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.special import softmax

from dirad.core.compose import N_PARAMETERS_PER_GATE, index_gated_parts
from dirad.core.network import Network
from dirad.immutable import shared
from dirad.inference import node_states, respond
from dirad.preval.clusters import Clusters
from dirad.preval.connectivity import is_output, live_nodes

MIN_ERROR = 1e-12  # added to mean squared errors, whose logarithm is taken
MIN_HIDDEN_SPREAD = 0.1  # of a hidden node, as a share of the root mean square of all
# The error of a sample counts as the likelihood error^(−n/2) of n normal errors of unknown
# variance; beyond some 16 inputs errors are correlated, and more of them add no information.
MAX_LIKELIHOOD_EXPONENT = 8.0
NOTHING = np.zeros(0)


@dataclass(frozen=True)
class L0States:
    """The states of L0's nodes as L1 sees them: scaled, followed by earlier predictions."""

    network: Network  # L0
    nodes: NDArray[np.int64]  # numbers of L0's nodes, inputs first
    offset: NDArray[np.float64]  # (nodes,) subtracted from a state
    spread: NDArray[np.float64]  # (nodes,) by which it is divided then
    earlier: tuple["Predictor", ...] = ()  # models that this one is built on (models="shared")

    def __deepcopy__(self, memo: dict[Any, Any]) -> "L0States":
        return shared(self, memo)

    @property
    def n(self) -> int:
        """The number of states: of L0's nodes, and one per input and earlier model."""
        return len(self.nodes) + len(self.earlier) * self.network.n_inputs

    def of(self, X: NDArray) -> NDArray[np.float64]:
        """Return the states for inputs as L0 sees them: (samples, states)."""
        before: list[NDArray] = []  # each earlier model uses the predictions of those before it
        for one in self.earlier:
            before.append(one.predicted_inputs(one.states._given(X, before)))
        return self._given(X, before)

    def _given(self, X: NDArray, before: Sequence[NDArray]) -> NDArray[np.float64]:
        """Return the states, given what the earlier models predict of the inputs."""
        n_inputs = self.network.n_inputs
        own = np.empty((len(X), len(self.nodes)))
        own[:, :n_inputs] = X
        own[:, n_inputs:] = node_states(self.network, X, self.nodes[n_inputs:])
        spread = self.spread[:n_inputs]
        first = 0 if (spread != 1.0).any() else n_inputs  # inputs that need no scaling
        own[:, first:] -= self.offset[first:]
        own[:, first:] /= self.spread[first:]
        return np.hstack([own, *(part / spread for part in before)]) if before else own


def fit_state_scaling(
    network: Network,
    X: NDArray,
    *,
    standardize: bool,
    input_scale: NDArray | None = None,
    earlier: Sequence["Predictor"] = (),
) -> L0States:
    """Return how L1 sees the states of an L0: scaled by their range, or mean and deviation, on X.

    Inputs are multiplied by `input_scale`, so that errors of all inputs count in the same units.
    """
    nodes = live_nodes(network)
    # Inputs and outputs are scaled already; the states of hidden nodes take any range.
    hidden = (nodes >= network.n_inputs) & ~is_output(network, nodes)
    states = node_states(network, X, nodes)
    if standardize:
        low, span = states.mean(axis=0), states.std(axis=0)
    else:
        low, span = states.min(axis=0), np.ptp(states, axis=0)
    if standardize and hidden.any():  # a rare event of a node must not count as a thousand spreads
        span = np.maximum(span, MIN_HIDDEN_SPREAD * np.sqrt(np.mean(span[hidden] ** 2)))
    offset = np.where(hidden, low, 0.0)
    spread = np.where(hidden & (span > 0), span, 1.0)
    if input_scale is not None:
        spread[: network.n_inputs] = 1.0 / input_scale
    return L0States(network, nodes, offset, spread, tuple(earlier))


@dataclass(frozen=True)
class Predictor:
    """One network that predicts the targets, gated by the clusters where there are any."""

    states: L0States
    targets: NDArray[np.int64]  # columns of the states that are predicted
    network: Network | None  # states (and mixture weights) -> targets; None where none is predicted
    clusters: Clusters | None
    steps_taken: list[int] = field(default_factory=list)  # by each pathway in training
    # Per step of training: mean squared error, edges, hidden nodes; empty where L1 was solved for.
    learning_curves: tuple[NDArray, NDArray, NDArray] = (NOTHING, NOTHING, NOTHING)

    @property
    def nodes(self) -> NDArray[np.int64]:
        """The nodes of L0 that are predicted: (targets,)."""
        return self.states.nodes[self.targets]

    @property
    def is_input(self) -> NDArray[np.bool_]:
        """Which of the targets are inputs of L0: (targets,)."""
        return self.nodes < self.states.network.n_inputs

    @property
    def n_clusters(self) -> int:
        """Clusters that have pathways of their own; 1 where there are none."""
        return 1 if self.clusters is None else self.clusters.n

    @property
    def error_exponent(self) -> float:
        """The power of the error by which clusters that predict better are more likely."""
        return min(MAX_LIKELIHOOD_EXPONENT, 0.5 * max(np.count_nonzero(self.is_input), 1))

    def scaled_predictions(self, states: NDArray) -> NDArray[np.float64]:
        """Return the predicted states of the targets, scaled: (samples, targets)."""
        if self.network is None:
            return np.zeros((len(states), 0))
        if self.clusters is None:
            return respond(self.network, states)
        return respond(self.network, np.hstack([states, self.cluster_weights(states)]))

    def cluster_predictions(self, states: NDArray) -> NDArray[np.float64]:
        """Return what each cluster predicts: (samples, clusters, targets)."""
        weights, bias = self._cluster_maps
        found = (weights @ states.T).T + bias
        return found.reshape(len(states), self.n_clusters, len(self.targets))

    def cluster_weights(self, states: NDArray) -> NDArray[np.float64]:
        """Return the mixture weights: how well each cluster predicts a sample."""
        assert self.clusters is not None
        if self.clusters.network is not None:
            return respond(self.clusters.network, states)
        inputs = self.is_input
        actual = states[:, None, self.targets[inputs]]
        predicted = self.cluster_predictions(states)[:, :, inputs]
        errors = ((predicted - actual) ** 2).mean(axis=2) + MIN_ERROR
        return softmax(-self.error_exponent * np.log(errors), axis=1)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_cluster_maps"}

    @cached_property
    def _cluster_maps(self) -> tuple[csr_array, NDArray[np.float64]]:
        """The weights (clusters · targets, states) and biases of all clusters' predictions."""
        assert self.network is not None
        parts = index_gated_parts(self.network, self.n_clusters)
        unit, bias = parts.unit.T.ravel(), parts.constant.T.ravel().copy()
        grown = np.flatnonzero(unit >= 0)
        bias[grown] = self.network.bias[unit[grown], 0]
        row = np.full(len(self.network.units), -1)
        row[unit[grown]] = grown
        edges = self.network.edges
        edges = edges[(edges["source"] >= 0) & (edges["term"] % 2 == 0)]
        edges = edges[row[edges["term"] // 2] >= 0]
        place = row[edges["term"] // 2], edges["source"]
        return csr_array((edges["weight"], place), shape=(len(bias), self.states.n)), bias

    def predictions(self, X: NDArray) -> NDArray[np.float64]:
        """Return the predicted states of the targets in L0's own units: (samples, targets)."""
        scaled = self.scaled_predictions(self.states.of(X))
        return scaled * self.states.spread[self.targets] + self.states.offset[self.targets]

    def predicted_inputs(self, states: NDArray) -> NDArray[np.float64]:
        """Return the prediction of every input, 0 where there is none: (samples, inputs)."""
        result = np.zeros((len(states), self.states.network.n_inputs))
        if self.network is not None:
            inputs = self.is_input
            scaled = self.scaled_predictions(states)[:, inputs]
            result[:, self.nodes[inputs]] = scaled * self.states.spread[self.targets[inputs]]
        return result

    def residuals(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of the targets: (samples, targets)."""
        states = self.states.of(X)
        return self.scaled_predictions(states) - states[:, self.targets]

    @property
    def n_parameters(self) -> int:
        """Numbers learned by pathways and gating network, and the scaling of the states.

        What lets a pathway through (two edges of weight 1, a bias, K) is the same for all of them
        and never trained: it is counted once.
        """
        networks = [] if self.network is None else [self.network]
        repeated = 0
        if self.clusters is not None:
            hidden = 0 if self.network is None else self.network.n_hidden
            repeated = N_PARAMETERS_PER_GATE * max(hidden - 1, 0)
            if self.clusters.n > 1 and self.clusters.network is not None:
                networks.append(self.clusters.network)
        scaling = 2 * int(np.count_nonzero(self.states.spread != 1.0))
        return sum(network.n_parameters for network in networks) + scaling - repeated
