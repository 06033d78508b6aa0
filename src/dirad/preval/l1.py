"""L1 of the paper in training: separate pathways, each of which predicts one node of L0.

Every pathway is a network of its own with a single output, so that pathways are trained
independently: on any number of threads or machines, each until it is stable, with the same result.
When all are stable, the pathways of the chosen targets are composed into one network, a
`Predictor`. L1 of our own models is solved for instead: see `exact_l1`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compose import concatenate_outputs
from dirad.core.network import LINEAR, LOGISTIC, Network
from dirad.core.random import bits
from dirad.engine import current
from dirad.growth.adapt import Adaptation, Data, WorkspacePool, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.inference import respond
from dirad.preval.connectivity import allowed_sources, is_output
from dirad.preval.predictor import L0States, Predictor
from dirad.preval.settings import Settings

PATHWAY_KEY = 101  # purpose of random keys
CAPACITY = {"unit_capacity": 40, "edge_capacity": 64}  # of a pathway, which seldom outgrows it


class Pathway(NamedTuple):
    """The network that predicts one target."""

    target: int  # column of the states
    adaptation: Adaptation

    @property
    def network(self) -> Network:
        """The network as it is now."""
        return self.adaptation.state.network


class SharedPathwayData(NamedTuple):
    """What pathways are trained on, the same for all of them."""

    data: Data  # the samples, as kernels read them
    states: NDArray[np.float64]  # (samples, states)
    steps: int  # of each pathway


def advance_pathways(
    shared: SharedPathwayData, pathways: Sequence[Pathway]
) -> list[tuple[Pathway, History]]:
    """Train pathways; return them, each with the history of these steps."""
    result = []
    pool = WorkspacePool(pathways[0].adaptation.params, len(shared.states))
    data = shared.data
    everything = np.ones(shared.states.shape[1], bool)
    for path in pathways:
        own = data._replace(
            epoch=data.epoch.copy(),
            order=data.order.copy(),
            targets=np.ascontiguousarray(shared.states[:, path.target, None], data.targets.dtype),
        )
        until = path.adaptation.state.step + shared.steps
        history = path.adaptation.advance(own, until, pool)
        if path.adaptation.stable:
            drop_growth_buffers(path, everything)
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
    """The pathways of one model."""

    settings: Settings
    seed: int
    states: L0States
    targets: NDArray[np.int64]  # columns of the states that are predicted
    pathways: list[Pathway] = field(default_factory=list)
    histories: list[History] = field(default_factory=list)  # of each pathway
    step: int = 0

    @property
    def stable(self) -> bool:
        """Are all pathways done?"""
        return bool(self.pathways) and all(p.adaptation.stable for p in self.pathways)

    def step_per_batch(self, X: NDArray, threads: int = 1) -> int:
        """Take a step on each batch of X, in order; return how many it took to be stable."""
        states = self.states.of(X)
        data = new_data(states, np.zeros((len(X), 1)), self.settings.l1, first=self.step)
        active = [i for i, path in enumerate(self.pathways) if not path.adaptation.stable]
        shared = SharedPathwayData(data, states, len(X) // self.settings.l1.batch_size)
        paths = [self.pathways[i] for i in active]
        trained = current().spread(advance_pathways, shared, paths, threads)
        for i, (path, history) in zip(active, trained, strict=True):
            self.pathways[i] = path  # another object, where another process trained it
            self.histories[i].extend(history)
        taken = max(path.adaptation.state.step for path in self.pathways) - self.step
        self.step += taken
        return taken

    def residuals(self, X: NDArray) -> NDArray[np.float64]:
        """Return prediction − state of every target as the pathways are now."""
        states = self.states.of(X)
        everything = concatenate_outputs([path.network for path in self.pathways])
        return respond(everything, states) - states[:, self.targets]

    def finished(self, chosen: NDArray[np.bool_]) -> Predictor:
        """Return the predictor of the chosen targets."""
        targets = self.targets[chosen]
        wanted = set(targets.tolist())
        kept = [path for path in self.pathways if path.target in wanted]
        network = concatenate_outputs([path.network for path in kept]) if kept else None
        steps = [len(history.error) for history in self.histories]
        return Predictor(self.states, targets, network, None, steps, self.learning_curves)

    @property
    def n_parameters(self) -> int:
        """Numbers learned by pathways, and the scaling of the states."""
        scaling = 2 * int(np.count_nonzero(self.states.spread != 1.0))
        return sum(path.network.n_parameters for path in self.pathways) + scaling

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


def new_l1(states: L0States, X: NDArray, settings: Settings, seed: int) -> L1Training:
    """Return pathways without edges, for a finished L0."""
    network = states.network
    targets = np.flatnonzero(~is_output(network, states.nodes))
    nodes = states.nodes[targets]
    allowed = allowed_sources(network, nodes, states.nodes, settings.connectivity)
    result = L1Training(settings, seed, states, targets)
    result.pathways = [
        _new_pathway(result, len(X), row, int(target))
        for row, target in zip(allowed, targets, strict=True)
    ]
    result.histories = [History() for _ in result.pathways]
    return result


def _new_pathway(l1: L1Training, n_samples: int, usable: NDArray[np.bool_], target: int) -> Pathway:
    # The seed of a pathway depends on the node it predicts, not on the other pathways.
    key = int(bits(l1.seed, PATHWAY_KEY, 0, int(l1.states.nodes[target]))) >> 1
    transfer = LINEAR if l1.settings.standardize else LOGISTIC  # beyond [0, 1], or within
    state = new_state(
        l1.states.n, 1, transfer=transfer, seed=key % 2**62, n_samples=n_samples, **CAPACITY
    )
    state.network.usable[:] = usable
    state = state._replace(best=state.best._replace(usable=state.network.usable))
    return Pathway(target, Adaptation(state, l1.settings.l1))
