"""All contents of the page as plain data: what the template writes and what the script draws."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dirad.plot.data import Subject, renamed, subject
from dirad.plot.responses import Feature, grouped, shares_of
from dirad.report.page.explained import contributions_data, responses_data
from dirad.report.page.networks import equation_rows, functions, input_weights, network_data
from dirad.report.page.numbers import short
from dirad.report.page.places import PIXEL
from dirad.report.page.replay import final_topology
from dirad.report.page.samples import (
    chosen_rows,
    routing_data,
    sample_data,
    states_data,
    view_data,
)
from dirad.report.page.stream import (
    change_rows,
    event_rows,
    matrix_table,
    routing_table,
    timeline_data,
)

if TYPE_CHECKING:
    from dirad.preval.choice import AnyModel

MOST_POINTS = 400  # in the scatter plot
MOST_IMPORTANT = 12  # listed inputs
MANY_CLASSES = 30  # with more classes, there is no confusion matrix
MANY_EQUATIONS = 60  # with more equations, their list is collapsed at first


class Given:
    """The data and remarks that the user gave with the model, checked against it."""

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        tasks: ArrayLike | None,
        shape: tuple[int, int] | None,
        about: str = "",
        held_out: Mapping[str, float] | None = None,
        indicators: Sequence[Feature] = (),
    ) -> None:
        from sklearn.utils.validation import check_is_fitted

        from dirad import estimators
        from dirad.estimators.columns import encoding_of

        networks = estimators.DIRADClassifier | estimators.DIRADRegressor
        systems = estimators.PREVALClassifier | estimators.PREVALRegressor
        if not isinstance(estimator, networks | systems):
            raise TypeError(f"a page shows a dirad estimator, got {type(estimator).__name__}")
        check_is_fitted(estimator)
        n = estimator.n_features_in_
        if X is not None and (len(np.shape(X)) != 2 or np.shape(X)[1] != n or not len(X)):
            raise ValueError(f"X has shape {np.shape(X)}, but the model takes rows of {n} features")
        self.answers, encoding = _answers(estimator), encoding_of(estimator)
        self.encoding = None if encoding is None or encoding.is_identity else encoding
        # Numbers: categories are codes, and NaN is a missing value.
        self.X: NDArray | None = None if X is None else _numbers(estimator, X)
        self.y: NDArray | None = None if y is None else np.asarray(y)
        self.tasks: NDArray | None = None if tasks is None else np.asarray(tasks)
        self.shape = shape
        self.about = about  # a remark on X
        continual = hasattr(estimator, "models_")
        self.indicators = () if continual else tuple(indicators)  # columns of X, by category
        self.held_out = dict(held_out or {})  # "rows", and scores on them
        for name, values in (("y", self.y), ("tasks", self.tasks)):
            if values is not None and self.X is None:
                raise ValueError(f"{name} is given without X")
            if values is not None and self.X is not None and len(values) != len(self.X):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.X)} rows of X")
        if shape is not None and shape[0] * shape[1] != n:
            raise ValueError(f"shape {tuple(shape)} does not fit {n} features")
        if shape is not None and self.encoding is not None:
            raise ValueError(
                "shape is given, but the inputs of the network are no pixels alone: some tell "
                "whether a value is missing, or of which category it is"
            )

    @property
    def is_encoded(self) -> bool:
        """Whether the inputs of the network are other than columns."""
        return self.encoding is not None or bool(self.indicators)

    @cached_property
    def predicted(self) -> NDArray:
        """The predictions for X."""
        return self.answers.predict(self.X)

    @property
    def score(self) -> float:
        """Accuracy or R² on X."""
        from sklearn.metrics import accuracy_score, r2_score

        measure: Any = accuracy_score if hasattr(self.answers, "classes_") else r2_score
        return float(measure(self.y, self.predicted))


def _answers(estimator: Any) -> Any:
    """Return what predicts, given X as numbers."""
    from dirad.estimators.answering import answers_of

    return estimator._answers if hasattr(estimator, "models_") else answers_of(estimator)


def _numbers(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Return X as numbers."""
    from dirad.estimators.columns import checked_columns

    return checked_columns(estimator, X)


