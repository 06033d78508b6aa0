"""What could still be grown on a term: the best edge, product and gate, and what they would gain.

A network of the preset `default` stops at a point where nothing that it can grow, within the
budget of the search, is worth its edges. `candidates` shows that: it goes through all candidates
in plain float64, refits the term's own parameters together with the best ones, and compares the
gain in log-likelihood with what the best of as many candidates of noise would gain.
"""

from collections.abc import Iterable, Iterator
from itertools import combinations, combinations_with_replacement, islice
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR, OUTPUT, SOFTMAX, TRANSFER, Network, output_units
from dirad.growth.conflict import Score, candidate_sources
from dirad.growth.evidence import needed_evidence
from dirad.params import Params

MOST_THRESHOLDS = 31  # of a source, at its quantiles
CORNER_THRESHOLDS = 7  # the same for each of the two sources of a corner
CHUNK = 1024  # candidates that are scored at a time
REFITTED = 8  # candidates of each kind that the term is refitted with
RIDGE = 1e-4  # on standardized parameters: keeps those finite that would grow without bound
NEWTON_STEPS = 30


class Step(NamedTuple):
    """A function of one node that changes abruptly at a threshold."""

    node: int
    threshold: float
    above: bool  # is it large above the threshold, or below it?


class Candidate(NamedTuple):
    """The best candidate of one kind for a term: the product of its sources and steps."""

    kind: str  # "edge", "product", "step", "gated edge" or "corner"
    sources: tuple[int, ...]  # the nodes multiplied
    steps: tuple[Step, ...]  # the steps multiplied: the last is 3 or −1, one before it 1 or 0
    evidence: float  # G: the gain that the score test promises, as during growth
    gain: float  # twice the log-likelihood that a refit of the term's parameters gains
    needed: float  # the gain that the best of `tried` candidates of noise rarely exceeds
    tried: int  # candidates tried so far: products of all sizes, and gates of all kinds together

    @property
    def significant(self) -> bool:
        """Whether the candidate gains more than chance would."""
        return self.gain > self.needed


class Feature(NamedTuple):
    """A candidate before it is scored."""

    sources: tuple[int, ...]
    steps: tuple[Step, ...]
    values: NDArray[np.float64]  # (samples,)


