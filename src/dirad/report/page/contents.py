"""All that is on the page, as plain data: what the template writes and what the script draws."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from dirad.estimators import DIRADClassifier, DIRADRegressor, PREVALClassifier
from dirad.plot.subject import Subject, subject
from dirad.preval.model import Model
from dirad.report.page.networks import (
    functions,
    n_used_inputs,
    network_data,
    weight_out_of_inputs,
    written_out,
)
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
from dirad.report.page.stream import event_rows, matrix_table, routing_table, timeline_data

MOST_POINTS = 400  # of a scatter
MOST_IMPORTANT = 12  # inputs that are listed
MANY_EQUATIONS = 60  # above it, they are folded away


class Given:
    """What the user gave beside the model, checked against it."""

    def __init__(
        self,
        estimator: Any,
        X: Any,
        y: Any,
        tasks: ArrayLike | None,
        shape: tuple[int, int] | None,
        about: str = "",
        held_out: Mapping[str, float] | None = None,
    ) -> None:
        if not isinstance(estimator, DIRADClassifier | DIRADRegressor | PREVALClassifier):
            raise TypeError(f"a page shows a dirad estimator, got {type(estimator).__name__}")
        check_is_fitted(estimator)
        n = estimator.n_features_in_
        self.X: NDArray | None = None if X is None else np.asarray(X, float)
        self.y: NDArray | None = None if y is None else np.asarray(y)
        self.tasks: NDArray | None = None if tasks is None else np.asarray(tasks)
        self.shape = shape
        self.about = about  # what is to be said of X
        self.held_out = dict(held_out or {})  # "rows", and measures on them
        if self.X is not None and (self.X.ndim != 2 or self.X.shape[1] != n or not len(self.X)):
            raise ValueError(
                f"X has shape {self.X.shape}, but the model takes rows of {n} features"
            )
        for name, values in (("y", self.y), ("tasks", self.tasks)):
            if values is not None and self.X is None:
                raise ValueError(f"{name} is given without X")
            if values is not None and self.X is not None and len(values) != len(self.X):
                raise ValueError(f"{name} has {len(values)} entries for {len(self.X)} rows of X")
        if shape is not None and shape[0] * shape[1] != n:
            raise ValueError(f"shape {tuple(shape)} does not fit {n} features")


def contents(
    estimator: Any, given: Given, names: Sequence[str] | None, max_samples: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the template writes (words, tables) and what the script draws."""
    models = estimator.models_ if isinstance(estimator, PREVALClassifier) else [None]
    if not models:
        raise ValueError("there is no model yet: fewer samples than one batch were seen")
    subjects = [_subject(estimator, model, names) for model in models]
    starts = [_start(model) for model in models]
    drawn = {
        "shape": given.shape,
        "names": subjects[0].inputs,
        "models": [
            network_data(one, given.shape, start)
            | {"number": model.number if model is not None else None}
            for one, model, start in zip(subjects, models, starts, strict=True)
        ],
        "pixel": PIXEL,
        "samples": None,
        "timeline": None,
        "scatter": _scatter(estimator, given),
    }
    if isinstance(estimator, PREVALClassifier):
        drawn["timeline"] = timeline_data(estimator)
    if given.X is not None and max_samples > 0:
        drawn["samples"] = _samples(estimator, models, drawn["models"], given, max_samples)
    written = {
        "facts": facts(estimator, subjects, given),
        "parts": [
            _part(estimator, model, one) for model, one in zip(models, subjects, strict=True)
        ],
        "tables": tables(estimator, given),
        "events": event_rows(estimator) if isinstance(estimator, PREVALClassifier) else [],
    }
    for model, part in zip(drawn["models"], written["parts"], strict=True):
        model["importance"] = part.pop("all") if given.shape else None
    return written, drawn


def _subject(estimator: Any, model: Model | None, names: Sequence[str] | None) -> Subject:
    one = subject(estimator, None if model is None else model.number)
    if names is None:
        return one
    if len(names) != one.network.n_inputs:
        raise ValueError(f"{len(names)} input names for {one.network.n_inputs} inputs")
    return one._replace(inputs=[str(name) for name in names])


def _start(model: Model | None) -> dict[int, tuple[int, int]] | None:
    """Return the edges that a model found when it began: those of the model it stands on."""
    base = getattr(model, "base", None)
    return None if base is None else final_topology(base.network)


def _samples(
    estimator: Any, models: Sequence[Any], drawn: list[dict[str, Any]], given: Given, most: int
) -> dict[str, Any]:
    """Return the samples to pick from, and what each model makes of them."""
    assert given.X is not None
    image = given.shape is not None
    n = given.X.shape[1] if image else 0
    each = n + sum(len(one["ids"]) + (n if model is not None else 0)
                   for one, model in zip(drawn, models, strict=True))  # fmt: skip
    rows = chosen_rows(len(given.X), each, most)
    some = given.X[rows]
    data = sample_data(estimator, given.X, given.y, rows, image)
    networks = [estimator.network_ if model is None else model.network for model in models]
    data["states"] = [
        states_data(network, some if model is None else model.scaled(some), one["ids"])
        for network, model, one in zip(networks, models, drawn, strict=True)
    ]
    if isinstance(estimator, PREVALClassifier):
        data |= routing_data(estimator, some)
        data["views"] = [
            view_data(model, some, one["ids"], image)
            for model, one in zip(models, drawn, strict=True)
        ]
    return data


