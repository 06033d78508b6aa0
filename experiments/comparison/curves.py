"""Results grouped by method, and the numbers that both tables and pictures show."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.preval.settings import PRESETS
from dirad.streams.averages import mean, spread
from experiments.comparison.methods import DRIVEN, METHODS, WIDE
from experiments.comparison.plan import OURS, SIZED
from experiments.comparison.run import Result, noticed
from experiments.metrics import final_accuracy

Row = dict[str, Any]
BLANK = "–"
both = partial(spread, digits=3, missing=BLANK)  # mean ± standard deviation


def grouped(results: Sequence[Result]) -> dict[str, list[Result]]:
    """Return results by method, in the order of the registry."""
    order = [*METHODS, *WIDE]
    order.insert(order.index("EWC, told") + 1, DRIVEN)
    return {
        name: found for name in order if (found := [one for one in results if one.method == name])
    }


def after(result: Result, task: int) -> float:
    """Return the accuracy over all classes seen after a task (from 0): tasks count alike."""
    return mean(result.accuracies[task][: task + 1])


def curves(results: Sequence[Result]) -> tuple[dict[str, NDArray], dict[str, float]]:
    """Return by method: accuracies after each task (orders, tasks), and the bytes stored."""
    runs, stored = {}, {}
    for method, some in grouped(results).items():
        found = [one for one in some if one.accuracies]
        if found:
            tasks = range(found[0].scenario.tasks)
            runs[method] = np.array([[after(one, task) for task in tasks] for one in found])
            stored[method] = mean(one.n_bytes for one in found)
    return runs, stored


def detected(results: Sequence[Result]) -> tuple[Row, list[float], list[int]]:
    """Return how many changes were missed, the delays of the others, false alarms per stream."""
    found = [noticed(one) for one in results]
    delays = [delay for one, _ in found for delay in one]
    missed = {"missed": f"{delays.count(-1)}/{len(delays)}"}
    return missed, [float(d) for d in delays if d >= 0], [false for _, false in found]


def mean_bytes(results: Sequence[Result]) -> float:
    """Return the mean size in bytes."""
    return mean(one.n_bytes for one in results)


def sized_points(results: Sequence[Result]) -> list[tuple[float, float, int]]:
    """Return of ours in each size the bytes stored, the final accuracy, and its modes."""
    names = {**SIZED, OURS: PRESETS["default"].modes}
    found = []
    for name, modes in names.items():
        some = [one for one in results if one.method == name]
        if some:
            accuracy = mean(final_accuracy(one.accuracies) for one in some)
            found.append((mean_bytes(some), accuracy, modes))
    return sorted(found)
