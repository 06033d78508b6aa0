"""A model of a PREVAL system in fixed point.

Values are integers of 32 bits, as in `fixed_point`. Prediction errors span many orders of
magnitude, so that their mean squares, and all that is made of them, are kept as natural logarithms
with `LOG` bits behind the point. Values that would need more than 32 bits are clipped to the
largest that fits: inputs so far from all that the model has seen are new anyway.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dirad.export.fixed_point import LARGEST, MODULATION, SUM, UNIT, Fixed, FixedTerm, Format
from dirad.program import (
    ERROR,
    OF_INPUT,
    OWN,
    SCORE,
    Block,
    Node,
    Pooling,
    Program,
    Term,
    Transfer,
)

LOG = 20  # bits behind the point of a logarithm
NOVELTY = 16  # of a novelty, in standard deviations
LARGEST_INTEGER = 2**LARGEST - 1
FARTHEST = 2.0**14  # values beyond it are clipped, where the range of the inputs allows for more
FARTHEST_ERROR = 2.0**12  # the same for an error of a predicted input, in standard deviations
LEAST_LOG = -40.0  # ln of errors and shares is at least this


class Sums(NamedTuple):
    """Values that are weighted sums, clipped to ±limit."""

    terms: tuple[FixedTerm, ...]
    limit: int


class Logistic(NamedTuple):
    """1 / (1 + e^−z), with `UNIT` bits behind the point."""

    term: FixedTerm


class Modulated(NamedTuple):
    """z · σ₁(m)."""

    z: FixedTerm
    m: FixedTerm
    shift: int


class MeanSquare(NamedTuple):
    """ln of the mean square of a run of values: ln(Σ v²) + offset."""

    start: int
    n: int
    offset: int


class Log(NamedTuple):
    """ln of a weighted sum."""

    term: FixedTerm
    floor: int


class LogCopy(NamedTuple):
    """A value that is a logarithm already."""

    source: int
    floor: int


class LogShares(NamedTuple):
    """ln of sums of shares, by the logits of which the shares are the softmax."""

    terms: tuple[FixedTerm, ...]  # whose sources are shares
    start: int  # of the logits
    n: int
    moved: int  # from a share to its logit
    fraction: int  # of the logits
    floor: int


class Softmax(NamedTuple):
    """Shares of a run of logits; not computed where only their logarithms are used."""

    start: int
    n: int
    fraction: int
    used: bool


class PowerMean(NamedTuple):
    """ln of the power mean of a run of errors, of which the logarithms are given."""

    start: int
    n: int
    exponent: int  # with 16 bits behind the point
    inverse: int  # 1 / exponent, with 30
    log_n: int


Step = (
    Sums | Logistic | Modulated | MeanSquare | Log | LogCopy | LogShares | Softmax | PowerMean
)  # fmt: skip


class FixedModel(NamedTuple):
    """A model in integers."""

    n_inputs: int
    n_values: int
    inputs: tuple[Format, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]  # shares
    own: tuple[int, ...]  # of the model's classes
    score: int  # a logarithm
    error: int  # the same

    @property
    def terms(self) -> Iterator[FixedTerm]:
        """All weighted sums, in the order of their use."""
        for step in self.steps:
            if isinstance(step, Sums | LogShares):
                yield from step.terms
            elif isinstance(step, Logistic | Log):
                yield step.term
            elif isinstance(step, Modulated):
                yield from (step.z, step.m)


class _Value(NamedTuple):
    """A value: its scale, a bound of its magnitude, and whether it is a logarithm."""

    fraction: int
    bound: float
    is_log: bool = False


def log_integer(value: float) -> int:
    """Return a logarithm as an integer."""
    return round(value * 2**LOG)


def fixed_model(program: Program, fixed: Fixed) -> FixedModel:
    """Return a model of a PREVAL system in integers."""
    groups = list(_of_equal_fraction(program))
    most: dict[int, int] = {}
    while True:
        made = _Conversion(program, fixed, most)
        least = {v: min(made.values[i].fraction for i in group) for group in groups for v in group}
        if all(made.values[v].fraction == fraction for v, fraction in least.items()):
            break
        most = least
    results = program.results
    score, error = int(results[SCORE][0]), int(results[ERROR][0])
    for value in (score, error):
        if not made.values[value].is_log:
            raise ValueError(
                "fixed point needs models whose score is a prediction error, which the paper's "
                "models do not have: export them in float"
            )
    return FixedModel(
        program.n_inputs,
        program.n_values,
        tuple(made.inputs),
        tuple(made.steps),
        tuple(program.outputs),
        tuple(results[OWN].tolist()),
        score,
        error,
    )


def _of_equal_fraction(program: Program) -> Iterator[range]:
    """Return runs of values that need the same fraction."""
    for first, step in program.numbered:
        if isinstance(step, Pooling):
            yield step.sources
        elif step.transfer in (Transfer.CLIPPED, Transfer.SQUARE):
            yield range(first, first + step.width)


class _Conversion:
    """Goes through a program, step by step."""

    def __init__(self, program: Program, fixed: Fixed, most: dict[int, int]) -> None:
        self.program, self.bits, self.most = program, fixed.bits, most
        self.inputs = [_input(*ends) for ends in fixed.ranges(program.n_inputs)]
        self.values = [_Value(own.fraction, 2.0 ** (LARGEST - own.fraction)) for own in self.inputs]
        self.steps: list[Step] = []
        self.blocks = dict(program.numbered)
        self.start_of = [-1] * program.n_inputs + [
            first for first, step in program.numbered for _ in range(step.width)
        ]
        for first, step in program.numbered:
            if isinstance(step, Pooling):
                self._pooling(first, step)
            else:
                self._block(first, step)

    def _step_of(self, value: int) -> Block | Pooling | None:
        """Return the step that computes a value."""
        return self.blocks.get(self.start_of[value])

    def _pooling(self, first: int, step: Pooling) -> None:
        start, n = step.start, step.taken
        if step.transfer == Transfer.SOFTMAX:
            fraction = min(self.values[source].fraction for source in step.sources)
            self.steps.append(Softmax(start, n, fraction, self._is_used(first, n)))
            self.values += [_Value(UNIT, 1.0)] * n
        elif step.transfer == Transfer.POWER_MEAN and self.values[start].is_log:
            c = step.constant
            whole = round(c * 2**16), round(2**30 / c), log_integer(math.log(n))
            self.steps.append(PowerMean(start, n, *whole))
            self.values.append(_Value(LOG, -LEAST_LOG, True))
        else:
            raise _refusal(step.transfer)

    def _is_used(self, first: int, n: int) -> bool:
        """Whether more than the logarithms of some shares is used."""
        own = np.arange(first, first + n)
        if any(np.isin(own, result).any() for result in self.program.results.values()):
            return True
        for step in self.program.steps:
            if isinstance(step, Pooling):
                if set(step.sources) & set(own.tolist()):
                    return True
                continue
            logarithms = step.transfer == Transfer.LOGARITHM and self._of_shares(step)
            if not logarithms and any(np.isin(sums.source, own).any() for sums in step.sums):
                return True
        return False

    def _of_shares(self, block: Block) -> Pooling | None:
        """Return the softmax of which a block of logarithms takes plain sums of shares."""
        sums = block.first
        plain = not sums.bias.any() and (sums.weight == 1.0).all() and len(sums.source)
        found = self._step_of(int(sums.source[0])) if plain else None
        if not isinstance(found, Pooling) or found.transfer != Transfer.SOFTMAX:
            return None
        begin = self.start_of[int(sums.source[0])]
        inside = (sums.source >= begin) & (sums.source < begin + found.taken)
        return found if inside.all() else None

    def _block(self, first: int, block: Block) -> None:
        nodes = list(block.nodes)
        sources = block.first.source
        squares = len(sources) > 0 and all(
            isinstance(own := self._step_of(int(s)), Block) and own.transfer == Transfer.SQUARE
            for s in np.unique(sources)
        )
        match block.transfer:
            case Transfer.LINEAR if squares:
                for node in nodes:
                    self._mean_square(node.terms[0])
            case Transfer.LINEAR | Transfer.SQUARE | Transfer.CLIPPED:
                self._sums(first, block, nodes)
            case Transfer.LOGISTIC:
                for node in nodes:
                    self.steps.append(Logistic(self._term(node.terms[0])))
                    self.values.append(_Value(UNIT, 1.0))
            case Transfer.MODULATED:
                for node in nodes:
                    self._modulated(node)
            case Transfer.LOGARITHM:
                self._logarithms(block, nodes)
            case _:
                raise _refusal(block.transfer)

    def _sums(self, first: int, block: Block, nodes: Sequence[Node]) -> None:
        bits, farthest, limit = LARGEST, FARTHEST, LARGEST_INTEGER
        if block.transfer == Transfer.SQUARE:  # sums of their squares need to fit into 62 bits
            bits = (62 - math.ceil(math.log2(max(len(nodes), 2)))) // 2
            farthest, limit = FARTHEST_ERROR, 2**bits - 1
        if block.transfer == Transfer.CLIPPED:
            farthest = 2.0 * float(block.constant.max(initial=1.0))
        terms = [
            self._term(node.terms[0], self.most.get(first + i, LARGEST), bits, farthest)
            for i, node in enumerate(nodes)
        ]
        if block.transfer == Transfer.CLIPPED and terms:
            fraction = min(term.format.fraction for term in terms)
            limit = min(limit, round(float(block.constant[0]) * 2.0**fraction))
        self.steps.append(Sums(tuple(terms), limit))
        self.values += [_Value(t.format.fraction, t.format.high) for t in terms]

    def _mean_square(self, term: Term) -> None:
        """Add ln of a mean of squares; in place of the tiny bias it has a floor."""
        sources, weights = [s for s, _ in term.edges], [w for _, w in term.edges]
        start, n = sources[0], len(sources)
        if sources != list(range(start, start + n)) or len(set(weights)) != 1:
            raise ValueError("fixed point needs plain means of squared errors")
        offset = math.log(weights[0]) - 2 * self.values[start].fraction * math.log(2.0)
        self.steps.append(MeanSquare(start, n, log_integer(offset)))
        self.values.append(_Value(LOG, -LEAST_LOG, True))

    def _modulated(self, node: Node) -> None:
        """Add z · σ₁(m); the steepness is part of m."""
        z, m = self._term(node.terms[0]), self._term(node.terms[1].times(node.constant))
        bound = min(3.0 * z.format.high, FARTHEST)
        have = z.format.fraction + MODULATION
        fraction = min(LARGEST - math.frexp(bound)[1], have)
        self.steps.append(Modulated(z, m, have - fraction))
        self.values.append(_Value(fraction, bound))

    def _logarithms(self, block: Block, nodes: Sequence[Node]) -> None:
        floors = [log_integer(max(math.log(node.constant), LEAST_LOG)) for node in nodes]
        shares = self._of_shares(block)
        if shares is not None:
            begin = self.start_of[int(block.first.source[0])]
            terms = tuple(_counted(node.terms[0]) for node in nodes)
            fraction = min(self.values[source].fraction for source in shares.sources)
            moved = shares.start - begin
            self.steps.append(
                LogShares(terms, shares.start, shares.taken, moved, fraction, floors[0])
            )
        else:
            for node, floor in zip(nodes, floors, strict=True):
                self.steps.append(self._logarithm(node.terms[0], floor))
        self.values += [_Value(LOG, -LEAST_LOG)] * len(nodes)

    def _logarithm(self, term: Term, floor: int) -> Log | LogCopy:
        if len(term.edges) == 1 and self.values[term.edges[0][0]].is_log:
            source, weight = term.edges[0]
            if weight != 1.0 or term.bias != 0.0:
                raise ValueError("fixed point needs logarithms of plain mean squared errors")
            return LogCopy(source, floor)
        return Log(self._term(term), floor)

    def _term(
        self, term: Term, most: int = LARGEST, bits: int = LARGEST, farthest: float = FARTHEST
    ) -> FixedTerm:
        """Return a sum in integers of so many bits, clipped if it lies farther than `farthest`.

        It has `SUM` bits if inputs have at most 30. Any input has at most 31, which makes it one
        bit more: still no overflow.
        """
        for source, _ in term.edges:
            if self.values[source].is_log:
                raise ValueError("fixed point knows only logarithms of mean squared errors")
        largest = abs(term.bias) + sum(abs(w) * self.values[s].bound for s, w in term.edges)
        common = SUM - math.frexp(largest)[1]
        for source, weight in term.edges:
            own = self.values[source].fraction
            common = min(common, own + self.bits - 1 - math.frexp(weight)[1])
        bound = min(largest, farthest)
        fraction = min(bits - math.frexp(bound)[1], most, common, LARGEST)
        if fraction < 0:
            raise ValueError(
                f"a value of {largest:.3g} is too large for whole numbers of 32 bits: scale the "
                "inputs, or narrow their ranges"
            )
        limit = 2 ** (self.bits - 1) - 1
        weights = tuple(
            max(-limit, min(limit, round(w * 2.0 ** (common - self.values[s].fraction))))
            for s, w in term.edges
        )
        bias = max(-(2**31 - 1), min(2**31 - 1, round(term.bias * 2.0**fraction)))
        sources = tuple(source for source, _ in term.edges)
        made = Format(fraction, -bound, bound, 0.0)
        return FixedTerm(weights, sources, common - fraction, bias, made)


def _counted(term: Term) -> FixedTerm:
    """Return a plain sum: which values, and how many."""
    sources = tuple(source for source, _ in term.edges)
    return FixedTerm((1,) * len(sources), sources, 0, 0, Format(0, 0.0, 0.0, 0.0))


def _input(low: float, high: float) -> Format:
    largest = max(abs(low), abs(high))
    fraction = min(LARGEST - math.frexp(largest)[1], LARGEST)
    if fraction < 0:
        raise ValueError(f"an input of {largest:.3g} is too large for whole numbers: scale it")
    return Format(fraction, low, high, 2.0**-fraction)


def _refusal(transfer: Transfer) -> ValueError:
    whose = "streams with categories or gaps" if transfer in OF_INPUT else "the paper's models"
    return ValueError(f"fixed point has no step '{transfer}', which {whose} need: export in float")
