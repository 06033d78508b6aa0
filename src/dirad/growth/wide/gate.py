"""A node of a wide network: a weighted source times a gate."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

CONSTANT = -1  # in place of a source: term 0 of the node is its bias alone
# In place of a node: the first new node of the same candidate; −3 is the second, and so on.
NEW_STEP = -2
SCALE = 0.25  # of term 0 of a new node
Sum = tuple[tuple[int, float], ...]  # nodes and their weights


class Gate(NamedTuple):
    """A node (bias + weight · a_source) · σ₁(gain · (Σ wᵢ·aᵢ − threshold))."""

    source: int  # node of term 0, or CONSTANT
    weight: float
    bias: float  # of term 0
    gate: Sum  # of term 1
    gain: float
    threshold: float

    @property
    def n_edges(self) -> int:
        """Edges into the node."""
        return len(self.gate) + (self.source != CONSTANT)

    @property
    def low(self) -> float:
        """The value of the node where its gate is closed, if that is always the same."""
        return -self.bias if self.source == CONSTANT else 0.0

    @property
    def is_step(self) -> bool:
        """Is it a gate on one node, multiplied with the constant 1?"""
        return self.source == CONSTANT and len(self.gate) == 1

    def moved(self, place: Mapping[int, int]) -> "Gate":
        """Return the gate of a network in which nodes have other places."""
        sums = tuple((place[node], weight) for node, weight in self.gate)
        source = self.source if self.source == CONSTANT else place[self.source]
        return self._replace(source=source, gate=sums)

    def state(self, states: NDArray) -> NDArray[np.float64]:
        """Return the value for each sample, from the states (samples, nodes) of earlier nodes."""
        term_0 = self.bias
        if self.source != CONSTANT:
            term_0 = self.bias + self.weight * states[:, self.source]
        return term_0 * self.factor(states)

    def factor(self, states: NDArray) -> NDArray[np.float64]:
        """Return σ₁ of term 1 for each sample."""
        return modulation(self.gain * (summed(self.gate, states) - self.threshold))


def alone(node: int) -> Sum:
    """Return the sum of a single node."""
    return ((node, 1.0),)


def summed(parts: Sum, states: NDArray) -> NDArray[np.float64]:
    """Return a weighted sum of states (samples, nodes) for each sample."""
    (node, weight), *others = parts
    total = weight * states[:, node]
    for node, weight in others:
        total += weight * states[:, node]
    return total


def modulation(z: NDArray) -> NDArray:
    """σ₁(z) = 2·tanh(z/2) + 1."""
    return 2.0 * np.tanh(0.5 * z) + 1.0
