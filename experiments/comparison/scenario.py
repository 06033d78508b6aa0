"""What is compared on: a data set whose classes come two by two, in eight random orders."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset, load_fashion_mnist, load_mnist, small_digits
from dirad.streams.kinds import Stream, abrupt

DATA = ("mnist", "mnist-28", "fashion-mnist", "digits")


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
        return {
            "mnist": "Split-MNIST, 14 × 14",
            "mnist-28": "Split-MNIST, 28 × 28",
            "fashion-mnist": "Split-Fashion-MNIST, 14 × 14",
            "digits": "scikit-learn's digits, 8 × 8",
        }[self.data]

    def stream(self, order: int) -> Stream:
        """Return the stream in one order of classes."""
        return abrupt(load(self.data), self.tasks, self.per_task, self.batch_size, order)


def standard(data: str) -> Scenario:
    """Return the scenario of a data set."""
    if data == "digits":  # some 240 samples a task: fewer than other tasks have in two batches
        return Scenario(data, per_task=230, batch_size=23)
    return Scenario(data)


@cache
def load(data: str) -> Dataset:
    """Return a data set by its name."""
    if data == "digits":
        return small_digits()
    if data == "fashion-mnist":
        return load_fashion_mnist(14)
    return load_mnist(28 if data == "mnist-28" else 14)


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
