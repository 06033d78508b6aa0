"""PREVAL for the package `river`: one sample at a time."""

from typing import Any

from dirad.estimators.continual import PREVALClassifier
from dirad.estimators.continual_regressor import PREVALRegressor

try:
    from river import base
except ImportError as error:
    raise ImportError("this adapter needs river: pip install river") from error


class Columns:
    """The features of the first sample, in the order of their columns."""

    def __init__(self) -> None:
        self.names: list[Any] = []

    def row(self, x: dict[Any, float]) -> list[float]:
        """Return a sample as a row; it must have the same features as the first one."""
        if not self.names:
            self.names = list(x)
        if set(x) != set(self.names):
            odd = sorted(map(str, set(x) ^ set(self.names)))
            raise ValueError(
                f"a sample must have the features of the first one; these are too many or "
                f"missing: {', '.join(odd)}"
            )
        return [x[name] for name in self.names]


class RiverPREVAL(base.Classifier):
    """A `PREVALClassifier` that takes one sample at a time, as a dict of features.

    Parameters
    ----------
    **options
        Of `PREVALClassifier`.

    Attributes
    ----------
    classifier : the `PREVALClassifier` that does the work

    Notes
    -----
    A sample waits until its batch is full. Then the batch is tested and learned at once, in at most
    `steps_per_batch` training steps, and some more (`max_steps`) if that completes a model. So the
    work for a sample has a bound that does not depend on the length of the stream.

    Examples
    --------
    >>> model = RiverPREVAL(random_state=0, batch_size=50)
    >>> for i in range(600):
    ...     model.learn_one({"a": i % 2 + 0.01 * (i % 7), "b": 0.02 * (i % 5)}, i % 2 == 1)
    >>> model.predict_one({"a": 1.0, "b": 0.05})
    True
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.classifier = PREVALClassifier(**options)
        self.columns = Columns()

    @property
    def _multiclass(self) -> bool:
        return True

    def _get_params(self) -> dict[str, Any]:
        return dict(self.options)

    def learn_one(self, x: dict[Any, float], y: Any) -> None:
        """Learn from one sample; y is None if its label is unknown."""
        self.classifier.partial_fit([self.columns.row(x)], None if y is None else [y])

    def predict_proba_one(self, x: dict[Any, float], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class, or {} before the first batch is full."""
        if not self.columns.names or not self.classifier.models_:
            return {}
        row = self.columns.row(x)
        chance = self.classifier.predict_proba([row])[0]
        return dict(zip(self.classifier.classes_.tolist(), chance.tolist(), strict=True))

    def novelty_one(self, x: dict[Any, float]) -> float:
        """Return the novelty of a sample, or NaN while no model is calibrated."""
        if not self.columns.names or not self.classifier._state.system.calibrated:
            return float("nan")
        return float(self.classifier.novelty([self.columns.row(x)])[0])


class RiverPREVALRegressor(base.Regressor):
    """A `PREVALRegressor` that takes one sample at a time, as a dict of features.

    Parameters
    ----------
    **options
        Of `PREVALRegressor`.

    Attributes
    ----------
    regressor : the `PREVALRegressor` that does the work

    Notes
    -----
    A sample waits until its batch is full. Then the batch is tested and learned at once, in at most
    `steps_per_batch` training steps, and some more (`max_steps`) if that completes a model. So the
    work for a sample has a bound that does not depend on the length of the stream.

    Examples
    --------
    >>> model = RiverPREVALRegressor(random_state=0, batch_size=50)
    >>> for i in range(600):
    ...     model.learn_one({"a": i % 11 / 10, "b": i % 7 / 6}, 3.0 * (i % 11) / 10)
    >>> round(model.predict_one({"a": 0.5, "b": 0.5}), 1)
    1.5
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.regressor = PREVALRegressor(**options)
        self.columns = Columns()

    def _get_params(self) -> dict[str, Any]:
        return dict(self.options)

    def learn_one(self, x: dict[Any, float], y: float | None) -> None:
        """Learn from one sample; y is None if its target is unknown."""
        self.regressor.partial_fit([self.columns.row(x)], None if y is None else [y])

    @property
    def _is_ready(self) -> bool:
        return bool(self.columns.names and self.regressor.models_)

    def predict_one(self, x: dict[Any, float]) -> float:
        """Return the number predicted for a sample, or 0 before the first batch is full."""
        return float(self.regressor.predict([self.columns.row(x)])[0]) if self._is_ready else 0.0

    def predict_interval_one(
        self, x: dict[Any, float], coverage: float = 0.9
    ) -> tuple[float, float]:
        """Return an interval that holds the target of a known sample with this probability.

        It is unbounded while no model is calibrated.
        """
        if not self._is_ready:
            return -float("inf"), float("inf")
        low, high = self.regressor.predict_interval([self.columns.row(x)], coverage)[0]
        return float(low), float(high)

    def novelty_one(self, x: dict[Any, float]) -> float:
        """Return the novelty of a sample, or NaN while no model is calibrated."""
        if not self._is_ready or not self.regressor._state.system.calibrated:
            return float("nan")
        return float(self.regressor.novelty([self.columns.row(x)])[0])