def contents(
    estimator: Any, given: Given, names: Sequence[str] | None, max_samples: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the template writes (texts, tables) and what the script draws."""
    continual = hasattr(estimator, "models_")
    models = estimator.models_ if continual else [None]
    if not models:
        raise ValueError("there is no model yet: fewer samples than one batch were seen")
    subjects = [_subject(estimator, model, names) for model in models]
    parts = [
        _part(estimator, model, one, grouped(one.columns, given.indicators))
        for model, one in zip(models, subjects, strict=True)
    ]
    networks = [
        network_data(one, given.shape, _start(model))
        | {
            "number": None if model is None else model.number,
            "importance": part.pop("all") if given.shape else None,
        }
        for one, model, part in zip(subjects, models, parts, strict=True)
    ]
    samples = None
    if given.X is not None and max_samples > 0:
        samples = _samples(estimator, models, networks, given, max_samples)
    X = given.X if not continual and given.shape is None else None  # pixels are no words
    if X is not None and samples is not None:
        some = X[samples["rows"]]
        samples["contributions"] = contributions_data(
            estimator, some, subjects[0].columns, given.indicators
        )
    drawn = {
        "shape": given.shape,
        "names": subjects[0].inputs,
        "models": networks,
        "pixel": PIXEL,
        "samples": samples,
        "timeline": timeline_data(estimator, subjects[0].inputs) if continual else None,
        "scatter": _scatter(estimator, given),
        "responses": None
        if X is None
        else responses_data(estimator, X, subjects[0].columns, given.indicators),
    }
    written = {
        "facts": facts(estimator, subjects, given),
        "parts": parts,
        "encoded": given.is_encoded,
        "tables": tables(estimator, given),
        "events": event_rows(estimator, subjects[0].inputs) if continual else [],
        "changes": change_rows(estimator, subjects[0].inputs) if continual else [],
    }
    return written, drawn


def _subject(estimator: Any, model: "AnyModel | None", names: Sequence[str] | None) -> Subject:
    one = subject(estimator, None if model is None else model.number)
    return one if names is None else renamed(estimator, one, names)


def _start(model: "AnyModel | None") -> dict[int, tuple[int, int]]:
    """Return the edges that a model started with: those of the model that it extends."""
    base = getattr(model, "base", None)
    return {} if base is None else final_topology(base.network)


def _samples(
    estimator: Any, models: Sequence[Any], drawn: list[dict[str, Any]], given: Given, most: int
) -> dict[str, Any]:
    """Return the samples that the reader can select, and their states in each model."""
    from dirad.estimators.answering import encoded
    from dirad.estimators.columns import encoding_of

    assert given.X is not None
    image = given.shape is not None
    n = given.X.shape[1] if image else 0
    each = n + sum(len(one["ids"]) for one in drawn)
    each += n * sum(model is not None for model in models)
    rows = chosen_rows(len(given.X), each, most)
    some = given.X[rows]
    data = sample_data(given.answers, given.X, given.y, rows, image)
    networks = [estimator.network_ if model is None else model.network for model in models]
    inputs = encoded(encoding_of(estimator), some)
    data["states"] = [
        states_data(network, inputs if model is None else model.network_inputs(inputs), one["ids"])
        for network, model, one in zip(networks, models, drawn, strict=True)
    ]
    if hasattr(estimator, "models_"):
        data |= routing_data(estimator, given.answers, some)
        data["views"] = [
            view_data(model, inputs, one["ids"], image)
            for model, one in zip(models, drawn, strict=True)
        ]
    return data


def _scatter(estimator: Any, given: Given) -> dict[str, Any] | None:
    """Return true and predicted values of a regression with one target, of evenly spaced rows."""
    if hasattr(estimator, "classes_") or given.X is None or given.y is None:
        return None
    if given.y.ndim > 1 and given.y.shape[1] > 1:
        return None
    rows = chosen_rows(len(given.X), 2, MOST_POINTS)
    answers = np.ravel(given.predicted[rows])
    return {"truth": short(given.y[rows].ravel()), "answers": short(answers)}


def facts(estimator: Any, subjects: list[Subject], given: Given) -> list[tuple[str, str]]:
    """Return the figures at the top of the page: (value, label)."""
    networks = [one.network for one in subjects]
    continual = hasattr(estimator, "models_")
    found = [(f"{len(networks)}", "models")] if continual else []
    score = "accuracy" if hasattr(estimator, "classes_") else "R²"
    if score in given.held_out:
        rows = given.held_out.get("rows")
        which = "held-out rows" if rows is None else f"{rows:,} held-out rows"
        found.append((f"{given.held_out[score]:.4g}", f"{score} on {which}"))
    if given.X is not None and given.y is not None:
        about = f": {given.about}" if given.about else ""
        found.append((f"{given.score:.4g}", f"{score} on {len(given.X):,} samples{about}"))
    n, what = networks[0].n_inputs, "inputs"
    used = max(np.count_nonzero(input_weights(network)) for network in networks)
    if given.is_encoded:
        weights = input_weights(networks[0])
        of_columns = weights if given.encoding is None else given.encoding.per_column(weights)
        shares = shares_of(grouped(subjects[0].columns, given.indicators), of_columns)
        used, n, what = np.count_nonzero(shares), len(shares), "columns"
    hidden = sum(network.n_hidden for network in networks)
    found += [
        (f"{used:,} of {n:,}", f"{what} used" + continual * " at most"),
        (f"{sum(n.n_edges for n in networks):,}", "edges"),
        (f"{hidden:,}", "hidden node" if hidden == 1 else "hidden nodes"),
        (f"{estimator.n_parameters_:,}", "stored numbers" if continual else "parameters"),
    ]
    if continual:
        return [*found, (f"{estimator.n_samples_seen_:,}", "samples seen")]
    return [*found, (f"{estimator.n_steps_:,}", "training steps")]


def _part(
    estimator: Any, model: "AnyModel | None", one: Subject, features: Sequence[Feature]
) -> dict[str, Any]:
    """Return the important features and the equations of one network."""
    # The paper's models, which keep no buffer, take inputs as they are.
    standardized = model is not None and model.settings.buffer_size > 0
    if model is None:
        weights = estimator.feature_importances_
        unit = "unit" if estimator.preset == "paper" else "standard deviation"
        measure = f"Mean |slope| of the outputs' activations per {unit} of the input"
        if len(features) < len(one.inputs):
            measure += ", added up over all inputs of a column"
    else:
        weights = input_weights(one.network)
        kind = "standardized input" if standardized else "input"
        measure = f"Σ|weight| of all edges that leave the {kind}"
    shares = shares_of(features, weights)
    order = np.argsort(-shares, kind="stable")[:MOST_IMPORTANT]
    scale = float(shares.max()) or 1.0
    equations = equation_rows(one)
    return {
        "title": "" if model is None else f"Model {model.number}",
        "measure": f"{measure}, as a share of the sum over all inputs.",
        "important": [
            {
                "name": features[i].name,
                "share": short(shares[i], 3),
                "width": short(shares[i] / scale),
            }
            for i in order
            if shares[i] > 0
        ],
        "all": short(weights, 3),
        "equations": equations,
        "functions": functions(one),
        "open": len(equations) <= MANY_EQUATIONS and one.network.n_edges <= MANY_EQUATIONS,
        "scaled": standardized,
    }


def tables(estimator: Any, given: Given) -> list[dict[str, Any]]:
    """Return the confusion matrix, and which model predicts the samples of each task."""
    found = []
    X, y, tasks = given.X, given.y, given.tasks
    if X is None:
        return found
    if y is not None and hasattr(estimator, "classes_") and len(estimator.classes_) <= MANY_CLASSES:
        found.append(_confusion(y, given.predicted))
    if hasattr(estimator, "models_"):
        if tasks is not None:
            found.append(routing_table(estimator, X, tasks, "task"))
        elif y is not None:
            found.append(routing_table(estimator, X, y, "class"))
    return found


def _confusion(y: NDArray, answers: NDArray) -> dict[str, Any]:
    """Return the share of each true class's samples for which each class is predicted."""
    names = np.unique(np.concatenate([y, answers])).tolist()
    shares = [
        [np.mean(answers[y == a] == b) if (y == a).any() else np.nan for b in names] for a in names
    ]
    caption = "Confusion matrix: share of each true class (row) predicted as each class (column)"
    return matrix_table(caption, np.array(shares), names, names)
