"""How predictions depend on each column of X: the data behind plots and pages, no matplotlib."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.thresholds import Threshold, thresholds
from dirad.encoding import Categories, Encoding

MOST_POINTS = 50  # of a curve, besides those at thresholds
FEW_VALUES = 20  # a column with at most as many different values is drawn at these
MOST_CATEGORIES = 12  # of one column; those with most samples
MOST_SAMPLES = 200  # over which a curve is averaged
MOST_INDIVIDUAL = 30  # samples whose own curves are kept
OUTER = 0.01  # share of the samples beyond each end of a curve
MISSING = "(missing)"  # the name of a missing value among categories


class Feature(NamedTuple):
    """What predictions depend on: a column of X, or columns that indicate one category each."""

    name: str
    columns: tuple[int, ...]
    categories: tuple[str, ...] = ()  # of indicators, one per column


def grouped(columns: Sequence[str], indicators: Sequence[Feature] = ()) -> list[Feature]:
    """Return all features, given the names of the columns of X and which are indicators.

    >>> grouped(["age", "hue=red", "hue=blue"], [Feature("hue", (1, 2), ("red", "blue"))])[1].name
    'hue'
    """
    group_of = {column: group for group in indicators for column in group.columns}
    single = [Feature(name, (column,)) for column, name in enumerate(columns)]
    return list(dict.fromkeys(group_of.get(i, one) for i, one in enumerate(single)))


class Response(NamedTuple):
    """Predictions while one column takes the values of a grid and the others stay as they are.

    Of a column of categories, the points are categories, in their order. Where values of the column
    were missing in `fit`, the last point is that of a missing value.
    """

    name: str
    grid: NDArray[np.float64]  # (points,) rising, or codes of categories; NaN: missing
    mean: NDArray[np.float64]  # (outputs, points) over the samples: the partial dependence
    individual: NDArray[np.float64]  # (samples, points) of some samples; none of several outputs
    thresholds: tuple[Threshold, ...]  # of gates on the number
    values: NDArray[np.float64]  # (samples,) of the column, without missing ones
    categories: tuple[str, ...] = ()  # their names, one per point; none if values are numbers

    @property
    def n_known(self) -> int:
        """The number of points that are no missing value."""
        return int(np.count_nonzero(~np.isnan(self.grid)))


def response(estimator: Any, X: NDArray, one: Feature) -> Response:
    """Return how the predictions of a fitted DIRAD estimator depend on one feature.

    X holds numbers, codes of categories, and NaN, as `checked_columns` returns it. Predictions are
    probabilities of classes (with two classes: of the second), or values.
    """
    if one.categories:
        return _indicated_response(estimator, X, one)
    (feature,) = one.columns
    encoding: Encoding | None = getattr(estimator, "encoding_", None)
    values = X[~np.isnan(X[:, feature]), feature]
    categories = None if encoding is None else encoding.categories.get(feature)
    own = [] if categories else _thresholds(estimator, encoding, feature)
    if categories:
        grid = _codes(values, categories)
    elif len(values):
        grid = _grid(values, own)
    else:
        grid = np.array([0.0 if encoding is None else encoding.fill[feature]])
    if encoding is not None and encoding.indicated[feature]:
        grid = np.append(grid, np.nan)
    names = [MISSING if np.isnan(c) else categories.names[int(c)] for c in grid if categories]
    mean, individual = _varied(estimator, X, [feature], grid[:, None])
    return Response(one.name, grid, mean, individual, tuple(own), values, tuple(names))


def _indicated_response(estimator: Any, X: NDArray, one: Feature) -> Response:
    """Return how predictions depend on the category that indicators have."""
    counts = np.count_nonzero(X[:, one.columns] == 1.0, axis=0)
    drawn = np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES])
    points = np.eye(len(one.columns))[drawn]
    mean, individual = _varied(estimator, X, one.columns, points)
    names = tuple(one.categories[i] for i in drawn)
    return Response(one.name, drawn.astype(float), mean, individual, (), np.zeros(0), names)


def _varied(
    estimator: Any, X: NDArray, columns: Sequence[int], points: NDArray
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return predictions where some columns have the values of each point, all else as it is.

    They are averages (outputs, points), and those of single samples (samples, points).
    """
    some = X[np.unique(np.linspace(0, len(X) - 1, MOST_SAMPLES).round().astype(int))]
    varied = np.repeat(some, len(points), axis=0)
    varied[:, list(columns)] = np.tile(points, (len(some), 1))
    found = predictions(estimator, varied).reshape(len(some), len(points), -1)
    rows = np.unique(np.linspace(0, len(some) - 1, MOST_INDIVIDUAL).round().astype(int))
    individual = found[rows, :, 0] if found.shape[2] == 1 else np.zeros((0, len(points)))
    return found.mean(axis=0).T, individual


