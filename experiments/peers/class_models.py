"""Peers that fit a model to the samples of each class, and answer by the model that scores best.

The first samples of a class are kept until there are `capacity` of them; then its model is fitted
and they are forgotten. So much memory is what our learner has for a task of two classes. Before
that, a model is fitted to what there is when an answer is asked for.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

CAPACITY = 5000  # samples of a class that are kept at most: half of our buffer


class ClassModel(Protocol):
    """A model of one class."""

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return how well samples fit the class: (samples,)."""
        ...

    @property
    def n_stored(self) -> int:
        """Return how many numbers are kept."""
        ...


Fit = Callable[[NDArray[np.float64], np.random.Generator], ClassModel]


class ModelPerClass:
    """A model of each class, fitted once its samples are collected."""

    def __init__(self, n_inputs: int, fit: Fit, capacity: int = CAPACITY, seed: int = 0) -> None:
        self.n_inputs = n_inputs
        self.fit = fit
        self.capacity = capacity
        self.seed = seed
        self.samples: dict[int, NDArray[np.float32]] = {}  # of classes without a final model
        self.models: dict[int, ClassModel] = {}  # final ones, and those of the samples so far

    def learn(self, X: NDArray, y: NDArray) -> None:
        for label in np.unique(y).tolist():
            if label in self.models and label not in self.samples:
                continue  # final
            known = self.samples.get(label, np.zeros((0, self.n_inputs), np.float32))
            known = np.concatenate([known, X[y == label].astype(np.float32)])[: self.capacity]
            self.samples[label] = known
            self.models.pop(label, None)
            if len(known) == self.capacity:
                self._finish(label)

    def end(self) -> None:
        """The stream is over: fit what is left, and forget all samples."""
        for label in list(self.samples):
            self._finish(label)

    def _finish(self, label: int) -> None:
        self._fit(label)
        del self.samples[label]

    def _fit(self, label: int) -> None:
        if label not in self.models:
            rng = np.random.default_rng([self.seed, label])
            self.models[label] = self.fit(self.samples[label].astype(np.float64), rng)

    def predict(self, X: NDArray) -> NDArray:
        for label in self.samples:
            self._fit(label)
        labels = list(self.models)
        scores = [self.models[label].score(X.astype(np.float64)) for label in labels]
        return np.array(labels)[np.argmax(scores, axis=0)]

    @property
    def n_stored(self) -> int:
        return sum(model.n_stored for model in self.models.values()) + self.n_integers

    @property
    def n_integers(self) -> int:
        """Of these, the inputs of samples that are kept as they came."""
        return self.n_samples_stored * self.n_inputs

    @property
    def n_samples_stored(self) -> int:
        return sum(len(X) for X in self.samples.values())
