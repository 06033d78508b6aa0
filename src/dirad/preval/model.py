"""A model: L0 answers, L1 predicts L0's states, statistics tell what error is usual."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LOGISTIC, Network
from dirad.core.propagate import respond
from dirad.growth.adapt import Adaptation, Desk, new_data
from dirad.growth.state import new_state
from dirad.history import History
from dirad.preval.prediction import Prediction
from dirad.preval.settings import Settings
from dirad.preval.validation import (
    Statistics,
    batch_limit,
    confident,
    conflict_ratio,
    conflicted,
    invalid,
    statistics,
)

GROWING_L0, GROWING_L1, STABLE = "L0", "L1", "stable"


class Verdict(NamedTuple):
    """What a stable model says of a batch."""

    model: int
    validated: bool
    invalid_share: float  # of the samples
    limit: float  # (1 + ε_IS)·R_IS: up to here the batch is validated


class Model:
    """One task's networks. It adapts batch by batch and never changes once it is stable."""

    def __init__(
        self, number: int, n_inputs: int, n_outputs: int, settings: Settings, seed: int
    ) -> None:
        self.number = number
        self.settings = settings
        self.seed = seed
        state = new_state(n_inputs, n_outputs, transfer=LOGISTIC, seed=seed)
        self.l0: Adaptation | None = Adaptation(state, settings.l0)
        self.network: Network = state.network
        self.history = History()  # of L0
        self.l1: Prediction | None = None
        self.known: Statistics | None = None
        self.batches = 0  # adapted to

    @property
    def phase(self) -> str:
        """What is adapting: L0, L1, or nothing any more."""
        if self.known is not None:
            return STABLE
        return GROWING_L0 if self.l1 is None else GROWING_L1

    def learn(self, X: NDArray, targets: NDArray, threads: int = 1) -> int:
        """Adapt to batches in order, until L0 or then L1 is stable; return how many were used."""
        size = self.settings.l0.batch_size
        whole = slice(len(X) // size * size)
        if self.l0 is not None:
            used = self._advance_l0(X[whole], targets[whole])
            if self.l0.stable:
                self._begin_l1(X[(used - 1) * size : used * size])
        else:
            assert self.l1 is not None
            used = self.l1.advance(X[whole], threads)
            if self.l1.stable:
                self._stabilize(X[(used - 1) * size : used * size])
        self.batches += used
        return used

    def _advance_l0(self, X: NDArray, targets: NDArray) -> int:
        assert self.l0 is not None
        before = self.l0.state.step
        data = new_data(X, targets, self.settings.l0, first=before)
        desk = Desk(self.settings.l0, len(X))
        until = before + len(X) // self.settings.l0.batch_size
        self.history.extend(self.l0.advance(data, until, desk))
        self.network = self.l0.state.network
        return self.l0.state.step - before

    def _begin_l1(self, last: NDArray) -> None:
        self.l0 = None
        self.l1 = Prediction(self.network, last, self.settings, self.seed)

    def _stabilize(self, last: NDArray) -> None:
        """Decide, on one common last batch, what is confidently predicted and what is usual."""
        assert self.l1 is not None
        settings = self.settings
        errors = self.l1.all_errors(last)
        chosen = confident(errors, settings.T_CP)
        self.l1.keep(chosen)
        self.known = statistics(errors[:, chosen], settings.T_conf, settings.T_SV)

    def finish_l0(self, X: NDArray) -> None:
        """Make L0 stable as it is; X is the last batch."""
        self._begin_l1(X)

    def finish_l1(self, X: NDArray, threads: int = 1) -> None:
        """Become stable with no more data than the batch X, shown again and again."""
        assert self.l1 is not None
        repeated = np.tile(X, (100, 1))
        while not self.l1.stable:
            self.l1.advance(repeated, threads)
        self._stabilize(X)

    # ---------------------------------------------------------------- what it says

    def respond(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, outputs)."""
        return respond(self.network, X)

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of the confidently predicted nodes: (samples, nodes)."""
        assert self.l1 is not None
        return self.l1.errors(X)

    def conflict_ratio(self, X: NDArray) -> NDArray[np.float64]:
        """Return the share of conflicted nodes of each sample."""
        assert self.known is not None
        return conflict_ratio(self.errors(X), self.known, self.settings.T_conf)

    def conflicted(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which of L0's nodes are conflicted, per sample: (samples, nodes of L0)."""
        assert self.l1 is not None
        assert self.known is not None
        result = np.zeros((len(X), self.network.n_inputs + len(self.network.units)), bool)
        places = self.l1.nodes[self.l1.targets]
        result[:, places] = conflicted(self.errors(X), self.known, self.settings.T_conf)
        return result

    def judge(self, X: NDArray) -> Verdict:
        """Return whether this batch is of the kind that the model adapted to."""
        assert self.known is not None
        settings = self.settings
        bad = invalid(self.errors(X), self.known, settings.T_conf, settings.T_SV)
        share, limit = float(bad.mean()), batch_limit(self.known, settings.epsilon_IS)
        return Verdict(self.number, share <= limit, share, limit)

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks of L0 and L1, and the numbers kept for validation."""
        total = self.network.n_parameters
        if self.l1 is not None:
            networks = (
                [path.state.network for path in self.l1.pathways]
                if self.l1.network is None
                else [self.l1.network]
            )
            total += sum(network.n_parameters for network in networks)
        if self.known is not None:
            total += 2 * len(self.known.mean) + 1
        return total