def _thresholds(estimator: Any, encoding: Encoding | None, feature: int) -> list[Threshold]:
    """Return the thresholds of gates on the number of a column."""
    if encoding is not None and not encoding.is_identity:
        feature = int(np.flatnonzero((encoding.column == feature) & encoding.is_number)[0])
    gates = thresholds(estimator.network_, estimator.input_spread_)
    own = {gate for gate in gates.values() if gate.source == feature}
    return sorted(own, key=lambda gate: gate.value)


def _codes(values: NDArray[np.float64], categories: Categories) -> NDArray[np.float64]:
    """Return the codes of the categories that are drawn, rising."""
    counts = np.bincount(values[values >= 0].astype(int), minlength=len(categories))
    return np.sort(np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]).astype(float)


def _grid(values: NDArray[np.float64], gates: Sequence[Threshold]) -> NDArray[np.float64]:
    """Return the values at which a curve is drawn: denser where a gate opens."""
    different = np.unique(values)
    if len(different) <= FEW_VALUES:
        return different
    low, high = np.quantile(values, [OUTER, 1.0 - OUTER])
    around = [gate.value + gate.half_width * np.linspace(-2, 2, 9) for gate in gates]
    grid = np.concatenate([np.linspace(low, high, MOST_POINTS), *around])
    return np.unique(grid[(grid >= low) & (grid <= high)])


def seen_thresholds(one: Response) -> list[Threshold]:
    """Return the thresholds within the range of a curve."""
    if one.categories:
        return []
    low, high = one.grid[0], one.grid[one.n_known - 1]
    return [gate for gate in one.thresholds if low <= gate.value <= high]


def predictions(estimator: Any, X: NDArray) -> NDArray[np.float64]:
    """Return probabilities of classes (with two classes: of the second), or values, in columns."""
    from dirad.estimators.answering import ClassAnswers, answers_of

    answers = answers_of(estimator)
    if isinstance(answers, ClassAnswers):
        found = answers.predict_proba(X)
        return found[:, 1:] if len(answers.classes_) == 2 else found
    return answers._replace(single_column=False).predict(X)


def prediction_names(estimator: Any) -> list[str]:
    """Return the name of each column of `predictions`."""
    if not hasattr(estimator, "classes_"):
        n = estimator.network_.n_outputs
        return ["prediction"] if n == 1 else [f"y{i}" for i in range(n)]
    classes = [str(label) for label in estimator.classes_.tolist()]
    return [f"P({label})" for label in (classes[1:] if len(classes) == 2 else classes)]


def shares_of(features: Sequence[Feature], of_columns: NDArray) -> NDArray[np.float64]:
    """Return the sum over the columns of each feature."""
    return np.array([of_columns[list(one.columns)].sum() for one in features])


def most_important(estimator: Any, features: Sequence[Feature], most: int) -> list[Feature]:
    """Return the features that matter most, best first."""
    shares = shares_of(features, estimator.feature_importances_)
    order = np.argsort(-shares, kind="stable")[:most]
    return [features[i] for i in order if shares[i] > 0]
