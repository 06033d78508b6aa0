"""A finished model as arrays: which value is computed from which, and how.

A `Program` numbers its values: the inputs first, then the values that each step computes, step by
step. A `Block` computes many values at once, each from one or two weighted sums of earlier values;
a `Pooling` combines a run of consecutive values.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dirad.core.mean_squares import BundledSums, SquaredSums, bundled, squared_sums

LEAST_SUM = 1e-300  # the smallest sum that a share is taken of
OUTPUTS, SCORE = "outputs", "score"  # names of results
ERROR = "error"  # of the predictions, which is compared with what is usual
OWN = "own"  # outputs of the model itself, without those of classes that it does not know


class Transfer(StrEnum):
    """What a step computes from its sums z (the first) and m (the second); c is its constant."""

    LINEAR = "linear"  # z
    LOGISTIC = "logistic"  # 1 / (1 + e^−z)
    MODULATED = "modulated"  # z · σ₁(m), with σ₁(m) = 4 / (1 + e^(−c·m)) − 1
    CLIPPED = "clipped"  # z, limited to −c … c
    LOGARITHM = "logarithm"  # ln max(z, c)
    SQUARE = "square"  # z²
    EXCEEDS = "exceeds"  # 1 where |z| > c, else 0
    FILLED = "filled"  # z, which is one input; c where it is missing (NaN)
    MISSING = "missing"  # 1 where z, which is one input, is missing, else 0
    EQUALS = "equals"  # 1 where z, which is one input, is c, else 0
    SOFTMAX = "softmax"  # e^v / Σ e^v, of a run of values
    SHARE = "share"  # v / Σ v, of a run of values
    POWER_MEAN = "power_mean"  # (Σ v^−c / n)^(−1/c), of a run of n values above 0


# What is computed from a single input, which may be missing: an encoding of the inputs.
OF_INPUT = (Transfer.FILLED, Transfer.MISSING, Transfer.EQUALS)


class Term(NamedTuple):
    """One weighted sum in Python's numbers: bias + Σ weight · value."""

    bias: float
    edges: list[tuple[int, float]]  # each value with its weight

    def times(self, factor: float) -> "Term":
        """Return the term multiplied by a factor."""
        return Term(self.bias * factor, [(s, w * factor) for s, w in self.edges])


@dataclass(frozen=True)
class Sums:
    """Weighted sums, one per row: bias + Σ weight · value. The weights form a CSR matrix."""

    start: NDArray[np.int32]  # (rows + 1,) where the entries of each row begin
    source: NDArray[np.int32]  # (entries,) numbers of values
    weight: NDArray[np.float64]  # (entries,)
    bias: NDArray[np.float64]  # (rows,)

    def __len__(self) -> int:
        return len(self.bias)

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each entry: (entries,)."""
        return np.repeat(np.arange(len(self)), np.diff(self.start))

    @cached_property
    def is_scaling(self) -> bool:
        """Has each row a single entry?"""
        return bool((np.diff(self.start) == 1).all())

    @property
    def terms(self) -> Iterator[Term]:
        """The rows one by one."""
        edges = list(zip(self.source.tolist(), self.weight.tolist(), strict=True))
        start = self.start.tolist()
        for row, bias in enumerate(self.bias.tolist()):
            yield Term(bias, edges[start[row] : start[row + 1]])

    def take(self, rows: NDArray[np.int64]) -> "Sums":
        """Return some of the rows."""
        entries, start = entries_of(self.start, rows)
        return Sums(start, self.source[entries], self.weight[entries], self.bias[rows])

    def times(self, factor: NDArray[np.float64]) -> "Sums":
        """Return each row multiplied by its factor."""
        weight = self.weight * factor[self.row]
        return Sums(self.start, self.source, weight, self.bias * factor)


def stacked(*parts: Sums) -> Sums:
    """Return the rows of all parts, one below the other."""
    counts = np.concatenate([np.diff(part.start) for part in parts])
    return Sums(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        np.concatenate([part.source for part in parts]),
        np.concatenate([part.weight for part in parts]),
        np.concatenate([part.bias for part in parts]),
    )


class Node(NamedTuple):
    """One value of a block, in Python's numbers."""

    transfer: Transfer
    terms: list[Term]  # one, or two where it is modulated
    constant: float

    @property
    def source(self) -> int:
        """The first value that it is computed from: the input, where it encodes one."""
        return self.terms[0].edges[0][0]


