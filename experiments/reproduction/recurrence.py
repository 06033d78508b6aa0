"""What a system does in a stream A B A C B: which models it opens, and which it chooses again."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dirad.demo.recurring import learn_recurring
from dirad.streams.detection import parts
from dirad.streams.follow import accuracy_of
from dirad.streams.run import source


@dataclass(frozen=True)
class Recurrence:
    """What a system did in a stream whose tasks come again."""

    preset: str
    seed: int
    opened: list[int]  # per part of the stream: models opened
    chosen: list[str]  # per part: the models that took its batches
    expected: list[str]  # per part: what a perfect system shows
    accuracy: float  # over test samples of all tasks, at the end
    seconds: float


def measure_recurring(preset: str, seed: int, order: Sequence[int] = (0, 1, 0, 2, 1)) -> Recurrence:
    """Return which models were opened and chosen in each part of the stream."""
    start = time.perf_counter()
    system, moments, digits = learn_recurring(preset, order, seed=seed)
    births = [event.batch for event in system.journal.events if event.kind == "opened"]
    opened, chosen, expected = [], [], []
    home: dict[int, int] = {}
    for part in parts(moments):
        here = moments[part.onset : part.last + 1]
        opened.append(sum(part.onset <= batch <= part.last for batch in births))
        chosen.append(" ".join(str(m) for m in dict.fromkeys(m.model for m in here)))
        home.setdefault(part.task, len(home))
        expected.append(str(home[part.task]))
    data = source("mnist")
    test = np.isin(data.y_test, digits)
    accuracy = accuracy_of(system, data.X_test[test], data.y_test[test])
    seconds = time.perf_counter() - start
    return Recurrence(preset, seed, opened, chosen, expected, accuracy, seconds)
