"""A perceptron pruned while it trains, its weights in the same few bits, its bytes encoded alike.

It is rounded and refitted as DIRAD's networks are (straight-through rounding, the same number of
steps). Its scales may be any real numbers and its states are not rounded, which favours it: only
its weights and their places are. Its code is taken as ours without the gates.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dirad.demo.baselines import adam
from dirad.export.compact.encode import encoded
from dirad.export.compact.form import CompactNetwork, Weights
from experiments.baselines import perceptron
from experiments.baselines.perceptron import MLP
from experiments.baselines.pruned_mlp import train_and_prune

CODE = 208  # of our loop (264 bytes, one format, ten classes) without the gate and its two rows
BYTES_PER_EDGE = 1.07
STEPS, BATCH = 8000, 128
RATE = 0.002
FACTORS = 2.0 ** (np.arange(-12, 13) / 8)  # scales that are tried around the first


@dataclass(frozen=True)
class OneRowPerNode(CompactNetwork):
    """Rows of a perceptron: one per hidden node, then the outputs."""

    rectifiers: int = 0

    def sources_of(self, row: int) -> int:
        """Return the number of nodes that a row may take."""
        return self.n_inputs + (self.rectifiers if row >= self.rectifiers else 0)


@dataclass(frozen=True)
class Scales:
    """What a level is worth: in the rows of each hidden node, and in the edges that leave it."""

    hidden: NDArray  # (hidden,)
    output: NDArray  # (hidden, 1)


def grown(
    X: NDArray, y: NDArray, most: int, own: Weights, n_hidden: int, seed: int
) -> tuple[MLP, int]:
    """Return a quantized perceptron that fits into `most` bytes, and its bytes."""
    targets = np.eye(int(y.max()) + 1, dtype=np.float32)[y]
    edges = int((most - CODE - 2 * n_hidden - targets.shape[1]) / BYTES_PER_EDGE)
    edges = min(edges, n_hidden * (X.shape[1] + targets.shape[1]))
    network = train_and_prune(X, targets, edges, n_hidden, 20, seed)
    spread = np.concatenate(
        [
            np.repeat(X.std(axis=0), n_hidden),
            np.repeat(perceptron.hidden(network, X[:2000]).std(axis=0), targets.shape[1]),
        ]
    )
    order = np.argsort(np.abs(network.values[: network.n_weights]) * spread)
    order = order[network.values[order] != 0]
    cut = 0
    while flash(network, own) > most:
        step = max(edges // 200, 1)
        network.values[order[cut : cut + step]] = 0
        cut += step
    adapted = refit(network, X, targets, own, seed)
    return adapted, flash(adapted, own)


def flash(network: MLP, own: Weights) -> int:
    """Return the bytes of a perceptron and its code."""
    alive = np.any(network.output_weights != 0, axis=1)
    first, second = network.hidden_weights[:, alive].T, network.output_weights[alive].T
    n_hidden, n_inputs = first.shape
    second = np.concatenate([np.zeros((len(second), n_inputs), np.float32), second], axis=1)
    rows = [*first, *second]
    sources = [np.flatnonzero(row) for row in rows]
    start = np.concatenate([[0], np.cumsum([len(one) for one in sources])])
    none = np.zeros(0, np.int64)
    net = OneRowPerNode(
        n_inputs, 0, start, np.concatenate([*sources, none]),
        np.full(start[-1], own.largest), np.zeros(len(rows), np.int64), 1, 0, none, none,
        (own, own), np.zeros(n_inputs), np.ones(n_inputs), np.ones(len(second)),
        np.zeros(len(second)), None, (), n_hidden,
    )  # fmt: skip
    shifts = n_hidden
    return len(encoded(net).stream) + shifts + CODE


def refit(network: MLP, X: NDArray, targets: NDArray, own: Weights, seed: int) -> MLP:
    """Return the perceptron with rounded weights, adapted to the rounding."""
    mask = network.values != 0
    mask[network.n_weights :] = True
    scales = _scales(network, own)
    shape = (X.shape[1], network.hidden_weights.shape[1], targets.shape[1])
    gradient = perceptron.blank(*shape)
    rng = np.random.default_rng(seed)
    moments = np.zeros((2, mask.size), np.float32)
    behind = perceptron.blank(*shape)
    behind.values[:] = network.values
    order = np.zeros(0, np.int64)
    for step in range(1, STEPS + 1):
        if len(order) < BATCH:
            order = rng.permutation(len(X))
        rows, order = order[:BATCH], order[BATCH:]
        now = rounded(behind, own, scales, mask)
        perceptron.backward(now, X[rows], targets[rows], gradient)
        rate = RATE * (1 + np.cos(np.pi * step / STEPS)) / 2
        behind.values[:] -= adam(gradient.values * mask, moments, step, rate)
    return rounded(behind, own, scales, mask)


def rounded(network: MLP, own: Weights, scales: Scales, mask: NDArray) -> MLP:
    """Return the perceptron with every weight at its nearest level."""
    values = network.values.copy()
    first, second = network.hidden_weights, network.output_weights
    n = first.size
    values[:n] = (own.rounded(first / scales.hidden) * scales.hidden).ravel()
    values[n : n + second.size] = (own.rounded(second / scales.output) * scales.output).ravel()
    values *= mask
    made = perceptron.blank(first.shape[0], first.shape[1], second.shape[1])
    made.values[:] = values
    return made


def _scales(network: MLP, own: Weights) -> Scales:
    hidden = [_scale(column, own) for column in network.hidden_weights.T]
    output = [_scale(row, own) for row in network.output_weights]
    return Scales(np.array(hidden, np.float32), np.array(output, np.float32)[:, None])


def _scale(weights: NDArray, own: Weights) -> float:
    """Return the scale with which some weights are rounded best."""
    weights = weights[weights != 0]
    if not len(weights):
        return 1.0
    first = np.abs(weights).max() / own.largest
    tried = [float(first * factor) for factor in FACTORS]
    return min(tried, key=lambda s: float(((weights - own.rounded(weights / s) * s) ** 2).sum()))


def accuracy(network: MLP, X: NDArray, y: NDArray) -> float:
    """Return the share of right answers."""
    return float(np.mean(perceptron.codes(network, X) == y))


def without_zeros(network: MLP) -> int:
    """Return the number of edges."""
    return int(np.count_nonzero(network.values[: network.n_weights]))
