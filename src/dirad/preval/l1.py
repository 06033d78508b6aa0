"""L1 in training: separate pathways, each of which predicts the state of one node of L0.

Every pathway is a network of its own with a single output, so that pathways are trained
independently: on any number of threads or machines, each until it is stable, with the same result.
The paper has one per target. Ours has one per target and cluster (see `clusters`), trained on the
samples of that cluster. When all are stable, the pathways of the chosen targets are composed into
one network, a `Predictor`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compose import GatedPart, compose_gated, concatenate_outputs
from dirad.core.network import LINEAR, LOGISTIC, Network
from dirad.core.random import bits
from dirad.engine import current
from dirad.growth.adapt import Adaptation, Data, WorkspacePool, new_data
from dirad.growth.state import PHASE, new_state
from dirad.history import STABLE, History
from dirad.inference import respond
from dirad.preval.clusters import ClusterTraining, find_clusters, new_cluster_training
from dirad.preval.connectivity import allowed_sources, is_output
from dirad.preval.predictor import L0States, Predictor
from dirad.preval.settings import Settings
from dirad.preval.source_selection import most_correlated

PATHWAY_KEY, GATING_KEY = 101, 103  # purposes of random keys
GATING_NETWORK = -1  # in place of a target and a cluster: the gating network
CAPACITY = {"unit_capacity": 40, "edge_capacity": 64}  # of a pathway, which seldom outgrows it
RIDGE_DOUBLING_SAMPLES = 100  # samples of a cluster for which the ridge is doubled
MIN_STATE_STD = 1e-3  # of a state: below, its mean predicts it well enough


class Pathway(NamedTuple):
    """The network that predicts one target in one cluster; or GATING_NETWORK."""

    target: int  # column of the states
    cluster: int
    adaptation: Adaptation

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self.adaptation.state.network


class SharedPathwayData(NamedTuple):
    """What pathways are trained on, the same for all of them."""

    by_cluster: dict[int, tuple[Data, NDArray]]  # its samples, as kernels read them; their states
    steps: int  # of each pathway
    all_states: NDArray[np.bool_]  # (states,) true


def advance_pathways(
    shared: SharedPathwayData, pathways: Sequence[Pathway]
) -> list[tuple[Pathway, History]]:
    """Train pathways; return them, each with the history of these steps."""
    pools: dict[int, WorkspacePool] = {}
    result = []
    for path in pathways:
        data, states = shared.by_cluster[path.cluster]
        pool = pools.get(path.cluster)
        if pool is None:
            pool = WorkspacePool(path.adaptation.params, len(states))
            pools = {path.cluster: pool}  # the previous cluster's is released
        own = data._replace(epoch=data.epoch.copy(), order=data.order.copy())
        if path.target != GATING_NETWORK:
            column = states[:, path.target, None]
            own = own._replace(targets=np.ascontiguousarray(column, data.targets.dtype))
        until = path.adaptation.state.step + shared.steps
        history = path.adaptation.advance(own, until, pool)
        if path.adaptation.stable:
            drop_growth_buffers(path, shared.all_states)
        result.append((path, history))
    return result


def drop_growth_buffers(path: Pathway, all_states: NDArray[np.bool_]) -> None:
    """Release what only growth needs of a stable pathway, which is most of its memory.

    In place of the states that it may grow from, all stable pathways share `all_states`.
    """
    state = path.adaptation.state
    network = state.network._replace(usable=all_states)
    path.adaptation.replace(state._replace(network=network, best=network))


@dataclass
class L1Training:
    """The pathways of one model, and the gating network where there are clusters."""

    settings: Settings
    seed: int
    states: L0States
    targets: NDArray[np.int64]  # columns of the states that are predicted
    clusters: ClusterTraining | None
    pathways: list[Pathway] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)  # of each pathway
    step: int = 0

    @property
    def n_clusters(self) -> int:
        """Clusters that have pathways of their own; 1 where there are none."""
        return 1 if self.clusters is None else self.clusters.n

    @property
    def stable(self) -> bool:
        """Are the gating network and all pathways done?"""
        gated = self.clusters is None or self.clusters.done
        return gated and bool(self.pathways) and all(p.adaptation.stable for p in self.pathways)

    def step_per_batch(self, X: NDArray, threads: int = 1) -> int:
        """Take a step on each batch of X, in order; return how many it took to be stable."""
        states = self.states.of(X)
        data = new_data(states, np.zeros((len(X), 1)), self.settings.l1, first=self.step)
        self._advance({0: (data, states)}, len(X) // self.settings.l1.batch_size, threads)
        taken = max(path.adaptation.state.step for path in self.pathways) - self.step
        self.step += taken
        return taken

    def advance(self, X: NDArray, steps: int, threads: int = 1) -> None:
        """Take steps on X, the samples that the training began with."""
        states = self.states.of(X)
        assigned = np.zeros(len(X), np.int64) if self.clusters is None else self.clusters.assigned
        parts = {}
        if self.clusters is not None and not self.clusters.done:
            parts[GATING_NETWORK] = (self.clusters.data(states), states)
        for cluster in sorted({p.cluster for p in self.pathways if not p.adaptation.stable}):
            own = states[assigned == cluster]
            parts[cluster] = (new_data(own, np.zeros((len(own), 1)), self.settings.l1), own)
        self._advance(parts, steps, threads)
        self.step = max(path.adaptation.state.step for path in self.pathways)

    def _advance(self, parts: dict[int, tuple[Data, NDArray]], steps: int, threads: int) -> None:
        active = [i for i, path in enumerate(self.pathways) if not path.adaptation.stable]
        paths = [self.pathways[i] for i in active]
        gating = self.clusters if GATING_NETWORK in parts else None
        if gating is not None:  # it takes longest, and so comes first
            paths.insert(0, Pathway(GATING_NETWORK, GATING_NETWORK, gating.adaptation))
        shared = SharedPathwayData(parts, steps, np.ones(self.states.n, bool))
        trained = current().spread(advance_pathways, shared, paths, threads)
        if gating is not None:
            path, history = trained.pop(0)
            gating.adaptation = path.adaptation
            gating.history.extend(history)
        for i, (path, history) in zip(active, trained, strict=True):
            self.pathways[i] = path  # another object, where another process trained it
            self.histories[i].extend(history)

    def residuals(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of every target as the pathways are now."""
        states = self.states.of(X)
        everything = concatenate_outputs([path.network for path in self.pathways])
        return respond(everything, states) - states[:, self.targets]

    def finished(self, chosen: NDArray[np.bool_] | None = None) -> Predictor:
        """Return the predictor of the chosen targets, or of all."""
        targets = self.targets if chosen is None else self.targets[chosen]
        wanted = set(targets.tolist())
        kept = [path for path in self.pathways if path.target in wanted]
        clusters = None if self.clusters is None else self.clusters.finished()
        network = None
        if kept and clusters is None:
            network = concatenate_outputs([path.network for path in kept])
        elif kept and clusters is not None:
            column = {target: i for i, target in enumerate(targets.tolist())}
            parts = [GatedPart(p.network, p.cluster, column[p.target]) for p in kept]
            network = compose_gated(parts, len(targets), clusters.n)
        steps = [len(history.error) for history in self.histories]
        return Predictor(self.states, targets, network, clusters, steps, self.learning_curves)

    @property
    def n_parameters(self) -> int:
        """Numbers learned by pathways and gating network, and the scaling of the states."""
        networks = [path.network for path in self.pathways]
        if self.clusters is not None and self.clusters.n > 1:
            networks.append(self.clusters.adaptation.state.network)
        scaling = 2 * int(np.count_nonzero(self.states.spread != 1.0))
        return sum(network.n_parameters for network in networks) + scaling

    @property
    def learning_curves(self) -> tuple[NDArray, NDArray, NDArray]:
        """Per step: the mean squared error over pathways, the edges, the hidden nodes."""
        steps = max([self.step, *(len(history.error) for history in self.histories)])
        error, edges, hidden = np.zeros(steps), np.zeros(steps), np.zeros(steps)
        for history in self.histories:
            n = len(history.error)
            if n == 0:
                continue
            # A stable pathway does not change any more. One that diverged counts as an error of 1.
            padded = np.append(history.error, np.full(steps - n, history.error[-1]))
            error += 2.0 * np.where(np.isfinite(padded), padded, 0.5)
            edges += np.append(history.edges, np.full(steps - n, history.edges[-1]))
            hidden += np.append(history.hidden, np.full(steps - n, history.hidden[-1]))
        return error / max(len(self.histories), 1), edges, hidden


