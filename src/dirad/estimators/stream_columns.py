"""The columns of a stream: categories and gaps among them, and what becomes of those that are new.

A stream is *mixed* if its first batch has categories or missing values. Then each column has an
input that tells of missing values, and each column of categories an input for all that are new,
from the start: nothing that comes later changes the number of inputs. A stream of numbers alone has
its columns as inputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import mean_and_std
from dirad.encoding import Categories, Encoding, Label, fit_encoding
from dirad.estimators.checks import checked_inputs, refuse_masked
from dirad.estimators.columns import (
    checked_with,
    chosen_categories,
    chosen_columns,
    declared_labels,
    labels_of,
    place_of,
    split_columns,
    why_no_gaps,
)

AUTO, ALL = "auto", "all"
BINARY_UNIT = 0.5  # of an input that is 0 or 1: no such input has a larger spread


@dataclass(frozen=True)
class StreamColumns:
    """What is known of the columns of a stream."""

    n: int
    categories: Mapping[int, Categories]  # by column; until the encoding is fixed, those so far
    gaps: tuple[int, ...] | None  # numbers that may be missing; None: all of a mixed stream
    encoding: Encoding | None = None

    def seeing_rows(
        self, X: Any, columns: Sequence[Any], rows: NDArray[np.int64]
    ) -> "StreamColumns":
        """Return the columns with the categories of more samples of the first batch."""
        known = dict(self.categories)
        for j in known:
            if j < len(columns):
                found = (*known[j].labels, *_labels_at(X, columns, j, rows))
                new = dict.fromkeys(label for label in found if label is not None)
                known[j] = Categories(tuple(new), other=True)
        return replace(self, categories=known)

    def fixed(self, X: NDArray[np.float64]) -> "StreamColumns":
        """Return the columns with their encoding, given the first batch."""
        indicated = np.zeros(self.n, bool)
        indicated[list(self.gaps or ())] = True
        if self.gaps is None:
            indicated[:] = bool(self.categories) or np.isnan(X).any()
        indicated[list(self.categories)] = True
        return replace(self, encoding=fit_encoding(X, self.categories, indicated))

    def inputs(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inputs of the models, given numbers and codes of categories."""
        return X if self.encoding is None else self.encoding.encode(X)

    def numbers(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the numbers among the columns, given the inputs; categories are 0."""
        return inputs if self.encoding is None else self.encoding.numbers(inputs)

    def units(self, unit: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the units of the columns, given those of the inputs; 1 for categories."""
        found = self.numbers(unit[None])[0]
        return np.where(found > 0, found, 1.0)

    def per_column(self, of_inputs: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return for each column whether any of its inputs is marked: (samples, columns)."""
        if self.encoding is None or self.encoding.is_identity:
            return of_inputs
        result = np.zeros((len(of_inputs), self.n), bool)
        np.logical_or.at(result.T, self.encoding.column, of_inputs.T)
        return result

    @property
    def is_mixed(self) -> bool:
        """Are the inputs others than the columns?"""
        return self.encoding is not None and not self.encoding.is_identity


def input_names(stream: Any, columns: Sequence[str]) -> Sequence[str]:
    """Return the names of the inputs of a stream's models, given those of the columns."""
    known: StreamColumns | None = stream.columns
    return columns if known is None or known.encoding is None else known.encoding.names(columns)


def units_of_mixed(inputs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the units of the inputs of a mixed stream, given those of the first batch.

    The unit of a number is its spread, or the median of these if it does not vary. Whether a value
    is missing, or of some category, would be lost beside numbers in the thousands if it had theirs.
    """
    spread = mean_and_std(inputs)[1]
    binary = ((inputs == 0) | (inputs == 1)).all(axis=0)
    varied = spread[(spread > 0) & ~binary]
    usual = float(np.median(varied)) if len(varied) else 1.0
    return np.where(binary, BINARY_UNIT, np.where(spread > 0, spread, usual))


def stream_columns(
    estimator: Any,
    X: Any,
    y: Any,
    before: StreamColumns | None,
    first: NDArray[np.int64],
    *,
    resumed: bool,
    **options: Any,
) -> tuple[Any, StreamColumns | None]:
    """Return X (or X and y) as numbers, and what is then known of the columns.

    `first` are the rows that belong to the first batch of the stream: their categories are known
    from then on. `resumed` says that the stream has begun; its columns are None if it was by an
    earlier dirad.
    """
    options |= {"reset": not resumed}
    options["no_gaps"] = why_no_gaps(estimator, is_old=resumed and before is None)
    columns, known = split_columns(X), before
    if not resumed:
        known = new_columns(estimator, X, columns)
    if known is None or known.encoding is not None or not len(first) or not known.categories:
        categories = {} if known is None else known.categories
        return checked_with(estimator, X, y, categories, **options), known
    if columns is None:
        numbers = checked_inputs(estimator, X, ensure_all_finite="allow-nan", reset=not resumed)
        columns = numbers.T
    known = known.seeing_rows(X, columns, first)
    return checked_with(estimator, X, y, known.categories, **options), known


def new_columns(estimator: Any, X: Any, columns: Sequence[Any] | None) -> StreamColumns:
    """Return the columns of a stream that begins, as parameters and types tell."""
    refuse_masked("X", X)
    categories = chosen_categories(estimator, X, columns)
    if categories and estimator.preset == "paper":
        raise ValueError(
            f"{place_of(X, categories[0])} holds categories: the preset 'paper' takes numbers "
            "alone, preset='default' takes categories too"
        )
    shape = np.shape(np.asarray(X)) if columns is None else (0, len(columns))
    n = shape[1] if len(shape) == 2 else 0
    gaps = estimator.missing_features
    if isinstance(gaps, str) and gaps in (AUTO, ALL):
        chosen = None if gaps == AUTO else tuple(range(n))
    elif isinstance(gaps, str):
        raise ValueError(
            f"missing_features must be {AUTO!r}, {ALL!r}, None, or a list of columns, got {gaps!r}"
        )
    else:
        chosen = () if gaps is None else tuple(chosen_columns("missing_features", gaps, X))
    if chosen and estimator.preset == "paper":
        raise ValueError("missing_features: the preset 'paper' takes no missing values")
    return StreamColumns(n, {j: Categories((), other=True) for j in categories}, chosen)


def _labels_at(
    X: Any, columns: Sequence[Any], j: int, rows: NDArray[np.int64]
) -> list[Label | None]:
    """Return the categories that a column declares, and those of some rows."""
    labels = labels_of(columns[j], place_of(X, j))
    return [*declared_labels(columns[j], place_of(X, j)), *(labels[row] for row in rows.tolist())]
