"""Diagnosis of a stalled network: is there a product of sources that would resolve a conflict?

The paper shows that adaptation goes on unless

    Cov(∏_{x∈A} aₓᵐ, ∂Cᵐ/∂w) = 0   for every set A of candidate sources.

`conflicts` measures the left side for any edge and batch: the best product of each size.
`dirad.growth.candidates` asks the same about all that the preset `default` can grow.
"""

from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import OUTPUT, Network
from dirad.core.order import build_plan, mark_descendants
from dirad.core.propagate import backward, forward, load_batch, new_workspace
from dirad.growth.evidence import RIDGE, needed_evidence
from dirad.params import CHOICES, Params


class Conflict(NamedTuple):
    """The product of a given size that covaries most with an edge's gradient."""

    sources: tuple[int, ...]  # the nodes multiplied
    covariance: float  # Cov(∏a, ∂C/∂w) over the batch
    correlation: float  # the same, scaled to [-1, 1]
    error: float  # standard error of the covariance under independence
    tried: int  # products of this size that were tried
    exhaustive: bool  # were all products of this size tried?
    evidence: float  # G: twice the log-likelihood that the product would gain (see `evidence`)
    needed: float  # G that the best of `tried` products of noise rarely exceeds

    @property
    def significant(self) -> bool:
        """Whether the product is better than chance."""
        return self.evidence > self.needed


def edge_gradients_per_sample(
    network: Network, edge: int, X: NDArray, y: NDArray, params: Params
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return ∂Cᵐ/∂w of an edge, shape (samples,), and all states, shape (nodes, samples)."""
    if not 0 <= edge < len(network.edges) or network.edges["source"][edge] < 0:
        raise ValueError(f"the network has no edge {edge}")
    states, deltas = states_and_deltas(network, X, y, params)
    delta = deltas[network.edges["term"][edge]]
    return states[network.edges["source"][edge]] * delta, states


def states_and_deltas(
    network: Network, X: NDArray, y: NDArray, params: Params
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the states (nodes, samples) and the deltas ∂Cᵐ/∂z (terms, samples) of a batch."""
    plan, work = build_plan(network), new_workspace(network, len(X))
    load_batch(work, np.asarray(X, float), np.asarray(y, float).reshape(len(X), -1))
    forward(network, plan, work)
    cost = CHOICES["cost"].index(params.cost)
    backward(network, plan, work, cost, params.acceptable_mismatch)
    return work.state[:, : len(X)], work.delta[:, : len(X)]


def candidate_sources(network: Network, term: int) -> NDArray[np.int64]:
    """Return the nodes that may feed a term: usable inputs, and units that it does not reach."""
    reached = np.zeros(len(network.units), np.bool_)
    mark_descendants(network, build_plan(network), term // 2, reached)
    kinds = network.units["kind"]
    units = np.flatnonzero((kinds >= 0) & (kinds != OUTPUT) & ~reached)
    return np.concatenate([np.flatnonzero(network.usable), network.n_inputs + units])


def conflicts(
    network: Network,
    edge: int,
    X: NDArray,
    y: NDArray,
    params: Params,
    *,
    order: int = 3,
    budget: int = 200_000,
) -> list[Conflict]:
    """Return, for each size up to `order`, the product with the largest |covariance|.

    Every product of a size is tried while there are at most `budget` of them; beyond that, only
    those that extend one of the best products of the size before. The evidence is that of a
    parameter on the product of these sources and of the edge's own.
    """
    gradient, states = edge_gradients_per_sample(network, edge, X, y, params)
    score = Score(network, network.edges["term"][edge], X, y, params)
    own = states[network.edges["source"][edge]]
    nodes = candidate_sources(network, network.edges["term"][edge])
    rows = states[nodes]
    results: list[Conflict] = []
    kept: list[tuple[int, ...]] = [()]
    for size in range(1, min(order, len(nodes)) + 1):
        exhaustive = comb(len(nodes), size) <= budget
        if exhaustive:
            sets = list(combinations(range(len(nodes)), size))
        else:
            width = max(1, budget // len(nodes))
            sets = sorted(
                {
                    tuple(sorted((*part, extra)))
                    for part in kept[:width]
                    for extra in range(len(nodes))
                    if extra not in part
                }
            )
        covariances = _covariances(rows, gradient, sets)
        ranking = np.argsort(-np.abs(covariances), kind="stable")
        kept = [sets[i] for i in ranking[: max(1, budget // len(nodes))]]
        best = sets[ranking[0]]
        product = rows[list(best)].prod(axis=0)
        centred = (product - product.mean()) * (gradient - gradient.mean())
        spread = product.std() * gradient.std()
        results.append(
            Conflict(
                sources=tuple(int(nodes[i]) for i in best),
                covariance=float(covariances[ranking[0]]),
                correlation=float(covariances[ranking[0]] / spread) if spread > 0 else 0.0,
                error=float(centred.std() / np.sqrt(len(gradient))),
                tried=len(sets),
                exhaustive=exhaustive,
                evidence=float(score.evidences((own * product)[None])[0]),
                needed=needed_evidence(len(sets), score.allowed),
            )
        )
    return results


def _covariances(
    rows: NDArray, gradient: NDArray, sets: list[tuple[int, ...]], chunk: int = 4096
) -> NDArray[np.float64]:
    """Return Cov(∏ rows[A], gradient) for every set A."""
    centred = gradient - gradient.mean()
    result = np.empty(len(sets))
    for start in range(0, len(sets), chunk):
        index = np.array(sets[start : start + chunk])
        product = rows[index[:, 0]]
        for column in index.T[1:]:
            product = product * rows[column]
        result[start : start + chunk] = product @ centred / len(gradient)
    return result


class Score:
    """The part of a term's deltas that its own parameters cannot explain (see `evidence`)."""

    def __init__(self, network: Network, term: int, X: NDArray, y: NDArray, params: Params) -> None:
        self.states, deltas = states_and_deltas(network, X, y, params)
        delta = deltas[term].astype(np.float64)
        into = (network.edges["source"] >= 0) & (network.edges["term"] == term)
        own = self.states[network.edges["source"][into]].astype(np.float64)
        output = network.units["kind"][term // 2] == OUTPUT
        if term % 2 == 1 or output or params.term_0_bias:
            own = np.vstack([np.ones(len(delta)), own])
        self.square = delta**2
        self.own = own * self.square  # (parameters, samples)
        self.fisher = self.own @ own.T
        self.fisher[np.diag_indices(len(own))] += RIDGE * self.fisher.max(initial=0.0) + 1e-30
        beta = np.linalg.solve(self.fisher, own @ delta)
        self.residual = delta - beta @ self.own
        # Noise may be an expected share `significance` of the term's edges.
        self.allowed = params.significance * (1.0 + np.count_nonzero(into))

    def evidences(self, features: NDArray) -> NDArray[np.float64]:
        """Return G of each feature: (features, samples) -> (features,)."""
        n = features.shape[1]
        total = features @ self.residual
        squares = features**2 @ self.square
        cross = features @ self.own.T
        left = squares - (cross * np.linalg.solve(self.fisher, cross.T).T).sum(axis=1)
        # Almost nothing left: the feature is a linear combination of the present sources.
        usable = left > 1e-4 * squares
        share = np.zeros(len(features))
        share[usable] = np.minimum(total[usable] ** 2 / (left[usable] * n), 1.0 - 1e-12)
        return -n * np.log1p(-share)