def new_l1(
    states: L0States,
    X: NDArray,
    settings: Settings,
    seed: int,
    classes: NDArray[np.int64] | None = None,
) -> L1Training:
    """Return pathways without edges, for a finished L0.

    With `settings.modes`, X is divided into clusters within `classes`.
    """
    network = states.network
    targets = np.flatnonzero(~is_output(network, states.nodes))
    seen = states.of(X)
    clusters = None
    if settings.modes:
        classes = np.zeros(len(X), np.int64) if classes is None else classes
        inputs = seen[:, : network.n_inputs]
        assigned = find_clusters(inputs, classes, settings.modes, settings.mode_samples, seed)
        key = (int(bits(seed, GATING_KEY, 0, 0)) >> 1) % 2**62
        clusters = new_cluster_training(states.n, assigned, classes, settings.gates, key)
    result = L1Training(settings, seed, states, targets, clusters)
    assigned = np.zeros(len(X), np.int64) if clusters is None else clusters.assigned
    allowed = _allowed(states, targets, settings.connectivity)
    for cluster in range(int(assigned.max()) + 1):
        result.pathways += _new_pathways(result, seen[assigned == cluster], allowed, cluster)
    result.histories = [History() for _ in result.pathways]
    return result


def _allowed(states: L0States, targets: NDArray[np.int64], connectivity: str) -> NDArray[np.bool_]:
    """Return which states may predict which target: (targets, states)."""
    nodes = states.nodes[targets]
    own = allowed_sources(states.network, nodes, states.nodes, connectivity)
    # An input is predicted from what earlier models predict of it, not of other inputs.
    same = nodes[:, None] == np.arange(states.network.n_inputs)
    return np.hstack([own, *([same] * len(states.earlier))])