@dataclass(frozen=True)
class Block:
    """A step that computes one value per row of its sums."""

    transfer: Transfer
    first: Sums
    second: Sums | None  # of modulated nodes only
    constant: NDArray[np.float64]  # (rows,)

    @property
    def width(self) -> int:
        """The number of values that it computes."""
        return len(self.first)

    @property
    def sums(self) -> tuple[Sums, ...]:
        """Its one or two sums."""
        return (self.first,) if self.second is None else (self.first, self.second)

    @property
    def nodes(self) -> Iterator[Node]:
        """Its values one by one."""
        rows = zip(*(sums.terms for sums in self.sums), strict=True)
        for terms, constant in zip(rows, self.constant.tolist(), strict=True):
            yield Node(self.transfer, list(terms), constant)


@dataclass(frozen=True)
class Pooling:
    """A step that combines a run of values: normalizes them to a sum of 1, or averages them."""

    transfer: Transfer
    start: int  # first value of the run
    taken: int  # length of the run
    constant: float = 0.0  # exponent of a power mean

    @property
    def width(self) -> int:
        """The number of values that it computes."""
        return 1 if self.transfer == Transfer.POWER_MEAN else self.taken

    @property
    def sources(self) -> range:
        """The values of the run."""
        return range(self.start, self.start + self.taken)


Step = Block | Pooling


def weight_matrices(first: int, step: Step) -> list[csr_array]:
    """Return the weights of a step's sums over the values before it."""
    if isinstance(step, Pooling):
        return []
    return [
        csr_array((sums.weight, sums.source, sums.start), shape=(len(sums), first))
        for sums in step.sums
    ]


@dataclass(frozen=True)
class Program:
    """Steps over inputs, and which of the values are results, by name."""

    n_inputs: int
    steps: tuple[Step, ...]
    results: dict[str, NDArray[np.int64]]

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("n_inputs", "steps", "results")}

    @property
    def outputs(self) -> list[int]:
        """The values that are the model's answer."""
        return self.results[OUTPUTS].tolist()

    @property
    def score(self) -> int | None:
        """The value that tells how unfamiliar a sample is, where the model computes one."""
        return int(self.results[SCORE][0]) if SCORE in self.results else None

    @property
    def numbered(self) -> Iterator[tuple[int, Step]]:
        """Each step with the number of the first value that it computes."""
        value = self.n_inputs
        for step in self.steps:
            yield value, step
            value += step.width

    @cached_property
    def with_weights(self) -> list[tuple[int, Step, list[csr_array]]]:
        """Each step with the number of its first value and the weights of its sums, as matrices."""
        return [(first, step, weight_matrices(first, step)) for first, step in self.numbered]

    @cached_property
    def result_numbers(self) -> tuple[NDArray[np.int64], list[int]]:
        """The values of all results, one after the other, and where those of each end."""
        numbers = np.concatenate([np.zeros(0, np.int64), *self.results.values()])
        return numbers, np.cumsum([len(own) for own in self.results.values()]).tolist()

    @cached_property
    def prepared(self) -> dict[bool, list[Any]]:
        """Evaluations of single samples that are not in use: without kernels, and with them."""
        return {}

    @cached_property
    def groups(self) -> list["StepGroup"]:
        """The steps, those together that are evaluated at once."""
        return list(grouped(self))

    @property
    def nodes(self) -> Iterator[tuple[int, Node | Pooling]]:
        """The nodes and poolings one by one, each with the number of its (first) value."""
        for first, step in self.numbered:
            if isinstance(step, Pooling):
                yield first, step
            else:
                yield from enumerate(step.nodes, start=first)

    @property
    def transfers(self) -> set[Transfer]:
        """The transfers that occur."""
        return {step.transfer for step in self.steps}

    @cached_property
    def n_values(self) -> int:
        """The number of inputs and computed values."""
        return self.n_inputs + sum(step.width for step in self.steps)

    def only(self, names: Sequence[str]) -> "Program":
        """Return the program of some of the results, without values that none of them needs."""
        wanted = {name: self.results[name] for name in names}
        return pruned(Program(self.n_inputs, self.steps, wanted))


