"""A multilayer perceptron with one hidden layer of rectifiers, and its gradient."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

Array = NDArray[Any]


class MLP(NamedTuple):
    """One hidden layer of rectifiers; one array holds all, the views share its memory."""

    values: Array  # everything below, float32
    hidden_weights: Array  # (inputs, hidden)
    output_weights: Array  # (hidden, outputs)
    hidden_biases: Array  # (hidden,)
    output_biases: Array  # (outputs,)
    n_weights: int  # the first so many of `values` are weights, the rest biases


def start(n_inputs: int, n_hidden: int, n_outputs: int, rng: np.random.Generator) -> MLP:
    """Return a network of random weights and zero biases."""
    network = blank(n_inputs, n_hidden, n_outputs)
    network.hidden_weights[:] = rng.normal(0, np.sqrt(2 / n_inputs), (n_inputs, n_hidden))
    network.output_weights[:] = rng.normal(0, np.sqrt(1 / n_hidden), (n_hidden, n_outputs))
    return network


def blank(n_inputs: int, n_hidden: int, n_outputs: int) -> MLP:
    """Return a network of zeros."""
    shapes = [(n_inputs, n_hidden), (n_hidden, n_outputs), (n_hidden,), (n_outputs,)]
    values, (W, V, b, c) = zeros_with_views(shapes)
    return MLP(values, W, V, b, c, W.size + V.size)


def zeros_with_views(
    shapes: Sequence[tuple[int, ...]],
) -> tuple[NDArray[np.float32], list[NDArray[np.float32]]]:
    """Return an array of zeros, and views of its parts, one of each shape."""
    ends = np.cumsum([np.prod(shape) for shape in shapes])
    values = np.zeros(ends[-1], np.float32)
    parts = np.split(values, ends[:-1])
    return values, [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def hidden(network: MLP, X: Array) -> Array:
    """Return what the hidden units answer: (samples, hidden)."""
    return np.maximum(X @ network.hidden_weights + network.hidden_biases, 0)


def backward(network: MLP, X: Array, targets: Array, gradient: MLP) -> None:
    """Write the gradient of the mean log-loss (softmax; one output: logistic)."""
    H = hidden(network, X)
    logits = H @ network.output_weights + network.output_biases
    p = expit(logits) if targets.shape[1] == 1 else softmax(logits, axis=1)
    d = (p - targets) / np.float32(len(X))
    dH = (d @ network.output_weights.T) * (H > 0)
    gradient.output_weights[:] = H.T @ d
    gradient.output_biases[:] = d.sum(axis=0)
    gradient.hidden_weights[:] = X.T @ dH
    gradient.hidden_biases[:] = dH.sum(axis=0)


def codes(network: MLP, X: Array) -> Array:
    """Return the number of each sample's class."""
    logits = hidden(network, X) @ network.output_weights + network.output_biases
    return (logits[:, 0] > 0).astype(np.intp) if logits.shape[1] == 1 else logits.argmax(axis=1)
