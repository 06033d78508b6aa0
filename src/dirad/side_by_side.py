"""Several programs over the same inputs as one, so that they are evaluated together.

Steps of the same kind become one step: a system of many models then takes hardly more steps than a
single one.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dirad.program import Block, Pooling, Program, Step, Sums, Transfer, renumbered, stacked


def result_name(name: str, number: int) -> str:
    """Return what a result of one of several programs is called."""
    return f"{name} {number}"


def side_by_side(programs: Sequence[Program]) -> Program:
    """Return a program with the results of all, each named by `result_name`."""
    n_inputs = programs[0].n_inputs
    waiting = [[step for _, step in program.numbered] for program in programs]
    # The number that each value of a program has in the common one.
    places = [np.zeros(program.n_values, np.int64) for program in programs]
    known = [n_inputs] * len(programs)  # values that have one
    for place in places:
        place[:n_inputs] = np.arange(n_inputs)
    steps: list[Step] = []
    n_values = n_inputs
    while any(waiting):
        # Others may catch up with the one that has most steps left, and share those.
        kind = _kind(max(waiting, key=len)[0])
        chosen = [i for i, left in enumerate(waiting) if left and _kind(left[0]) == kind]
        found = []
        for i in chosen:
            step = waiting[i].pop(0)
            if isinstance(step, Pooling) and (np.diff(run := places[i][step.sources]) != 1).any():
                # Its run goes over several steps, which are apart now: copies of it stand together.
                steps.append(_copies(run))
                step = replace(step, start=n_values)
                n_values += len(run)
                found.append(step)
            else:
                found.append(renumbered(step, places[i]))
        for i, step in zip(chosen, found, strict=True):
            places[i][known[i] : known[i] + step.width] = np.arange(n_values, n_values + step.width)
            known[i] += step.width
            n_values += step.width
        steps += _merged(found)
    results = {
        result_name(name, i): places[i][own]
        for i, program in enumerate(programs)
        for name, own in program.results.items()
    }
    return Program(n_inputs, tuple(steps), results)


def _copies(values: NDArray[np.int64]) -> Block:
    """Return a block that computes some values once more, one after the other."""
    n = len(values)
    start = np.arange(n + 1, dtype=np.int32)
    sums = Sums(start, values.astype(np.int32), np.ones(n), np.zeros(n))
    return Block(Transfer.LINEAR, sums, None, np.zeros(n))


def _kind(step: Step) -> tuple[object, ...]:
    """Return what two steps must have in common to become one."""
    return step.transfer, isinstance(step, Block) and step.second is None


def _merged(steps: Sequence[Step]) -> list[Step]:
    """Return blocks of one kind as one block; poolings stay apart."""
    blocks = [step for step in steps if isinstance(step, Block)]
    if len(blocks) < 2:
        return list(steps)
    seconds = [block.second for block in blocks if block.second is not None]
    return [
        Block(
            blocks[0].transfer,
            stacked(*(block.first for block in blocks)),
            stacked(*seconds) if seconds else None,
            np.concatenate([block.constant for block in blocks]),
        )
    ]
