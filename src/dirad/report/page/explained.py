"""Predictions explained: their dependence on each column, and contributions for each sample."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.explanation import TooManyPaths
from dirad.plot.bars import explained, inputs_in_words, name_in_sample, sample_bars
from dirad.plot.responses import (
    Feature,
    grouped,
    most_important,
    prediction_names,
    response,
    seen_thresholds,
)
from dirad.report.page.numbers import short

MOST_RESPONSES = 6  # columns whose effect is drawn
MOST_CURVES = 15  # of single samples
MOST_BARS = 8  # contributions of one sample
MANY_EDGES = 150  # of larger networks there are too many contributions to read


def responses_data(
    estimator: Any, X: NDArray, columns: Sequence[str], indicators: Sequence[Feature]
) -> dict[str, Any] | None:
    """Return the prediction against each important feature, with the thresholds of gates.

    In the grid, None is a missing value; of a column of categories, the grid holds their names.
    """
    found = []
    for feature in most_important(estimator, grouped(columns, indicators), MOST_RESPONSES):
        one = response(estimator, X, feature)
        step = -(-len(one.individual) // MOST_CURVES) if len(one.individual) else 1
        found.append(
            {
                "name": one.name,
                "grid": list(one.categories) or short(one.grid, 5),
                "categorical": bool(one.categories),
                "mean": short(one.mean),
                "individual": short(one.individual[::step], 3),
                "thresholds": [
                    [short(gate.value, 5), short(gate.half_width), gate.condition(one.name)]
                    for gate in seen_thresholds(one)
                ],
            }
        )
    ends = [0, 1] if hasattr(estimator, "classes_") else None
    outputs = prediction_names(estimator)
    return {"outputs": outputs, "range": ends, "inputs": found} if found else None


def contributions_data(
    estimator: Any, X: NDArray, columns: Sequence[str], indicators: Sequence[Feature]
) -> list[dict[str, Any]] | None:
    """Return what contributes to the prediction of each sample: bars that add up to it.

    Of several outputs, that of the predicted class is explained. None if the network is too large.
    """
    from dirad.estimators.answering import encoded
    from dirad.estimators.columns import encoding_of

    encoding = encoding_of(estimator)
    if estimator.network_.n_edges > MANY_EDGES:
        return None
    try:
        found = explained(estimator, encoded(encoding, X))
    except TooManyPaths:
        return None
    data = []
    for row, values in enumerate(X):
        inputs = inputs_in_words(encoding, values, columns, indicators)
        own = [name_in_sample(found, i, inputs) for i in range(len(found.names))]
        output = int(np.argmax(found.activation[row]))
        bars = sample_bars(estimator, found, own, row, output, MOST_BARS)
        data.append(
            {
                "output": bars.output,
                "bias": short(bars.bias or 0.0),
                "total": short(found.activation[row, output]),
                "bars": [
                    [name, short(size)] for name, size in zip(bars.names, bars.sizes, strict=True)
                ],
            }
        )
    return data
