"""What is compared on: a data set whose classes come a few at a time, in random orders."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset
from dirad.streams.kinds import Stream, abrupt
from experiments.comparison.constants import Constants
from experiments.comparison.data_sets import SPLITS, Split


@dataclass(frozen=True)
class Scenario:
    """A stream of tasks, each sample passed once, but for its order."""

    data: str = "mnist"
    tasks: int = 5
    per_task: int = 11_000  # nearly all there are
    batch_size: int = 200

    @property
    def name(self) -> str:
        """How tables call it."""
        return self.split.title

    @property
    def split(self) -> Split:
        """What is known of the data set."""
        return SPLITS[self.data]

    @property
    def constants(self) -> Constants:
        """Constants of peers for the data set."""
        return self.split.constants

    @property
    def n_classes(self) -> int:
        """Classes of the data set: labels are below it."""
        return self.split.classes

    @property
    def classes_per_task(self) -> int:
        """Classes of each task."""
        return self.split.classes_per_task

    def stream(self, order: int) -> Stream:
        """Return the stream in one order of classes."""
        return abrupt(
            load(self.data), self.tasks, self.per_task, self.batch_size, order,
            classes_per_task=self.classes_per_task,
        )  # fmt: skip


def standard(data: str) -> Scenario:
    """Return the scenario of a data set."""
    split = SPLITS[data]
    return Scenario(data, split.tasks, split.per_task, split.batch_size)


@cache
def load(data: str) -> Dataset:
    """Return a data set by its name."""
    return SPLITS[data].load()


def unseen(scenario: Scenario, order: int, task: int) -> NDArray[np.float32]:
    """Return samples of a task that the stream does not show: left-over training and test ones."""
    data, stream = load(scenario.data), scenario.stream(order)
    own = stream.classes[task]
    shown = {row.tobytes() for row in stream.X[stream.task == task]}
    pool = data.X_train[np.isin(data.y_train, own)]
    left = np.array([row for row in pool if row.tobytes() not in shown])
    test = data.X_test[np.isin(data.y_test, own)]
    both = np.concatenate([left.reshape(-1, test.shape[1]), test])
    return both[np.random.default_rng([order, task, 700]).permutation(len(both))]
