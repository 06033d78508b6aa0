"""How predictions depend on each input: the data behind plots and pages, without matplotlib."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.thresholds import Threshold, thresholds

MOST_POINTS = 50  # of a curve, besides those at thresholds
FEW_VALUES = 20  # an input with at most as many different values is drawn at these
MOST_SAMPLES = 200  # over which a curve is averaged
MOST_INDIVIDUAL = 30  # samples whose own curves are kept
OUTER = 0.01  # share of the samples beyond each end of a curve


class Response(NamedTuple):
    """Predictions while one input takes the values of a grid and the others stay as they are."""

    feature: int
    name: str
    grid: NDArray[np.float64]  # (points,) rising
    mean: NDArray[np.float64]  # (outputs, points) over the samples: the partial dependence
    individual: NDArray[np.float64]  # (samples, points) of some samples; none of several outputs
    thresholds: tuple[Threshold, ...]  # of gates on the input
    values: NDArray[np.float64]  # (samples,) of the input


def response(estimator: Any, X: NDArray, feature: int, name: str) -> Response:
    """Return how the predictions of a fitted DIRAD estimator depend on one input.

    They are probabilities of classes (with two classes: of the second), or values.
    """
    gates = thresholds(estimator.network_, estimator.input_spread_)
    own = sorted({gate for gate in gates.values() if gate.source == feature}, key=lambda g: g.value)
    grid = _grid(X[:, feature], own)
    some = X[np.unique(np.linspace(0, len(X) - 1, MOST_SAMPLES).round().astype(int))]
    varied = np.repeat(some, len(grid), axis=0)
    varied[:, feature] = np.tile(grid, len(some))
    found = predictions(estimator, varied).reshape(len(some), len(grid), -1)
    rows = np.unique(np.linspace(0, len(some) - 1, MOST_INDIVIDUAL).round().astype(int))
    individual = found[rows, :, 0] if found.shape[2] == 1 else np.zeros((0, len(grid)))
    return Response(
        feature, name, grid, found.mean(axis=0).T, individual, tuple(own), X[:, feature]
    )


def _grid(values: NDArray[np.float64], gates: Sequence[Threshold]) -> NDArray[np.float64]:
    """Return the values at which a curve is drawn: denser where a gate opens."""
    different = np.unique(values)
    if len(different) <= FEW_VALUES:
        return different
    low, high = np.quantile(values, [OUTER, 1.0 - OUTER])
    around = [gate.value + gate.half_width * np.linspace(-2, 2, 9) for gate in gates]
    grid = np.concatenate([np.linspace(low, high, MOST_POINTS), *around])
    return np.unique(grid[(grid >= low) & (grid <= high)])


def predictions(estimator: Any, X: NDArray) -> NDArray[np.float64]:
    """Return probabilities of classes (with two classes: of the second), or values, in columns."""
    from dirad.estimators.answering import ClassAnswers, ValueAnswers

    if hasattr(estimator, "classes_"):
        found = ClassAnswers(estimator.network_, estimator.classes_).predict_proba(X)
        return found[:, 1:] if len(estimator.classes_) == 2 else found
    scale, offset = estimator.target_scale_, estimator.target_offset_
    return ValueAnswers(estimator.network_, scale, offset, False).predict(X)


def prediction_names(estimator: Any) -> list[str]:
    """Return the name of each column of `predictions`."""
    if not hasattr(estimator, "classes_"):
        n = estimator.network_.n_outputs
        return ["prediction"] if n == 1 else [f"y{i}" for i in range(n)]
    classes = [str(label) for label in estimator.classes_.tolist()]
    return [f"P({label})" for label in (classes[1:] if len(classes) == 2 else classes)]


def most_important(estimator: Any, most: int) -> list[int]:
    """Return the inputs that matter most, best first."""
    shares = estimator.feature_importances_
    order = np.argsort(-shares, kind="stable")[:most]
    return [int(i) for i in order if shares[i] > 0]
