"""How a finished model answers, for predictions, exports and model files alike.

`Builder` puts networks together into a `Program`, `evaluate` computes it. Numba is not needed: sums
are products of sparse matrices. A sample's answer depends neither on the other samples of its batch
nor on the number of threads: every sum adds its entries one after the other, in the order in which
they are stored.
"""

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dirad.core import network as core
from dirad.core.compilation import are_kernels_loaded
from dirad.core.mean_squares import mean_squares
from dirad.core.network import MODULATORY, OUTPUT, Network, output_units
from dirad.program import (
    OUTPUTS,
    Block,
    Pooling,
    Program,
    Step,
    StepGroup,
    Sums,
    Transfer,
    entries_of,
    pruned,
)
from dirad.single_sample import SingleSample
from dirad.transfers import pooled, transfer

CACHED_NUMBERS = 2**18  # values of a chunk of samples that fit into the processor's cache
LEAST_CHUNK, LARGEST_CHUNK = 64, 1024  # samples
CHUNK_OF_KERNEL = 256  # whose inputs stay in the cache
LEAST_FOR_KERNEL = 8  # samples; for two to seven, products with sparse matrices take no longer
WORTH_LOADING = 10**9  # products that take longer without Numba than it takes to load


@np.errstate(over="ignore", invalid="ignore")  # extreme inputs give infinite values: no warning
def evaluate(program: Program, X: NDArray) -> dict[str, NDArray[np.float64]]:
    """Return each result for every row of X: (samples, values of the result)."""
    found = _of_one(program, X[0])[None] if len(X) == 1 else _of_many(program, X)
    begin, result = 0, {}
    for name, end in zip(program.results, program.result_numbers[1], strict=True):
        result[name] = found[:, begin:end]
        begin = end
    return result


def _of_one(program: Program, x: NDArray) -> NDArray[np.float64]:
    """Return all results for one sample."""
    kernels = are_kernels_loaded()
    known = program.prepared.setdefault(kernels, [])
    try:  # of several threads each has its own
        single = known.pop()
    except IndexError:
        single = SingleSample(program, kernels=kernels)
    found = single(x)
    known.append(single)
    return found


