"""What is drawn of a fitted estimator: a network, how it grew, and the names of its ends."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from dirad.core.network import Network
from dirad.estimators.continual import PREVALClassifier
from dirad.history import History
from dirad.preval.model import Model


class Subject(NamedTuple):
    """One network and all that a picture says of it."""

    network: Network
    history: History
    inputs: list[str]
    outputs: list[str]
    spread: NDArray[np.float64] | None = None  # of the inputs, where the network takes raw ones

    def strengths(self) -> NDArray[np.float64]:
        """Return what a picture shows of each edge: its weight, for an input of spread 1."""
        return strengths(self.network, self.spread)


def strengths(network: Network, spread: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the weight of each edge times the spread of the input that it leaves."""
    weights = network.edges["weight"].copy()
    source = network.edges["source"]
    direct = (source >= 0) & (source < network.n_inputs)
    if spread is not None:
        weights[direct] *= spread[source[direct]]
    return weights


def subject(estimator: Any, model: int | None = None) -> Subject:
    """Return the network of an estimator; of a PREVALClassifier L0 of one model, by its number."""
    check_is_fitted(estimator)
    if isinstance(estimator, PREVALClassifier):
        one = model_of(estimator, model)
        return Subject(one.network, one.history, input_names(estimator), _outputs(estimator, one))
    if model is not None:
        raise ValueError(f"{type(estimator).__name__} has no models, but model={model} was asked")
    network: Network = estimator.network_
    outputs = [f"y{i}" for i in range(network.n_outputs)]
    if hasattr(estimator, "classes_"):
        classes = [str(name) for name in estimator.classes_.tolist()]
        outputs = classes if len(classes) == network.n_outputs else classes[1:]
    spread = estimator.input_spread_
    return Subject(network, estimator.history_, input_names(estimator), outputs, spread)


def model_of(estimator: PREVALClassifier, number: int | None = None) -> Model:
    """Return a model by its number; the newest one if none is said."""
    models = {model.number: model for model in estimator.models_}
    if not models:
        raise ValueError("there is no model yet: fewer samples than one batch were seen")
    if number is None:
        return estimator.models_[-1]
    if number not in models:
        raise ValueError(f"there is no model {number}, only {', '.join(map(str, models))}")
    return models[number]


def input_names(estimator: Any) -> list[str]:
    """Return the names of the features: as in the data, or x0, x1, …"""
    n = estimator.n_features_in_
    return [str(name) for name in getattr(estimator, "feature_names_in_", _numbered("x", n))]


def _outputs(estimator: PREVALClassifier, model: Model | None) -> list[str]:
    """Return the class of each output, those of the models it stands on first."""
    if model is None:
        return []
    n = model.network.n_outputs
    below = _outputs(estimator, getattr(model, "base", None))
    names = below + [str(estimator._labels[code]) for code in model.classes]
    return names if len(names) == n else _numbered("y", n)


def _numbered(letter: str, n: int) -> list[str]:
    return [f"{letter}{i}" for i in range(n)]
