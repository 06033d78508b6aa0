"""Adapt the weights of a network to their rounding, by gradient descent on training samples.

In every step the sums are computed with rounded weights, and the gradient moves the weights behind
them (straight-through rounding), until they round to levels that work well together. Shifts and
scales stay as they are. Targets are the mean of the labels and of what the network answered before
it was rounded, which reduces overfitting to few samples.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dirad.export.compact.evaluate import levels
from dirad.export.compact.form import LIMIT, ONE, CompactNetwork
from dirad.export.compact.scaling import Scaled, rounded_weights

BATCH = 128
RATE = 0.01  # of Adam at first, in largest levels; falls to 0 along a cosine
BETA_1, BETA_2, TINY = 0.9, 0.999, 1e-8
BIAS_UNIT = 64.0  # a bias moves like the weight of a source of this size
REACH = float(LIMIT // ONE)  # of t

Array = NDArray[np.float32]


@dataclass(frozen=True)
class TrainingSamples:
    """Samples to adapt to."""

    x: NDArray[np.uint8]  # (samples, inputs)
    target: Array  # (samples, outputs): probabilities, or values in units of the rows
    weight: Array  # (samples,) mean 1
    kind: str  # softmax, logistic or linear: of the outputs
    scale: float  # of the outputs: logits per unit; for linear ones, 1 / their spread


@dataclass
class _Group:
    """Rows that are computed together: hidden nodes of one level, or the outputs."""

    nodes: NDArray[np.int64]  # hidden nodes; empty for the outputs
    rows: NDArray[np.int64]
    n_sources: int
    edges: NDArray[np.int64]  # of the network
    place: NDArray[np.int64]  # of each edge in the dense matrix
    matrix: Array  # (rows, sources) dense weights


class Trainer:
    """Computes gradients of a scaled network with rounded weights."""

    def __init__(self, net: CompactNetwork) -> None:
        self.net = net
        self.gate = (2.0 ** -net.gate_shift.astype(np.float64)).astype(np.float32)
        self.product = (ONE * 2.0 ** -net.product_shift.astype(np.float64)).astype(np.float32)
        self.groups = [self._group(nodes) for nodes in levels(net)]
        self.outputs = self._group(None)

    def _group(self, nodes: NDArray[np.int64] | None) -> _Group:
        net = self.net
        if nodes is None:
            nodes, rows = np.zeros(0, np.int64), np.arange(2 * net.n_hidden, net.n_rows)
        else:
            rows = np.concatenate([2 * nodes, 2 * nodes + 1])  # first terms, then second ones
        edges = np.concatenate(
            [np.arange(net.start[r], net.start[r + 1]) for r in rows] + [np.zeros(0, np.int64)]
        )
        n_sources = int(net.source[edges].max(initial=net.n_inputs - 1)) + 1
        count = np.diff(net.start)[rows]
        place = np.repeat(np.arange(len(rows)), count) * n_sources + net.source[edges]
        matrix = np.zeros((len(rows), n_sources), np.float32)
        return _Group(nodes, rows, n_sources, edges, place, matrix)

    def gradients(
        self, weight: Array, bias: Array, samples: TrainingSamples, chosen: NDArray, x: Array
    ) -> tuple[Array, Array]:
        """Return the gradients of the mean loss by weights and biases."""
        net = self.net
        nodes = np.zeros((net.n_inputs + net.n_hidden, len(x)), np.float32)
        nodes[: net.n_inputs] = x.T
        kept = []
        for group in self.groups:
            z, m = np.split(self._sums(group, weight, bias, nodes), 2)
            t = np.clip(m * self.gate[group.nodes, None], -REACH, REACH)
            sigma = 1.0 + t - t * np.abs(t) / (2 * REACH)
            nodes[net.n_inputs + group.nodes] = z * sigma * self.product[group.nodes, None]
            kept.append((z, t, sigma))
        rows = self._sums(self.outputs, weight, bias, nodes)
        of_weight, of_bias = np.zeros_like(weight), np.zeros_like(bias)
        back = np.zeros_like(nodes)
        delta = _delta(rows, samples, chosen)
        self._add_gradients(self.outputs, delta, nodes, back, of_weight, of_bias)
        for group, (z, t, sigma) in zip(self.groups[::-1], kept[::-1], strict=True):
            own = back[net.n_inputs + group.nodes] * self.product[group.nodes, None]
            slope = (1.0 - np.abs(t) / REACH) * self.gate[group.nodes, None]
            delta = np.concatenate([own * sigma, own * z * slope])
            self._add_gradients(group, delta, nodes, back, of_weight, of_bias)
        return of_weight, of_bias

    def _sums(self, group: _Group, weight: Array, bias: Array, nodes: Array) -> Array:
        group.matrix.reshape(-1)[group.place] = weight[group.edges]
        return group.matrix @ nodes[: group.n_sources] + bias[group.rows, None]

    def _add_gradients(
        self,
        group: _Group,
        delta: Array,
        nodes: Array,
        back: Array,
        of_weight: Array,
        of_bias: Array,
    ) -> None:
        """Add the gradients of a group's weights and biases, and of its sources."""
        dense = delta @ nodes[: group.n_sources].T
        of_weight[group.edges] += dense.reshape(-1)[group.place]
        of_bias[group.rows] += delta.sum(axis=1)
        n_in = self.net.n_inputs
        if group.n_sources > n_in:
            back[n_in : group.n_sources] += group.matrix[:, n_in:].T @ delta


