"""What every export walks: a network as a list of steps, sources before targets.

Values are numbered: the inputs first, then what each step computes, in the order of the steps. A
`Node` computes one value from weighted sums of earlier ones; a `Mixture` turns a run of values into
as many that add up to 1, or into their mean. Scaling is folded into the weights on the way: a
`Signal` is a value times a factor plus an offset, and whoever takes it takes it into account.
"""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from dirad.core import network as core
from dirad.core.network import MODULATORY, OUTPUT, Network, output_units
from dirad.core.order import LENGTH, new_plan


class Transfer(StrEnum):
    """What a step makes of its sums z (the first) and m (the second); c is its constant."""

    LINEAR = "linear"  # z
    LOGISTIC = "logistic"  # 1 / (1 + e^−z)
    MODULATED = "modulated"  # z · σ₁(m), with σ₁(m) = 4 / (1 + e^(−c·m)) − 1
    CLIPPED = "clipped"  # z, but within −c and c
    LOGARITHM = "logarithm"  # ln z, of c where z is less
    SQUARE = "square"  # z²
    EXCEEDS = "exceeds"  # 1 where |z| > c, else 0
    SOFTMAX = "softmax"  # e^v / Σ e^v, of a run of values
    SHARE = "share"  # v / Σ v, of a run of values
    POWER_MEAN = "power_mean"  # (Σ v^−c / n)^(−1/c), of a run of n values above 0


LEAST_SUM = 1e-300  # the smallest sum that a share is taken of


class Term(NamedTuple):
    """bias + Σ weight · value."""

    bias: float
    sources: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()

    @property
    def edges(self) -> Iterator[tuple[int, float]]:
        """Each source with its weight."""
        return zip(self.sources, self.weights, strict=True)

    def times(self, factor: float) -> "Term":
        """Return the term multiplied by a factor."""
        return Term(self.bias * factor, self.sources, tuple(w * factor for w in self.weights))


NOTHING = Term(0.0)


class Node(NamedTuple):
    """A step that computes one value."""

    transfer: Transfer
    first: Term
    second: Term = NOTHING  # of modulated nodes alone
    constant: float = 0.0

    @property
    def terms(self) -> tuple[Term, ...]:
        """The sums of the node: two where it is modulated."""
        return (self.first, self.second) if self.transfer == Transfer.MODULATED else (self.first,)

    @property
    def sources(self) -> list[int]:
        """The values that it needs."""
        return [source for term in self.terms for source in term.sources]

    @property
    def width(self) -> int:
        """The number of values that it computes."""
        return 1

    def renumbered(self, place: dict[int, int]) -> "Node":
        """Return the same node with other numbers of its sources."""
        first, second = (
            term._replace(sources=tuple(place[s] for s in term.sources))
            for term in (self.first, self.second)
        )
        return self._replace(first=first, second=second)


class Mixture(NamedTuple):
    """A step that takes a run of values: makes them add up to 1, or computes their mean."""

    transfer: Transfer
    start: int  # of the values it takes
    taken: int
    constant: float = 0.0  # of means alone

    @property
    def sources(self) -> list[int]:
        """The values that it needs."""
        return list(range(self.start, self.start + self.taken))

    @property
    def width(self) -> int:
        """The number of values that it computes."""
        return 1 if self.transfer == Transfer.POWER_MEAN else self.taken

    def renumbered(self, place: dict[int, int]) -> "Mixture":
        """Return the same mixture with other numbers of its sources."""
        return self._replace(start=place[self.start])


Step = Node | Mixture


class Program(NamedTuple):
    """Steps over inputs, and which of the values are wanted."""

    n_inputs: int
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]  # values
    score: int | None = None  # the value that says how little of the inputs is known

    @property
    def numbered(self) -> Iterator[tuple[int, Step]]:
        """Each step with the number of the first value that it computes."""
        value = self.n_inputs
        for step in self.steps:
            yield value, step
            value += step.width

    @property
    def n_values(self) -> int:
        """Inputs, and values that are computed."""
        return self.n_inputs + sum(step.width for step in self.steps)

    @property
    def wanted(self) -> tuple[int, ...]:
        """The outputs, and the score where there is one."""
        return self.outputs if self.score is None else (*self.outputs, self.score)

    @property
    def used_inputs(self) -> list[int]:
        """The inputs that some step takes."""
        return sorted({s for step in self.steps for s in step.sources if s < self.n_inputs})


class Signal(NamedTuple):
    """offset + factor · value."""

    value: int
    factor: float = 1.0
    offset: float = 0.0

    def less(self, offset: float, over: float) -> "Signal":
        """Return (signal − offset) / over."""
        return Signal(self.value, self.factor / over, (self.offset - offset) / over)

    def times(self, factor: float) -> "Signal":
        """Return the signal multiplied by a factor."""
        return Signal(self.value, self.factor * factor, self.offset * factor)


SILENCE = Signal(0, 0.0, 0.0)


def weighted(bias: float, parts: Iterable[tuple[Signal, float]]) -> Term:
    """Return bias + Σ weight · signal, with every value taken once."""
    edges: dict[int, float] = {}
    for signal, weight in parts:
        bias += weight * signal.offset
        if signal.factor:
            edges[signal.value] = edges.get(signal.value, 0.0) + float(weight * signal.factor)
    return Term(float(bias), tuple(edges), tuple(edges.values()))


