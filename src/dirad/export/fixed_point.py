"""A program in fixed point: the scale of each value, and a bound on its error.

A value v is stored as the integer v · 2^fraction in 32 bits. Interval arithmetic derives the range
of every value, and so its scale, from the ranges of the inputs; the same pass bounds the rounding
errors. Weighted sums use 64 bits: each weight is scaled so that all products of a sum have the same
fraction.

The error of e^−t, on which all transfers are based, is at most `EXPONENTIAL`: 2^−n times a
polynomial of degree 6 (error 1.4e-9), evaluated in 30 bits with at most 15 roundings of 2^−30.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dirad.encoding import UNKNOWN
from dirad.program import OF_INPUT, Node, Pooling, Program, Term, Transfer

UNIT = 30  # fraction of a share between 0 and 1
MODULATION = 28  # fraction of σ₁, which lies between −1 and 3
LARGEST = 30  # bits of |value|; one of the 31 is spare
SUM = 61  # bits of a sum
EXPONENTIAL = 2.0**-26
LOGISTIC = EXPONENTIAL + 2.0**-UNIT  # plus the error of a division


@dataclass(frozen=True)
class Fixed:
    """How a model is converted to fixed point.

    Attributes
    ----------
    bits : 16 or 32 per weight; values have 32, sums 64
    low, high : range of the inputs, one for all or one for each; inputs outside are clipped to it
    """

    bits: int = 16
    low: float | Sequence[float] = 0.0
    high: float | Sequence[float] = 1.0

    def __post_init__(self) -> None:
        if self.bits not in (16, 32):
            raise ValueError(f"fixed: bits must be 16 or 32, got {self.bits!r}")

    def ranges(self, n_inputs: int) -> list[tuple[float, float]]:
        """Return the range of each input."""
        lows, highs = (
            [float(end)] * n_inputs if isinstance(end, int | float) else [float(e) for e in end]
            for end in (self.low, self.high)
        )
        for name, ends in (("low", lows), ("high", highs)):
            if len(ends) != n_inputs:
                raise ValueError(f"fixed: {name} has {len(ends)} ends for {n_inputs} inputs")
        for i, (low, high) in enumerate(zip(lows, highs, strict=True)):
            if not (math.isfinite(low) and math.isfinite(high) and low <= high):
                raise ValueError(f"fixed: input {i} has the range {low} to {high}")
        return list(zip(lows, highs, strict=True))


class Format(NamedTuple):
    """A value: its scale, its range, and a bound on its error."""

    fraction: int
    low: float
    high: float
    error: float

    @property
    def largest(self) -> float:
        """The largest |value|, its error included."""
        return max(abs(self.low), abs(self.high)) + self.error


class FixedTerm(NamedTuple):
    """A sum in integers: (Σ weight · value) >> shift, + bias."""

    weights: tuple[int, ...]
    sources: tuple[int, ...]
    shift: int
    bias: int
    format: Format


class FixedNode(NamedTuple):
    """A node in integers."""

    transfer: Transfer
    terms: tuple[FixedTerm, ...]
    shift: int  # of the product of a modulated node
    format: Format


class FixedInput(NamedTuple):
    """An encoded input in integers: filled where it is missing, or an indicator of 0 or 1."""

    transfer: Transfer
    source: int
    shift: int  # of an input that is filled
    constant: int  # what fills it; the input where it equals a category
    format: Format


class FixedSoftmax(NamedTuple):
    """A softmax of a run of values, which have the same fraction."""

    start: int
    width: int
    fraction: int
    format: Format


FixedStep = FixedNode | FixedInput | FixedSoftmax


class FixedProgram(NamedTuple):
    """A program in integers."""

    inputs: tuple[Format, ...]
    steps: tuple[FixedStep, ...]
    outputs: tuple[int, ...]
    shifts: tuple[int, ...]  # to bring each output to the common fraction
    fraction: int  # of the outputs
    error: float  # bound for all outputs


def fixed_program(program: Program, fixed: Fixed) -> FixedProgram:
    """Return the program with the scales of all values, and bounds on their errors."""
    mixed = [step.sources for step in program.steps if isinstance(step, Pooling)]
    most: dict[int, int] = {}  # the largest fraction that a value may have
    formats, steps = _walk(program, fixed, most)
    while True:  # the values of one softmax need the same fraction
        least = {v: min(formats[i].fraction for i in group) for group in mixed for v in group}
        if all(formats[value].fraction == fraction for value, fraction in least.items()):
            break
        most = least
        formats, steps = _walk(program, fixed, most)
    outputs = [formats[value] for value in program.outputs]
    fraction = min(output.fraction for output in outputs)
    return FixedProgram(
        inputs=tuple(formats[: program.n_inputs]),
        steps=tuple(steps),
        outputs=tuple(program.outputs),
        shifts=tuple(output.fraction - fraction for output in outputs),
        fraction=fraction,
        error=max(output.error for output in outputs) + 2.0**-fraction,
    )


def _walk(
    program: Program, fixed: Fixed, most: dict[int, int]
) -> tuple[list[Format], list[FixedStep]]:
    formats = [_input(*ends) for ends in _ranges(program, fixed)]
    steps: list[FixedStep] = []
    for value, step in program.nodes:
        if isinstance(step, Pooling):
            softmax = _softmax(step, formats)
            steps.append(softmax)
            formats += [softmax.format] * step.width
        elif step.transfer in OF_INPUT:
            encoded = _encoded(step, formats[step.source])
            steps.append(encoded)
            formats.append(encoded.format)
        else:
            node = _node(step, formats, fixed.bits, most.get(value, LARGEST))
            steps.append(node)
            formats.append(node.format)
    return formats, steps


def _ranges(program: Program, fixed: Fixed) -> list[tuple[float, float]]:
    """Return the range of each input; those of categories contain all numbers of these."""
    ranges = fixed.ranges(program.n_inputs)
    for _, step in program.nodes:
        if isinstance(step, Node) and step.transfer == Transfer.EQUALS:
            low, high = ranges[step.source]
            ranges[step.source] = min(low, UNKNOWN), max(high, step.constant + 1.0)
    return ranges


def _encoded(node: Node, own: Format) -> FixedInput:
    """Return an encoded input; indicators are exact."""
    if node.transfer == Transfer.FILLED:
        fill = node.constant
        fraction = _fraction(max(own.largest, abs(fill)), own.fraction)
        ends = min(own.low, fill), max(own.high, fill)
        made = Format(fraction, *ends, own.error + 2.0**-fraction)
        whole = round(fill * 2.0**fraction)
        return FixedInput(node.transfer, node.source, own.fraction - fraction, whole, made)
    whole = round(node.constant * 2.0**own.fraction)
    return FixedInput(node.transfer, node.source, 0, whole, Format(UNIT, 0.0, 1.0, 0.0))


def _fraction(largest: float, most: int = LARGEST) -> int:
    """Return the largest fraction with which a value of this size fits."""
    fraction = min(LARGEST - math.frexp(largest)[1], most)
    if fraction < 0:
        raise ValueError(
            f"a value of {largest:.3g} is too large for whole numbers of 32 bits: scale the inputs"
        )
    return fraction


def _input(low: float, high: float) -> Format:
    fraction = _fraction(max(abs(low), abs(high)))
    return Format(fraction, low, high, 2.0**-fraction)


def _term(term: Term, formats: Sequence[Format], bits: int, most: int = LARGEST) -> FixedTerm:
    """Return a sum in integers; `most` limits the fraction of its result."""
    ends = [sorted((w * formats[s].low, w * formats[s].high)) for s, w in term.edges]
    low, high = (term.bias + sum(end[i] for end in ends) for i in (0, 1))
    largest = abs(term.bias) + sum(abs(w) * formats[s].largest for s, w in term.edges)
    # The fraction of the products: every weight, and the sum, must fit into its bits.
    common = SUM - math.frexp(largest)[1]
    for source, weight in term.edges:
        common = min(common, formats[source].fraction + bits - 1 - math.frexp(weight)[1])
    fraction = _fraction(largest, min(most, common))
    limit = 2 ** (bits - 1) - 1
    weights, error = [], 2.0**-fraction  # rounding of the bias and of the shift
    for source, weight in term.edges:
        own = formats[source]
        scale = 2.0 ** (common - own.fraction)
        whole = max(-limit, min(limit, round(weight * scale)))
        weights.append(whole)
        error += abs(weight) * own.error + abs(whole / scale - weight) * own.largest
    bias = round(term.bias * 2.0**fraction)
    shift = common - fraction
    sources = tuple(source for source, _ in term.edges)
    return FixedTerm(tuple(weights), sources, shift, bias, Format(fraction, low, high, error))


def _node(node: Node, formats: Sequence[Format], bits: int, most: int) -> FixedNode:
    match node.transfer:
        case Transfer.LINEAR:
            z = _term(node.terms[0], formats, bits, most)
            return FixedNode(node.transfer, (z,), 0, z.format)
        case Transfer.LOGISTIC:
            z = _term(node.terms[0], formats, bits)
            ends = _logistic(z.format.low), _logistic(z.format.high)
            error = 0.25 * z.format.error + LOGISTIC
            return FixedNode(node.transfer, (z,), 0, Format(UNIT, *ends, error))
        case Transfer.MODULATED:
            z = _term(node.terms[0], formats, bits)
            m = _term(node.terms[1].times(node.constant), formats, bits)
            return _modulated(z, m)
    raise ValueError(
        f"a program with the step '{node.transfer}' has no bound of its error in whole numbers: a "
        "PREVAL system chooses between models, and the least error may choose another one"
    )


def _modulated(z: FixedTerm, m: FixedTerm) -> FixedNode:
    """Return z · σ₁(m); the steepness is already part of m."""
    sigma = [4.0 * _logistic(end) - 1.0 for end in (m.format.low, m.format.high)]
    of_sigma = m.format.error + 4.0 * LOGISTIC
    corners = [end * s for end in (z.format.low, z.format.high) for s in sigma]
    error = max(abs(s) for s in sigma) * z.format.error + z.format.largest * of_sigma
    largest = max(abs(corner) for corner in corners) + error
    fraction = _fraction(largest, min(LARGEST, z.format.fraction + MODULATION))
    shift = z.format.fraction + MODULATION - fraction
    made = Format(fraction, min(corners), max(corners), error + 2.0**-fraction)
    return FixedNode(Transfer.MODULATED, (z, m), shift, made)


def _softmax(step: Pooling, formats: Sequence[Format]) -> FixedSoftmax:
    """Return a softmax; its error is half that of the logits, plus that of the exponentials."""
    if step.transfer != Transfer.SOFTMAX:
        raise ValueError(
            "the classifiers of preset='paper' divide by a sum that may be nearly 0, which has no "
            "bound of its error in whole numbers: export them in float"
        )
    own = [formats[source] for source in step.sources]
    error = 0.5 * max(f.error for f in own) + (step.taken + 2) * EXPONENTIAL
    made = Format(UNIT, 0.0, 1.0, error)
    return FixedSoftmax(step.start, step.taken, min(f.fraction for f in own), made)


def _logistic(z: float) -> float:
    return 0.5 * math.tanh(0.5 * z) + 0.5
