"""Two baselines that learn the same data without growth: greedy logistic regression, and an MLP.

Both are tuned on nothing but their training data. Weights are counted without biases.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import expit

Array = NDArray[Any]

PARITY_RATE = 0.02  # Adam's step; with the two below the best of some thirty settings tried
PARITY_START = 0.4  # scale of the first hidden weights and biases: small ones start near-linear
PARITY_STEPS = 20_000


@dataclass(frozen=True)
class Fitted:
    """A trained baseline."""

    predict: Callable[[ArrayLike], Array]  # X -> labels
    n_weights: int  # weights (of a tree: splits); biases apart
    features: Array  # the features it reads, in the order of their choice where there is one


def greedy_logistic(
    X: ArrayLike, y: ArrayLike, sizes: Iterable[int], *, ridge: float = 0.1
) -> dict[int, Fitted]:
    """Forward selection: add the feature of the largest score statistic, refit all, repeat.

    Rao's statistic is twice the gain of one Newton step in which the coefficients already
    chosen may move as well. `ridge` weighs half the squared coefficients against the summed
    log-loss: enough to keep separable data finite, too little to shrink features of a scale
    near one.
    """
    X, t, classes = two_classes(X, y)
    sizes = checked_sizes(sizes)
    squares = X * X
    chosen: list[int] = []
    Z = np.ones((len(X), 1))  # the bias, then the chosen features: (samples, 1 + chosen)
    beta = newton(Z, t, np.zeros(1), ridge)
    fitted: dict[int, Fitted] = {}
    for size in range(1, min(sizes[-1], X.shape[1]) + 1):
        p = expit(Z @ beta)
        w = p * (1 - p)
        WZ = w[:, None] * Z
        cross = WZ.T @ X
        explained = cross * linalg.solve(_ridged(WZ.T @ Z, ridge), cross, assume_a="pos")
        information = np.maximum(w @ squares - explained.sum(axis=0), 0) + ridge
        score = (X.T @ (t - p)) ** 2 / information
        score[chosen] = -1
        chosen.append(int(np.argmax(score)))
        Z = np.column_stack([Z, X[:, chosen[-1]]])
        beta = newton(Z, t, np.append(beta, 0.0), ridge)
        fitted[size] = linear_model(chosen, beta, classes)
    return {size: fitted[min(size, len(fitted))] for size in sizes}


def newton(Z: Array, t: Array, beta: Array, ridge: float) -> Array:
    """Minimize the summed log-loss plus ridge/2 · |beta|² (first column of Z: bias, free)."""
    penalty = np.full(len(beta), ridge)
    penalty[0] = 0

    def loss(b: Array) -> float:
        logits = Z @ b
        return float(np.logaddexp(0, logits).sum() - t @ logits + penalty @ (b * b) / 2)

    now = loss(beta)
    for _ in range(100):
        p = expit(Z @ beta)
        hessian = _ridged(((p * (1 - p))[:, None] * Z).T @ Z, ridge)
        step = linalg.solve(hessian, Z.T @ (t - p) - penalty * beta, assume_a="pos")
        while (new := loss(beta + step)) > now and np.abs(step).max() > 1e-9:
            step = step / 2
        if new >= now:
            break
        gain, now, beta = now - new, new, beta + step
        if gain < 1e-8 * (1 + now):
            break
    return beta


def _ridged(hessian: Array, ridge: float) -> Array:
    """Add the penalty to all but the bias, and there only what keeps the matrix regular."""
    diagonal = np.einsum("ii->i", hessian)
    diagonal[1:] += ridge
    diagonal += 1e-9
    return hessian


def linear_model(features: Sequence[int] | Array, beta: Array, classes: Array) -> Fitted:
    features = np.array(features, dtype=np.intp)
    return Fitted(partial(_predict_linear, features, beta, classes), len(features), features)


def _predict_linear(features: Array, beta: Array, classes: Array, X: ArrayLike) -> Array:
    logits = np.asarray(X, dtype=np.float64)[:, features] @ beta[1:] + beta[0]
    return classes[(logits > 0).astype(np.intp)]


def two_classes(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array, Array]:
    """X in float64, the second label as 1.0 and the first as 0.0, both labels."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"two labels are needed, y has {len(classes)}")
    return np.ascontiguousarray(X, dtype=np.float64), codes.astype(np.float64), classes


def checked_sizes(sizes: Iterable[int]) -> list[int]:
    """Sizes in rising order; each at least one."""
    rising = sorted({int(size) for size in sizes})
    if not rising or rising[0] < 1:
        raise ValueError(f"sizes are positive, not {rising}")
    return rising


class ParityRun(NamedTuple):
    solved: bool  # every pattern on its right side
    n_edges: int


def parity_mlp(n_bits: int, n_hidden: int, seed: int) -> ParityRun:
    """Learn the parity of n bits from all 2ⁿ patterns (±1): tanh units, squared error, Adam.

    Squared error on a tanh output solves far more runs here than the log-loss does, and small
    first weights more than the usual ones.
    """
    X = np.array(list(product([-1.0, 1.0], repeat=n_bits)))
    t = X.prod(axis=1)
    Z = np.column_stack([X, np.ones(len(X))])  # the last input feeds the hidden biases
    rng = np.random.default_rng(seed)
    n_first = (n_bits + 1) * n_hidden
    values = np.zeros(n_first + n_hidden + 1)
    gradient = np.zeros_like(values)
    W, v = values[:n_first].reshape(-1, n_hidden), values[n_first:]
    gradient_W, gradient_v = gradient[:n_first].reshape(-1, n_hidden), gradient[n_first:]
    W[:-1] = rng.normal(0, PARITY_START / np.sqrt(n_bits), (n_bits, n_hidden))
    W[-1] = rng.normal(0, PARITY_START, n_hidden)
    v[:-1] = rng.normal(0, 1 / np.sqrt(n_hidden), n_hidden)
    moments = np.zeros((2, values.size))
    solved = False
    for step in range(1, PARITY_STEPS + 1):
        H = np.tanh(Z @ W)
        out = np.tanh(H @ v[:-1] + v[-1])
        solved = bool((out * t).min() > 0)
        if solved:
            break
        d = (out - t) * (1 - out * out) / len(t)
        gradient_v[:-1] = d @ H
        gradient_v[-1] = d.sum()
        gradient_W[:] = Z.T @ (np.outer(d, v[:-1]) * (1 - H * H))
        values -= adam(gradient, moments, step, PARITY_RATE)
    return ParityRun(solved, n_bits * n_hidden + n_hidden)


def adam(gradient: Array, moments: Array, step: int, rate: float) -> Array:
    """Adam's step, to be subtracted; updates both moments in place."""
    mean, square = moments
    mean += 0.1 * (gradient - mean)
    square += 0.001 * (gradient * gradient - square)
    scaled = float(rate * np.sqrt(1 - 0.999**step) / (1 - 0.9**step))
    return scaled * mean / (np.sqrt(square) + 1e-8)
