"""The search for gates of a wide network: all thresholds are compared by sums in bins.

A candidate is scored against all outputs at once. For one output, with residuals g and curvatures
h of the samples, the best weight of a feature f gains u²/(v + decay), with u = Σ f·g and
v = Σ f²·h: twice the drop of the cost, to second order. Three kinds of candidates are compared:

- a *step*: a gate multiplied with the constant 1,
- a *gated node*: a gate multiplied with an input or with another node,
- a *corner*: a gate multiplied with a new step of another input.

A node lies between −¼ and ¾ where its source is 1, so that weight decay acts on the weight of a
gate as on the weight of an indicator.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from dirad.growth.wide.draft import CONSTANT, Draft, Gate, Samples, modulation

BINS = 32  # between the thresholds of an input
CORNER_BINS = 8  # the same for each of the two inputs of a corner
SCANNED_SAMPLES = 1500  # on which all candidates are compared
GATE_INPUTS = 24  # inputs whose gates are multiplied with sources; those of the strongest steps
SOURCES = 40  # that gates are multiplied with
CORNER_INPUTS = 10
RESCORED = 24  # candidates that are scored again, on all samples
STEEPNESS = (0.7, 2.0, 5.0, 12.0)  # gain of a new gate, in standard deviations of its input
MOST_DEPTH = 4  # gates that a node multiplies
SCALE = 0.25  # of term 0 of a new node
LEAST_LEFT = 1e-4  # share of a feature that the present ones do not explain
LEAST_OF_BEST = 0.3  # share of the best candidate's rate that others of the round need
NEW_STEP = -2  # in place of a source: the step of the same candidate
SIDES = ((-1, -1), (-1, 1), (1, -1), (1, 1))  # signs of the two gates of a corner


class Candidate(NamedTuple):
    """New nodes, the last of which feeds the outputs."""

    rate: float  # gain per edge
    gates: tuple[Gate, ...]  # the source of the second is the first
    place: tuple[int, ...]  # what they are made of, thresholds apart: one per round is enough


class Bins:
    """Thresholds of each input, and the bins of the samples on which candidates are compared."""

    def __init__(self, samples: Samples, usable: NDArray[np.bool_], seed: int) -> None:
        inputs = samples.inputs
        self.rows = np.flatnonzero(samples.weight > 0)
        if len(self.rows) > SCANNED_SAMPLES:
            shuffled = np.random.default_rng(seed).permutation(self.rows)
            self.rows = np.sort(shuffled[:SCANNED_SAMPLES])
        self.spread = np.maximum(inputs.std(axis=0), 1e-12)
        empty = np.empty(0)
        columns = [thresholds(x) if ok else empty for x, ok in zip(inputs.T, usable, strict=True)]
        self.thresholds = columns
        self.counts = np.array([len(column) for column in columns])
        scanned = inputs[self.rows]
        self.bins = np.stack(
            [np.searchsorted(column, x) for column, x in zip(columns, scanned.T, strict=True)], 1
        )

    def indicators(self, inputs: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return a column per input and bin: 1 where a sample lies in it."""
        n = len(self.rows)
        result = np.zeros((n, len(inputs), BINS), np.float32)
        for i, j in enumerate(inputs):
            result[np.arange(n), i, self.bins[:, j]] = 1.0
        return result.reshape(n, -1)

    def coarse(self, inputs: NDArray[np.intp]) -> tuple[list[NDArray], NDArray[np.float32]]:
        """Return fewer thresholds of some inputs, by number, and indicators of the wider bins."""
        found = [self._coarse(int(j)) for j in inputs]
        return [place for place, _ in found], np.concatenate([part for _, part in found], axis=1)

    @cache  # noqa: B019
    def _coarse(self, j: int) -> tuple[NDArray, NDArray[np.float32]]:
        count = int(self.counts[j])
        place = np.arange(count)
        if count >= CORNER_BINS:
            wanted = np.linspace(0, count - 1, CORNER_BINS + 1)[1:-1]
            place = np.unique(wanted.round().astype(int))
        wide = (self.bins[:, j, None] > place).sum(axis=1)
        return place, np.eye(CORNER_BINS, dtype=np.float32)[wide]

    def valid(self, inputs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which bins end in a threshold: (inputs, bins)."""
        return np.arange(BINS) < self.counts[inputs][:, None]


def thresholds(values: NDArray) -> NDArray[np.float64]:
    """Return at most BINS − 1 thresholds between different values, at their quantiles."""
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return 0.5 * (distinct[1:] + distinct[:-1])
    wanted = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="higher")
    place = np.unique(np.clip(np.searchsorted(distinct, wanted), 1, len(distinct) - 1))
    return 0.5 * (distinct[place] + distinct[place - 1])


def gain(u: NDArray, v: NDArray, decay: float) -> NDArray:
    """Return what the best weight of a feature gains, from its score and its curvature."""
    return u * u / np.maximum(v + decay, 1e-30)


class Search:
    """One round: the residuals of a draft, and the candidates compared on them."""

    def __init__(self, draft: Draft, bins: Bins) -> None:
        self.draft = draft
        self.bins = bins
        answers = draft.answers()
        weight = draft.samples.weight[:, None]
        self.residual = (draft.samples.targets - answers) * weight
        self.curvature = draft.curvature(answers)
        self.g = self.residual[bins.rows].astype(np.float32)
        # To compare candidates, all outputs share one curvature; the best are scored exactly.
        self.h = self.curvature[bins.rows].mean(axis=1).astype(np.float32)
        n_weighted = max(1, np.count_nonzero(draft.samples.weight))
        self.decay = draft.decay * len(bins.rows) / n_weighted  # for the samples scanned
        self.n_outputs = self.g.shape[1]
        self.design = draft.design()
        self.fishers = draft.fishers(self.design, self.curvature)

    def best(self, count: int) -> list[Candidate]:
        """Return the best candidates, at most `count`, of different places."""
        usable = np.flatnonzero(self.bins.counts > 0)
        if not len(usable):
            return []
        found, strength = self._steps(usable)
        strongest = usable[np.argsort(-strength, kind="stable")[:GATE_INPUTS]]
        found += self._gated_nodes(strongest)
        if len(strongest) > 1:
            found += self._corners(strongest[:CORNER_INPUTS])
        found.sort(key=lambda one: -one.rate)
        ranked = sorted(self._rescored(found[:RESCORED]), key=lambda one: -one.rate)
        chosen: dict[tuple[int, ...], Candidate] = {}
        for one in ranked:
            if len(chosen) < count and one.rate > LEAST_OF_BEST * ranked[0].rate:
                chosen.setdefault(one.place, one)
        return [one for one in chosen.values() if one.rate > 0.0]

    def _steps(self, inputs: NDArray[np.intp]) -> tuple[list[Candidate], NDArray]:
        """Return the best steps, and the largest gain of a step of each input."""
        both = np.hstack([self.g, self.h[:, None]])
        below = [
            np.cumsum((both.T @ self.bins.indicators(part)).reshape(len(both.T), -1, BINS), axis=2)
            for part in np.array_split(inputs, -(-len(inputs) // 64))
        ]
        sums = np.concatenate(below, axis=1)
        gains = gain_on_feeding_source(sums[:-1], sums[-1], self.decay).sum(axis=0)
        gains *= self.bins.valid(inputs)
        found = []
        for place in largest(gains, 8):
            i, b = np.unravel_index(place, gains.shape)
            rate = float(gains[i, b]) / (1 + self.n_outputs)
            found.append(self._candidate(rate, CONSTANT, int(inputs[i]), int(b)))
        return found, gains.max(axis=1)

    def _candidate(self, rate: float, source: int, gate: int, threshold: int) -> Candidate:
        """Return a step or a gated node; its steepness is chosen when it is scored again."""
        bias = SCALE if source == CONSTANT else -SCALE * self.draft.low(source)
        weight = 0.0 if source == CONSTANT else SCALE
        one = Gate(source, weight, bias, gate, 1.0, float(self.bins.thresholds[gate][threshold]))
        return Candidate(rate, (one,), (source, gate))

    def _strongest_sources(self) -> NDArray[np.intp]:
        """Return the nodes that gates are multiplied with: those of large total potential."""
        draft = self.draft
        inputs = np.flatnonzero(draft.usable)
        deep = [draft.n_inputs + i for i, d in enumerate(draft.depth) if d < MOST_DEPTH]
        nodes = np.concatenate([inputs, np.array(deep, np.intp)])
        if len(nodes) <= SOURCES:
            return nodes
        rows = self._states_above_low(nodes)
        potential = (np.abs(rows).T @ np.abs(self.g)).sum(axis=1)
        potential /= np.sqrt((rows**2).sum(axis=0) + 1e-9)
        return nodes[np.argsort(-potential, kind="stable")[:SOURCES]]

    def _states_above_low(self, nodes: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return states of nodes above their lowest values, for the samples scanned."""
        low = np.array([self.draft.low(node) for node in nodes.tolist()])
        states = self.draft.states[np.ix_(self.bins.rows, nodes)]
        return (states - low).astype(np.float32)

    def _gated_nodes(self, inputs: NDArray[np.intp]) -> list[Candidate]:
        """Return the best products of a source and a gate."""
        sources = self._strongest_sources()
        if not len(sources):
            return []
        rows, indicators = self._states_above_low(sources), self.bins.indicators(inputs)
        shape = (len(sources), len(inputs), BINS)
        feeds = np.isin(sources, self.draft.features)[:, None, None]
        gains = np.zeros(shape, np.float32)
        h = np.cumsum(((rows**2 * self.h[:, None]).T @ indicators).reshape(shape), axis=2)
        all_h = h[:, :, -1:]
        for o in range(self.n_outputs):
            g = np.cumsum(((rows * self.g[:, o, None]).T @ indicators).reshape(shape), axis=2)
            all_g = g[:, :, -1:]
            # A node is ¾ of its source where the gate is open and −¼ where it is closed.
            above = gain(0.75 * all_g - g, (9.0 * all_h - 8.0 * h) / 16.0, self.decay)
            below = gain(g - 0.25 * all_g, (all_h + 8.0 * h) / 16.0, self.decay)
            gains += np.where(
                feeds, gain_on_feeding_source(g, h, self.decay), np.maximum(above, below)
            )
        gains *= self.bins.valid(inputs)
        found = []
        for place in largest(gains, 32):
            s, i, b = np.unravel_index(place, shape)
            rate = float(gains[s, i, b]) / (2 + self.n_outputs)
            found.append(self._candidate(rate, int(sources[s]), int(inputs[i]), int(b)))
        return found

    def _corners(self, inputs: NDArray[np.intp]) -> list[Candidate]:
        """Return the best products of a new step and a gate of another input."""
        places, indicators = self.bins.coarse(inputs)
        shape = (len(inputs), CORNER_BINS, len(inputs), CORNER_BINS)
        gains = np.zeros((*shape, len(SIDES)), np.float32)

        def sums(values: NDArray) -> NDArray:
            cells = (indicators * values[:, None]).T @ indicators
            return cells.reshape(shape).cumsum(axis=1).cumsum(axis=3)

        h = sums(self.h)
        for o in range(self.n_outputs):
            g = sums(self.g[:, o])
            for i, (step_sign, gate_sign) in enumerate(SIDES):
                gains[..., i] += corner_gain(g, h, step_sign, gate_sign, self.decay)
        valid = np.arange(CORNER_BINS) < np.array([len(one) for one in places])[:, None]
        different = ~np.eye(len(inputs), dtype=bool)
        gains *= (valid[:, :, None, None] & valid & different[:, None, :, None])[..., None]
        found = []
        for place in largest(gains, 16):
            step, r, gate, c, side = (int(i) for i in np.unravel_index(place, gains.shape))
            first, second = int(inputs[step]), int(inputs[gate])
            step_at = float(self.bins.thresholds[first][places[step][r]])
            gate_at = float(self.bins.thresholds[second][places[gate][c]])
            gates = (
                Gate(CONSTANT, 0.0, SCALE, first, SIDES[side][0], step_at),
                Gate(NEW_STEP, SCALE, SCALE**2, second, SIDES[side][1], gate_at),
            )
            rate = float(gains[step, r, gate, c, side]) / (3 + self.n_outputs)
            found.append(Candidate(rate, gates, (CONSTANT, *sorted((first, second)))))
        return found

    def _rescored(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return candidates with their best steepness, scored on all samples.

        What the present parameters of an output explain of a feature does not count.
        """
        if not candidates:
            return []
        features = self._states_of_last([one.gates for one in candidates])
        residual, curvature = self.residual.astype(np.float32), self.curvature.astype(np.float32)
        design = self.design.astype(np.float32)
        scores, squares = residual.T @ features, curvature.T @ features**2
        gains = np.zeros(features.shape[1])
        explained = np.empty(0)
        for o in range(self.n_outputs):
            if o < len(self.fishers):
                factor = cholesky(self.fishers[o], lower=True, check_finite=False)
                projection = (design * curvature[:, o, None]).T @ features
                part = solve_triangular(factor, projection, lower=True, check_finite=False)
                explained = (part**2).sum(axis=0)
            left = squares[o] - explained
            some = left > LEAST_LEFT * squares[o]
            gains += np.where(some, gain(scores[o], left, self.draft.decay), 0.0)
        result = []
        for one, found in zip(candidates, gains.reshape(len(candidates), -1), strict=True):
            edges = self.n_outputs + sum(gate.n_edges for gate in one.gates)
            best = int(np.argmax(found))
            gates = tuple(self._with_steepness(gate, STEEPNESS[best]) for gate in one.gates)
            result.append(one._replace(rate=float(found[best]) / edges, gates=gates))
        return result

    def _with_steepness(self, gate: Gate, steepness: float) -> Gate:
        return gate._replace(gain=gate.gain * steepness / self.bins.spread[gate.gate])

    def _states_of_last(self, candidates: list[tuple[Gate, ...]]) -> NDArray[np.float32]:
        """Return the states that the last of new nodes would have: a column per steepness."""
        values = self._products([gates[0] for gates in candidates], None)
        longer = [i for i, gates in enumerate(candidates) if len(gates) > 1]
        if longer:
            second = [candidates[i][1] for i in longer]
            values[:, longer] = self._products(second, values[:, longer])
        return values.reshape(len(values), -1)

    def _products(self, gates: list[Gate], sources: NDArray | None) -> NDArray[np.float32]:
        """Return the states of gates, with every steepness: (samples, gates, steepness).

        `sources` are the states of their term 0, if they are new too.
        """
        states = self.draft.states
        source, weight, bias, gate, sign, threshold = (
            np.array(column) for column in zip(*gates, strict=True)
        )
        if sources is None:
            sources = states[:, np.maximum(source, 0), None].astype(np.float32)
        terms = sources * weight[:, None].astype(np.float32) + bias[:, None].astype(np.float32)
        z = (states[:, gate] - threshold) * (sign / self.bins.spread[gate])
        return terms * modulation(
            z[:, :, None].astype(np.float32) * np.array(STEEPNESS, np.float32)
        )


def gain_on_feeding_source(g: NDArray, h: NDArray, decay: float) -> NDArray:
    """Return the gain of every gate on a source that feeds the outputs already.

    g and h are cumulative sums over bins; the weight of the source itself takes up the mean.
    """
    all_g, all_h = g[..., -1:], np.maximum(h[..., -1:], 1e-12)
    u = g - h / all_h * all_g
    v = h - h * h / all_h
    return np.where(v > LEAST_LEFT * all_h, gain(u, v, decay), 0.0)


def corner_gain(g: NDArray, h: NDArray, step_sign: int, gate_sign: int, decay: float) -> NDArray:
    """Return the gain of every corner, from sums over all cells up to each one.

    Axes are (input of the step, its bin, input of the gate, its bin). A corner is ¾ where step and
    gate are open, −¼ where the step alone is, and 0 elsewhere; the bias takes up its mean.
    """
    all_g, all_h = g[0, -1, 0, -1], max(float(h[0, -1, 0, -1]), 1e-12)
    step_g, step_h = g[:, :, :, -1:], h[:, :, :, -1:]  # where the step is open
    both_g, both_h = g, h  # where step and gate are open
    if step_sign > 0:
        step_g, step_h = all_g - step_g, all_h - step_h
        both_g, both_h = g[:, -1:] - both_g, h[:, -1:] - both_h
    if gate_sign > 0:
        both_g, both_h = step_g - both_g, step_h - both_h
    mean = both_h - 0.25 * step_h
    u = both_g - 0.25 * step_g - mean / all_h * all_g
    v = (8.0 * both_h + step_h) / 16.0 - mean * mean / all_h
    return np.where(v > 1e-3 * all_h, gain(u, v, decay), 0.0)


def largest(values: NDArray, count: int) -> list[int]:
    """Return the places of the largest values above 0, the largest first."""
    flat = values.ravel()
    count = min(count, len(flat))
    top = np.argpartition(-flat, count - 1)[:count]
    top = top[np.lexsort((top, -flat[top]))]
    return [int(place) for place in top if flat[place] > 0]
