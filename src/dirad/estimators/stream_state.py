"""The state of a stream as an estimator holds it: a system of models, and the labels' codes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import out_of_range, too_large_message
from dirad.encoding import with_medians
from dirad.estimators.checks import checked_labels
from dirad.estimators.stream_columns import StreamColumns, units_of_mixed
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
    ]  # samples that do not fill a batch yet, as numbers, and their codes
    columns: StreamColumns | None = None  # None: of an earlier dirad, which took numbers alone
    weight: NDArray[np.float64] | None = None  # of the waiting samples; None: all 1

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

    def taking(self, given: Any) -> tuple["StreamState", NDArray[np.int64]]:
        """Return the state that knows columns and labels of samples, and the labels' codes."""
        state = self.with_labels(given.y)
        codes = np.full(len(given.missing), UNLABELLED)
        codes[~given.missing] = state.codes(given.y)
        return state._replace(columns=given.columns), codes

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
        """Return which columns contradict the prediction by each sample's model."""
        found, columns = self.state.system.conflicted_inputs(self._bounded(X)), self.state.columns
        return found if columns is None else columns.per_column(found)

    def _bounded(self, X: NDArray) -> NDArray:
        """Return the inputs of the models, within bounds, given the columns."""
        columns = self.state.columns
        X = X if columns is None else columns.inputs(X)
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


def learned(
    state: Any, X: NDArray, y: NDArray, weight: NDArray | None, *, fit: bool = False
) -> Any:
    """Return the state of a stream after more samples: whole batches are learned, the rest waits.

    The encoding of the columns is that of the first batch; to `fit`, X is all there is.
    """
    weight = joined_weights(state.weight, len(state.waiting[0]), weight, len(X))
    X, y = np.concatenate([state.waiting[0], X]), np.concatenate([state.waiting[1], y])
    taken, size = 0, state.system.settings.l0.batch_size
    if len(X) >= size:
        X = replace_markers(state.system, X)
        state = begun(state, X if fit else X[:size])
        inputs = X if state.columns is None else state.columns.inputs(X)
        taken = state.system.learn(inputs, y, *(() if weight is None else (weight,)))
    left = None if weight is None else weight[taken:].copy()
    return state._replace(waiting=(X[taken:].copy(), y[taken:].copy()), weight=left)


def finished(state: Any) -> Any:
    """Return the state of a stream after the training of all models is finished."""
    X, y = state.waiting
    state = begun(state, X)
    inputs = X if state.columns is None else state.columns.inputs(X)
    state.system.finish(inputs, y, *(() if state.weight is None else (state.weight,)))
    return state._replace(waiting=(X[:0], y[:0]), weight=None)


def begun(state: Any, X: NDArray) -> Any:
    """Return the state with a system to learn on; X are the first samples if it is new."""
    system, columns = state.system.working_copy(), state.columns
    if columns is not None and columns.encoding is None and len(X):
        columns = columns.fixed(X)
        if columns.is_mixed:
            inputs = columns.inputs(X)
            system.n_inputs = inputs.shape[1]
            system.units.set_once(units_of_mixed(inputs))
    return state._replace(system=system, columns=columns)


def joined_weights(
    before: NDArray | None, n_before: int, weight: NDArray | None, n: int
) -> NDArray | None:
    """Return the weights of samples and of those after them; None if all are 1."""
    if before is None and weight is None:
        return None
    parts = ((before, n_before), (weight, n))
    return np.concatenate([np.ones(m) if one is None else one for one, m in parts])


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
    far = out_of_range(with_medians(X)) & ~np.isnan(X)
    if not far.any():
        return X
    row, column = np.argwhere(far)[0].tolist()
    warnings.warn(
        f"sample {system.journal.samples + row}, column {column}: "
        f"{too_large_message(float(X[row, column]))}; {np.count_nonzero(far)} such values are "
        "replaced by the medians of their columns",
        stacklevel=6,
    )
    return np.where(far, with_medians(np.where(far, np.nan, X)), X)
