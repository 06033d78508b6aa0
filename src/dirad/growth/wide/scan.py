"""The search for gates of a wide network: all thresholds are compared by sums in bins.

A candidate is scored against all outputs at once. For one output, with residuals g and curvatures
h of the samples, the best weight of a feature f gains u²/(v + decay), with u = Σ f·g and
v = Σ f²·h: twice the drop of the cost, to second order. Three kinds of candidates are compared:

- a *step*: a gate multiplied with the constant 1,
- a *gated node*: a gate multiplied with an input or with another node,
- a *corner*: a gate multiplied with a new step of another input.

The gate is open beyond a threshold of an input, or for a subset of the categories of a column
(`subsets`). A number that may be missing has three ways to be compared: as it is, with its mean in
place of missing values, or with the lowest or the highest value in their place.

A node lies between −¼ and ¾ where its source is 1, so that weight decay acts on the weight of a
gate as on the weight of an indicator.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from dirad.encoding import NO_GROUPS, InputGroups
from dirad.growth.wide.draft import CONSTANT, Draft, Gate, Sum, alone, summed
from dirad.growth.wide.gains import (
    LEAST_LEFT,
    corner_gain,
    gain,
    gain_on_feeding_source,
    gated_gains,
    largest,
    variance_of,
)
from dirad.growth.wide.subsets import SHARP, Cut, Sources, best_cuts, chance_gain, find_subsets

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
LEAST_OF_BEST = 0.3  # share of the best candidate's rate that others of the round need
GAP_CHANCE = 2.0  # gain of choosing the side of missing values in noise of variance 1
NEW_STEP = -2  # in place of a source: the step of the same candidate
SIDES = ((-1, -1), (-1, 1), (1, -1), (1, 1))  # signs of the two gates of a corner


class Candidate(NamedTuple):
    """New nodes, the last of which feeds the outputs."""

    rate: float  # gain per edge
    gates: tuple[Gate, ...]  # the source of the second is the first
    place: tuple[int, ...]  # what they are made of, thresholds apart: one per round is enough
    chance: float = 0.0  # gain that the search would find in noise; it is subtracted


class Bins:
    """Thresholds of each variable, and the bins of the samples on which candidates are compared.

    A variable is an input, or a number with the lowest or highest value where it is missing.
    """

    def __init__(
        self, inputs: NDArray, usable: NDArray[np.bool_], seed: int, groups: InputGroups = NO_GROUPS
    ) -> None:
        n = len(inputs)
        rows = np.random.default_rng(seed).permutation(n)[:SCANNED_SAMPLES]
        self.rows = np.arange(n) if n <= SCANNED_SAMPLES else np.sort(rows)
        self.sums = [alone(i) for i in range(inputs.shape[1])]
        for number, gap in groups.gaps:
            if usable[number] and usable[gap]:
                self.sums += sums_with_gap(inputs, number, gap)
        self.input = np.array([one[0][0] for one in self.sums], np.intp)  # of each variable
        self.spread = np.maximum(inputs.std(axis=0), 1e-12)
        empty = np.empty(0)
        values = [summed(one, inputs) for one in self.sums]
        columns = [
            thresholds(x) if usable[i] else empty for x, i in zip(values, self.input, strict=True)
        ]
        self.thresholds = columns
        self.counts = np.array([len(column) for column in columns])
        self.bins = np.stack(
            [np.searchsorted(t, x[self.rows]) for t, x in zip(columns, values, strict=True)], 1
        )
        self.subsets = find_subsets(inputs, groups.categories, usable, self.rows)

    def indicators(self, inputs: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return a column per input and bin: 1 where a sample lies in it."""
        n = len(self.rows)
        result = np.zeros((n, len(inputs), BINS), np.float32)
        for i, j in enumerate(inputs):
            result[np.arange(n), i, self.bins[:, j]] = 1.0
        return result.reshape(n, -1)

    def valid(self, inputs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which bins end in a threshold: (inputs, bins)."""
        return np.arange(BINS) < self.counts[inputs][:, None]


def sums_with_gap(inputs: NDArray, number: int, gap: int) -> list[Sum]:
    """Return sums that are the lowest or highest number where it is missing, by the input `gap`."""
    missing = inputs[:, gap] > inputs[:, gap].min()
    if missing.all() or not missing.any():
        return []
    step = np.ptp(inputs[:, gap])
    known, mean = inputs[~missing, number], inputs[missing, number][0]
    return [((number, 1.0), (gap, float(end - mean) / step)) for end in (known.min(), known.max())]


def thresholds(values: NDArray) -> NDArray[np.float64]:
    """Return at most BINS − 1 thresholds between different values, at their quantiles."""
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return 0.5 * (distinct[1:] + distinct[:-1])
    wanted = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="higher")
    place = np.unique(np.clip(np.searchsorted(distinct, wanted), 1, len(distinct) - 1))
    return 0.5 * (distinct[place] + distinct[place - 1])


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
        self.h = self.curvature[bins.rows].astype(np.float32)
        self.decay = draft.decay * len(bins.rows) / len(answers)  # for the samples scanned
        self.n_outputs = self.g.shape[1]
        self.noise = variance_of(self.residual, self.curvature)

    def best(self, count: int) -> list[Candidate]:
        """Return the best candidates, at most `count`, of different places."""
        usable = np.flatnonzero(self.bins.counts > 0)
        if not len(usable):
            return []
        found, strength = self._steps(usable)
        ranked = usable[np.argsort(-strength, kind="stable")]
        first = np.unique(self.bins.input[ranked], return_index=True)[1]  # one variable per input
        strongest = ranked[np.sort(first)][:GATE_INPUTS]
        of_strongest = np.isin(self.bins.input[usable], self.bins.input[strongest])
        found += self._gated_nodes(usable[of_strongest])
        if len(strongest) > 1:
            found += self._corners(strongest[:CORNER_INPUTS])
        if self.bins.subsets.inputs:
            found += self._subsets(strongest[:CORNER_INPUTS])
        found.sort(key=lambda one: -one.rate)
        scored = sorted(self._rescored(found[:RESCORED]), key=lambda one: -one.rate)
        chosen: dict[tuple[int, ...], Candidate] = {}
        for one in scored:
            if len(chosen) < count and one.rate > LEAST_OF_BEST * scored[0].rate:
                chosen.setdefault(one.place, one)
        return [one for one in chosen.values() if one.rate > 0.0]

    def _steps(self, inputs: NDArray[np.intp]) -> tuple[list[Candidate], NDArray]:
        """Return the best steps, and the largest gain of a step of each variable."""
        both = np.hstack([self.g, self.h])
        below = [
            np.cumsum((both.T @ self.bins.indicators(part)).reshape(len(both.T), -1, BINS), axis=2)
            for part in np.array_split(inputs, -(-len(inputs) // 64))
        ]
        sums = np.concatenate(below, axis=1)
        g, h = np.split(sums, 2)
        gains = gain_on_feeding_source(g, h, self.decay).sum(axis=0) * self.bins.valid(inputs)
        found = []
        for place in largest(gains, 8):
            i, b = np.unravel_index(place, gains.shape)
            found.append(self._candidate(float(gains[i, b]), CONSTANT, int(inputs[i]), int(b)))
        return found, gains.max(axis=1)

    def _candidate(self, gain: float, source: int, variable: int, threshold: int) -> Candidate:
        """Return a step or a gated node; its steepness is chosen when it is scored again."""
        gate, at = self.bins.sums[variable], float(self.bins.thresholds[variable][threshold])
        one = Gate(source, *self._term_0(source), gate, 1.0, at)
        chance = self._chance((one,))
        rate = (gain - chance) / (one.n_edges + self.n_outputs)
        return Candidate(rate, (one,), (source, int(self.bins.input[variable])), chance)

    def _chance(self, gates: tuple[Gate, ...]) -> float:
        """Return what the choice of a side for missing values gains in noise."""
        return GAP_CHANCE * self.noise * sum(len(gate.gate) > 1 for gate in gates)

    def _term_0(self, source: int) -> tuple[float, float]:
        """Return weight and bias of term 0, which is 0 where the source is closed."""
        if source == CONSTANT:
            return 0.0, SCALE
        return SCALE, -SCALE * self.draft.low(source)

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
        feeds = self._feeds(sources)[:, None, None]
        gains = np.zeros(shape, np.float32)
        for o in range(self.n_outputs):
            g = np.cumsum(((rows * self.g[:, o, None]).T @ indicators).reshape(shape), axis=2)
            h = np.cumsum(((rows**2 * self.h[:, o, None]).T @ indicators).reshape(shape), axis=2)
            gains += np.maximum(*gated_gains(g, h, feeds, self.decay))
        gains *= self.bins.valid(inputs)
        found = []
        for place in largest(gains, 32):
            s, i, b = np.unravel_index(place, shape)
            gain_of_one = float(gains[s, i, b])
            found.append(self._candidate(gain_of_one, int(sources[s]), int(inputs[i]), int(b)))
        return found

    def _feeds(self, sources: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which sources feed the outputs already, the constant among them."""
        return np.isin(sources, [CONSTANT, *self.draft.features])

    def _subsets(self, inputs: NDArray[np.intp]) -> list[Candidate]:
        """Return the best products of a source, or of a new step, and a subset of categories."""
        nodes = np.append(self._strongest_sources(), CONSTANT)
        ones = np.ones((len(self.g), 1), np.float32)
        states = np.hstack([self._states_above_low(nodes[:-1]), ones])
        sources = Sources(states, self._feeds(nodes), 1 * (nodes != CONSTANT))
        found = [
            self._subset_candidate(cut, int(nodes[cut.source]), ()) for cut in self._cuts(sources)
        ]
        steps, rows = self._new_steps(inputs)
        edges = np.array([step.n_edges for step in steps])
        sources = Sources(rows, np.zeros(len(steps), bool), edges + 1)
        return found + [
            self._subset_candidate(cut, NEW_STEP, (steps[cut.source],))
            for cut in self._cuts(sources)
        ]

    def _cuts(self, sources: Sources) -> list[Cut]:
        return best_cuts(self.bins.subsets, sources, self.g, self.h, self.decay, 16)

    def _subset_candidate(self, cut: Cut, source: int, steps: tuple[Gate, ...]) -> Candidate:
        subsets = self.bins.subsets
        term_0 = (SCALE, SCALE**2) if source == NEW_STEP else self._term_0(source)
        gate, threshold = subsets.gate(cut.column, cut.members)
        last = Gate(source, *term_0, gate, SHARP if cut.opens else -SHARP, threshold)
        made_of = sorted(
            {node for one in steps for node, _ in one.gate[:1]}
            | {int(subsets.inputs[cut.column][0])}
        )
        chance = self._chance(steps) + self.noise * chance_gain(subsets.counts, self.n_outputs)
        return Candidate(cut.rate, (*steps, last), (source, *made_of), float(chance[cut.column]))

    def _new_steps(self, inputs: NDArray[np.intp]) -> tuple[list[Gate], NDArray[np.float32]]:
        """Return steps of both signs at few thresholds, and where they are open."""
        places, _ = self._coarse_bins(inputs)
        steps, rows = [], []
        for variable, place in zip(inputs, places, strict=True):
            for one in place:
                at = float(self.bins.thresholds[variable][one])
                above = self.bins.bins[:, variable] > one
                for sign, is_open in ((1.0, above), (-1.0, ~above)):
                    steps.append(Gate(CONSTANT, 0.0, SCALE, self.bins.sums[variable], sign, at))
                    rows.append(is_open)
        return steps, np.array(rows, np.float32).reshape(len(rows), -1).T

    def _corners(self, inputs: NDArray[np.intp]) -> list[Candidate]:
        """Return the best products of a new step and a gate of another input."""
        places, indicators = self._coarse_bins(inputs)
        shape = (len(inputs), CORNER_BINS, len(inputs), CORNER_BINS)
        gains = np.zeros((*shape, len(SIDES)), np.float32)
        for o in range(self.n_outputs):
            g, h = (
                ((indicators * values[:, o, None]).T @ indicators).reshape(shape)
                .cumsum(axis=1).cumsum(axis=3)
                for values in (self.g, self.h)
            )  # fmt: skip
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
            sums = self.bins.sums
            gates = (
                Gate(CONSTANT, 0.0, SCALE, sums[first], SIDES[side][0], step_at),
                Gate(NEW_STEP, SCALE, SCALE**2, sums[second], SIDES[side][1], gate_at),
            )
            chance = self._chance(gates)
            rate = (float(gains[step, r, gate, c, side]) - chance) / (
                n_edges(gates) + self.n_outputs
            )
            made_of = sorted(self.bins.input[[first, second]].tolist())
            found.append(Candidate(rate, gates, (CONSTANT, *made_of), chance))
        return found

    def _coarse_bins(self, inputs: NDArray[np.intp]) -> tuple[list[NDArray], NDArray[np.float32]]:
        """Return fewer thresholds of some inputs, by number, and indicators of the wider bins."""
        n = len(self.bins.rows)
        indicators = np.zeros((n, len(inputs), CORNER_BINS), np.float32)
        places = []
        for i, j in enumerate(inputs):
            count = int(self.bins.counts[j])
            place = np.arange(count)
            if count >= CORNER_BINS:
                wanted = np.linspace(0, count - 1, CORNER_BINS + 1)[1:-1]
                place = np.unique(wanted.round().astype(int))
            indicators[np.arange(n), i, (self.bins.bins[:, j, None] > place).sum(axis=1)] = 1.0
            places.append(place)
        return places, indicators.reshape(n, -1)

    def _rescored(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return candidates with their best steepness, scored on all samples.

        What the present parameters of an output explain of a feature does not count.
        """
        design = self.draft.design()
        shared = []
        for o in range(1 if np.ptp(self.curvature, axis=1).max() == 0 else self.n_outputs):
            fisher = self.draft.fisher(design, self.curvature[:, o])
            factor = cholesky(fisher, lower=True)
            shared.append((factor, (design * self.curvature[:, o, None]).T))
        result = []
        for one in candidates:
            options = [self._with_steepness(one, steepness) for steepness in STEEPNESS]
            features = np.stack([self._state_of_last(gates) for gates in options], axis=1)
            gains = np.zeros(len(options))
            for o in range(self.n_outputs):
                factor, projection = shared[min(o, len(shared) - 1)]
                u = features.T @ self.residual[:, o]
                square = (features**2).T @ self.curvature[:, o]
                explained = solve_triangular(factor, projection @ features, lower=True)
                v = square - (explained**2).sum(axis=0)
                gains += np.where(v > LEAST_LEFT * square, gain(u, v, self.draft.decay), 0.0)
            best = int(np.argmax(gains))
            rate = (float(gains[best]) - one.chance) / (n_edges(options[best]) + self.n_outputs)
            result.append(one._replace(rate=rate, gates=options[best]))
        return result

    def _with_steepness(self, one: Candidate, steepness: float) -> tuple[Gate, ...]:
        """Return the nodes of a candidate with a gain where it is open yet, that is ±1."""
        spread = self.bins.spread
        return tuple(
            gate._replace(gain=gate.gain * steepness / spread[gate.gate[0][0]])
            if abs(gate.gain) == 1.0
            else gate
            for gate in one.gates
        )

    def _state_of_last(self, gates: tuple[Gate, ...]) -> NDArray[np.float64]:
        """Return the state that the last of some new nodes would have."""
        states = self.draft.states
        value = gates[0].state(states)
        for gate in gates[1:]:
            value = (gate.bias + gate.weight * value) * gate.factor(states)
        return value


def n_edges(gates: tuple[Gate, ...]) -> int:
    """Return the number of edges into new nodes."""
    return sum(gate.n_edges for gate in gates)
