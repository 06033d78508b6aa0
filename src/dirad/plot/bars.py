"""Contributions to predictions as named bars: the data behind plots and pages, no matplotlib."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.encoding import Encoding
from dirad.explanation import CONSTANT, Explanation, explain_inputs
from dirad.plot.responses import Feature
from dirad.program import Transfer

NEGLIGIBLE = 1e-12  # of the largest contribution; smaller ones are rounding errors
NOT_MISSING = " is not missing"


class Bars(NamedTuple):
    """Contributions, the largest first."""

    names: list[str]
    sizes: NDArray[np.float64]
    bias: float | None  # the activation without contributions; None if the bars are averages
    output: str  # what they add up to, or are averages of


def explained(estimator: Any, inputs: NDArray[np.float64], by: str = "input") -> Explanation:
    """Return the explanation of predictions, given inputs of the network.

    Scores of a softmax are relative to their mean.
    """
    found = explain_inputs(estimator, inputs, by=by)
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
    """Return names and sizes, the largest first; those beyond the first `most` are added up.

    A contribution that is 0 but for rounding is left out, such as that of the mean of a column
    where its value is missing.
    """
    least = NEGLIGIBLE * np.abs(sizes).max(initial=0.0)
    order = [i for i in np.argsort(-np.abs(sizes), kind="stable") if abs(sizes[i]) > least]
    if len(order) <= most:
        return [names[i] for i in order], sizes[order]
    first, rest = order[: most - 1], order[most - 1 :]
    total = float(sizes[rest].sum())
    return [*(names[i] for i in first), f"{len(rest)} others"], np.append(sizes[first], total)


def inputs_in_words(
    encoding: Encoding | None,
    row: NDArray[np.float64],
    columns: Sequence[str],
    indicators: Sequence[Feature] = (),
) -> list[str]:
    """Return what each input of the network is in a sample, given its columns as numbers.

    `indicators` are columns that indicate categories.

    >>> from dirad.encoding import Categories, fit_encoding
    >>> X = np.array([[40.0, 0.0], [np.nan, 1.0]])
    >>> encoding = fit_encoding(X, {1: Categories(("red", "blue"))})
    >>> inputs_in_words(encoding, X[0], ["age", "colour"])
    ['age = 40', 'age is not missing', 'colour = red', 'colour ≠ blue']
    >>> inputs_in_words(encoding, X[1], ["age", "colour"])[:2]
    ['age is missing', 'age is missing']
    """
    if encoding is None:
        return [f"{name} = {short_number(x)}" for name, x in zip(columns, row, strict=True)]
    states = encoding.encode(row[None, :])[0]
    words: list[str] = []
    indicated = {
        column: (one.name, category)
        for one in indicators
        for column, category in zip(one.columns, one.categories, strict=True)
    }
    made = zip(encoding.column.tolist(), encoding.transfer.tolist(), strict=True)
    inputs = zip(encoding.names(columns), made, states.tolist(), strict=True)
    for name, (column, transfer), state in inputs:
        own = str(columns[column])
        if column in indicated:
            words.append(_category_in_words(*indicated[column], bool(state)))
        elif transfer == Transfer.MISSING:
            words.append(name if state else f"{own}{NOT_MISSING}")
        elif transfer == Transfer.EQUALS:
            category = name.removeprefix(f"{own} = ")
            words.append(_category_in_words(own, category, bool(state)))
        else:
            given = f"{name} = {short_number(state)}"
            if np.isnan(row[column]):  # without an indicator, the network takes the mean as given
                given = f"{name} is missing" if encoding.indicated[column] else f"{given} (missing)"
            words.append(given)
    return words


def _category_in_words(column: str, category: str, holds: bool) -> str:
    return f"{column} {'=' if holds else '≠'} {category}"


def name_in_sample(found: Explanation, place: int, inputs: Sequence[str]) -> str:
    """Return the name of a group in a sample, given what each input is there."""

    def given(i: int) -> str:
        return inputs[i] if i < len(inputs) else found.names[place]

    source, modulators = found.sources[place], found.modulators[place]
    if source == CONSTANT:
        return " × ".join(_telling([given(i) for i in modulators])) or found.names[place]
    first, *others = _telling([given(source), *map(given, modulators)], keep=1)
    return f"{first} [{', '.join(others)}]" if others else first


def _telling(words: Sequence[str], keep: int = 0) -> list[str]:
    """Return words once each, and leave out that a value is not missing beside the value itself.

    >>> _telling(["age = 40", "age is not missing", "height is not missing"])
    ['age = 40', 'height is not missing']
    """

    def is_evident(word: str) -> bool:
        column = word.removesuffix(NOT_MISSING)
        return column != word and any(other.startswith(f"{column} = ") for other in words)

    found = list(dict.fromkeys(words))
    return found[:keep] + [word for word in found[keep:] if not is_evident(word)]


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
