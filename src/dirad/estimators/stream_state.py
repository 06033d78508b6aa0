"""The state of a stream as an estimator holds it: a system of models, and the labels' codes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import out_of_range, too_large_message
from dirad.estimators.checks import checked_labels
from dirad.preval.answers import Answers
from dirad.preval.buffer import UNLABELLED
from dirad.preval.choice import ContinualSystem
from dirad.preval.events import Explanation
from dirad.preval.system import System


class StreamState(NamedTuple):
    """A complete state of a stream, from which all answers come; nothing in it ever changes."""

    system: ContinualSystem
    labels: tuple[Any, ...]  # by code, in order of appearance
    classes: NDArray  # sorted
    waiting: tuple[
        NDArray, NDArray[np.int64]
    ]  # samples that do not fill a batch yet, and their codes

    @property
    def n_samples(self) -> int:
        """Samples seen, waiting ones included."""
        return self.system.journal.samples + len(self.waiting[0])

    def with_labels(self, y: NDArray) -> "StreamState":
        """Return the state with codes for new labels, in order of appearance."""
        known = set(self.labels)
        new = [label for label in dict.fromkeys(y.tolist()) if label not in known]
        if not new:
            return self
        labels = (*self.labels, *new)
        return self._replace(labels=labels, classes=sorted_classes(labels))

    def codes(self, y: NDArray) -> NDArray[np.int64]:
        """Return the codes of labels."""
        places = {label: code for code, label in enumerate(self.labels)}
        return np.array([places[label] for label in y.tolist()], np.int64)

    def coded(
        self, y: NDArray, missing: NDArray[np.bool_]
    ) -> tuple["StreamState", NDArray[np.int64]]:
        """Return the state with codes for new labels, and the code of each sample's label."""
        state = self.with_labels(y)
        codes = np.full(len(missing), UNLABELLED)
        codes[~missing] = state.codes(y)
        return state, codes

    def learned(self, X: NDArray, codes: NDArray[np.int64]) -> "StreamState":
        """Return the state after more samples: whole batches are learned, the rest waits."""
        system, waiting = learn_whole_batches(self.system, self.waiting, X, codes)
        return self._replace(system=system, waiting=waiting)

    def finished(self) -> "StreamState":
        """Return the state after the training of all models is finished."""
        system, (X, codes) = self.system.working_copy(), self.waiting
        system.finish(X, codes)
        return self._replace(system=system, waiting=(X[:0], codes[:0]))

    def probabilities(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each class: (samples, classes)."""
        return self.by_class(self.system.answer(X).outputs)

    def by_class(self, known: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return outputs of the system in the order of the classes."""
        codes = self.codes(self.classes)
        result = np.zeros((len(known), len(codes)))
        there = codes < known.shape[1]
        if not there.any():  # all labels so far wait for their batch to be full
            return np.full(result.shape, 1.0 / max(len(codes), 1))
        result[:, there] = known[:, codes[there]]
        return result


@dataclass(frozen=True)
class InputAnswers:
    """What a system of models says of inputs, whatever it predicts."""

    estimator: ClassVar[str]  # the name for messages
    state: Any

    def route(self, X: NDArray) -> NDArray[np.int64]:
        """Return the number of the model that answers each sample."""
        return self.state.system.answer(self._bounded(X)).route

    def novelty(self, X: NDArray) -> NDArray[np.float64]:
        """Return how novel each sample is to the model that knows it best."""
        return self.state.system.novelty(self._bounded(X))

    def is_known(self, X: NDArray, false_alarms: float) -> NDArray[np.bool_]:
        """Return whether some model knows each sample, at this rate of false alarms."""
        return self.state.system.is_known(self._bounded(X), false_alarms)

    def conflicts(self, X: NDArray) -> NDArray[np.bool_]:
        """Return which inputs contradict the prediction by each sample's model."""
        return self.state.system.conflicted_inputs(self._bounded(X))

    def _bounded(self, X: NDArray) -> NDArray:
        return clipped_inputs(self.state.system, X, self.estimator)


@dataclass(frozen=True)
class StreamAnswers(InputAnswers):
    """The answers of a system of models that predict classes."""

    estimator: ClassVar[str] = "PREVALClassifier"
    state: StreamState

    @property
    def classes_(self) -> NDArray:
        """All classes seen, sorted."""
        return self.state.classes

    def answer(self, X: NDArray, false_alarms: float | None = None) -> Answers:
        """Return route, probabilities in the order of `classes_`, novelty, and what is known."""
        found = self.state.system.answer(self._bounded(X), false_alarms)
        return found._replace(outputs=self.state.by_class(found.outputs))

    def predict_proba(self, X: NDArray) -> NDArray[np.float64]:
        """Return the probability of each class, in the order of `classes_`."""
        return self.state.probabilities(self._bounded(X))

    def predict(self, X: NDArray) -> NDArray:
        """Return the most probable class of each sample."""
        X = self._bounded(X)
        if not len(self.state.classes):
            raise ValueError("no label was seen yet, so there is no class to predict")
        return self.state.classes[np.argmax(self.state.probabilities(X), axis=1)]

    def explain(self, X: NDArray, codes: NDArray[np.int64]) -> Explanation:
        """Return what kind of change a batch of samples shows, and why."""
        assert isinstance(self.state.system, System)
        return self.state.system.explain(self._bounded(X), codes)


def learn_whole_batches(
    system: ContinualSystem, waiting: tuple[NDArray, NDArray], X: NDArray, y: NDArray
) -> tuple[ContinualSystem, tuple[NDArray, NDArray]]:
    """Learn all whole batches of the waiting and the new samples, on a copy of the system.

    Returns the system, and the samples that wait now, with their targets.
    """
    X, y = np.concatenate([waiting[0], X]), np.concatenate([waiting[1], y])
    taken = 0
    if len(X) >= system.settings.l0.batch_size:
        system = system.working_copy()
        X = replace_markers(system, X)
        taken = system.learn(X, y)
    return system, (X[taken:].copy(), y[taken:].copy())


def with_late_labels(
    system: ContinualSystem,
    waiting: tuple[NDArray, NDArray],
    numbers: NDArray[np.int64],
    y: NDArray,
) -> tuple[ContinualSystem, tuple[NDArray, NDArray], int]:
    """Return a copy of the system and the waiting samples with late targets.

    The third result is how many targets came too late.
    """
    taken, (X, targets) = system.journal.samples, waiting
    here = numbers >= taken
    targets = targets.copy()
    targets[numbers[here] - taken] = y[here]
    system = system.working_copy()
    used = system.label(numbers[~here], y[~here])
    return system, (X, targets), int(np.count_nonzero(~here)) - used


def clipped_inputs(system: ContinualSystem, X: NDArray, name: str) -> NDArray:
    """Return inputs that float64 arithmetic can hold; an estimator without models cannot answer."""
    if not system.models and system.opened:
        raise ValueError("all models were removed: give more samples")
    if not system.models:
        raise ValueError(
            f"{name} has no model yet: fewer samples than one batch "
            f"({system.settings.l0.batch_size}) were seen; give more, or call finish()"
        )
    return system.clipped_to_float64(X)


def sorted_classes(labels: Sequence[Any]) -> NDArray:
    """Return the classes that labels stand for, sorted."""
    return np.unique(np.asarray(checked_labels(list(labels))))


def replace_markers(system: ContinualSystem, X: NDArray) -> NDArray:
    """Return the first samples of a stream without numbers that mark missing values.

    The very first samples are accepted unchecked, since there is nothing to compare them with. What
    turns out to be far too large is replaced by the median of its column.
    """
    if not isinstance(system, System) or system.units.is_known:
        return X
    far = out_of_range(X)
    if not far.any():
        return X
    row, column = np.argwhere(far)[0].tolist()
    warnings.warn(
        f"sample {system.journal.samples + row}, column {column}: "
        f"{too_large_message(float(X[row, column]))}; {np.count_nonzero(far)} such values are "
        "replaced by the medians of their columns",
        stacklevel=6,
    )
    return np.where(far, np.nanmedian(np.where(far, np.nan, X), axis=0), X)
