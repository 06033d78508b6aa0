"""The search for gates of a wide network: all thresholds are compared by sums in bins.

A candidate is scored against all outputs at once. For one output, with residuals g and curvatures
h of the samples, the best weight of a feature f gains u²/(v + decay), with u = Σ f·g and
v = Σ f²·h: twice the drop of the cost, to second order. Four kinds of candidates are compared:

- a *step*: a gate multiplied with the constant 1,
- a *gated node*: a gate multiplied with an input or with another node,
- a *corner*: a gate multiplied with a new step of another input,
- a *rule*: several conditions at once (`rules`), if they are asked for.

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

from dirad.growth.wide.bins import BINS, CORNER_BINS, Bins
from dirad.growth.wide.draft import Draft
from dirad.growth.wide.gains import (
    LEAST_LEFT,
    corner_gain,
    gain,
    gain_on_feeding_source,
    gated_gains,
    largest,
    variance_of,
)
from dirad.growth.wide.gate import CONSTANT, NEW_STEP, SCALE, Gate, modulation, summed
from dirad.growth.wide.rules import Propose, rule_gates
from dirad.growth.wide.subsets import SHARP, Cut, Sources, best_cuts, chance_gain

GATE_INPUTS = 24  # inputs whose gates are multiplied with sources; those of the strongest steps
SOURCES = 40  # that gates are multiplied with
CORNER_INPUTS = 10
RESCORED = 24  # candidates that are scored again, on all samples
STEEPNESS = (0.7, 2.0, 5.0, 12.0)  # gain of a new gate, in standard deviations of its input
MOST_DEPTH = 4  # gates that a node multiplies
LEAST_OF_BEST = 0.3  # share of the best candidate's rate that others of the round need
GAP_CHANCE = 2.0  # gain of choosing the side of missing values in noise of variance 1
RULE = -9  # begins the place of a rule
SIDES = ((-1, -1), (-1, 1), (1, -1), (1, 1))  # signs of the two gates of a corner


class Candidate(NamedTuple):
    """New nodes, the last of which feeds the outputs."""

    rate: float  # gain per edge
    gates: tuple[Gate, ...]  # the source of the second is the first
    place: tuple[int, ...]  # what they are made of, thresholds apart: one per round is enough
    chance: float = 0.0  # gain that the search would find in noise; it is subtracted


class Search:
    """One round: the residuals of a draft, and the candidates compared on them."""

    def __init__(self, draft: Draft, bins: Bins, *, propose: Propose | None = None) -> None:
        self.draft = draft
        self.propose = propose  # of rules
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
        self.noise = variance_of(self.residual, self.curvature)
        self.design = draft.design()
        self.fishers = draft.recent_fishers()

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
        scored: list[Candidate] = []
        while found and not any(one.rate > 0.0 for one in scored):
            scored = sorted(self._rescored(found[:RESCORED]), key=lambda one: -one.rate)
            found = found[RESCORED:]
        if self.propose is not None:
            scored = sorted([*scored, *self._rules(self.propose)], key=lambda one: -one.rate)
        chosen: dict[tuple[int, ...], Candidate] = {}
        for one in scored:
            if len(chosen) < count and one.rate > LEAST_OF_BEST * scored[0].rate:
                chosen.setdefault(one.place, one)
        return [one for one in chosen.values() if one.rate > 0.0]

    def _steps(self, inputs: NDArray[np.intp]) -> tuple[list[Candidate], NDArray]:
        """Return the best steps, and the largest gain of a step of each variable."""
        both = np.hstack([self.g, self.h[:, None]])
        parts = np.array_split(inputs, -(-len(inputs) // 64))
        sums = np.concatenate([self.bins.totals(both, part) for part in parts], axis=1).cumsum(
            axis=2
        )
        gains = gain_on_feeding_source(sums[:-1], sums[-1], self.decay).sum(axis=0)
        gains *= self.bins.valid(inputs)
        found = []
        strength, threshold = gains.max(axis=1), gains.argmax(axis=1)
        for i in largest(strength, 8):
            b = int(threshold[i])
            found.append(self._candidate(float(strength[i]), CONSTANT, int(inputs[i]), b))
        return found, strength

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
        inputs = np.array(draft.feeding_inputs, np.intp)
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
        states = self.draft.states.T[nodes][:, self.bins.rows]
        return (states - low[:, None]).astype(np.float32).T

    def _gated_nodes(self, inputs: NDArray[np.intp]) -> list[Candidate]:
        """Return the best products of a source and a gate."""
        sources = self._strongest_sources()
        if not len(sources):
            return []
        rows = self._states_above_low(sources)
        feeds = self._feeds(sources)[:, None, None]
        # The sums for all outputs at once: the rows of one matrix.
        weighted = [rows**2 * self.h[:, None], *(rows * g[:, None] for g in self.g.T)]
        sums = self.bins.totals(np.hstack(weighted), inputs).cumsum(axis=2)
        h, *of_outputs = sums.reshape(-1, len(sources), len(inputs), BINS)
        gains = np.zeros_like(h)
        for g in of_outputs:
            gains += np.maximum(*gated_gains(g, h, feeds, self.decay))
        gains *= self.bins.valid(inputs)
        found = []
        best, threshold = gains.max(axis=2), gains.argmax(axis=2)
        for place in largest(best, RESCORED):
            s, i = np.unravel_index(place, best.shape)
            b = int(threshold[s, i])
            found.append(self._candidate(float(best[s, i]), int(sources[s]), int(inputs[i]), b))
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
        return best_cuts(self.bins.subsets, sources, self.g, self.h[:, None], self.decay, 16)

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
        places, _ = self.bins.coarse(inputs)
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
            gated = self.bins.sums[second]
            gates = (
                Gate(CONSTANT, 0.0, SCALE, self.bins.sums[first], SIDES[side][0], step_at),
                Gate(NEW_STEP, SCALE, SCALE**2, gated, SIDES[side][1], gate_at),
            )
            chance = self._chance(gates)
            rate = (float(gains[step, r, gate, c, side]) - chance) / (
                n_edges(gates) + self.n_outputs
            )
            made_of = sorted(self.bins.input[[first, second]].tolist())
            found.append(Candidate(rate, gates, (CONSTANT, *made_of), chance))
        return found

    def _rescored(self, candidates: list[Candidate]) -> list[Candidate]:
        """Return candidates with their best steepness, scored on all samples.

        What the present parameters of an output explain of a feature does not count.
        """
        if not candidates:
            return []
        gains = self._gains(self._states_of_last([one.gates for one in candidates]))
        result = []
        for one, found in zip(candidates, gains.reshape(len(candidates), -1), strict=True):
            best = int(np.argmax(found))
            gates = tuple(
                gate._replace(gain=float(self._gains_of(gate)[best])) for gate in one.gates
            )
            rate = (float(found[best]) - one.chance) / (n_edges(gates) + self.n_outputs)
            result.append(one._replace(rate=rate, gates=gates))
        return result

    def _gains(self, features: NDArray) -> NDArray[np.float32]:
        """Return what new features (samples, features) gain in all outputs."""
        residual, curvature = self.residual.astype(np.float32), self.curvature.astype(np.float32)
        scores, squares = residual.T @ features, curvature.T @ features**2
        left = self._share_left(features, self.design.astype(np.float32)) * squares
        gains = gain(scores, left, self.draft.decay) * (left > LEAST_LEFT * squares)
        return gains.sum(axis=0)

    def _rules(self, propose: Propose) -> list[Candidate]:
        """Return rules, scored on all samples."""
        own = np.flatnonzero(self.draft.usable)
        inputs = self.draft.samples.inputs[np.ix_(self.bins.rows, own)]
        found = propose(inputs, self.g / self.h[:, None], self.h, len(self.draft.rounds))
        proposed = [tuple((int(own[j]), sign, at) for j, sign, at in rule) for rule in found]
        rules = [rule_gates(rule, self.draft, self.bins) for rule in proposed]
        rules = [gates for gates in rules if gates]
        gains = self._gains(self._states_of_rules(rules))
        return [
            Candidate(float(one) / (n_edges(gates) + self.n_outputs), gates, (RULE, i))
            for i, (gates, one) in enumerate(zip(rules, gains, strict=True))
        ]

    def _states_of_rules(self, rules: list[tuple[Gate, ...]]) -> NDArray[np.float32]:
        """Return the states that rules would have: (samples, rules)."""
        states, steps = self.draft.states, {}
        found = np.empty((len(states), len(rules)), np.float32)
        for i, (*new, last) in enumerate(rules):
            for step in new:
                if step not in steps:
                    steps[step] = step.state(states)
            parts = [(steps[step], NEW_STEP - k) for k, step in enumerate(new)]
            of_new = {node: state for state, node in parts}
            terms = [w * (of_new[j] if j < 0 else states[:, j]) for j, w in last.gate]
            z = last.gain * (np.sum(terms, axis=0) - last.threshold)
            found[:, i] = last.bias * modulation(z)
        return found

    def _share_left(self, features: NDArray, design: NDArray) -> NDArray[np.float32]:
        """Return how much of each feature the present ones leave unexplained.

        Samples are weighted by the mean curvature of all outputs.
        """
        h = self.curvature.mean(axis=1).astype(np.float32)
        fisher = self.fishers[0] if len(self.fishers) == 1 else np.mean(self.fishers, axis=0)
        factor = cholesky(fisher, lower=True, check_finite=False).astype(np.float32)
        weighted = features * h[:, None]
        part = solve_triangular(factor, design.T @ weighted, lower=True, check_finite=False)
        squares = np.einsum("ij,ij->j", weighted, features)
        return 1.0 - (part**2).sum(axis=0) / np.maximum(squares, 1e-30)

    def _gains_of(self, gate: Gate) -> NDArray[np.float64]:
        """Return the gain of a gate at every steepness; a gain that is not ±1 is chosen already."""
        if abs(gate.gain) != 1.0:
            return np.full(len(STEEPNESS), gate.gain)
        return gate.gain * np.array(STEEPNESS) / self.bins.spread_at(gate)

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
        source, weight, bias = (np.array(one) for one in zip(*(g[:3] for g in gates), strict=True))
        if sources is None:
            sources = states[:, np.maximum(source, 0), None].astype(np.float32)
        terms = sources * weight[:, None].astype(np.float32) + bias[:, None].astype(np.float32)
        z = np.stack([summed(gate.gate, states) - gate.threshold for gate in gates], axis=1)
        gains = np.array([self._gains_of(gate) for gate in gates])
        return terms * modulation(z[:, :, None].astype(np.float32) * gains.astype(np.float32))


def n_edges(gates: tuple[Gate, ...]) -> int:
    """Return the number of edges into new nodes."""
    return sum(gate.n_edges for gate in gates)
