"""Baselines: what the same data and the same number of weights give without growth.

Each is one function, tuned on nothing but its training data. Weights are counted, biases apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import linalg
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from dirad.experiments.perceptron import MLP
from dirad.experiments.perceptron import adam as _adam
from dirad.experiments.perceptron import backward as _backward
from dirad.experiments.perceptron import blank as _blank
from dirad.experiments.perceptron import codes as _codes
from dirad.experiments.perceptron import hidden as _hidden
from dirad.experiments.perceptron import start as _start

Array = NDArray[Any]

PARITY_RATE = 0.02  # Adam's step; with the two below the best of some thirty settings tried
PARITY_START = 0.4  # scale of the first hidden weights and biases: small ones start near-linear
PARITY_STEPS = 20_000

PRUNING_RATE = 0.01  # Adam's first step, lowered to zero along a cosine
PRUNING_BATCH = 128
PRUNING_STEPS = 2000  # at least so many, however few the samples
PRUNING_END = 0.6  # share of the training after which the mask stays as it is
PRUNING_EVERY = 50  # steps between two cuts


@dataclass(frozen=True)
class Fitted:
    """A trained baseline."""

    predict: Callable[[ArrayLike], Array]  # X -> labels
    n_weights: int  # weights (of a tree: splits); biases apart
    features: Array  # the features it reads, in the order of their choice where there is one


# --- Logistic regression ---------------------------------------------------------------------


def greedy_logistic(
    X: ArrayLike, y: ArrayLike, sizes: Iterable[int], *, ridge: float = 0.1
) -> dict[int, Fitted]:
    """Forward selection: add the feature of the largest score statistic, refit all, repeat.

    Rao's statistic is twice the gain of one Newton step in which the coefficients already
    chosen may move as well. `ridge` weighs half the squared coefficients against the summed
    log-loss: enough to keep separable data finite, too little to shrink features of a scale
    near one.
    """
    X, t, classes = _two_classes(X, y)
    sizes = _checked(sizes)
    squares = X * X
    chosen: list[int] = []
    Z = np.ones((len(X), 1))  # the bias, then the chosen features: (samples, 1 + chosen)
    beta = _newton(Z, t, np.zeros(1), ridge)
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
        beta = _newton(Z, t, np.append(beta, 0.0), ridge)
        fitted[size] = _linear(chosen, beta, classes)
    return {size: fitted[min(size, len(fitted))] for size in sizes}


def l1_logistic(
    X: ArrayLike, y: ArrayLike, sizes: Iterable[int], *, ridge: float = 0.1, n_penalties: int = 200
) -> dict[int, Fitted]:
    """Features that an L1 penalty leaves: per size the largest support that fits, refitted.

    The path sees the features divided by their deviations; the refit is that of
    `greedy_logistic`.
    """
    X, t, classes = _two_classes(X, y)
    sizes = _checked(sizes)
    supports: dict[int, Array] = {0: np.empty(0, dtype=np.intp)}
    deviation = X.std(axis=0)
    for support in _l1_supports(X / np.where(deviation > 0, deviation, 1), t, n_penalties):
        supports.setdefault(len(support), support)
        if len(support) > sizes[-1]:
            break
    fitted = {}
    for size in sizes:
        kept = supports[max(n for n in supports if n <= size)]
        Z = np.column_stack([np.ones(len(X)), X[:, kept]])
        fitted[size] = _linear(kept, _newton(Z, t, np.zeros(Z.shape[1]), ridge), classes)
    return fitted


def full_logistic(X: ArrayLike, y: ArrayLike) -> Fitted:
    """Logistic regression on all features; its L2 penalty by cross-validation in training."""
    X = np.asarray(X, dtype=np.float64)
    grid = {"C": np.logspace(-2, 2, 5)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=3).fit(X, y)
    return Fitted(search.predict, search.best_estimator_.coef_.size, np.arange(X.shape[1]))


def tuned_linear(task: Literal["classification", "regression"]) -> Pipeline:
    """Standardized inputs, a linear model, its L2 penalty by cross-validation in training."""
    if task == "classification":
        grid = {"C": np.logspace(-4, 4, 9)}
        model = GridSearchCV(LogisticRegression(max_iter=2000), grid, cv=5)
    elif task == "regression":
        model = RidgeCV(alphas=np.logspace(-4, 6, 41))
    else:
        raise ValueError(f"task is 'classification' or 'regression', not {task!r}")
    return make_pipeline(StandardScaler(), model)


def _newton(Z: Array, t: Array, beta: Array, ridge: float) -> Array:
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


def _l1_supports(X: Array, t: Array, n_penalties: int) -> Iterator[Array]:
    """Supports along a falling L1 penalty: proximal Newton by coordinate descent, warm starts.

    Only features whose gradient comes near the penalty are worked on (the strong rule); the
    rest are checked once the fit stands, so that none is missed.
    """
    Z = np.column_stack([np.ones(len(X)), X])
    beta = np.zeros(Z.shape[1])
    beta[0] = np.log(t.mean() / (1 - t.mean()))
    gradient = np.abs(Z.T @ (t - t.mean()))
    penalties = gradient.max() * np.logspace(0, -4, n_penalties)
    previous = penalties[0]
    for penalty in penalties:
        work = (gradient >= 2 * penalty - previous) | (beta != 0)
        work[0] = True
        while True:
            beta[work] = _l1_fit(Z[:, work], t, beta[work], penalty)
            gradient = np.abs(Z.T @ (t - expit(Z @ beta)))
            missed = (gradient > penalty * (1 + 1e-3)) & ~work
            if not missed.any():
                break
            work |= missed
        previous = penalty
        yield np.flatnonzero(beta[1:])


def _l1_fit(Z: Array, t: Array, beta: Array, penalty: float) -> Array:
    """Minimize the summed log-loss plus penalty · |beta|₁ (first column of Z: bias, free)."""
    thresholds = [0.0] + [penalty] * (len(beta) - 1)
    for _ in range(30):
        p = expit(Z @ beta)
        w = np.maximum(p * (1 - p), 1e-5)
        gram = (w[:, None] * Z).T @ Z
        curvature = np.maximum(gram.diagonal(), 1e-9).tolist()
        slope = Z.T @ (t - p)
        new = beta.copy()
        for _ in range(200):
            largest = 0.0
            for j, (threshold, c) in enumerate(zip(thresholds, curvature, strict=True)):
                old = float(new[j])
                u = float(slope[j]) + c * old
                value = (abs(u) > threshold) * (u - np.copysign(threshold, u)) / c
                if value != old:
                    new[j] = value
                    slope -= gram[j] * (value - old)
                    largest = max(largest, c * (value - old) ** 2)
            if largest < 1e-4:
                break
        change = np.abs(new - beta).max()
        beta = new
        if change < 1e-3 * (1 + np.abs(beta).max()):
            break
    return beta


def _linear(features: Sequence[int] | Array, beta: Array, classes: Array) -> Fitted:
    features = np.array(features, dtype=np.intp)
    return Fitted(partial(_predict_linear, features, beta, classes), len(features), features)


def _predict_linear(features: Array, beta: Array, classes: Array, X: ArrayLike) -> Array:
    logits = np.asarray(X, dtype=np.float64)[:, features] @ beta[1:] + beta[0]
    return classes[(logits > 0).astype(np.intp)]


def _two_classes(X: ArrayLike, y: ArrayLike) -> tuple[Array, Array, Array]:
    """X in float64, the second label as 1.0 and the first as 0.0, both labels."""
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    if len(classes) != 2:
        raise ValueError(f"two labels are needed, y has {len(classes)}")
    return np.ascontiguousarray(X, dtype=np.float64), codes.astype(np.float64), classes


def _checked(sizes: Iterable[int]) -> list[int]:
    """Sizes in rising order; each at least one."""
    rising = sorted({int(size) for size in sizes})
    if not rising or rising[0] < 1:
        raise ValueError(f"sizes are positive, not {rising}")
    return rising


# --- Decision tree ---------------------------------------------------------------------------


def decision_tree(X: ArrayLike, y: ArrayLike, sizes: Iterable[int]) -> dict[int, Fitted]:
    """Trees grown best split first; a size is a number of splits."""
    fitted = {}
    for size in _checked(sizes):
        model = DecisionTreeClassifier(max_leaf_nodes=size + 1, random_state=0).fit(X, y)
        used = model.tree_.feature[model.tree_.children_left >= 0]
        fitted[size] = Fitted(model.predict, len(used), np.unique(used))
    return fitted


# --- Multilayer perceptrons ------------------------------------------------------------------


class ParityRun(NamedTuple):
    solved: bool  # every pattern on its right side
    n_edges: int


@dataclass(frozen=True)
class PrunedMLP:
    """A pruned and fine-tuned perceptron; two classes share one output."""

    network: MLP
    classes: Array
    n_hidden: int  # before pruning, as chosen on validation data
    labels: Array  # predicted for X_eval

    @property
    def n_weights(self) -> int:
        return int(np.count_nonzero(self.network.values[: self.network.n_weights]))

    def predict(self, X: ArrayLike) -> Array:
        return self.classes[_codes(self.network, np.asarray(X, dtype=np.float32))]


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
        values -= _adam(gradient, moments, step, PARITY_RATE)
    return ParityRun(solved, n_bits * n_hidden + n_hidden)


def pruned_mlp(
    X: ArrayLike,
    y: ArrayLike,
    X_eval: ArrayLike,
    n_edges_list: Iterable[int],
    seed: int,
    *,
    hidden: Sequence[int] = (8, 16, 32, 64, 100),
    epochs: int = 20,
) -> dict[int, PrunedMLP]:
    """Perceptrons pruned while they train, by a cubic schedule, to each number of edges.

    What is cut is the least |weight| · (deviation of its source): plain magnitude, had every
    source been standardized. The hidden size is the one best on a sixth of the training data,
    held out; the network is then trained anew on all of it. Inputs should lie within [0, 1] or
    be of like scale.
    """
    X, X_eval = (np.ascontiguousarray(a, dtype=np.float32) for a in (X, X_eval))
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    targets = np.eye(len(classes), dtype=np.float32)[codes]
    if len(classes) == 2:
        targets = targets[:, 1:]
    found = {}
    for n_edges in _checked(n_edges_list):
        sizes = [h for h in hidden if h * (X.shape[1] + targets.shape[1]) >= n_edges]
        if not sizes:
            raise ValueError(f"no hidden size of {tuple(hidden)} gives {n_edges} edges")
        n_hidden = _best_hidden(X, targets, codes, n_edges, sizes, epochs, seed)
        network = _train_and_prune(X, targets, n_edges, n_hidden, epochs, seed)
        found[n_edges] = PrunedMLP(network, classes, n_hidden, classes[_codes(network, X_eval)])
    return found


def _best_hidden(
    X: Array, targets: Array, codes: Array, n_edges: int, sizes: list[int], epochs: int, seed: int
) -> int:
    if len(sizes) == 1:
        return sizes[0]
    fit, held = train_test_split(
        np.arange(len(X)), test_size=1 / 6, random_state=seed, stratify=codes
    )

    def accuracy(n_hidden: int) -> float:
        network = _train_and_prune(X[fit], targets[fit], n_edges, n_hidden, epochs, seed)
        return float((_codes(network, X[held]) == codes[held]).mean())

    return max(sizes, key=accuracy)


def _train_and_prune(
    X: Array, targets: Array, n_edges: int, n_hidden: int, epochs: int, seed: int
) -> MLP:
    rng = np.random.default_rng(seed)
    network = _start(X.shape[1], n_hidden, targets.shape[1], rng)
    gradient = _blank(X.shape[1], n_hidden, targets.shape[1])
    mask = np.ones_like(network.values)
    moments = np.zeros((2, mask.size), dtype=np.float32)
    sample = X[rng.choice(len(X), min(len(X), 1000), replace=False)]
    batch = min(PRUNING_BATCH, len(X))
    per_epoch = len(X) // batch
    epochs = max(epochs, -(-PRUNING_STEPS // per_epoch))
    n_steps = epochs * per_epoch
    last_cut = max(1, int(PRUNING_END * n_steps))
    orders = (rng.permutation(len(X))[: per_epoch * batch] for _ in range(epochs))
    batches = (rows for order in orders for rows in np.split(order, per_epoch))
    for step, rows in enumerate(batches, start=1):
        _backward(network, X[rows], targets[rows], gradient)
        gradient.values[:] *= mask
        rate = PRUNING_RATE * (1 + np.cos(np.pi * step / n_steps)) / 2
        network.values[:] -= _adam(gradient.values, moments, step, rate)
        if step == last_cut or (step < last_cut and step % PRUNING_EVERY == 0):
            left = (1 - step / last_cut) ** 3
            keep = int(n_edges + (network.n_weights - n_edges) * left)
            _cut(network, sample, keep, mask)
            moments *= mask
        network.values[:] *= mask
    return network


def _cut(network: MLP, sample: Array, keep: int, mask: Array) -> None:
    """Leave in the mask the `keep` weights that move their targets most."""
    hidden = _hidden(network, sample)
    reaches = np.abs(network.output_weights).max(axis=1) > 0
    importance = np.abs(network.values[: network.n_weights])
    first, second = np.split(importance, [network.hidden_weights.size])
    # Weights that carry nothing go first, yet stay above those already cut, which are zero.
    first.reshape(network.hidden_weights.shape)[:] *= np.outer(
        sample.std(axis=0) + 1e-6, np.where(reaches, 1, 1e-6)
    )
    second.reshape(network.output_weights.shape)[:] *= hidden.std(axis=0)[:, None] + 1e-6
    n_cut = network.n_weights - keep
    if n_cut > 0:
        mask[np.argpartition(importance, n_cut - 1)[:n_cut]] = 0
