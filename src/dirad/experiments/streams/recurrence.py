"""Tasks of two digits that come again, each shown until it is learned: A B A C B.

Unlike the streams of `kinds`, this one waits for the learner: a new task lasts until its model is
stable.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dirad.datasets import Dataset
from dirad.experiments.protocol import CLASSES, Setting, draw, images
from dirad.experiments.streams.follow import Moment, Watcher, accuracy_of, ask_and_teach
from dirad.experiments.streams.scoring import parts
from dirad.preval.settings import Settings
from dirad.preval.system import System
from dirad.preval.systems import new_system


def learn_recurring(
    preset: str = "default",
    order: Sequence[int] = (0, 1, 0, 2, 1),
    *,
    seed: int = 0,
    batches: int = 10,
    data: Dataset | None = None,
    settings: Settings | None = None,
    report: Watcher | None = None,
) -> tuple[System, list[Moment], list[list[int]]]:
    """Return a system that saw tasks in this order, its moments, and the digits of each task.

    A task that is new lasts until its model is stable (at least `batches`); one that is known
    lasts `batches`. The digits are MNIST's unless other data are given.
    """
    data = images(14) if data is None else data
    settings = Setting(preset, 0.05).settings() if settings is None else settings
    size = settings.l0.batch_size
    rng = np.random.default_rng([seed, 500])
    digits = rng.permutation(CLASSES).reshape(-1, 2).tolist()
    system = new_system(data.X_train.shape[1], CLASSES, settings, seed=seed, threads=1)
    moments: list[Moment] = []
    for task in order:
        pools = [np.flatnonzero(data.y_train == digit) for digit in digits[task]]
        shares = np.eye(max(order) + 1)[task]
        shown = 0
        while shown < batches or system.adapting is not None:
            for chosen in draw(rng, pools, batches, size).reshape(batches, size):
                X, y = data.X_train[chosen], data.y_train[chosen]
                moments.append(ask_and_teach(system, X, y, shares))
                if report is not None:
                    report(moments[-1], system)
            shown += batches
    return system, moments, digits[: max(order) + 1]


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
    system, moments, digits = learn_recurring(preset, order, seed=seed)
    births = [event.batch for event in system.events if event.kind == "opened"]
    opened, chosen, expected = [], [], []
    home: dict[int, int] = {}
    for part in parts(moments):
        here = moments[part.onset : part.last + 1]
        opened.append(sum(part.onset <= batch <= part.last for batch in births))
        chosen.append(" ".join(str(m) for m in dict.fromkeys(m.model for m in here)))
        home.setdefault(part.task, len(home))
        expected.append(str(home[part.task]))
    data = images(14)
    test = np.isin(data.y_test, digits)
    accuracy = accuracy_of(system, data.X_test[test], data.y_test[test])
    seconds = time.perf_counter() - start
    return Recurrence(preset, seed, opened, chosen, expected, accuracy, seconds)
