"""Remove the edges of a scaled network that matter least, until it fits into its bytes."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dirad.export.compact.refit import BATCH, Trainer, TrainingSamples
from dirad.export.compact.scaling import Scaled

FISHER_STEPS = 40  # batches over which gradients are averaged


def importances(start: Scaled, training: TrainingSamples, seed: int) -> NDArray[np.float64]:
    """Return w² · E[g²] of every edge: how much the loss rises without it, to second order.

    g is the gradient by the weight of labels drawn from what the network answers (Fisher).
    """
    rng = np.random.default_rng(seed)
    trainer = Trainer(start.net)
    weight, bias = start.weight.astype(np.float32), start.bias.astype(np.float32)
    total = np.zeros(len(weight))
    for _ in range(FISHER_STEPS):
        chosen = rng.integers(0, len(training.x), BATCH)
        drawn = replace(training, target=_drawn(training, rng))
        x = training.x[chosen].astype(np.float32)
        total += trainer.gradients(weight, bias, drawn, chosen, x)[0].astype(np.float64) ** 2
    return total * start.weight**2


def _drawn(training: TrainingSamples, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return targets drawn from their probabilities; of values, with noise of one spread."""
    target = training.target
    if training.kind == "linear":
        noise = rng.normal(0.0, 1.0 / training.scale, target.shape)
        return (target + noise).astype(np.float32)
    uniform = rng.random((len(target), 1))
    if training.kind == "logistic":
        return (uniform < target).astype(np.float32)
    chosen = np.minimum((target.cumsum(axis=1) < uniform).sum(axis=1), target.shape[1] - 1)
    return np.eye(target.shape[1], dtype=np.float32)[chosen]


def strongest(
    start: Scaled, importance: NDArray[np.float64], fits: Callable[[Scaled], bool]
) -> Scaled:
    """Return the network with as many of its most important edges as fit; all, if they do."""
    if fits(start):
        return start
    order = np.argsort(-importance, kind="stable")
    low, high = 0, len(order)  # `low` edges fit, `high` do not
    while high - low > 1:
        middle = (low + high) // 2
        if fits(with_edges(start, order[:middle])):
            low = middle
        else:
            high = middle
    return with_edges(start, order[:low])


def with_edges(start: Scaled, edges: NDArray[np.int64]) -> Scaled:
    """Return the network with some of its edges, without hidden nodes that feed no output."""
    net = start.net
    keep = np.zeros(net.n_edges, bool)
    keep[edges] = True
    node = net.row // 2  # of the edges of hidden nodes
    inner = net.row < 2 * net.n_hidden
    alive = np.zeros(net.n_hidden, bool)
    for j in range(net.n_hidden - 1, -1, -1):  # each after those that it feeds
        reached = keep & (net.source == net.n_inputs + j)
        alive[j] = bool((reached & (~inner | alive[np.minimum(node, net.n_hidden - 1)])).any())
    if net.n_hidden:
        keep &= ~inner | alive[np.minimum(node, net.n_hidden - 1)]
    rows = np.concatenate([np.repeat(alive, 2), np.ones(net.n_outputs, bool)])
    place = np.concatenate([np.arange(net.n_inputs), net.n_inputs + np.cumsum(alive) - 1])
    counts = np.bincount(net.row[keep], minlength=net.n_rows)[rows]
    smaller = replace(
        net,
        n_hidden=int(alive.sum()),
        start=np.concatenate([[0], np.cumsum(counts)]),
        source=place[net.source[keep]],
        weight=net.weight[keep],
        bias=net.bias[rows],
        gate_shift=net.gate_shift[alive],
        product_shift=net.product_shift[alive],
    )
    return Scaled(smaller, start.weight[keep], start.bias[rows])
