"""Contributions to predictions as named bars: the data behind plots and pages, no matplotlib."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.explanation import CONSTANT, Explanation, explain


class Bars(NamedTuple):
    """Contributions, the largest first."""

    names: list[str]
    sizes: NDArray[np.float64]
    bias: float | None  # the activation without contributions; None if the bars are averages
    output: str  # what they add up to, or are averages of


def explained(estimator: Any, X: Any, by: str = "input") -> Explanation:
    """Return the explanation of predictions; scores of a softmax are relative to their mean."""
    found = explain(estimator, X, by=by)
    return found.relative() if _is_softmax(estimator, found) else found


def average_bars(estimator: Any, found: Explanation, output: int | None, most: int) -> Bars:
    """Return the mean |contribution − mean| over all samples, of one output or of all."""
    sizes = found.importances
    sizes = sizes.sum(axis=0) if output is None else sizes[output]
    names, sizes = largest(list(found.names), sizes, most)
    return Bars(names, sizes, None, meaning(estimator, found, output))


def sample_bars(
    estimator: Any, found: Explanation, names: Sequence[str], sample: int, output: int, most: int
) -> Bars:
    """Return the contributions to one prediction, with a name for each."""
    names, sizes = largest(list(names), found.contributions[sample, output], most)
    return Bars(names, sizes, float(found.bias[output]), meaning(estimator, found, output))


def short_number(value: float) -> str:
    """Return a number with four digits and a typographic minus sign."""
    return f"{value:.4g}".replace("-", "−")


def largest(
    names: list[str], sizes: NDArray[np.float64], most: int
) -> tuple[list[str], NDArray[np.float64]]:
    """Return names and sizes, the largest first; those beyond the first `most` are added up."""
    order = [i for i in np.argsort(-np.abs(sizes), kind="stable") if sizes[i] != 0.0]
    if len(order) <= most:
        return [names[i] for i in order], sizes[order]
    first, rest = order[: most - 1], order[most - 1 :]
    total = float(sizes[rest].sum())
    return [*(names[i] for i in first), f"{len(rest)} others"], np.append(sizes[first], total)


def name_with_values(
    found: Explanation, place: int, values: NDArray[np.float64], inputs: Sequence[str]
) -> str:
    """Return the name of a group with the values that its inputs have in a sample."""

    def given(i: int) -> str:
        return f"{inputs[i]} = {short_number(values[i])}" if i < len(inputs) else found.names[place]

    source, others = found.sources[place], [given(i) for i in found.modulators[place]]
    if source == CONSTANT:
        return " × ".join(others) or found.names[place]
    return f"{given(source)} [{', '.join(others)}]" if others else given(source)


def _is_softmax(estimator: Any, found: Explanation) -> bool:
    return len(found.outputs) > 1 and hasattr(estimator, "classes_") and estimator.preset != "paper"


def meaning(estimator: Any, found: Explanation, output: int | None) -> str:
    """Return what the contributions add up to."""
    logistic = estimator.preset == "paper"
    if not hasattr(estimator, "classes_"):
        name = "prediction" if len(found.outputs) == 1 else found.outputs[output or 0]
        return f"log-odds of {name}" if logistic else name
    if not _is_softmax(estimator, found):
        return f"log-odds of {found.outputs[output or 0]}"
    which = "the classes" if output is None else found.outputs[output]
    return f"relative score of {which}"
