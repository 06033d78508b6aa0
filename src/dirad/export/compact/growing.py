"""Grow a network for a budget of bytes, and store it in them.

Several plans are compared on held-out samples, all stored in one way: a compact network of about as
many edges as fit, one of half as many, and a wide one, which is pruned. The best is grown again on
all samples, and the best way to store it is searched for. Where a layer is shared (many inputs,
several classes, many samples) there is one plan, with fewer and fuller nodes than without a budget:
gaps between edges are then short, and stored in few bits.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dirad.export.compact.budget import (
    HELD_OUT,
    LEAST_HELD_OUT,
    STORAGES,
    Compacted,
    TooSmall,
    compact_error,
    to_compact,
)
from dirad.export.compact.flash import MARGIN, OF_TWO_FORMATS, WITH_NODES
from dirad.export.compact.scaling import Storage
from dirad.growth.shared_layer import (
    LEAST_EDGES,
    LEAST_EDGES_PER_OUTPUT,
    LEAST_INPUTS,
    LEAST_OUTPUTS,
    LEAST_SAMPLES_PER_EDGE,
)

BYTES_PER_EDGE, BYTES_PER_NODE = 1.1, 3
WITHOUT, FAST_BYTES_PER_EDGE = 60, 7.5  # of straight-line code
NODES = 0.65  # of a shared layer, times the root of its edges: best of those tried on MNIST
LEAST_EDGES_GROWN = 4

Plan = dict[str, Any]


def fit_compact(
    model: Any,
    X: Any,
    y: Any,
    max_bytes: int,
    *,
    low: Any = None,
    high: Any = None,
    storages: Sequence[Storage] = STORAGES,
    fast: bool = False,
    seed: int = 0,
) -> tuple[Any, Compacted]:
    """Return a network like `model`, grown for `max_bytes` of flash, and its compact form.

    `model` is a DIRADClassifier or DIRADRegressor, whose parameters are used, except those that
    decide its size. The other parameters are those of `to_compact`.
    """
    X, y = np.asarray(X, np.float64), np.asarray(y)
    plans = _plans(model, X, y, max_bytes, fast)
    options: dict[str, Any] = {
        "low": low,
        "high": high,
        "storages": storages,
        "fast": fast,
        "seed": seed,
    }
    best = plans[0]
    n = int(HELD_OUT * len(X))
    if len(plans) > 1 and n >= LEAST_HELD_OUT:
        order = np.random.default_rng(seed).permutation(len(X))
        fit, held = np.sort(order[n:]), np.sort(order[:n])
        errors = []
        for plan in plans:
            grown = _grown(model, plan, X[fit], y[fit])
            quick: dict[str, Any] = options | {"storages": [storages[len(storages) // 2]]}
            net = to_compact(grown, max_bytes, X[fit], y[fit], **quick).net
            errors.append(compact_error(net, X[held], y[held]))
        best = plans[int(np.argmin(errors))]
    grown = _grown(model, best, X, y)
    return grown, to_compact(grown, max_bytes, X, y, **options)


def _grown(model: Any, plan: Plan, X: Any, y: Any) -> Any:
    return type(model)(**(model.get_params() | plan)).fit(X, y)


def _plans(model: Any, X: Any, y: Any, max_bytes: int, fast: bool) -> list[Plan]:
    """Return the sizes that are compared."""
    n_outputs = len(np.unique(y)) if hasattr(model, "predict_proba") else 1
    room = max_bytes - WITH_NODES[-1] - OF_TWO_FORMATS - MARGIN
    edges = round(max(max_bytes - WITHOUT, 0) / FAST_BYTES_PER_EDGE) if fast else edges_in(room)
    if (
        n_outputs >= LEAST_OUTPUTS
        and X.shape[1] >= LEAST_INPUTS
        and edges >= max(LEAST_EDGES, LEAST_EDGES_PER_OUTPUT * n_outputs)
        and len(X) >= LEAST_SAMPLES_PER_EDGE * edges
    ):
        return [{"max_edges": edges, "shared_nodes": round(NODES * math.sqrt(edges))}]
    if max_bytes < WITH_NODES[0]:
        edges = LEAST_EDGES_GROWN  # perhaps a network without hidden nodes fits
    if max_bytes < 0:
        raise TooSmall(f"max_bytes must be positive, got {max_bytes}")
    sizes = [max(edges, LEAST_EDGES_GROWN), max(edges // 2, LEAST_EDGES_GROWN)]
    plans: list[Plan] = [
        {"max_edges": size, "structure": "compact"} for size in dict.fromkeys(sizes)
    ]
    return [*plans, {"max_edges": None, "structure": "wide"}]


def edges_in(room: int) -> int:
    """Return about how many edges fit into so many bytes, the nodes of a shared layer included.

    >>> edges_in(1720)
    1495
    """
    of_nodes = BYTES_PER_NODE * NODES  # times the root of the edges
    square = of_nodes**2 + 4 * BYTES_PER_EDGE * max(room, 0)
    return int(((math.sqrt(square) - of_nodes) / (2 * BYTES_PER_EDGE)) ** 2)
