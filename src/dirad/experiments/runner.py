"""Many runs: kernels compiled once, runs done by an engine, results in the order of the jobs.

A run depends on its job alone (its seed is part of it) and every process computes with one
thread, so that the results are the same for any engine and any number of workers.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LOGISTIC, Network
from dirad.engine import current
from dirad.estimators import DIRADClassifier
from dirad.growth.adapt import adapt, new_data
from dirad.growth.state import State, new_state
from dirad.history import KIND_NAMES, History
from dirad.params import Params

Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # called with the runs done and the runs in all


def warm(preset: str = "default") -> None:
    """Compile what a preset needs, or load it from the disk cache, on every node that takes part.

    Done before the fan-out: processes that find a cold cache would each compile for a minute.
    """
    fit_little(preset)
    current().on_every_node(fit_little, preset)


def fit_little(preset: str) -> None:
    """Make a tiny fit, for which all kernels of a preset are needed."""
    X, y = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], [0, 1, 1, 0]
    DIRADClassifier(preset=preset, max_steps=60, settle_steps=2, random_state=0).fit(X, y).score(
        X, y
    )


def run_all(
    function: Callable[..., Result],
    jobs: Iterable[Sequence[Any]],
    *,
    workers: int = 1,
    progress: Progress | None = None,
    on_result: Callable[[int, Result], None] | None = None,
) -> list[Result]:
    """Return ``[function(*job) for job in jobs]``, computed by the engine in use.

    Long jobs first: then no process is left alone with one at the end. `on_result` is called with
    the place and the result of each job as soon as it is done.
    """
    jobs = list(jobs)
    report = progress or (lambda done, total: None)
    report(0, len(jobs))
    results: dict[int, Result] = {}
    for number, result in current().finished(function, jobs, min(workers, len(jobs))):
        results[number] = result
        if on_result is not None:
            on_result(number, result)
        report(len(results), len(jobs))
    return [results[number] for number in range(len(jobs))]


class Grown(NamedTuple):
    """A network that has become stable."""

    network: Network
    history: History
    steps: int
    seconds: float


def grow(
    X: NDArray,
    targets: NDArray,
    params: Params,
    seed: int,
    *,
    usable: NDArray[np.bool_] | None = None,
    report: Callable[[State], None] | None = None,
    chunk: int = 200,
) -> Grown:
    """Grow a network of logistic outputs on X (n, inputs) and targets (n, outputs) as they are."""
    start = time.perf_counter()
    state = new_state(X.shape[1], targets.shape[1], transfer=LOGISTIC, seed=seed, n_samples=len(X))
    if usable is not None:
        state.network.usable[:] = usable
    data = new_data(X, targets, params)
    state, history = adapt(state, data, params, report=report, chunk=chunk)
    return Grown(state.network, history, state.step, time.perf_counter() - start)


def fingerprint(network: Network) -> str:
    """Return a short text that differs where two networks differ in anything."""
    digest = hashlib.sha256()
    for array in network:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def last_change(history: History) -> int:
    """Return the number of steps after which no edge and no node was added any more."""
    grown = np.isin(history.events["kind"], [KIND_NAMES.index("edge"), KIND_NAMES.index("ENC")])
    return int(history.events["step"][grown].max()) + 1 if grown.any() else 0


def mean(values: Iterable[float]) -> float:
    """Return the mean, or NaN of nothing."""
    values = list(values)
    return math.fsum(values) / len(values) if values else math.nan


def deviation(values: Iterable[float]) -> float:
    """Return the standard deviation (of a sample), or NaN of fewer than two values.

    >>> deviation([1.0, 3.0])
    1.4142135623730951
    """
    values = list(values)
    if len(values) < 2:
        return math.nan
    center = mean(values)
    return math.sqrt(math.fsum((value - center) ** 2 for value in values) / (len(values) - 1))


def standard_error(values: Iterable[float]) -> float:
    """Return the standard error of the mean, or NaN of fewer than two values."""
    values = list(values)
    return deviation(values) / math.sqrt(len(values)) if values else math.nan
