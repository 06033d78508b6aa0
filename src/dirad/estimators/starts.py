"""Several starts: a network is grown from several random seeds, and the best is kept.

Growth is greedy: its first edges decide what later ones can find. Where samples are few, or where
nothing but a pair of gates helps at first, two seeds end with very different networks. The better
one describes the samples in fewer nats (`growth/trimming.py`), so that no samples have to be held
out for the choice.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import TRANSFER, Network
from dirad.growth.trimming import UNLIMITED
from dirad.growth.wide import costs_of_answers
from dirad.history import History
from dirad.inference import respond
from dirad.params import Params

AUTO = "auto"
STARTS = 3  # where nothing limits the edges
# What differs from the first start: a weaker prior lets weights grow where samples have no noise;
# without breadth, edges are added one by one however few the samples are.
WEAKER_PRIOR = 0.3


def number_of_starts(n_init: int | str, params: Params, committee: int, structure: str) -> int:
    """Return how many networks are grown, of which one is kept."""
    if n_init == AUTO:
        unlimited = params.edge_price > 0.0 and params.max_edges >= UNLIMITED
        return STARTS if unlimited and committee == 1 and structure != "wide" else 1
    if not isinstance(n_init, (int, np.integer)) or n_init < 1:
        raise ValueError(f'n_init must be "auto" or a positive integer, got {n_init!r}')
    if n_init > 1 and committee > 1:
        raise ValueError(
            f"n_init={n_init} cannot be combined with committee={committee}: a committee averages "
            "its networks, and keeps them all"
        )
    return int(n_init)


def params_of_start(params: Params, start: int) -> Params:
    """Return the constants of a start, which is 0 for the first."""
    if start % STARTS == 1:
        return params.replace(prior=WEAKER_PRIOR * params.prior)
    if start % STARTS == 2:
        return params.replace(breadth=0)
    return params


class Start(NamedTuple):
    """A network that was grown from one seed."""

    network: Network
    history: History
    length: float  # `description_length`, or the error of held-out samples: the less, the better


def description_length(
    network: Network, X: NDArray, targets: NDArray, weight: NDArray, params: Params
) -> float:
    """Return the nats that describe the targets and the edges, as `trimming` counts them.

    With them come those of the weights under their Gaussian prior: otherwise a weaker prior would
    always seem better, since it lets a network fit the samples more closely.
    """
    answers, n, k = respond(network, X), len(X), network.n_edges
    if params.cost == "squared":
        costs = 0.5 * ((answers - targets) ** 2).sum(axis=1)
    else:
        costs = costs_of_answers(answers, targets, int(network.counts[TRANSFER]))
    mean = float(weight @ costs) / max(float(weight.sum()), 1e-300)
    if params.cost == "squared":
        mean = 0.5 * math.log(max(2.0 * mean, 1e-300))
    price = params.edge_price * 0.5 * math.log(max(n, 2))
    squares = float((network.edges["weight"][network.edges["source"] >= 0] ** 2).sum())
    of_weights = 0.5 * params.prior * squares
    if params.prior > 0.0:
        of_weights -= 0.5 * k * math.log(params.prior)
    return n * mean + price * k + of_weights
