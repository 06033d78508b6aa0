"""A model: L0 answers, L1 predicts L0's states, statistics of its errors tell what is usual.

`StreamModel` is the paper's: each batch is one step, nothing is kept. `BufferModel` is ours: a
bounded sample of the task at hand serves many steps, and a part of it that neither network was
fitted to calibrates. This is what both have in common.
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.history import History
from dirad.inference import respond
from dirad.preval.prediction import Prediction
from dirad.preval.settings import Settings
from dirad.preval.validation import Statistics, conflicted

GROWING_L0, GROWING_L1, STABLE = "L0", "L1", "stable"


class Verdict(NamedTuple):
    """What a model says of a batch: known, if `value` is at most `limit`."""

    model: int
    value: float
    limit: float
    p: float = float("nan")  # chance of so unusual a batch of the known task (ours)
    p_inputs: float = float("nan")  # the same by the inputs alone
    p_labels: float = float("nan")  # the same by L0's mistakes alone

    @property
    def validated(self) -> bool:
        """Is the batch of the kind that the model adapted to?"""
        return self.value <= self.limit


class Model(ABC):
    """One task's networks. It adapts batch by batch and never changes once it is stable."""

    history: History  # of L0
    network: Network  # L0
    l1: Prediction | None
    known: Statistics | None
    classes: list[int]  # what each output stands for

    def __init__(self, number: int, settings: Settings, seed: int) -> None:
        self.number = number
        self.settings = settings
        self.seed = seed
        self.history = History()
        self.l1 = None
        self.known = None
        self.classes = []

    def __repr__(self) -> str:
        l1 = f", L1 with {self.l1.n_parameters:,} parameters" if self.l1 is not None else ""
        return f"Model {self.number} ({self.phase}): L0 with {self.network.n_edges} edges{l1}"

    @property
    def phase(self) -> str:
        """What is adapting: L0, L1, or nothing any more."""
        if self.known is not None:
            return STABLE
        return GROWING_L0 if self.l1 is None else GROWING_L1

    @property
    def has_opinion(self) -> bool:
        """Can it tell what it knows?"""
        return self.phase == STABLE

    @abstractmethod
    def finish(self, threads: int = 1) -> None:
        """Go on until the phase ends, with the data at hand."""

    @abstractmethod
    def judge(self, X: NDArray, y: NDArray[np.int64] | None = None) -> Verdict:
        """Return whether this batch is of the kind that the model adapted to.

        Labels, where they are known (-1: not known), are used by our models only.
        """

    @abstractmethod
    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return how little the model knows each sample: the least goes to it."""

    @abstractmethod
    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how unusual each sample is to the model: higher is newer."""

    @abstractmethod
    def knows(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return which samples are of the kind that the model adapted to."""

    def scaled(self, X: NDArray) -> NDArray:
        """Return inputs as the networks see them."""
        return X

    def respond(self, X: NDArray) -> NDArray[np.float64]:
        """Return L0's outputs: (samples, outputs)."""
        return respond(self.network, self.scaled(X))

    @abstractmethod
    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each of the model's classes: (samples, classes)."""

    def errors(self, X: NDArray) -> NDArray[np.float64]:
        """Return |prediction − state| of the nodes that L1 predicts: (samples, nodes)."""
        assert self.l1 is not None
        return self.l1.errors(self.scaled(X))

    def predicted_inputs(self, X: NDArray) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return which inputs L1 predicts, and their predicted values: (samples, these inputs)."""
        assert self.l1 is not None
        nodes, predicted = self.l1.predictions(self.scaled(X))
        inputs = nodes < self.network.n_inputs
        return nodes[inputs], predicted[:, inputs]

    def conflicted(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which of L0's nodes are conflicted, per sample: (samples, nodes of L0).

        None are where nothing is predicted.
        """
        result = np.zeros((len(X), self.network.n_inputs + len(self.network.units)), bool)
        if self.l1 is None or self.known is None:
            return result
        places = self.l1.nodes[self.l1.targets]
        result[:, places] = conflicted(self.errors(X), self.known, self.settings.T_conf)
        return result

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks of L0 and L1, and the numbers kept for validation."""
        total = self.network.n_parameters
        if self.l1 is not None:
            total += self.l1.n_parameters
        if self.known is not None:
            total += 2 * len(self.known.mean) + 2
        return total + self._n_scale_parameters

    @property
    def _n_scale_parameters(self) -> int:
        return 0
