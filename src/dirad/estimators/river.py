"""PREVAL for the package `river`: one sample at a time."""

from typing import Any

from dirad.estimators.continual import PREVALClassifier

try:
    from river import base
except ImportError as error:
    raise ImportError("this adapter needs river: pip install river") from error


class RiverPREVAL(base.Classifier):
    """A `PREVALClassifier` that takes one sample at a time, as a dict of features.

    Parameters
    ----------
    **options
        Of `PREVALClassifier`.

    Attributes
    ----------
    classifier : the `PREVALClassifier` that does the work

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
        self.features: list[Any] = []  # in the order of their columns

    @property
    def _multiclass(self) -> bool:
        return True

    def _get_params(self) -> dict[str, Any]:
        return dict(self.options)

    def _row(self, x: dict[Any, float]) -> list[float]:
        if set(x) != set(self.features):
            odd = sorted(map(str, set(x) ^ set(self.features)))
            raise ValueError(
                f"a sample must have the features of the first one; these are too many or "
                f"missing: {', '.join(odd)}"
            )
        return [x[name] for name in self.features]

    def learn_one(self, x: dict[Any, float], y: Any) -> None:
        """Learn from one sample; y is None if its label is unknown."""
        if not self.features:
            self.features = list(x)
        self.classifier.partial_fit([self._row(x)], None if y is None else [y])

    def predict_proba_one(self, x: dict[Any, float], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class, or {} before the first batch is full."""
        if not self.features or not self.classifier.models_:
            return {}
        row = self._row(x)
        chance = self.classifier.predict_proba([row])[0]
        return dict(zip(self.classifier.classes_.tolist(), chance.tolist(), strict=True))

    def novelty_one(self, x: dict[Any, float]) -> float:
        """Return the novelty of a sample, or NaN while no model is calibrated."""
        if not self.features or not self.classifier._state.system.calibrated:
            return float("nan")
        return float(self.classifier.novelty([self._row(x)])[0])