@dataclass(frozen=True)
class StepGroup:
    """Consecutive steps that are evaluated at once.

    Either a single block, or squares and the means of these, which no other step takes; or poolings
    of the same kind over adjacent runs of equal length.
    """

    first: int  # number of the first value that it computes
    steps: tuple[Step, ...]
    matrices: tuple[list[csr_array], ...]  # the weights of each step's sums

    @cached_property
    def width(self) -> int:
        """The number of values that it computes."""
        return sum(step.width for step in self.steps)

    @cached_property
    def is_mean_of_squares(self) -> bool:
        """Does it compute squares, and the means of these?"""
        return isinstance(self.steps[0], Block) and len(self.steps) == 2

    @cached_property
    def squared_sums(self) -> SquaredSums:
        """What a kernel reads, where it computes squares and the means of these."""
        squares, means = self.steps
        assert isinstance(squares, Block)
        assert isinstance(means, Block)
        return squared_sums(squares.first, means.first)

    @cached_property
    def bundled_sums(self) -> BundledSums:
        """The same for a single sample."""
        return bundled(self.squared_sums)

    @property
    def n_squared_entries(self) -> int:
        """Entries of the sums whose squares it takes the mean of; 0 where it computes others."""
        squares = self.steps[0]
        if isinstance(squares, Pooling) or not self.is_mean_of_squares:
            return 0
        return len(squares.first.weight)


def grouped(program: Program) -> Iterator[StepGroup]:
    """Yield the groups of a program's steps."""
    steps = program.with_weights
    at = 0
    while at < len(steps):
        first, step, _ = steps[at]
        n = 1
        if isinstance(step, Pooling):
            while at + n < len(steps) and _continues(step, n, steps[at + n][1]):
                n += 1
        elif at + 1 < len(steps) and _is_mean_of(program, first, step, steps[at + 1][1]):
            n = 2
        some = steps[at : at + n]
        yield StepGroup(first, tuple(one[1] for one in some), tuple(one[2] for one in some))
        at += n


def _continues(first: Pooling, n: int, step: Step) -> bool:
    """Is a step the same pooling of the n-th run after the first?"""
    return step == Pooling(
        first.transfer, first.start + n * first.taken, first.taken, first.constant
    )


def _is_mean_of(program: Program, first: int, squares: Block, means: Step) -> bool:
    """Does a step compute means of all squares in their order, which nothing else takes?"""
    if squares.transfer != Transfer.SQUARE or not isinstance(means, Block):
        return False
    sums = means.first
    end = first + squares.width
    same = means.transfer == Transfer.LINEAR and len(sums.source) == squares.width
    if not same or (sums.source != np.arange(first, end)).any():
        return False
    groups = np.minimum(sums.start[:-1], len(sums.weight) - 1)
    if (sums.weight != np.repeat(sums.weight[groups], np.diff(sums.start))).any():
        return False
    taken: list[NDArray] = list(program.results.values())
    for step in program.steps:
        if isinstance(step, Pooling):
            taken.append(np.arange(step.start, step.start + step.taken))
        elif step is not means:
            taken += [own.source for own in step.sums]
    return not any(((own >= first) & (own < end)).any() for own in taken)


def pruned(program: Program) -> Program:
    """Return the program without values that no result depends on."""
    needed = np.zeros(program.n_values, bool)
    for numbers in program.results.values():
        needed[numbers] = True
    kept: list[tuple[Step, NDArray[np.int64]]] = []  # each step with its rows that are needed
    for first, step in reversed(list(program.numbered)):
        own = needed[first : first + step.width]
        if not own.any():
            continue
        if isinstance(step, Pooling):
            own[:] = True
            needed[step.start : step.start + step.taken] = True
        rows = np.flatnonzero(own)
        kept.append((step, rows))
        for sums in step.sums if isinstance(step, Block) else ():
            needed[sums.source[entries_of(sums.start, rows)[0]]] = True
    needed[: program.n_inputs] = True
    place = np.cumsum(needed) - 1
    steps = tuple(renumbered(step, place, rows) for step, rows in reversed(kept))
    results = {name: place[numbers] for name, numbers in program.results.items()}
    return Program(program.n_inputs, steps, results)


def renumbered(step: Step, place: NDArray[np.int64], rows: NDArray[np.int64] | None = None) -> Step:
    """Return all or some rows of a step, with other numbers of the values that it takes."""
    if isinstance(step, Pooling):
        return Pooling(step.transfer, int(place[step.start]), step.taken, step.constant)
    rows = np.arange(step.width) if rows is None else rows
    sums = [own.take(rows) for own in step.sums]
    first, *more = (Sums(s.start, place[s.source].astype(np.int32), s.weight, s.bias) for s in sums)
    return Block(step.transfer, first, more[0] if more else None, step.constant[rows])


def entries_of(
    start: NDArray, rows: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the entries of some rows of a CSR matrix, and where each row begins among them."""
    counts = start[rows + 1] - start[rows]
    begin = np.zeros(len(rows) + 1, np.int32)
    np.cumsum(counts, out=begin[1:])
    return np.arange(begin[-1]) + np.repeat(start[rows] - begin[:-1], counts), begin
