"""Many models in one system: what routing, a batch and memory cost as they grow in number.

A task is two of the ten 8×8 digits, the pixels of which are permuted, or turned and mirrored. So
there are as many tasks as one likes, and a model of one is learned in half a second.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import small_digits
from dirad.preval.settings import PRESETS, Settings
from dirad.preval.system import System
from dirad.streams.run import settings_for_digits
from experiments.scale.clock import MEGABYTE, resident_memory, shortest, timed
from experiments.scale.growth import Row

SIDE, DIGITS = 8, 10
PER_TASK, BATCH = 200, 50
TURNS = 3  # of which the shortest counts
TURNINGS = 8  # of a square
KINDS = ("permuted", "turned")


class Task(NamedTuple):
    """Two digits, and where each pixel comes from."""

    digits: tuple[int, int]
    pixels: NDArray[np.int64]  # (64,)


def tasks_of(kind: str, seed: int) -> Iterator[Task]:
    """Yield different tasks: no end of permuted ones, 360 turned ones."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    pairs = [(a, b) for a in range(DIGITS) for b in range(a + 1, DIGITS)]
    if kind == "permuted":
        while True:
            yield Task(pairs[rng.integers(len(pairs))], rng.permutation(SIDE * SIDE))
    for place in rng.permutation(TURNINGS * len(pairs)):
        yield Task(pairs[place // TURNINGS], turned(int(place) % TURNINGS))


def turned(turning: int) -> NDArray[np.int64]:
    """Return where each pixel comes from: 0 to 3 quarters of a turn, from 4 on mirrored.

    >>> turned(1)[:3].tolist()
    [7, 15, 23]
    """
    grid = np.rot90(np.arange(SIDE * SIDE).reshape(SIDE, SIDE), turning % 4)
    return np.ascontiguousarray(grid[:, ::-1] if turning >= 4 else grid).ravel()


def settings_for_tasks() -> Settings:
    """Return settings for tasks of 200 samples."""
    return settings_for_digits(PRESETS["default"], BATCH).replace(
        begin=2 * BATCH, modes=4, max_models=0
    )


class Crowd:
    """A system and the tasks that it has learned."""

    def __init__(self, kind: str, seed: int = 0) -> None:
        self.kind = kind
        self.data = small_digits()
        settings = settings_for_tasks()
        self.system = System(SIDE * SIDE, DIGITS, settings, seed=seed, threads=1)
        self.rng = np.random.default_rng([seed, 1])
        self.coming = tasks_of(kind, seed)
        self.learned: list[Task] = []

    def learn(self, models: int) -> bool:
        """Learn tasks until there are this many stable models; return whether tasks sufficed."""
        while len(self.system.models) < models or self.system.adapting is not None:
            task = next(self.coming, None)
            if task is None:
                break
            self.system.learn(*self._drawn(task, PER_TASK, test=False))
            self.learned.append(task)
            if len(self.system.models) >= models:
                self.finish()
        return len(self.system.models) >= models

    def finish(self) -> None:
        """Bring all models to stability."""
        nothing = np.zeros((0, SIDE * SIDE))
        self.system.finish(nothing, np.zeros(0, np.int64))

    def samples(self, n: int) -> NDArray[np.float64]:
        """Return test samples of all tasks learned, as many of each as of the others."""
        each = -(-n // len(self.learned))
        parts = [self._drawn(task, each, test=True)[0] for task in self.learned]
        return self.rng.permutation(np.concatenate(parts))[:n]

    def batch(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return a batch of one of the tasks."""
        task = self.learned[int(self.rng.integers(len(self.learned)))]
        return self._drawn(task, BATCH, test=False)

    def _drawn(self, task: Task, n: int, test: bool) -> tuple[NDArray, NDArray]:
        X, y = self.data[2:] if test else self.data[:2]
        pool = np.flatnonzero(np.isin(y, task.digits))
        chosen = self.rng.choice(pool, n, replace=n > len(pool))
        return X[chosen][:, task.pixels].astype(np.float64), y[chosen]


def route_by_all(system: System, X: NDArray) -> NDArray[np.int64]:
    """Return the model of each sample when every model scores every sample."""
    everyone = copy(system)
    vars(everyone)["_preselection"] = lambda: None
    return everyone.answer(X).route


def measure_models(
    kind: str, numbers: Sequence[int], n_samples: int, batches: int, seed: int = 0
) -> list[Row]:
    """Return the costs of one system as its models grow to these numbers."""
    crowd = Crowd(kind, seed)
    rows: list[Row] = []
    for models in numbers:
        before = len(crowd.learned)
        enough, seconds = timed(lambda models=models: crowd.learn(models))
        if not enough:
            break
        learning = seconds / max(len(crowd.learned) - before, 1)
        rows.append({**_measure(crowd, n_samples, batches), "learning": learning})
    return rows


def _measure(crowd: Crowd, n_samples: int, batches: int) -> Row:
    system, X = crowd.system, crowd.samples(n_samples)
    one, found = system.models[0], system.answer(X).route
    row = {
        "size": len(system.models),
        "tasks": len(crowd.learned),
        "one": shortest(lambda: one.evaluate(X), TURNS),
        "route": shortest(lambda: system.answer(X).route, TURNS),
        "numbers": system.n_parameters,
        "megabytes": resident_memory() / MEGABYTE,
        "samples": len(X),
        "inputs": system.n_inputs,
    }
    by_all, row["all"] = timed(lambda: route_by_all(system, X))
    row["otherwise"] = float(np.mean(found != by_all))
    given = [crowd.batch() for _ in range(batches)]
    _, taking = timed(lambda: [system.learn_batch(*batch) for batch in given])
    return {**row, "batch": taking / batches}
