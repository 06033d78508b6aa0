"""What a compact network computes, in NumPy's integers: the reference for C."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dirad.export.compact.form import LIMIT, NODE_MOST, ONE, SQUARE_SHIFT, CompactNetwork

CHUNK = 2048  # samples computed together


def evaluate(net: CompactNetwork, x: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the output rows for input bytes: (samples, outputs)."""
    if x.dtype != np.uint8 or x.ndim != 2 or x.shape[1] != net.n_inputs:
        raise ValueError(
            f"x must be an array of bytes (uint8) with {net.n_inputs} columns, got "
            f"{x.dtype} with the shape {x.shape}"
        )
    parts = [_chunk(net, x[i : i + CHUNK]) for i in range(0, len(x), CHUNK)]
    return np.concatenate(parts) if parts else np.zeros((0, net.n_outputs), np.int64)


def _chunk(net: CompactNetwork, x: NDArray[np.uint8]) -> NDArray[np.int64]:
    n_nodes = net.n_inputs + net.n_hidden
    nodes = np.zeros((n_nodes, len(x)), np.int64)
    nodes[: net.n_inputs] = x.T
    weights = csr_array((net.weight, net.source, net.start), shape=(net.n_rows, n_nodes))
    bias = net.bias << net.bias_shift
    for group in levels(net):
        rows = np.stack([2 * group, 2 * group + 1], axis=1).ravel()
        sums = weights[rows] @ nodes + bias[rows, None]
        z, m = sums[::2], sums[1::2]
        sigma = sigma_1(m, net.gate_shift[group, None])
        states = (z * sigma) >> net.product_shift[group, None]
        nodes[net.n_inputs + group] = np.clip(states, -NODE_MOST, NODE_MOST)
    last = np.arange(2 * net.n_hidden, net.n_rows)
    return (weights[last] @ nodes + bias[last, None]).T


def sigma_1(m: NDArray[np.int64], shift: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return σ₁ of second terms, 64 for 1: from −64 to 192."""
    t = np.clip((m * ONE) >> shift, -LIMIT, LIMIT)
    return ONE + t - ((t * np.abs(t)) >> SQUARE_SHIFT)


def levels(net: CompactNetwork) -> list[NDArray[np.int64]]:
    """Return the hidden nodes in groups, each of which depends on earlier groups only."""
    level = np.zeros(net.n_hidden, np.int64)
    for node in range(net.n_hidden):
        sources = net.source[net.start[2 * node] : net.start[2 * node + 2]]
        before = sources[sources >= net.n_inputs] - net.n_inputs
        level[node] = level[before].max(initial=-1) + 1
    return [np.flatnonzero(level == k) for k in range(int(level.max(initial=-1)) + 1)]


def class_indices(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each sample's predicted class; of equal outputs, the first."""
    if rows.shape[1] == 1:
        return (rows[:, 0] > 0).astype(np.int64)
    return rows.argmax(axis=1)


def predict(net: CompactNetwork, X: NDArray) -> NDArray:
    """Return the classes or values that the compact network answers for samples X."""
    rows = evaluate(net, net.to_bytes(X))
    if net.classes is not None:
        return np.asarray(net.classes)[class_indices(rows)]
    values = net.offset + net.scale * rows
    return values[:, 0] if values.shape[1] == 1 else values
