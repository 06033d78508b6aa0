"""A perceptron that is pruned while it trains: the strongest known way to few weights."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.model_selection import train_test_split

from dirad.demo.baselines import Array, adam, checked_sizes
from experiments.baselines import perceptron
from experiments.baselines.perceptron import MLP

PRUNING_RATE = 0.01  # Adam's first step, lowered to zero along a cosine
PRUNING_BATCH = 128
PRUNING_STEPS = 2000  # at least so many, however few the samples
PRUNING_END = 0.6  # share of the training after which the mask stays as it is
PRUNING_EVERY = 50  # steps between two cuts


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
        return self.classes[perceptron.codes(self.network, np.asarray(X, dtype=np.float32))]


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
    held out; the network is then trained again on all of it. Inputs should lie within [0, 1] or
    be of like scale.
    """
    X, X_eval = (np.ascontiguousarray(a, dtype=np.float32) for a in (X, X_eval))
    classes, codes = np.unique(np.asarray(y), return_inverse=True)
    targets = np.eye(len(classes), dtype=np.float32)[codes]
    if len(classes) == 2:
        targets = targets[:, 1:]
    found = {}
    for n_edges in checked_sizes(n_edges_list):
        sizes = [h for h in hidden if h * (X.shape[1] + targets.shape[1]) >= n_edges]
        if not sizes:
            raise ValueError(f"no hidden size of {tuple(hidden)} gives {n_edges} edges")
        n_hidden = _best_hidden(X, targets, codes, n_edges, sizes, epochs, seed)
        network = train_and_prune(X, targets, n_edges, n_hidden, epochs, seed)
        found[n_edges] = PrunedMLP(
            network, classes, n_hidden, classes[perceptron.codes(network, X_eval)]
        )
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
        network = train_and_prune(X[fit], targets[fit], n_edges, n_hidden, epochs, seed)
        return float((perceptron.codes(network, X[held]) == codes[held]).mean())

    return max(sizes, key=accuracy)


def train_and_prune(
    X: Array, targets: Array, n_edges: int, n_hidden: int, epochs: int, seed: int
) -> MLP:
    rng = np.random.default_rng(seed)
    network = perceptron.start(X.shape[1], n_hidden, targets.shape[1], rng)
    gradient = perceptron.blank(X.shape[1], n_hidden, targets.shape[1])
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
        perceptron.backward(network, X[rows], targets[rows], gradient)
        gradient.values[:] *= mask
        rate = PRUNING_RATE * (1 + np.cos(np.pi * step / n_steps)) / 2
        network.values[:] -= adam(gradient.values, moments, step, rate)
        if step == last_cut or (step < last_cut and step % PRUNING_EVERY == 0):
            left = (1 - step / last_cut) ** 3
            keep = int(n_edges + (network.n_weights - n_edges) * left)
            _cut(network, sample, keep, mask)
            moments *= mask
        network.values[:] *= mask
    return network


def _cut(network: MLP, sample: Array, keep: int, mask: Array) -> None:
    """Leave in the mask the `keep` weights that move their targets most."""
    hidden = perceptron.hidden(network, sample)
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