def _scatter(estimator: Any, given: Given) -> dict[str, Any] | None:
    """Return true and predicted values of a regression with one target, evenly spread."""
    if not isinstance(estimator, DIRADRegressor) or given.X is None or given.y is None:
        return None
    if given.y.ndim > 1 and given.y.shape[1] > 1:
        return None
    rows = chosen_rows(len(given.X), 2, MOST_POINTS)
    answers = estimator.predict(given.X[rows])
    return {"truth": short(given.y[rows].ravel()), "answers": short(np.ravel(answers))}


def facts(estimator: Any, subjects: list[Subject], given: Given) -> list[tuple[str, str]]:
    """Return the figures at the top: (value, what it is)."""
    networks = [one.network for one in subjects]
    several = isinstance(estimator, PREVALClassifier)
    found = [(f"{len(networks)}", "models")] if several else []
    what = "accuracy" if hasattr(estimator, "classes_") else "R²"
    if what in given.held_out:
        rows = given.held_out.get("rows")
        which = "rows" if rows is None else f"{rows:,} rows"
        found.append((f"{given.held_out[what]:.4g}", f"{what} on {which} that were held out"))
    if given.X is not None and given.y is not None:
        score = estimator.score(given.X, given.y)
        about = f": {given.about}" if given.about else ""
        found.append((f"{score:.4g}", f"{what} on {len(given.X):,} samples{about}"))
    used = max(n_used_inputs(network) for network in networks)
    hidden = sum(network.n_hidden for network in networks)
    found += [
        (f"{used:,} of {networks[0].n_inputs:,}", "inputs used" + (" at most" if several else "")),
        (f"{sum(n.n_edges for n in networks):,}", "edges"),
        (f"{hidden:,}", "hidden node" if hidden == 1 else "hidden nodes"),
        (f"{estimator.n_parameters_:,}", "numbers kept" if several else "parameters"),
    ]
    if several:
        found.append((f"{estimator.n_samples_seen_:,}", "samples seen"))
    else:
        found.append((f"{estimator.n_steps_:,}", "steps of adaptation"))
    return found


def _part(estimator: Any, model: Model | None, one: Subject) -> dict[str, Any]:
    """Return what is written of one network: its important inputs and its equations."""
    if model is None:
        weights = estimator.feature_importances_
        unit = "unit" if estimator.preset == "paper" else "standard deviation"
        measure = f"How much the outputs' activations change per {unit} of the input (mean |slope|)"
    else:
        weights = weight_out_of_inputs(one.network)
        per = "standardized input" if hasattr(model, "spread") else "input"
        measure = f"Σ|w| of all edges that leave the {per}"
    order = np.argsort(-weights, kind="stable")[:MOST_IMPORTANT]
    scale = float(weights.max()) or 1.0
    equations = written_out(one)
    return {
        "title": "" if model is None else f"Model {model.number}",
        "measure": f"{measure}, as a share of the sum over all inputs: higher matters more.",
        "important": [
            {
                "name": one.inputs[i],
                "share": short(weights[i], 3),
                "width": short(weights[i] / scale),
            }
            for i in order
            if weights[i] > 0
        ],
        "all": short(weights, 3),
        "equations": equations,
        "functions": functions(one.network),
        "open": len(equations) <= MANY_EQUATIONS and one.network.n_edges <= MANY_EQUATIONS,
        "scaled": model is not None and hasattr(model, "spread"),
    }


def tables(estimator: Any, given: Given) -> list[dict[str, Any]]:
    """Return the matrices: truth against answers, and who answers what."""
    found = []
    X, y, tasks = given.X, given.y, given.tasks
    if X is None:
        return found
    if y is not None and hasattr(estimator, "classes_") and len(estimator.classes_) <= 30:
        found.append(_confusion(y, estimator.predict(X)))
    if isinstance(estimator, PREVALClassifier):
        if tasks is not None:
            found.append(routing_table(estimator, X, tasks, "task"))
        elif y is not None:
            found.append(routing_table(estimator, X, y, "class"))
    return found


def _confusion(y: NDArray, answers: NDArray) -> dict[str, Any]:
    """Return the share of each true class's samples that gets each answer."""
    names = np.unique(np.concatenate([y, answers])).tolist()
    shares = np.array([[np.mean(answers[y == a] == b) if (y == a).any() else np.nan
                        for b in names] for a in names])  # fmt: skip
    return matrix_table("Answers: share of each true class's samples", shares, names, names)
