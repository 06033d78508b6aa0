"""The evaluation of a program for a single sample, prepared once: the same bits as in a batch.

Most of the time that a single sample takes is not arithmetic. So all arrays, and all views of them,
are made beforehand, and each step is a function without arguments that writes into them.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dirad.core.mean_squares import mean_squares_of_one
from dirad.program import Block, Pooling, Program, StepGroup, Sums
from dirad.transfers import pooled, transfer

FEW_ENTRIES = 2000  # of sums, up to which a product with a sparse matrix takes longer
Action = Callable[[], object]


class SingleSample:
    """The values of a program for one sample at a time, by one thread at a time."""

    def __init__(self, program: Program, *, kernels: bool) -> None:
        self.values = np.zeros(program.n_values)
        self.inputs = self.values[: program.n_inputs]
        self.numbers = program.result_numbers[0]
        self.actions: list[Action] = []
        for group in program.groups:
            self._prepare(group, kernels=kernels)

    def __call__(self, x: NDArray) -> NDArray[np.float64]:
        """Return the results, one after the other."""
        self.inputs[:] = x
        for act in self.actions:
            act()
        return self.values[self.numbers]

    def _prepare(self, group: StepGroup, *, kernels: bool) -> None:
        first, step = group.first, group.steps[0]
        before, own = self.values[:first], self.values[first : first + group.width]
        if isinstance(step, Pooling):
            n = len(group.steps)
            runs = self.values[step.start : step.start + n * step.taken].reshape(n, -1, 1)
            to = own.reshape(n, -1, 1)
            self.actions.append(lambda: np.copyto(to, pooled(step, runs)))
        elif kernels and group.is_mean_of_squares:
            sums = group.bundled_sums
            self.actions.append(lambda: mean_squares_of_one(sums, before, own))
        else:
            for part, matrices in zip(group.steps, group.matrices, strict=True):
                assert isinstance(part, Block)
                self._prepare_block(part, matrices, first)
                first += part.width

    def _prepare_block(self, step: Block, matrices: list[csr_array], first: int) -> None:
        before, z = self.values[:first], self.values[first : first + step.width]
        sums = [z, np.empty(len(z))][: len(step.sums)]
        for own, matrix, to in zip(step.sums, matrices, sums, strict=True):
            self.actions.append(summation(own, matrix, before, to))
        bent, constant = transfer(step.transfer), step.constant.copy()
        if bent is not None:
            self.actions.append(lambda: bent(constant, *sums))


def summation(sums: Sums, matrix: csr_array, before: NDArray, z: NDArray) -> Action:
    """Return a function that writes weighted sums of `before` into z, entry after entry."""
    source, weight, bias = sums.source.astype(np.intp), sums.weight, sums.bias
    some = z if sums.is_scaling else np.empty(len(weight))

    def multiply() -> None:
        before.take(source, out=some, mode="clip")  # with "raise" it would make a copy
        np.multiply(some, weight, out=some)

    def scale() -> None:
        multiply()
        np.add(z, bias, out=z)

    if sums.is_scaling:
        return scale
    row = sums.row

    def add_few() -> None:
        multiply()
        np.add(np.bincount(row, some, len(z)), bias, out=z)

    def add_many() -> None:
        np.add(matrix @ before, bias, out=z)

    return add_few if 0 < len(weight) <= FEW_ENTRIES else add_many
