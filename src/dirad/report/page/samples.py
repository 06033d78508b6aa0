"""What the page shows of samples: their node states, answers and conflicts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.estimators.continual import PREVALClassifier
from dirad.inference import node_states
from dirad.plot.conflicts import seen_by
from dirad.preval.model import Model
from dirad.report.page.numbers import short

MOST_SAMPLES = 50
MOST_NUMBERS = 120_000  # written for all samples together
NOVELTY = {
    "default": "Novelty: standard deviations by which the logarithm of the prediction error is "
    "above its mean on samples like those learned, for the model to which the sample is least new; "
    "around 0 is usual, higher is newer.",
    "paper": "Novelty: the share of nodes in conflict with their prediction, for the model to "
    "which the sample is least new; from 0 to 1, higher is newer.",
}


def chosen_rows(n_samples: int, numbers_each: int, most: int = MOST_SAMPLES) -> NDArray[np.int64]:
    """Return the rows shown: evenly spread, and fewer where each needs many numbers.

    >>> chosen_rows(10, 100, 4).tolist()
    [0, 3, 6, 9]
    """
    n = min(n_samples, most, max(MOST_NUMBERS // max(numbers_each, 1), 1))
    return np.unique(np.linspace(0, n_samples - 1, n).round().astype(np.int64))


def sample_data(estimator: Any, X: NDArray, y: NDArray | None, rows: NDArray, image: bool) -> Any:
    """Return the samples: number, truth, answer, how sure it is, and pixels if they are images."""
    some = X[rows]
    answers = estimator.predict(some)
    sure = estimator.predict_proba(some).max(axis=1) if hasattr(estimator, "classes_") else None
    return {
        "rows": rows.tolist(),
        "truth": None if y is None else [_text(value) for value in y[rows]],
        "answers": [_text(value) for value in answers],
        "sure": None if sure is None else short(sure, 3),
        "pixels": short(some, 3) if image else None,
        "range": [short(float(some.min())), short(float(some.max()))],
    }


def _text(value: Any) -> str:
    """Return a label or a value as it is written."""
    if np.ndim(value):
        return ", ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def states_data(network: Network, X: NDArray, ids: list[int]) -> list[Any]:
    """Return the state of each node for each sample, None of nodes that are gone."""
    there = [node < network.n_inputs or _computes(network, node) for node in ids]
    nodes = np.array([node for node, is_there in zip(ids, there, strict=True) if is_there], int)
    states = np.full((len(X), len(ids)), np.nan)
    states[:, there] = node_states(network, X, nodes)
    return short(states)


def _computes(network: Network, node: int) -> bool:
    unit = node - network.n_inputs
    return unit < len(network.units) and bool(network.units["kind"][unit] > 0)


def view_data(model: Model, X: NDArray, ids: list[int], image: bool) -> dict[str, Any]:
    """Return what a model makes of samples: score, conflicted nodes and inputs, predictions."""
    data: dict[str, Any] = {"score": short(model.score(X)) if model.has_opinion else None}
    if model.l1 is None or model.known is None:
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
        "inputs": inputs,  # all of them, drawn or not
        "predicted": short(view.predicted, 3) if image else [short(one, 3) for one in some],
        "given": None if image else [short(x[bad], 3) for x, bad in zip(X, inputs, strict=True)],
    }


def routing_data(estimator: PREVALClassifier, X: NDArray) -> dict[str, Any]:
    """Return who answers each sample, and how new it is."""
    able = any(model.has_opinion for model in estimator.models_)
    return {
        "route": estimator.route(X).tolist(),
        "novelty": short(estimator.novelty(X), 3) if able else None,
        "meaning": NOVELTY[estimator.preset],
        "known": estimator.is_known(X).tolist() if able else None,
    }
