"""What the continual estimators share: a stream of samples, models of its tasks, their answers."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dirad.encoding import Encoding
from dirad.estimators.columns import input_tags
from dirad.estimators.stream_columns import stream_columns
from dirad.estimators.stream_state import finished
from dirad.estimators.transaction import locked, writable_copy
from dirad.preval.events import ModelEvent, Report

NO_ROWS = np.zeros(0, np.int64)


class StreamEstimator(BaseEstimator):
    """An estimator whose `_stream` is the last complete state of a stream.

    A class of this kind has `_answers`, which answers from that state.
    """

    preset: str
    _stream: Any
    _answers: Any
    _settings: Any  # of a stream that begins

    def __str__(self) -> str:
        if not hasattr(self, "_stream"):
            return repr(self)
        return "\n".join([repr(self), *map(repr, self.models_)])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_stream")

    def __sklearn_tags__(self):
        tags = input_tags(self, super().__sklearn_tags__())
        tags.input_tags.categorical = self.preset != "paper"
        return tags

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(writable_copy(state))

    # ---------------------------------------------------------------- learning

    def remove(self, model: int) -> Self:
        """Remove a model by its number; all others stay as they are."""
        with locked(self):
            system = self._state.system.working_copy()
            system.remove(model, {"reason": "on request"})
            self._stream = self._stream._replace(system=system)
        return self

    def finish(self) -> Self:
        """Finish the training of all models now, with the samples stored so far."""
        with locked(self):
            self._stream = finished(self._state)
        return self

    def _take(self, fresh: Self) -> Self:
        """Become `fresh`, which was fitted apart: this one answers until then."""
        with locked(self):
            vars(self).update(vars(fresh))
            if not hasattr(fresh, "feature_names_in_"):
                vars(self).pop("feature_names_in_", None)
        return self

    # ---------------------------------------------------------------- answers

    def route(self, X: Any) -> NDArray[np.int64]:
        """Return for each sample the number of the model that predicts it (`models_[i].number`)."""
        return self._answers.route(self._checked(X))

    def novelty(self, X: Any) -> NDArray[np.float64]:
        """Return how unusual the inputs of each sample are to the model that knows them best.

        It is the logarithm of L1's prediction error, in standard deviations from the mean of
        held-out samples; for `preset="paper"`, the share of conflicted nodes.
        """
        return self._answers.novelty(self._checked(X))

    def is_known(self, X: Any, false_alarms: float = 0.05) -> NDArray[np.bool_]:
        """Return whether some model knows the inputs of each sample.

        `false_alarms` is the share of samples with known inputs that are called unknown. With
        `preset="paper"`, the share of conflicted nodes is compared with T_SV instead.
        """
        X = self._checked(X)
        if not 0 < false_alarms < 1:
            raise ValueError(f"false_alarms must be between 0 and 1, got {false_alarms!r}")
        return self._answers.is_known(X, false_alarms)

    def conflicts(self, X: Any) -> NDArray[np.bool_]:
        """Return which columns contradict their prediction: (samples, features).

        The prediction is by the model that the sample is routed to; an input that it does not
        predict is never in conflict. A column of a mixed stream is if any of its inputs is.
        """
        return self._answers.conflicts(self._checked(X))

    def _checked(self, X: Any) -> NDArray:
        columns = self._state.columns
        return stream_columns(self, X, "no_validation", columns, NO_ROWS, resumed=True)[0]

    @property
    def _batch_size(self) -> int:
        stream = vars(self).get("_stream")
        return (self._settings if stream is None else stream.system.settings).l0.batch_size

    @property
    def encoding_(self) -> Encoding | None:
        """How the columns of X become inputs; None until the first batch is complete."""
        columns = self._state.columns
        return None if columns is None else columns.encoding

    @property
    def events_(self) -> list[ModelEvent]:
        """The batches in which models were opened, became stable or were chosen, and the evidence.

        A batch is `batch_size` samples, however the stream is divided into calls. The last 10,000
        events are kept.
        """
        return list(self._state.system.journal.events)

    @property
    def reports_(self) -> list[Report]:
        """The verdict on each batch with its p-value, the kind of change, and its reasons.

        The last 10,000 reports are kept.
        """
        return list(self._state.system.journal.reports)

    @property
    def n_samples_seen_(self) -> int:
        """Number of samples so far, including those that wait for a whole batch."""
        return self._state.n_samples

    @property
    def models_(self) -> list[Any]:
        """The models, oldest first."""
        return list(self._state.system.models)

    @property
    def n_parameters_(self) -> int:
        """Number of numbers stored in all models."""
        return self._state.system.n_parameters

    @property
    def _state(self) -> Any:
        """The last complete state."""
        check_is_fitted(self)
        return self._stream
