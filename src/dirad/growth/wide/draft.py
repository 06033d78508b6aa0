"""A wide network while it grows: its nodes, their states, and the parameters of its outputs."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

from dirad.core.network import EDGE as EDGE_RECORD
from dirad.core.network import (
    LINEAR,
    MODULATORY,
    N_EDGES,
    N_UNITS,
    SOFTMAX,
    Network,
    new_network,
)
from dirad.growth.wide.costs import Samples, total_cost, transferred
from dirad.growth.wide.gate import CONSTANT, SCALE, Gate
from dirad.history import EDGE, GATE, RECORD, History

LEAST_CURVATURE = 1e-3  # of a sample: where an answer is certain, the cost is almost linear
BIAS_DECAY = 1e-6  # relative; keeps the curvature invertible
HALVINGS = 6  # of a Newton step that would raise the cost
HALVINGS_OF_KNOWN = 1  # the same with an older curvature; then it is computed again
FRESH = 1.3  # growth of the number of parameters after which curvatures are computed again

potrf, potrs = get_lapack_funcs(("potrf", "potrs"), dtype=np.float64)


class _Step(NamedTuple):
    """A step of the solution for the outputs."""

    newton: NDArray[np.float64]  # (1 + features, outputs)
    direction: NDArray[np.float64]  # the same, conjugate to earlier ones
    drop: float  # of the cost, to first order


@dataclass
class Draft:
    """A wide network and its states for the samples that it grows on."""

    samples: Samples
    transfer: int
    decay: float  # weight decay of the edges into outputs
    usable: NDArray[np.bool_]  # (inputs,)
    nodes: list[Gate] = field(default_factory=list)
    depth: list[int] = field(default_factory=list)  # gates that a node multiplies

    def __post_init__(self) -> None:
        n, n_inputs = self.samples.inputs.shape
        n_outputs = self.samples.targets.shape[1]
        self._states = np.empty((n_inputs + 64, n))  # a row per node, which is read as a whole
        self._states[:n_inputs] = self.samples.inputs.T
        self.bias = np.zeros(n_outputs)
        self.features: list[int] = []  # nodes that feed the outputs
        self.weights = np.zeros((0, n_outputs))
        self.removed = np.zeros((0, n_outputs), bool)  # edges whose weight stays 0
        self.feed(np.flatnonzero(self.usable).tolist())
        self.n_first = 0  # nodes before the first round of growth
        self.steps: dict[tuple[int, float], int] = {}  # gates, by input and threshold of the step
        self.rounds: list[int] = []  # number of nodes after each round of growth
        self.costs: list[float] = []  # mean cost at the start and after each round
        self._recent: list[NDArray] = []  # `fishers`, when growth last used them
        self._n_fresh = 0  # parameters when all of their entries were last computed

    @property
    def n_inputs(self) -> int:
        """Number of inputs."""
        return self.samples.inputs.shape[1]

    @property
    def n_nodes(self) -> int:
        """Number of inputs and gates."""
        return self.n_inputs + len(self.nodes)

    @property
    def states(self) -> NDArray[np.float64]:
        """States of all inputs and gates: (samples, nodes)."""
        return self._states[: self.n_nodes].T

    def low(self, node: int) -> float:
        """Return the value that a node has where it is closed; 0 for inputs."""
        return self.nodes[node - self.n_inputs].low if node >= self.n_inputs else 0.0

    def n_gates_of(self, node: int) -> int:
        """Return the number of gates that a node multiplies."""
        return self.depth[node - self.n_inputs] if node >= self.n_inputs else 0

    def add(self, gate: Gate, *, feeds_outputs: bool, state: NDArray | None = None) -> int:
        """Add a node, with edges of weight 0 to all outputs if it feeds them; return it.

        `state` is its state for the samples, if that is known.
        """
        node = self.n_nodes
        if node == len(self._states):
            self._states = np.vstack([self._states, np.empty_like(self._states)])
        self._states[node] = gate.state(self._states.T) if state is None else state
        self.depth.append(1 + (self.n_gates_of(gate.source) if gate.source >= 0 else 0))
        if gate.is_step and gate.bias == SCALE and gate.gate[0][0] < self.n_inputs:
            self.steps[gate.gate[0][0], gate.threshold] = len(self.nodes)
        self.nodes.append(gate)
        if feeds_outputs:
            self.feed_also(node)
        return node

    def feed_also(self, node: int) -> None:
        """Let a node feed the outputs, with edges of weight 0, unless it does."""
        if node not in self.features:
            self.features.append(node)
            self.weights = np.vstack([self.weights, np.zeros((1, len(self.bias)))])
            self.removed = np.vstack([self.removed, np.zeros((1, len(self.bias)), bool)])

    def feed(self, inputs: list[int]) -> None:
        """Let these inputs, and no others, feed the outputs, with edges of weight 0."""
        self.features = list(inputs)
        self.weights = np.zeros((len(inputs), len(self.bias)))
        self.removed = np.zeros(self.weights.shape, bool)

    @property
    def feeding_inputs(self) -> list[int]:
        """The inputs that feed the outputs."""
        return [node for node in self.features if node < self.n_inputs]

    def record_cost(self) -> None:
        """Note the mean cost of the samples."""
        total = total_cost(self.activation, self.samples, self.transfer)
        self.costs.append(total / max(float(self.samples.weight.sum()), 1e-300))

    def answers(self) -> NDArray[np.float64]:
        """Return the outputs for the samples."""
        return transferred(self.activation, self.transfer)

    def cost(self, activation: NDArray) -> float:
        """Return the cost of all samples for these activations, with weight decay."""
        squares = float((self.weights**2).sum())
        return total_cost(activation, self.samples, self.transfer) + 0.5 * self.decay * squares

    def curvature(self, answers: NDArray) -> NDArray[np.float64]:
        """Return the second derivative of the cost in each activation: (samples, outputs)."""
        weight = self.samples.weight[:, None]
        if self.transfer == LINEAR:
            return np.repeat(weight, len(self.bias), axis=1)
        return weight * np.maximum(answers * (1.0 - answers), LEAST_CURVATURE)

    def design(self) -> NDArray[np.float64]:
        """Return what the outputs weight: 1 for the bias, and the nodes that feed them."""
        result = np.empty((1 + len(self.features), len(self.samples.inputs)))
        result[0] = 1.0
        np.take(self._states, self.features, axis=0, out=result[1:], mode="clip")
        return result.T

    def fisher(self, design: NDArray, curvature: NDArray) -> NDArray[np.float64]:
        """Return the curvature of the cost in the parameters of one output, with weight decay."""
        scaled = design * np.sqrt(curvature)[:, None]
        result = scaled.T @ scaled
        result[np.diag_indices_from(result)] += self._penalty(len(result))
        return result

    def _penalty(self, size: int) -> NDArray[np.float64]:
        """Return the curvature of weight decay for each parameter of an output."""
        penalty = np.full(size, self.decay + BIAS_DECAY * len(self.samples.weight))
        penalty[0] = BIAS_DECAY * len(self.samples.weight)
        return penalty

    def fishers(self, design: NDArray, curvature: NDArray) -> list[NDArray[np.float64]]:
        """Return `fisher` of each output, or of one if it is the same for all."""
        n_different = 1 if self.transfer == LINEAR else len(self.bias)
        return [self.fisher(design, curvature[:, o]) for o in range(n_different)]

    def recent_fishers(self) -> list[NDArray[np.float64]]:
        """Return `fishers` of the last round of growth, or new ones after many nodes were added.

        Those of linear outputs never change. Others change so little in a round that growth does
        with older ones.
        """
        size = 1 + len(self.features)
        steady = self.transfer == LINEAR and self._n_fresh > 0
        known = len(self._recent) > 0 and len(self._recent[0]) == size
        if not known or not (steady or size <= FRESH * self._n_fresh):
            self._recent = self.fishers(self.design(), self.curvature(self.answers()))
            self._n_fresh = size
        return self._recent

    def _extended(
        self, fisher: NDArray, design: NDArray, curvature: NDArray
    ) -> NDArray[np.float64]:
        """Return `fisher` with rows and columns for parameters that were added after it."""
        old, size = len(fisher), design.shape[1]
        result = np.empty((size, size))
        result[:old, :old] = fisher
        result[old:] = (design[:, old:] * curvature[:, None]).T @ design
        result[:old, old:] = result[old:, :old].T
        added = np.arange(old, size)
        result[added, added] += self._penalty(size)[old:]
        return result

    def solve(
        self, steps: int, tolerance: float = 1e-4, known: list[NDArray] | None = None
    ) -> None:
        """Minimize the cost over the parameters of the outputs by Newton's method.

        The classes of a softmax are solved for separately; directions are conjugate then, since
        otherwise two classes that compete would correct each other in every step.
        `known` is the curvature at the start (`fishers`), if it was computed before.
        """
        last: _Step | None = None
        design = self.design()
        self.activation = design[:, 1:] @ self.weights + self.bias
        before = self.cost(self.activation)
        for _ in range(steps):
            last, cost = self._step(design, last, known, before)
            if known is not None and cost >= before:  # an older curvature misled
                self._n_fresh = 0
                last, cost = self._step(design, None, None, before)
            known = None
            if before - cost <= tolerance * abs(before):
                return
            before = cost

    def _step(
        self, design: NDArray, last: _Step | None, known: list[NDArray] | None, before: float
    ) -> tuple[_Step, float]:
        """Take a step that lowers the cost, or none; return it and the cost."""
        gradient, newton = self._newton_direction(design, known)
        direction = newton
        if self.transfer == SOFTMAX and last is not None:
            share = ((newton - last.newton) * gradient).sum() / last.drop
            direction = newton + max(float(share), 0.0) * last.direction
        moved, old = design @ direction, (self.bias, self.weights, self.activation)
        step = _Step(newton, direction, float((newton * gradient).sum()) + 1e-300)
        length = self._step_length(direction, moved)
        for halving in range((HALVINGS if known is None else HALVINGS_OF_KNOWN) + 1):
            share = length * 0.5**halving
            self.bias = old[0] - share * direction[0]
            self.weights = old[1] - share * direction[1:]
            self.activation = old[2] - share * moved
            cost = self.cost(self.activation)
            if cost <= before:
                return step, cost
        self.bias, self.weights, self.activation = old
        return step, before

    def _newton_direction(
        self, design: NDArray, known: list[NDArray] | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the gradient of the cost, and what Newton's method subtracts for it."""
        answers = self.answers()
        residual = (answers - self.samples.targets) * self.samples.weight[:, None]
        gradient = design.T @ residual
        gradient[1:] += self.decay * self.weights
        curvature = self.curvature(answers)
        if known is not None:
            fishers = [self._extended(f, design, curvature[:, o]) for o, f in enumerate(known)]
            try:
                direction = self._newton_step(fishers, gradient)
                self._recent = fishers
                return gradient, direction
            except np.linalg.LinAlgError:  # sums over different curvatures need not be positive
                self._n_fresh = 0
        return gradient, self._newton_step(self.fishers(design, curvature), gradient)

    def _newton_step(self, fishers: list[NDArray], gradient: NDArray) -> NDArray[np.float64]:
        """Return the gradient divided by the curvature, output by output."""
        if len(fishers) == 1 and not self.removed.any():
            return solution(fishers[0], gradient)
        direction = np.zeros_like(gradient)
        for o in range(len(self.bias)):
            kept = np.concatenate([[0], 1 + np.flatnonzero(~self.removed[:, o])])
            fisher = fishers[min(o, len(fishers) - 1)][np.ix_(kept, kept)]
            direction[kept, o] = solution(fisher, gradient[kept, o])
        return direction

    def _step_length(self, direction: NDArray, moved: NDArray) -> float:
        """Return the step that minimizes the cost along a direction, to second order."""
        if self.transfer != SOFTMAX:
            return 1.0
        answers, weight = self.answers(), self.samples.weight
        residual = (answers - self.samples.targets) * weight[:, None]
        slope = float((residual * moved).sum() + self.decay * (self.weights * direction[1:]).sum())
        spread = (answers * moved**2).sum(axis=1) - (answers * moved).sum(axis=1) ** 2
        curvature = float(weight @ spread + self.decay * (direction[1:] ** 2).sum())
        return min(max(slope / max(curvature, 1e-300), 0.1), 4.0)

    def activations_of(self, inputs: NDArray) -> NDArray[np.float64]:
        """Return the activations of the outputs for other samples."""
        states = np.empty((len(inputs), self.n_nodes))
        states[:, : self.n_inputs] = inputs
        for i, gate in enumerate(self.nodes):
            states[:, self.n_inputs + i] = gate.state(states)
        return states[:, self.features] @ self.weights + self.bias

    def network(self) -> Network:
        """Return the network."""
        n_outputs = len(self.bias)
        edges = [
            (node, 2 * o, self.weights[i, o])
            for i, node in enumerate(self.features)
            for o in range(n_outputs)
            if self.weights[i, o] != 0.0
        ]
        network = new_network(self.n_inputs, n_outputs, self.transfer, n_outputs + len(self.nodes))
        network.usable[:] = self.usable
        network.bias[:n_outputs, 0] = self.bias
        network.counts[N_UNITS] = n_outputs + len(self.nodes)
        for unit, gate in enumerate(self.nodes, start=n_outputs):
            sign = 1.0 if gate.gain > 0 else -1.0
            network.units[unit] = (MODULATORY, -1, abs(gate.gain), 0)
            network.bias[unit] = gate.bias, -sign * gate.threshold
            edges += [(node, 2 * unit + 1, sign * weight) for node, weight in gate.gate]
            if gate.source != CONSTANT:
                edges.append((gate.source, 2 * unit, gate.weight))
        numbered = [(self._numbered(source), term, weight, 0) for source, term, weight in edges]
        network.counts[N_EDGES] = len(edges)
        return network._replace(edges=np.array(numbered, EDGE_RECORD))

    def _numbered(self, node: int) -> int:
        """Return the number of a node in the network, where the outputs are the first units."""
        return node if node < self.n_inputs else node + len(self.bias)

    def history(self) -> History:
        """Return the growth, with one step per round; inputs feed the outputs from the start."""
        network = self.network()
        n_outputs, n_rounds = len(self.bias), len(self.costs)
        ends = np.array([self.n_first, *self.rounds])  # nodes at the start and after each round
        unit_step = np.zeros(n_outputs + len(self.nodes), np.int64)
        unit_step[n_outputs:] = np.searchsorted(ends, np.arange(len(self.nodes)), side="right")
        node_step = np.concatenate([np.zeros(self.n_inputs, np.int64), unit_step])
        edges = network.edges
        added = _records(EDGE, len(edges))
        added["part"], added["value"] = np.arange(len(edges)), edges["weight"]
        added["source"], added["term"] = edges["source"], edges["term"]
        added["step"] = np.maximum(node_step[edges["source"]], unit_step[edges["term"] // 2])
        gates = _records(GATE, len(self.nodes))
        gates["unit"] = np.arange(n_outputs, n_outputs + len(self.nodes))
        gates["step"], gates["term"] = unit_step[n_outputs:], 2 * gates["unit"] + 1
        gates["source"] = [
            self._numbered(gate.gate[0][0]) if len(gate.gate) == 1 else -1 for gate in self.nodes
        ]
        gates["value"] = [gate.threshold for gate in self.nodes]
        events = np.concatenate([added, gates])
        events = events[np.argsort(events["step"], kind="stable")]
        n_edges = np.searchsorted(np.sort(added["step"]), np.arange(n_rounds), side="right")
        return History(events, np.array(self.costs), n_edges, ends[:n_rounds])


def _records(kind: int, count: int) -> NDArray:
    """Return events of a kind, in which no field applies yet."""
    events = np.zeros(count, RECORD)
    for name in ("part", "source", "term", "unit", "second"):
        events[name] = -1
    events["kind"] = kind
    return events


def solution(matrix: NDArray, right: NDArray) -> NDArray[np.float64]:
    """Solve linear equations with a symmetric positive definite matrix."""
    factor, failed = potrf(matrix.T, lower=True, clean=False)
    if failed:
        raise np.linalg.LinAlgError("the curvature is not positive definite")
    return potrs(factor, right, lower=True)[0]
