"""The data behind the pictures, read from a fitted estimator. Nothing here needs matplotlib."""

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from dirad.core.network import Network
    from dirad.estimators import PREVALClassifier
    from dirad.history import History
    from dirad.preval.choice import AnyModel


class Subject(NamedTuple):
    """One network with its history and all names.

    Where X has missing values or categories, inputs of the network are other than columns of X.
    """

    network: "Network"
    history: "History"
    inputs: list[str]
    outputs: list[str]
    columns: list[str]  # of X
    spread: NDArray[np.float64] | None = None  # standard deviations of unstandardized inputs
    conditions: Mapping[int, str] = MappingProxyType({})  # of gates on columns, by unit


def scaled_weights(network: "Network", spread: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return the weight of each edge, times the standard deviation of the input it leaves."""
    weights = network.edges["weight"].copy()
    source = network.edges["source"]
    direct = (source >= 0) & (source < network.n_inputs)
    if spread is not None:
        weights[direct] *= spread[source[direct]]
    return weights


def subject(estimator: Any, model: int | None = None) -> Subject:
    """Return the network of an estimator; of a PREVALClassifier, L0 of the model with a number."""
    from sklearn.utils.validation import check_is_fitted

    from dirad.estimators.columns import column_names, network_input_names
    from dirad.estimators.reading import conditions_of

    check_is_fitted(estimator)
    columns, inputs = list(column_names(estimator)), list(network_input_names(estimator))
    if hasattr(estimator, "models_"):
        one = model_of(estimator, model)
        return Subject(one.network, one.history, inputs, _outputs(estimator, one), columns)
    if model is not None:
        raise ValueError(f"{type(estimator).__name__} has no models, but model={model} was asked")
    network = estimator.network_
    outputs = names(None, network.n_outputs, "y")
    if hasattr(estimator, "classes_"):
        classes = [str(name) for name in estimator.classes_.tolist()]
        outputs = classes if len(classes) == network.n_outputs else classes[1:]
    spread = estimator.input_spread_
    conditions = conditions_of(estimator)
    return Subject(network, estimator.history_, inputs, outputs, columns, spread, conditions)


def renamed(estimator: Any, one: Subject, given: Sequence[str]) -> Subject:
    """Return a subject with other names of the columns of X, and of the inputs made of them."""
    from dirad.estimators.columns import encoding_of
    from dirad.estimators.reading import conditions_of

    if len(given) != len(one.columns):
        raise ValueError(f"{len(given)} input names for {len(one.columns)} inputs")
    columns, encoding = [str(name) for name in given], encoding_of(estimator)
    inputs = columns if encoding is None else list(encoding.names(columns))
    conditions = {} if one.spread is None else conditions_of(estimator, columns)
    return one._replace(columns=columns, inputs=inputs, conditions=conditions)


def model_of(estimator: "PREVALClassifier", number: int | None = None) -> "AnyModel":
    """Return the model with this number; by default the newest."""
    models = {model.number: model for model in estimator.models_}
    if not models:
        raise ValueError("there is no model yet: fewer samples than one batch were seen")
    if number is None:
        return estimator.models_[-1]
    if number not in models:
        raise ValueError(f"there is no model {number}, only {', '.join(map(str, models))}")
    return models[number]


def names(given: Sequence[str] | None, n: int, letter: str) -> list[str]:
    """Return the names given as text, or the letter with numbers: x0, x1, …"""
    return [f"{letter}{i}" for i in range(n)] if given is None else [str(name) for name in given]


def _outputs(estimator: "PREVALClassifier", model: "AnyModel | None") -> list[str]:
    """Return the class of each output of a model; those of the model it extends come first."""
    if model is None:
        return []
    n = model.network.n_outputs
    inherited = _outputs(estimator, getattr(model, "base", None))
    found = inherited + [str(estimator._state.labels[code]) for code in model.classes]
    return found if len(found) == n else names(None, n, "y")


class View(NamedTuple):
    """Samples as a model sees them; all (samples, inputs)."""

    samples: NDArray[np.float64]
    predicted: NDArray[np.float64]  # by L1; NaN where it predicts nothing
    conflicted: NDArray[np.float64]  # 1 where sample and prediction conflict; of means, the share


def seen_by(model: Any, X: NDArray) -> View:
    """Return samples, their inputs as L1 predicts them, and which inputs conflict with that."""
    if model.phase != "stable" or model.l1 is None:
        raise ValueError(
            f"model {model.number} is still adapting ({model.phase}), and predicts its inputs only "
            "when it is stable: call finish() first"
        )
    inputs, predicted = model.predicted_inputs(X)
    images = np.full(X.shape, np.nan)
    images[:, inputs] = predicted
    return View(X, images, model.conflicted(X)[:, : X.shape[1]].astype(float))


class Moment(NamedTuple):
    """One batch of a stream, and what the classifier decided about it."""

    shares: tuple[float, ...]  # of each task, or of each model where tasks are not known
    verdict: str
    model: int
    phase: str
    p: float  # p-value of the batch under the hypothesis that its task is known
    accuracy: float = float("nan")
    cause: str = ""  # kind of change: "back", "new inputs", "shifted inputs" or "new rule"
    why: str = ""  # the input that contradicts most, in words

    @property
    def task(self) -> int:
        """The task of most samples."""
        return int(np.argmax(self.shares))


def moments_of(estimator: "PREVALClassifier") -> list[Moment]:
    """Return one moment per batch; the shares are those of models."""
    reports = estimator.reports_
    stable = {one.number: 0 for one in estimator.models_ if one.phase == "stable"}
    stable |= {event.model: event.batch for event in estimator.events_ if event.kind == "stable"}
    n_models = 1 + max(report.model for report in reports)
    names = getattr(estimator, "feature_names_in_", None)
    return [
        Moment(
            tuple(float(number == report.model) for number in range(n_models)),
            report.kind,
            report.model,
            "stable" if report.batch >= stable.get(report.model, math.inf) else "adapting",
            report.p,
            cause=report.cause,
            why="".join(report.reasons(names)[:1]),
        )
        for report in reports
    ]


def accuracy_matrix(
    tasks: ArrayLike, y_true: ArrayLike, predictions: Sequence[ArrayLike]
) -> tuple[list[Any], NDArray[np.float64]]:
    """Return the tasks, and R[i, j]: accuracy on samples of task j by the i-th predictions.

    >>> accuracy_matrix(["a", "b"], [0, 1], [[0, 0], [0, 1]])[1].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    from sklearn.utils.validation import check_consistent_length

    check_consistent_length(tasks, y_true, *predictions)
    tasks, y_true = np.asarray(tasks), np.asarray(y_true)
    found = list(dict.fromkeys(tasks.tolist()))
    right = [np.asarray(answers) == y_true for answers in predictions]
    return found, np.array([[r[tasks == task].mean() for task in found] for r in right])


def routing(tasks: ArrayLike, route: ArrayLike) -> tuple[NDArray[np.float64], list[Any], list[int]]:
    """Return the share of each task's samples that goes to each model; the tasks; the models.

    >>> routing(["a", "a", "b", "b"], [0, 0, 0, 3])
    (array([[1. , 0. ],
           [0.5, 0.5]]), ['a', 'b'], [0, 3])
    """
    from sklearn.utils.validation import check_consistent_length

    check_consistent_length(tasks, route)
    tasks, route = np.asarray(tasks), np.asarray(route)
    found, models = np.unique(tasks).tolist(), np.unique(route).tolist()
    shares = [[np.mean(route[tasks == task] == model) for model in models] for task in found]
    return np.array(shares), found, models