def _of_many(program: Program, X: NDArray) -> NDArray[np.float64]:
    """Return all results for every row of X: (samples, values of all results)."""
    fused = _is_worth_a_kernel(program, len(X))
    n_values = program.n_values
    numbers = program.result_numbers[0]
    found = np.empty((len(X), len(numbers)))
    chunk = min(max(CACHED_NUMBERS // max(n_values, 1), LEAST_CHUNK), LARGEST_CHUNK)
    chunk = CHUNK_OF_KERNEL if fused else chunk
    memory = np.empty(n_values * min(chunk, len(X)))
    for begin in range(0, len(X), chunk):
        part = X[begin : begin + chunk]
        values = memory[: n_values * len(part)].reshape(n_values, len(part))
        values[: program.n_inputs] = part.T
        for group in program.groups:
            _evaluate_group(group, values, fused=fused)
        found[begin : begin + chunk] = values[numbers].T
    return found


def _is_worth_a_kernel(program: Program, n_samples: int) -> bool:
    """Should means of squares be computed by a kernel? Its results are the same, to the last bit.

    Where Numba is not loaded, only many products are worth the time that it takes to load.
    """
    if n_samples < LEAST_FOR_KERNEL or are_kernels_loaded():
        return n_samples >= LEAST_FOR_KERNEL
    n = sum(group.n_squared_entries for group in program.groups)
    return n * n_samples >= WORTH_LOADING and find_spec("numba") is not None


def _evaluate_group(group: StepGroup, values: NDArray, *, fused: bool) -> None:
    """Write the values of steps that are evaluated at once."""
    first, step = group.first, group.steps[0]
    if isinstance(step, Pooling):
        n = len(group.steps)
        runs = values[step.start : step.start + n * step.taken]
        runs = runs.reshape(n, step.taken, values.shape[1])
        values[first : first + group.width] = pooled(step, runs).reshape(-1, values.shape[1])
        return
    end = first + group.width
    if fused and group.is_mean_of_squares:
        mean_squares(group.squared_sums, values[:first], values[end - group.steps[1].width : end])
        return
    for own, matrices in zip(group.steps, group.matrices, strict=True):
        assert isinstance(own, Block)
        _compute(own, matrices, values[:first], values[first : first + own.width])
        first += own.width


def _compute(step: Block, matrices: list[csr_array], before: NDArray, z: NDArray) -> None:
    """Write the values of a block: z (rows, samples). No formula overflows for large sums."""
    _add_up(step.first, matrices[0], before, z)
    more = []
    if step.second is not None:
        more.append(np.empty(z.shape))
        _add_up(step.second, matrices[1], before, more[0])
    bent = transfer(step.transfer)
    if bent is not None:
        bent(step.constant[:, None], z, *more)


def _add_up(sums: Sums, matrix: csr_array, before: NDArray, z: NDArray) -> None:
    """Write weighted sums of values: z (rows, samples)."""
    if sums.is_scaling:
        np.multiply(before[sums.source], sums.weight[:, None], out=z)
    else:
        z[:] = matrix @ before
    z += sums.bias[:, None]


def respond(network: Network, X: NDArray) -> NDArray[np.float64]:
    """Return the outputs of a network for every row of X: (samples, outputs)."""
    builder = Builder(network.n_inputs)
    outputs = builder.attach(network, builder.inputs).outputs
    return evaluate(builder.whole({OUTPUTS: outputs}), X)[OUTPUTS]


def node_states(network: Network, X: NDArray, nodes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the states of some nodes for every row of X: (samples, nodes)."""
    builder = Builder(network.n_inputs)
    attached = builder.attach(network, builder.inputs)
    value = attached.states.value
    value[network.n_inputs + output_units(network)] = attached.outputs.value
    return evaluate(builder.program({OUTPUTS: attached.states.take(nodes)}), X)[OUTPUTS]


class Signals(NamedTuple):
    """Affine functions of values, one per entry: offset + factor · value."""

    value: NDArray[np.integer]
    factor: NDArray[np.float64]
    offset: NDArray[np.float64]

    def take(self, entries: NDArray) -> "Signals":
        """Return some of the signals."""
        return Signals(self.value[entries], self.factor[entries], self.offset[entries])

    def less(self, offset: NDArray[np.float64], over: NDArray[np.float64]) -> "Signals":
        """Return (signal − offset) / over."""
        return Signals(self.value, self.factor / over, (self.offset - offset) / over)

    def times(self, factor: NDArray[np.float64] | float) -> "Signals":
        """Return the signals, each multiplied by its factor."""
        return Signals(self.value, self.factor * factor, self.offset * factor)

    @property
    def sums(self) -> Sums:
        """The signals as sums of one entry each."""
        n = len(self.value)
        return weighted(np.zeros(n), np.arange(n), self, np.ones(n))


def plain(value: NDArray[np.integer]) -> Signals:
    """Return values as they are."""
    return Signals(value, np.ones(len(value)), np.zeros(len(value)))


def silent(n: int) -> Signals:
    """Return n signals that are always 0."""
    return Signals(np.zeros(n, np.int64), np.zeros(n), np.zeros(n))


def joined(*parts: Signals) -> Signals:
    """Return the signals of all parts, one after the other."""
    return Signals(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.factor for part in parts]),
        np.concatenate([part.offset for part in parts]),
    )


def weighted(
    bias: NDArray[np.float64],
    row: NDArray[np.int64],
    signals: Signals,
    weight: NDArray[np.float64],
) -> Sums:
    """Return the sums bias + Σ weight · signal; `row` tells to which sum each signal belongs.

    Rows must be sorted. Offsets are added to the bias, factors are multiplied into the weights,
    and the weights of equal values in one row are added up.
    """
    bias = np.array(bias, np.float64)
    np.add.at(bias, row, weight * signals.offset)
    used = signals.factor != 0.0
    row, value, weight = row[used], signals.value[used], (weight * signals.factor)[used]
    key = row * (value.max(initial=0) + 1) + value
    ordered = np.sort(key)
    if (ordered[1:] == ordered[:-1]).any():
        first, place = np.unique(key, return_index=True, return_inverse=True)[1:]
        total = np.zeros(len(first))
        np.add.at(total, place, weight)
        order = np.argsort(first)
        row, value, weight = row[first[order]], value[first[order]], total[order]
    start = np.zeros(len(bias) + 1, np.int32)
    np.cumsum(np.bincount(row, minlength=len(bias)), out=start[1:])
    return Sums(start, value.astype(np.int32), weight, bias)


class InEdges:
    """The edges of a network, by the term that they enter."""

    def __init__(self, network: Network) -> None:
        live = np.flatnonzero(network.edges["source"] >= 0)
        term = network.edges["term"][live]
        order = np.argsort(term, kind="stable")
        self.source = network.edges["source"][live[order]]
        self.weight = network.edges["weight"][live[order]]
        self.start = np.searchsorted(term[order], np.arange(2 * len(network.units) + 1))
        self.bias = network.bias

    def sums(self, states: Signals, units: NDArray[np.int64], term: int) -> Sums:
        """Return one of the two terms of some units, given the states of all nodes."""
        entries, start = entries_of(self.start, 2 * units + term)
        row = np.repeat(np.arange(len(units)), np.diff(start))
        sources = states.take(self.source[entries])
        return weighted(self.bias[units, term], row, sources, self.weight[entries])


class Attached(NamedTuple):
    """A network within a program."""

    states: Signals  # of every node; silent where a place is free. Of a softmax: activations
    outputs: Signals  # by column
    activations: Sums  # of the outputs, before their transfer


class Builder:
    """Puts the steps of a program together."""

    def __init__(self, n_inputs: int) -> None:
        self.n_inputs = n_inputs
        self.n_values = n_inputs
        self.steps: list[Step] = []

    @property
    def inputs(self) -> Signals:
        """The inputs as they are."""
        return plain(np.arange(self.n_inputs))

    def _add(self, step: Step) -> Signals:
        first = self.n_values
        self.steps.append(step)
        self.n_values += step.width
        return plain(np.arange(first, self.n_values))

    def block(
        self,
        transfer: Transfer,
        first: Sums,
        second: Sums | None = None,
        constant: NDArray[np.float64] | float = 0.0,
    ) -> Signals:
        """Add a block; return its values."""
        constants = np.broadcast_to(np.asarray(constant, np.float64), (len(first),))
        return self._add(Block(transfer, first, second, constants))

    def linear(self, sums: Sums) -> Signals:
        """Add weighted sums; return their values."""
        return self.block(Transfer.LINEAR, sums)

    def pooling(self, transfer: Transfer, signals: Signals, constant: float = 0.0) -> Signals:
        """Add a pooling of signals, which are first copied side by side where need be."""
        n = len(signals.value)
        value = self.values(signals)
        if (np.diff(value) != 1).any():
            value = self.linear(signals.sums).value
        return self._add(Pooling(transfer, int(value[0]), n, float(constant)))

    def values(self, signals: Signals) -> NDArray[np.int64]:
        """Return the numbers of values that equal the signals; scaled signals get values added."""
        scaled = (signals.factor != 1.0) | (signals.offset != 0.0)
        value = signals.value.astype(np.int64)
        if scaled.any():
            value[scaled] = self.linear(signals.take(scaled).sums).value
        return value

    def attach(self, network: Network, inputs: Signals) -> Attached:
        """Add the nodes of a network over these inputs."""
        n_inputs, units = network.n_inputs, network.units
        states = joined(inputs, silent(len(units)))
        transfer = int(network.counts[core.TRANSFER])
        of_output = Transfer.LOGISTIC if transfer == core.LOGISTIC else Transfer.LINEAR
        edges = InEdges(network)

        for level in levels(network):
            hidden = level[units["kind"][level] == MODULATORY]
            outputs = level[units["kind"][level] == OUTPUT]
            for some, kind in ((hidden, Transfer.MODULATED), (outputs, of_output)):
                if len(some):
                    second = edges.sums(states, some, 1) if kind == Transfer.MODULATED else None
                    first = edges.sums(states, some, 0)
                    own = self.block(kind, first, second, units["gain"][some])
                    for column, found in zip(states, own, strict=True):
                        column[n_inputs + some] = found
        outputs = output_units(network)
        answers = states.take(n_inputs + outputs)
        if transfer == core.SOFTMAX and len(outputs):
            answers = self.pooling(Transfer.SOFTMAX, answers)
        return Attached(states, answers, edges.sums(states, outputs, 0))

    def whole(self, results: dict[str, Signals]) -> Program:
        """Return a program of all steps."""
        numbers = {name: self.values(signals) for name, signals in results.items()}
        return Program(self.n_inputs, tuple(self.steps), numbers)

    def program(self, results: dict[str, Signals]) -> Program:
        """Return a program of the steps that the results need."""
        return pruned(self.whole(results))


def levels(network: Network) -> list[NDArray[np.int64]]:
    """Return the units in groups, each of which depends on earlier groups only.

    Outputs that feed no other node come last, by column.
    """
    edges = network.edges[network.edges["source"] >= network.n_inputs]
    source, target = edges["source"] - network.n_inputs, edges["term"] // 2
    order = np.argsort(source, kind="stable")
    start = np.searchsorted(source[order], np.arange(len(network.units) + 1))
    target = target[order]
    kinds = network.units["kind"]
    last = output_units(network)
    last = last[start[last] == start[last + 1]]
    pending = np.bincount(target, minlength=len(kinds))
    position = np.zeros(len(kinds), np.int64)
    result = []
    ready = np.flatnonzero((kinds >= 0) & (pending == 0))
    n_found = 0
    while len(ready):
        n_found += len(ready)
        result.append(ready[~np.isin(ready, last)])
        reached = target[entries_of(start, ready)[0]]
        np.subtract.at(pending, reached, 1)
        position[reached] = np.arange(len(reached))  # of the last edge that reaches a unit
        ready = np.unique(reached[pending[reached] == 0])
        ready = ready[np.argsort(position[ready])]
    if n_found < np.count_nonzero(kinds >= 0):
        raise ValueError("the network has a cycle")
    return [*result, last]
