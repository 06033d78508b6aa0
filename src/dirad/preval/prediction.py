"""L1: one private pathway per target, which predicts the state of a node of L0 from others.

Every pathway is a network of its own with a single output, so that pathways adapt independently:
on any number of threads, each stopping when it is stable, with the same result. When all are
stable, those of the confidently predicted targets are joined into one network.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import FREE, LINEAR, LOGISTIC, Network, new_network
from dirad.core.propagate import node_states, respond
from dirad.core.random import bits
from dirad.growth.adapt import Adaptation, Data, Desk, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.preval.connectivity import allowed_sources, is_output, live_nodes
from dirad.preval.settings import Settings

PATHWAY = 101  # purpose of the random key of a pathway


def joined(networks: Sequence[Network]) -> Network:
    """Return one network that computes what these do side by side; outputs in their order."""
    n_inputs = networks[0].n_inputs
    units = [np.flatnonzero(one.units["kind"] != FREE) for one in networks]
    edges = [np.flatnonzero(one.edges["source"] >= 0) for one in networks]
    result = new_network(
        n_inputs,
        len(networks),
        int(networks[0].counts[4]),
        sum(map(len, units)),
        sum(map(len, edges)),
    )
    unit, edge = 0, 0
    for column, (one, its_units, its_edges) in enumerate(zip(networks, units, edges, strict=True)):
        place = np.full(len(one.units), -1)
        place[its_units] = np.arange(unit, unit + len(its_units))
        rows = slice(unit, unit + len(its_units))
        result.units[rows] = one.units[its_units]
        result.units["output"][rows] = np.where(one.units["output"][its_units] >= 0, column, -1)
        result.bias[rows] = one.bias[its_units]
        part = one.edges[its_edges]
        inner = part["source"] >= n_inputs
        part["source"][inner] = n_inputs + place[part["source"][inner] - n_inputs]
        part["term"] = 2 * place[part["term"] // 2] + part["term"] % 2
        result.edges[edge : edge + len(part)] = part
        unit, edge = unit + len(its_units), edge + len(part)
    result.counts[1], result.counts[2] = unit, edge
    return result


class Prediction:
    """The L1 network of one model."""

    def __init__(self, l0: Network, X: NDArray, settings: Settings, seed: int) -> None:
        """Begin, for a stable L0. X is the batch on which the range of hidden states is taken."""
        self.l0 = l0
        self.settings = settings
        self.nodes = live_nodes(l0)
        outputs = is_output(l0, self.nodes)
        hidden = (self.nodes >= l0.n_inputs) & ~outputs
        states = node_states(l0, X, self.nodes)
        # Inputs and outputs are scaled already; hidden states take any range.
        if settings.standardize:
            low, span = states.mean(axis=0), states.std(axis=0)
        else:
            low, span = states.min(axis=0), np.ptp(states, axis=0)
        self.low = np.where(hidden, low, 0.0)
        self.span = np.where(hidden & (span > 0), span, 1.0)
        self.targets = np.flatnonzero(~outputs)  # columns of `states`
        allowed = allowed_sources(l0, self.nodes[self.targets], self.nodes, settings.connectivity)
        # What an input is predicted from may depend on what L0 makes of the sample.
        params = settings.l1
        if params.ordering == "gain":
            params = params.replace(first_gate=l0.n_inputs)
        self.pathways = []
        transfer = LINEAR if settings.standardize else LOGISTIC  # states beyond [0, 1], or within
        for row, target in zip(allowed, self.targets, strict=True):
            # The seed of a pathway depends on the node it predicts, not on its neighbours.
            own = int(bits(seed, PATHWAY, 0, int(self.nodes[target]))) >> 1
            state = new_state(
                len(self.nodes), 1, transfer=transfer, seed=own % 2**62, n_samples=len(X)
            )
            state.network.usable[:] = row
            self.pathways.append(Adaptation(state, params))
        self.histories = [History() for _ in self.pathways]
        self.step = 0
        self.network: Network | None = None  # of the confidently predicted targets, when stable

    def states(self, X: NDArray) -> NDArray[np.float64]:
        """Return the states of L0's nodes as L1 sees them: (samples, nodes), hidden ones scaled."""
        return (node_states(self.l0, X, self.nodes) - self.low) / self.span

    @property
    def stable(self) -> bool:
        """Are all pathways stable?"""
        return all(pathway.stable for pathway in self.pathways)

    def advance(self, X: NDArray, threads: int = 1) -> int:
        """Take a step on each batch of X, in order; return how many it took to be stable."""
        batch = self.settings.l1.batch_size
        states = self.states(X)
        data = new_data(states, np.zeros((len(X), 1)), self.settings.l1, first=self.step)
        until = self.step + len(X) // batch
        self._advance_all(data, states, until, threads)
        taken = max(pathway.state.step for pathway in self.pathways) - self.step
        self.step += taken
        return taken

    def advance_on(self, X: NDArray, steps: int, threads: int = 1) -> None:
        """Take steps on batches drawn from X."""
        states = self.states(X)
        data = new_data(states, np.zeros((len(X), 1)), self.settings.l1)
        self._advance_all(data, states, self.step + steps, threads)
        self.step = max(pathway.state.step for pathway in self.pathways)

    def _advance_all(self, data: Data, states: NDArray, until: int, threads: int) -> None:
        active = [i for i, pathway in enumerate(self.pathways) if not pathway.stable]

        def work(some: Sequence[int]) -> None:
            desk = Desk(self.settings.l1, len(states))
            for i in some:
                column = np.ascontiguousarray(states[:, self.targets[i], None], data.targets.dtype)
                own = data._replace(
                    targets=column, epoch=data.epoch.copy(), order=data.order.copy()
                )
                self.histories[i].extend(self.pathways[i].advance(own, until, desk))

        if threads <= 1 or len(active) < 2:
            work(active)
            return
        # Every n-th pathway: neighbours, which take alike, go to different threads.
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, [active[i::threads] for i in range(threads)]))

    def all_errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of every target, stable or not: (samples, targets)."""
        states = self.states(X)
        everything = joined([pathway.state.network for pathway in self.pathways])
        return np.abs(respond(everything, states) - states[:, self.targets])

    def keep(self, chosen: NDArray[np.bool_]) -> None:
        """Keep the pathways of the chosen targets and forget the others; adaptation is over."""
        kept = [path for path, keep in zip(self.pathways, chosen, strict=True) if keep]
        self.targets = self.targets[chosen]
        self.network = joined([path.state.network for path in kept]) if kept else None
        self.pathways = []

    def predictions(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the nodes of L0 that are predicted, and their predicted states, when stable."""
        if self.network is None:
            return np.zeros(0, np.int64), np.zeros((len(X), 0))
        scaled = respond(self.network, self.states(X))
        predicted = scaled * self.span[self.targets] + self.low[self.targets]
        return self.nodes[self.targets], predicted

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of the confidently predicted targets, when stable."""
        if self.network is None:
            return np.zeros((len(X), 0))
        states = self.states(X)
        return np.abs(respond(self.network, states) - states[:, self.targets])

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks, and the scaling of the states."""
        networks = [path.state.network for path in self.pathways]
        if self.network is not None:
            networks = [self.network]
        return sum(network.n_parameters for network in networks) + 2 * int(
            np.count_nonzero(self.span != 1.0)
        )

    def progress(self) -> tuple[NDArray, NDArray, NDArray]:
        """Return per step: the mean squared error over targets, the edges, the hidden nodes."""
        error, edges, hidden = np.zeros(self.step), np.zeros(self.step), np.zeros(self.step)
        for history in self.histories:
            n = len(history.error)
            if n == 0:
                continue
            # A stable pathway stays as it is.
            whole = np.append(history.error, np.full(self.step - n, history.error[-1]))
            error += 2.0 * np.where(np.isfinite(whole), whole, 0.5)  # one that ran away: 1 at most
            edges += np.append(history.edges, np.full(self.step - n, history.edges[-1]))
            hidden += np.append(history.hidden, np.full(self.step - n, history.hidden[-1]))
        return error / max(len(self.histories), 1), edges, hidden