class Attached(NamedTuple):
    """A network within a program."""

    states: list[Signal]  # of every node, by its number; silence where there is none
    outputs: list[Signal]  # by column
    activations: list[Term]  # of the outputs, before their transfer


class Builder:
    """Puts steps together."""

    def __init__(self, n_inputs: int) -> None:
        self.n_inputs = n_inputs
        self.n_values = n_inputs
        self.steps: list[Step] = []

    @property
    def inputs(self) -> list[Signal]:
        """The inputs as they are."""
        return [Signal(i) for i in range(self.n_inputs)]

    def _add(self, step: Step) -> int:
        first = self.n_values
        self.steps.append(step)
        self.n_values += step.width
        return first

    def node(
        self, transfer: Transfer, first: Term, second: Term = NOTHING, constant: float = 0.0
    ) -> Signal:
        """Add a node."""
        return Signal(self._add(Node(transfer, first, second, float(constant))))

    def linear(self, parts: Iterable[tuple[Signal, float]], bias: float = 0.0) -> Signal:
        """Add a node that is a weighted sum."""
        return self.node(Transfer.LINEAR, weighted(bias, parts))

    def plain(self, signal: Signal) -> int:
        """Return the number of a value that is this signal, made for it where need be."""
        if signal.factor == 1.0 and signal.offset == 0.0:
            return signal.value
        return self.linear([(signal, 1.0)]).value

    def mixture(
        self, transfer: Transfer, signals: Sequence[Signal], constant: float = 0.0
    ) -> list[Signal]:
        """Add a mixture of signals."""
        start = signals[0].value
        if list(signals) != [Signal(start + i) for i in range(len(signals))]:
            start = self.n_values  # copies, side by side
            for signal in signals:
                self.linear([(signal, 1.0)])
        step = Mixture(transfer, start, len(signals), float(constant))
        first = self._add(step)
        return [Signal(first + i) for i in range(step.width)]

    def attach(self, network: Network, inputs: Sequence[Signal]) -> Attached:
        """Add the nodes of a network over these inputs; a softmax is added as a mixture."""
        transfer = int(network.counts[core.TRANSFER])
        of_output = Transfer.LOGISTIC if transfer == core.LOGISTIC else Transfer.LINEAR
        states = [*inputs, *([SILENCE] * len(network.units))]
        into = edges_by_term(network)

        def term(number: int) -> Term:
            unit, place = divmod(number, 2)
            return weighted(network.bias[unit, place], ((states[s], w) for s, w in into[number]))

        for unit in _order(network):
            if network.units["kind"][unit] == MODULATORY:
                gain = network.units["gain"][unit]
                parts = term(2 * unit), term(2 * unit + 1)
                state = self.node(Transfer.MODULATED, *parts, constant=gain)
            else:
                state = self.node(of_output, term(2 * unit))
            states[network.n_inputs + unit] = state
        units = output_units(network).tolist()
        activations = [term(2 * unit) for unit in units]
        outputs = [states[network.n_inputs + unit] for unit in units]
        if transfer == core.SOFTMAX and outputs:
            outputs = self.mixture(Transfer.SOFTMAX, outputs)
        return Attached(states, outputs, activations)

    def program(self, outputs: Sequence[Signal], score: Signal | None = None) -> Program:
        """Return the steps that these need, and no others."""
        values = tuple(self.plain(signal) for signal in outputs)
        scored = None if score is None else self.plain(score)
        return pruned(Program(self.n_inputs, tuple(self.steps), values, scored))


def edges_by_term(network: Network) -> list[list[tuple[int, float]]]:
    """Return source and weight of the edges into each term."""
    into: list[list[tuple[int, float]]] = [[] for _ in range(2 * len(network.units))]
    for edge in network.edges[network.edges["source"] >= 0]:
        into[edge["term"]].append((int(edge["source"]), float(edge["weight"])))
    return into


def _order(network: Network) -> list[int]:
    """Return the units, sources before targets; outputs that feed no other come last, by column."""
    plan = new_plan(network)
    feeding = set(network.edges["source"][network.edges["source"] >= network.n_inputs].tolist())
    order = plan.order[: plan.status[LENGTH]].tolist()
    kinds, columns = network.units["kind"], network.units["output"]

    def last(unit: int) -> bool:
        return kinds[unit] == OUTPUT and network.n_inputs + unit not in feeding

    ends = sorted(filter(last, order), key=lambda unit: columns[unit])
    return [unit for unit in order if not last(unit)] + ends


def pruned(program: Program) -> Program:
    """Return the program without steps that nothing wanted depends on."""
    needed = set(program.wanted)
    kept: list[tuple[int, Step]] = []
    for first, step in reversed(list(program.numbered)):
        if needed.intersection(range(first, first + step.width)):
            needed.update(step.sources)
            kept.append((first, step))
    place = {i: i for i in range(program.n_inputs)}
    steps = []
    for first, step in reversed(kept):
        steps.append(step.renumbered(place))
        for i in range(step.width):
            place[first + i] = len(place)
    outputs = tuple(place[value] for value in program.outputs)
    score = None if program.score is None else place[program.score]
    return Program(program.n_inputs, tuple(steps), outputs, score)


def check_finite(program: Program) -> None:
    """Refuse a program with a number that is not finite."""
    for value, step in program.numbered:
        if isinstance(step, Node):
            for term in step.terms:
                if not np.isfinite([term.bias, *term.weights, step.constant]).all():
                    raise ValueError(
                        f"the network has a number that is not finite (value {value}, "
                        f"{step.transfer}), which cannot be exported"
                    )