def _new_pathways(
    l1: L1Training, seen: NDArray, allowed: NDArray[np.bool_], cluster: int
) -> list[Pathway]:
    """Return the pathways of one cluster; `seen` are the states of its samples."""
    settings, n = l1.settings, len(seen)
    params = settings.l1
    if l1.clusters is not None:  # all samples of a cluster are one batch
        decay = settings.ridge * (n + RIDGE_DOUBLING_SAMPLES)
        params = params.replace(batch_size=n, growth_batch=n, prior=decay)
    if settings.sources:
        # Neighbours among many inputs, as pixels are, predict one another whatever the task.
        n_inputs = l1.states.network.n_inputs
        skip = int(settings.near * max(n_inputs - 2 * settings.sources, 0))
        allowed = allowed & most_correlated(
            seen, l1.targets, settings.sources, skip=skip, n_inputs=n_inputs
        )
    return [
        _new_pathway(l1, seen, row, int(target), cluster, params)
        for row, target in zip(allowed, l1.targets, strict=True)
    ]


def _new_pathway(l1, seen, usable, target, cluster, params) -> Pathway:
    # The seed of a pathway depends on the node it predicts, not on the other pathways.
    key = int(bits(l1.seed, PATHWAY_KEY, cluster, int(l1.states.nodes[target]))) >> 1
    transfer = LINEAR if l1.settings.standardize else LOGISTIC  # beyond [0, 1], or within
    state = new_state(
        l1.states.n, 1, transfer=transfer, seed=key % 2**62, n_samples=len(seen), **CAPACITY
    )
    state.network.usable[:] = usable
    state = state._replace(best=state.best._replace(usable=state.network.usable))
    if l1.clusters is not None:
        column = seen[:, target]
        state.network.bias[0, 0] = column.mean()
        if column.std() < MIN_STATE_STD:
            state.clock[PHASE] = STABLE
    return Pathway(target, cluster, Adaptation(state, params))
