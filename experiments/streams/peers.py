"""Learners that predict a batch and then learn it: simple ones, and those of river.

River's learners have its defaults. Its bagging is of Hoeffding trees, and has no regressor.
"""

from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from experiments.peers.trees import ADVICE

NO_CHANGE = "no change"
CONSTANT = "majority or mean"
FOREST = "adaptive random forest"
TREE = "Hoeffding adaptive tree"
BAGGING = "leveraging bagging"
BOOSTING = "boosting on a window"

WINDOW = 2000  # last samples to which boosting is fitted again after every batch


class Learner(Protocol):
    """A learner that is asked about a batch before it is taught the batch."""

    def predict(self, X: NDArray) -> NDArray:
        """Return a class, or a number, for each sample."""
        ...

    def partial_fit(self, X: NDArray, y: NDArray) -> Any:
        """Learn a batch."""
        ...


class NoChange:
    """Predicts the last target before the batch, for all samples of the batch."""

    def predict(self, X: NDArray) -> NDArray:
        return np.full(len(X), self.last)

    def partial_fit(self, X: NDArray, y: NDArray) -> None:
        self.last = y[-1]


class Majority:
    """Predicts the most frequent class so far; of equally frequent ones, the first seen."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()

    def predict(self, X: NDArray) -> NDArray:
        return np.full(len(X), self.counts.most_common(1)[0][0])

    def partial_fit(self, X: NDArray, y: NDArray) -> None:
        self.counts.update(y.tolist())


class Mean:
    """Predicts the mean of all targets so far."""

    def __init__(self) -> None:
        self.total, self.n = 0.0, 0

    def predict(self, X: NDArray) -> NDArray:
        return np.full(len(X), self.total / self.n)

    def partial_fit(self, X: NDArray, y: NDArray) -> None:
        self.total += float(y.sum())
        self.n += len(y)


class OneByOne:
    """A learner of river, which takes one sample at a time."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: NDArray) -> NDArray:
        return np.array([self.model.predict_one(dict(enumerate(x))) for x in X.tolist()])

    def partial_fit(self, X: NDArray, y: NDArray) -> None:
        for x, target in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(x)), target)


class WindowBoosting:
    """Histogram boosting of scikit-learn, fitted again to the last samples after every batch."""

    def __init__(self, kind: Callable[..., Any], seed: int, window: int = WINDOW) -> None:
        self.kind, self.seed, self.window = kind, seed, window
        self.X: NDArray | None = None
        self.y: NDArray | None = None
        self.model: Any = None

    def predict(self, X: NDArray) -> NDArray:
        return self.model.predict(X)

    def partial_fit(self, X: NDArray, y: NDArray) -> None:
        joined_X = X if self.X is None else np.concatenate([self.X, X])
        joined_y = y if self.y is None else np.concatenate([self.y, y])
        self.X, self.y = joined_X[-self.window :], joined_y[-self.window :]
        if self.kind is HistGradientBoostingClassifier and len(np.unique(self.y)) == 1:
            self.model = NoChange()  # boosting refuses data of a single class
            self.model.partial_fit(self.X, self.y)
        else:
            fresh: Any = self.kind(early_stopping=False, random_state=self.seed)
            self.model = fresh.fit(self.X, self.y)


def _river(module: str, name: str, **options: Any) -> OneByOne:
    """Return a learner of river."""
    try:
        kind = getattr(import_module(f"river.{module}"), name)
    except ImportError as error:
        raise ImportError(f"{name} {ADVICE}") from error
    return OneByOne(kind(**options))


def _bagging(seed: int) -> OneByOne:
    base = _river("tree", "HoeffdingTreeClassifier").model
    return _river("ensemble", "LeveragingBaggingClassifier", model=base, seed=seed)


class Method(NamedTuple):
    """How a learner is made, of a seed."""

    classifier: Callable[[int], Learner]
    regressor: Callable[[int], Learner] | None


METHODS: dict[str, Method] = {
    NO_CHANGE: Method(lambda seed: NoChange(), lambda seed: NoChange()),
    CONSTANT: Method(lambda seed: Majority(), lambda seed: Mean()),
    TREE: Method(
        lambda seed: _river("tree", "HoeffdingAdaptiveTreeClassifier", seed=seed),
        lambda seed: _river("tree", "HoeffdingAdaptiveTreeRegressor", seed=seed),
    ),
    FOREST: Method(
        lambda seed: _river("forest", "ARFClassifier", seed=seed),
        lambda seed: _river("forest", "ARFRegressor", seed=seed),
    ),
    BAGGING: Method(_bagging, None),
    BOOSTING: Method(
        lambda seed: WindowBoosting(HistGradientBoostingClassifier, seed),
        lambda seed: WindowBoosting(HistGradientBoostingRegressor, seed),
    ),
}
