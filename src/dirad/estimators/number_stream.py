"""The state of a stream whose targets are numbers, and how it answers."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.estimators.stream_columns import StreamColumns
from dirad.estimators.stream_state import InputAnswers, with_late_labels
from dirad.preval.answers import Answers
from dirad.preval.events import Explanation
from dirad.preval.system import System


class NumberStream(NamedTuple):
    """A complete state of a stream, from which all answers come; nothing in it ever changes."""

    system: System
    waiting: tuple[NDArray[np.float64], NDArray[np.float64]]  # samples that do not fill a batch yet
    columns: StreamColumns | None = None  # None: of an earlier dirad, which took numbers alone
    weight: NDArray[np.float64] | None = None  # of the waiting samples; None: all 1

    @property
    def labels(self) -> tuple[str]:
        """The name of the output, where the outputs of a classifier are named by their classes."""
        return ("y",)

    @property
    def n_samples(self) -> int:
        """Samples seen, waiting ones included."""
        return self.system.journal.samples + len(self.waiting[0])

    @property
    def targets(self) -> NDArray[np.float64]:
        """The targets of all samples at hand; NaN where they are missing."""
        return np.concatenate([*(one.buffer.y for one in self.system.learners), self.waiting[1]])

    def labelled(self, numbers: NDArray[np.int64], y: NDArray) -> tuple["NumberStream", int]:
        """Return the state with late targets, and how many came too late."""
        system: Any
        system, waiting, late = with_late_labels(self.system, self.waiting, numbers, y)
        return self._replace(system=system, waiting=waiting), late


@dataclass(frozen=True)
class NumberAnswers(InputAnswers):
    """The answers of a system of models that predict numbers."""

    estimator: ClassVar[str] = "PREVALRegressor"
    state: NumberStream

    def answer(self, X: NDArray, false_alarms: float | None = None) -> Answers:
        """Return route, predicted numbers, novelty, and which samples are known, in one pass."""
        return self.state.system.answer(self._bounded(X), false_alarms)

    def predict(self, X: NDArray) -> NDArray[np.float64]:
        """Return the predicted number of each sample."""
        X = self._bounded(X)
        if self.state.system.n_classes:
            return self.state.system.answer(X).outputs[:, 0]
        return np.full(len(X), self._mean_waiting())

    def predict_interval(self, X: NDArray, coverage: float) -> NDArray[np.float64]:
        """Return an interval for each sample: (samples, 2)."""
        X = self._bounded(X)
        if self.state.system.n_classes:
            return self.state.system.intervals(X, coverage)
        return np.tile(self._mean_waiting() + np.array([-np.inf, np.inf]), (len(X), 1))

    def explain(self, X: NDArray, y: NDArray[np.float64]) -> Explanation:
        """Return what kind of change a batch of samples shows, and why."""
        return self.state.system.explain(self._bounded(X), y)

    def _mean_waiting(self) -> float:
        """Return the mean of the targets that wait for their batch: all that were seen."""
        y = self.state.waiting[1]
        if np.isnan(y).all():
            raise ValueError("no target was seen yet, so there is nothing to predict from")
        return float(np.nanmean(y))
