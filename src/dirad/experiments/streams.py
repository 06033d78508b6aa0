"""Streams of MNIST digits whose tasks change unannounced, and what a system makes of them.

The task of a batch is known to the experiment, which colours the picture by it; the system is
never told.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset
from dirad.experiments.protocol import CLASSES, Setting, draw, images
from dirad.preval.settings import Settings
from dirad.preval.system import System

Report = Callable[["Moment", System], None]


@dataclass(frozen=True)
class Moment:
    """One batch of a stream: what it was, and what the system did."""

    batch: int
    task: int
    accuracy: float  # of answers given before the batch was learned; NaN without a model
    value: float  # least verdict of the stable models, as a multiple of its limit
    model: int  # that took the batch
    phase: str  # of that model afterwards


def follow(
    system: System,
    X: NDArray,
    y: NDArray,
    tasks: Sequence[int],
    report: Report | None = None,
    *,
    first: int = 0,
) -> list[Moment]:
    """Show a stream batch by batch: first ask, then teach. `first` is the number of the first."""
    size = system.settings.l0.batch_size
    moments = []
    for number, task in enumerate(tasks):
        part = slice(number * size, (number + 1) * size)
        accuracy, value = float("nan"), float("nan")
        if system.models:
            answers = system.probabilities(X[part]).argmax(axis=1)
            accuracy = float(np.mean(answers == y[part]))
        if system.adapting is None and system.models:
            value = min(v.value / max(v.limit, 1e-9) for v in system.judge(X[part]))
        system.learn(X[part], y[part])
        model = system.latest
        moments.append(Moment(first + number, task, accuracy, value, model.number, model.phase))
        if report is not None:
            report(moments[-1], system)
    return moments


def recurring(
    preset: str = "default",
    order: Sequence[int] = (0, 1, 0, 2, 1),
    *,
    seed: int = 0,
    batches: int = 10,
    data: Dataset | None = None,
    settings: Settings | None = None,
    report: Report | None = None,
) -> tuple[System, list[Moment], list[int]]:
    """Return a system that saw tasks of two digits in this order, some of them again.

    A task that is new lasts until its model is stable (at least `batches`); one that is known
    lasts `batches`. The digits are MNIST's unless other data are given.
    """
    data = images(14) if data is None else data
    settings = Setting(preset, 0.05).settings() if settings is None else settings
    size = settings.l0.batch_size
    rng = np.random.default_rng([seed, 500])
    digits = rng.permutation(CLASSES).tolist()
    system = System(data.X_train.shape[1], CLASSES, settings, seed=seed, threads=1)
    moments: list[Moment] = []
    for task in order:
        pools = [np.flatnonzero(data.y_train == d) for d in digits[2 * task : 2 * task + 2]]
        shown = 0
        while shown < batches or system.adapting is not None:
            chosen = draw(rng, pools, batches, size)
            X, y = data.X_train[chosen], data.y_train[chosen]
            moments += follow(system, X, y, [task] * batches, report, first=len(moments))
            shown += batches
    return system, moments, digits


@dataclass(frozen=True)
class Recurrence:
    """What a system did in a recurring stream."""

    preset: str
    seed: int
    opened: list[int]  # per part of the stream: models opened
    chosen: list[str]  # per part: the models that took its batches
    expected: list[str]  # per part: what a perfect system shows
    accuracy: float  # over test samples of all tasks, at the end
    seconds: float


def measure_recurring(preset: str, seed: int, order: Sequence[int] = (0, 1, 0, 2, 1)) -> Recurrence:
    """Return what was opened and chosen, part by part."""
    start = time.perf_counter()
    system, moments, digits = recurring(preset, order, seed=seed)
    parts: list[list[Moment]] = [[]]
    for one in moments:
        if parts[-1] and parts[-1][-1].task != one.task:
            parts.append([])
        parts[-1].append(one)
    opened_at = [event.batch for event in system.events if event.kind == "opened"]
    opened, chosen, expected = [], [], []
    home: dict[int, int] = {}
    for part in parts:
        first, last = part[0].batch, part[-1].batch
        opened.append(sum(first <= batch <= last for batch in opened_at))
        chosen.append(" ".join(str(m) for m in dict.fromkeys(m.model for m in part)))
        home.setdefault(part[0].task, len(home))
        expected.append(str(home[part[0].task]))
    data = images(14)
    test = np.isin(data.y_test, digits[: 2 * (max(order) + 1)])
    answers = system.probabilities(data.X_test[test]).argmax(axis=1)
    accuracy = float(np.mean(answers == data.y_test[test]))
    seconds = time.perf_counter() - start
    return Recurrence(preset, seed, opened, chosen, expected, accuracy, seconds)