def _delta(rows: Array, samples: TrainingSamples, chosen: NDArray) -> Array:
    """Return the gradient of the mean loss by the output rows: (outputs, samples)."""
    target, weight = samples.target[chosen].T, samples.weight[chosen]
    if samples.kind == "linear":
        error = (rows - target) * np.float32(samples.scale)
    else:
        logits = rows * np.float32(samples.scale)
        if samples.kind == "softmax":
            powers = np.exp(logits - logits.max(axis=0))
            error = powers / powers.sum(axis=0) - target
        else:
            error = 0.5 * np.tanh(0.5 * logits) + 0.5 - target
    return (error * weight * np.float32(samples.scale / len(chosen))).astype(np.float32)


def refit(
    start: Scaled, samples: TrainingSamples, *, steps: int, seed: int, noise: float = 0.0
) -> Scaled:
    """Return the network with weights and biases adapted to their rounding."""
    net, trainer = start.net, Trainer(start.net)
    rng = np.random.default_rng(seed)
    values = np.concatenate([start.weight, start.bias]).astype(np.float32)
    n = len(start.weight)
    n_hidden_edges = int(net.start[2 * net.n_hidden])
    most = np.full(n, net.formats[1].largest, np.float32)
    most[:n_hidden_edges] = net.formats[0].largest
    rate = RATE * np.concatenate([most, np.full(net.n_rows, BIAS_UNIT * most.max(initial=1))])
    rate = rate.astype(np.float32)
    moments = np.zeros((2, len(values)), np.float32)
    spread = noise * samples.x.std(axis=0).astype(np.float32)
    for step, chosen in enumerate(_batches(len(samples.x), steps, rng), start=1):
        x = samples.x[chosen].astype(np.float32)
        left = min(1.0, 2.0 * (1.0 - step / steps))
        if noise:
            x += spread * left * rng.choice(np.array([-1, 1], np.float32), x.shape)
        levels_now = rounded_weights(net, values[:n]).astype(np.float32)
        of_weight, of_bias = trainer.gradients(levels_now, values[n:], samples, chosen, x)
        gradient = np.concatenate([of_weight, of_bias])
        moments[0] += (1 - BETA_1) * (gradient - moments[0])
        moments[1] += (1 - BETA_2) * (gradient**2 - moments[1])
        mean = moments[0] / (1 - BETA_1**step)
        size = np.sqrt(moments[1] / (1 - BETA_2**step)) + TINY
        values -= rate * np.float32((1 + np.cos(np.pi * step / steps)) / 2) * mean / size
        values[:n] = np.clip(values[:n], -most, most)
    return replace(start, weight=values[:n].astype(float), bias=values[n:].astype(float))


def _batches(n: int, steps: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield the samples of each step: all, in a random order, again and again."""
    size, order = min(BATCH, n), np.zeros(0, np.int64)
    for _ in range(steps):
        if len(order) < size:
            order = rng.permutation(n)
        yield order[:size]
        order = order[size:]