class OutputFit:
    """An output whose own weights and bias are refitted: a generalized linear model.

    A softmax is a logistic function of one score, as long as the other scores are unchanged.
    """

    def __init__(self, network: Network, term: int, states: NDArray, y: NDArray) -> None:
        units, y = output_units(network), np.asarray(y, float).reshape(states.shape[1], -1)
        column = int(network.units["output"][term // 2])
        scores = np.stack([_activation(network, unit, states) for unit in units])
        self.linear = network.counts[TRANSFER] == LINEAR
        self.offset, self.target = scores[column], y[:, column]
        if network.counts[TRANSFER] == SOFTMAX:
            others = np.delete(scores, column, axis=0)
            self.offset = self.offset - np.logaddexp.reduce(others, axis=0)
        sources = network.edges["source"][_into(network, term)]
        own = [_standardized(states[source].astype(np.float64)) for source in sources]
        self.design = np.stack([np.ones(len(y)), *own], axis=1)  # (samples, parameters)
        self.z, self.value = self._fitted(self.design)

    def gain(self, feature: NDArray[np.float64]) -> float:
        """Return twice the log-likelihood that one more parameter on the feature gains."""
        wider = np.column_stack([self.design, _standardized(feature)])
        return max(self._fitted(wider)[1] - self.value, 0.0)

    def promised_gains(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the gains by a quadratic approximation: (features, samples) -> (features,).

        For a linear output it is exact.
        """
        p, h = self._mean_and_information(self.z)
        information = (self.design * h[:, None]).T @ self.design
        information[np.diag_indices(len(information))] += RIDGE
        squares = features**2 @ h
        cross = (features * h) @ self.design
        left = squares - (cross * np.linalg.solve(information, cross.T).T).sum(axis=1)
        usable = left > 1e-4 * squares
        ratio = np.zeros(len(features))
        ratio[usable] = (features[usable] @ (p - self.target)) ** 2 / left[usable]
        if not self.linear:
            return ratio
        share = ratio / max(np.sum((p - self.target) ** 2), 1e-300)
        return -len(p) * np.log1p(-np.minimum(share, 1.0 - 1e-12))

    def _mean_and_information(self, z: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        if self.linear:
            return z, np.ones(len(z))
        p = 0.5 * np.tanh(0.5 * z) + 0.5
        return p, p * (1.0 - p)

    def _twice_log_likelihood(self, z: NDArray) -> float:
        """Return twice the log-likelihood, up to a constant."""
        if self.linear:
            return -len(z) * float(np.log(np.sum((z - self.target) ** 2) + 1e-300))
        return -2.0 * float(np.sum(np.logaddexp(0.0, z) - self.target * z))

    def _fitted(self, design: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
        """Return activations after a fit by Newton's method, and twice the log-likelihood."""
        change = np.zeros(design.shape[1])
        z, value = self.offset, self._twice_log_likelihood(self.offset)
        for _ in range(NEWTON_STEPS):
            p, h = self._mean_and_information(z)
            information = (design * h[:, None]).T @ design
            information[np.diag_indices(len(information))] += RIDGE
            step = np.linalg.solve(information, design.T @ (self.target - p) - RIDGE * change)
            length, before = 1.0, value
            while length > 1e-3:
                value = self._twice_log_likelihood(self.offset + design @ (change + length * step))
                if value > before:
                    break
                length *= 0.5
            if value <= before + 1e-9:
                return z, max(before, value)
            change = change + length * step
            z = self.offset + design @ change
        return z, value


def _into(network: Network, term: int) -> NDArray[np.bool_]:
    return (network.edges["source"] >= 0) & (network.edges["term"] == term)


def _activation(network: Network, unit: int, states: NDArray) -> NDArray[np.float64]:
    edges = network.edges[_into(network, 2 * unit)]
    weighted = edges["weight"] @ states[edges["source"]].astype(np.float64)
    return network.bias[unit, 0] + weighted


def output_fit(
    network: Network, term: int, states: NDArray, y: NDArray, params: Params
) -> OutputFit | None:
    """Return the fit of an output's parameters; None where the cost is no likelihood of a term.

    For hidden nodes, and for the squared error of logistic outputs, only G is known.
    """
    likelihood = "squared" if network.counts[TRANSFER] == LINEAR else "cross-entropy"
    if network.units["kind"][term // 2] != OUTPUT or params.cost != likelihood:
        return None
    return OutputFit(network, term, states, y)


def candidates(
    network: Network,
    X: NDArray,
    y: NDArray,
    params: Params,
    *,
    term: int = 0,
    order: int = 3,
    budget: int = 50_000,
) -> list[Candidate]:
    """Return the best edge, product of each size up to `order`, step, gated edge and corner.

    They are candidates for a term: term 2·u of output u, or one of the two terms of a modulatory
    node. Thresholds are quantiles of the samples. Inputs are standardized, as the preset `default`
    sees them. Products of a size are left out if there are more than `budget`; of more gates, those
    of the strongest steps are tried. `gain` is measured for outputs; elsewhere it is G, which
    exceeds it by far where samples are classified almost perfectly: their deltas, however small,
    all have the same sign.

    >>> from dirad import new_state, preset
    >>> X = np.random.default_rng(0).normal(size=(500, 2))
    >>> y = 1.0 * (X[:, 1] > 0.5)
    >>> network = new_state(2, 1).network  # no edges yet
    >>> for one in candidates(network, X, y, preset("default"), order=2):
    ...     print(one.kind, one.sources, [step.node for step in one.steps], one.significant)
    edge (1,) [] True
    product (1, 1) [] True
    step () [1] True
    gated edge (1,) [1] True
    corner () [0, 1] True
    """
    score = Score(network, term, X, y, params)
    search = Search(score, output_fit(network, term, score.states, y, params))
    nodes = [int(node) for node in candidate_sources(network, term)]
    rows = {node: score.states[node].astype(np.float64) for node in nodes}
    units = {n: _standardized(row) if n < network.n_inputs else row for n, row in rows.items()}
    found = [search.best("edge", (Feature((s,), (), units[s]) for s in nodes))]
    n_products = 0
    for size in range(2, order + 1):
        sets = combinations(nodes, size) if size > 2 else combinations_with_replacement(nodes, 2)
        if comb(len(nodes) + (size == 2), size) <= budget:
            found.append(search.best("product", _products(units, sets), already=n_products))
            n_products = found[-1].tried
    gates = _best_gates(rows, units, search, budget)
    tried = sum(one.tried for one in gates)
    needed = needed_evidence(tried, score.allowed)
    found += [one._replace(tried=tried, needed=needed) for one in gates]
    return [one for one in found if one.tried]


def _standardized(row: NDArray[np.float64]) -> NDArray[np.float64]:
    spread = row.std()
    return (row - row.mean()) / (spread if spread > 0 else 1.0)


class Search(NamedTuple):
    """How candidates are ranked: by the gain that they promise, the best of them by a refit."""

    score: Score
    fit: OutputFit | None

    def shortlist(self, features: Iterable[Feature]) -> tuple[list[float], list[Feature], int]:
        """Return the gains that the best features promise, best first; and how many were tried."""
        kept: list[tuple[float, Feature]] = []
        tried, left = 0, iter(features)
        while some := list(islice(left, CHUNK)):
            values = np.stack([one.values for one in some])
            rank = self.score.evidences if self.fit is None else self.fit.promised_gains
            kept += zip(rank(values).tolist(), some, strict=True)
            kept = sorted(kept, key=lambda pair: -pair[0])[:REFITTED]
            tried += len(some)
        return [gain for gain, _ in kept], [one for _, one in kept], tried

    def best(self, kind: str, features: Iterable[Feature], already: int = 0) -> Candidate:
        """Return the best of the features, `already` others having been tried before."""
        gains, kept, tried = self.shortlist(features)
        tried += already
        if not kept:
            return Candidate(kind, (), (), 0.0, 0.0, np.inf, 0)
        if self.fit is not None:
            gains = [self.fit.gain(one.values) for one in kept]
        gain = max(gains)
        one = kept[gains.index(gain)]
        G = float(self.score.evidences(one.values[None])[0])
        needed = needed_evidence(tried, self.score.allowed)
        return Candidate(kind, one.sources, one.steps, G, gain, needed, tried)


def _products(
    rows: dict[int, NDArray[np.float64]], sets: Iterable[tuple[int, ...]]
) -> Iterator[Feature]:
    for sources in sets:
        yield Feature(sources, (), np.prod([rows[node] for node in sources], axis=0))


def _best_gates(
    rows: dict[int, NDArray[np.float64]],
    units: dict[int, NDArray[np.float64]],
    search: Search,
    budget: int,
) -> list[Candidate]:
    """Return the best step, gated edge and corner; gates on the nodes of the strongest steps."""
    own = {node: list(_steps(node, row, MOST_THRESHOLDS)) for node, row in rows.items()}
    strength = {node: max(search.shortlist(steps)[0], default=0.0) for node, steps in own.items()}
    ranked = sorted(strength, key=lambda node: -strength[node])
    step = search.best("step", (one for steps in own.values() for one in steps))
    few = ranked[: max(1, budget // max(1, 2 * MOST_THRESHOLDS * len(rows)))]
    gated = (
        Feature((source,), (one.steps[0]._replace(above=above),), units[source] * factor)
        for source in rows
        for node in few
        for one in own[node]
        for above, factor in ((True, 4 * one.values - 1), (False, 3 - 4 * one.values))
    )
    # Of k thresholds of each of two nodes there are k² pairs, with 8 choices of sides and order.
    n_pairs = max(1, budget // (8 * CORNER_THRESHOLDS**2))
    pairs = islice(combinations(ranked, 2), n_pairs)
    corners = _corners(rows, pairs)
    return [step, search.best("gated edge", gated), search.best("corner", corners)]


def _steps(node: int, row: NDArray[np.float64], most: int) -> Iterator[Feature]:
    """Return the steps of a node: 1 above a threshold and 0 below."""
    for threshold in thresholds_of(row, most):
        yield Feature((), (Step(node, float(threshold), True),), (row > threshold).astype(float))


def _corners(
    rows: dict[int, NDArray[np.float64]], pairs: Iterable[tuple[int, int]]
) -> Iterator[Feature]:
    """Return the products of a step (1 or 0) of one node and a gate (3 or −1) of another."""
    for first, second in pairs:
        for step_node, gate_node in ((first, second), (second, first)):
            for step in _steps(step_node, rows[step_node], CORNER_THRESHOLDS):
                for gate in _steps(gate_node, rows[gate_node], CORNER_THRESHOLDS):
                    for step_above, inside in ((True, step.values), (False, 1 - step.values)):
                        for above, up in ((True, gate.values), (False, 1 - gate.values)):
                            both = (
                                step.steps[0]._replace(above=step_above),
                                gate.steps[0]._replace(above=above),
                            )
                            yield Feature((), both, inside * (4 * up - 1))


def thresholds_of(row: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Return up to `most` thresholds between different values of a row, at its quantiles.

    >>> thresholds_of(np.array([1.0, 1.0, 2.0, 4.0]), 31)
    array([1.5, 3. ])
    """
    values = np.unique(row)
    if len(values) < 2:
        return np.zeros(0)
    middle = 0.5 * (values[1:] + values[:-1])
    if len(middle) <= most:
        return middle
    quantiles = np.quantile(row, np.arange(1, most + 1) / (most + 1))
    return middle[
        np.unique(np.searchsorted(values, quantiles, side="right").clip(1, len(middle)) - 1)
    ]
