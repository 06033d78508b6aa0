"""Samples as data for the page: node states, predictions and conflicts."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dirad.plot.data import seen_by
from dirad.report.page.numbers import short

if TYPE_CHECKING:
    from dirad.core.network import Network
    from dirad.estimators import PREVALClassifier

MOST_SAMPLES = 50
MOST_NUMBERS = 120_000  # stored for all samples together
NOVELTY = {
    "default": "Novelty is the number of standard deviations by which the logarithm of the "
    "prediction error exceeds its mean on samples of the learned tasks, for the model with the "
    "smallest value; about 0 is typical of known samples.",
    "paper": "Novelty is the share of nodes that conflict with their prediction, for the model "
    "with the smallest value; from 0 to 1.",
}


def chosen_rows(n_samples: int, numbers_each: int, most: int = MOST_SAMPLES) -> NDArray[np.int64]:
    """Return evenly spaced row numbers, fewer if each row needs many numbers.

    >>> chosen_rows(10, 100, 4).tolist()
    [0, 3, 6, 9]
    """
    n = min(n_samples, most, max(MOST_NUMBERS // max(numbers_each, 1), 1))
    return np.unique(np.linspace(0, n_samples - 1, n).round().astype(np.int64))


def sample_data(answers: Any, X: NDArray, y: NDArray | None, rows: NDArray, image: bool) -> Any:
    """Return row, true and predicted value, probability and (of images) pixels of each sample.

    `answers` predicts, given X as numbers.
    """
    some = X[rows]
    predicted = answers.predict(some)
    sure = answers.predict_proba(some).max(axis=1) if hasattr(answers, "classes_") else None
    return {
        "rows": rows.tolist(),
        "truth": None if y is None else [_text(value) for value in y[rows]],
        "answers": [_text(value) for value in predicted],
        "sure": None if sure is None else short(sure, 3),
        "pixels": short(some, 3) if image else None,
        "range": [short(np.nanmin(some)), short(np.nanmax(some))] if image else None,
    }


def _text(value: Any) -> str:
    """Return a label or a value as text."""
    if np.ndim(value):
        return ", ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def states_data(network: "Network", X: NDArray, ids: list[int]) -> list[Any]:
    """Return the state of each node for each sample; None if the node was removed."""
    from dirad.inference import node_states

    nodes = np.array(ids, int)
    used = np.concatenate([np.ones(network.n_inputs, bool), network.units["kind"] > 0])
    exists = (nodes < len(used)) & used[np.minimum(nodes, len(used) - 1)]
    states = np.full((len(X), len(ids)), np.nan)
    states[:, exists] = node_states(network, X, nodes[exists])
    return short(states)


def view_data(model: Any, X: NDArray, ids: list[int], image: bool) -> dict[str, Any]:
    """Return scores, conflicting nodes and inputs, and predictions of L1, by one model."""
    data: dict[str, Any] = {
        "score": short(model.evaluate(X).score) if model.is_calibrated else None
    }
    if model.error_stats is None or model.phase != "stable":
        return data | {"nodes": None, "inputs": None, "predicted": None}
    view = seen_by(model, X)
    places = {node: i for i, node in enumerate(ids)}
    conflicted = model.conflicted(X)
    inputs = [np.flatnonzero(row).tolist() for row in view.conflicted]
    some = [predicted[bad] for predicted, bad in zip(view.predicted, inputs, strict=True)]
    return data | {
        "nodes": [
            [places[n] for n in np.flatnonzero(row).tolist() if n in places] for row in conflicted
        ],
        "inputs": inputs,  # also those that are not drawn
        "predicted": short(view.predicted, 3) if image else [short(one, 3) for one in some],
        "given": None if image else [short(x[bad], 3) for x, bad in zip(X, inputs, strict=True)],
    }


def routing_data(estimator: "PREVALClassifier", answers: Any, X: NDArray) -> dict[str, Any]:
    """Return the model that predicts each sample, and the sample's novelty."""
    able = any(model.is_calibrated for model in estimator.models_)
    return {
        "route": answers.route(X).tolist(),
        "novelty": short(answers.novelty(X), 3) if able else None,
        "meaning": NOVELTY[estimator.preset],
        "known": answers.is_known(X, 0.05).tolist() if able else None,
    }
