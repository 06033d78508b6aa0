"""Encoding: how the columns of a table become the finite numbers that a network takes.

A column of numbers becomes one input, and missing values become its mean in `fit`; where values
were missing in `fit`, a second input tells whether the value is missing (1) or not (0), so that
a network can learn what to make of it. A column of categories becomes one input per category, 1
where the sample is of that category and 0 elsewhere. Without missing values and categories the
inputs are the columns themselves.

The encoding consists of the first steps of a model's program, so that predictions and all exports
share it. A program takes numbers: categories are given as code numbers, missing values as NaN. It
takes them in those columns alone in which values were missing in `fit`; in others, `encode` puts
the mean in their place beforehand.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dirad.core.input_groups import NO_GROUPS, InputGroups
from dirad.core.magnitudes import mean_and_std
from dirad.inference import Builder, Signals, evaluate, plain
from dirad.program import OUTPUTS, Program, Transfer

# Fewer samples say too little about a category of its own: the usual normal approximation of a
# proportion asks for about ten. Of small tables, the share decides.
RARE, RARE_SHARE = 10, 0.05
UNKNOWN = -1.0  # the code of a category that `fit` did not see
OTHER = "(other)"

Label = str | float  # a category: text, or a number


@dataclass(frozen=True)
class Categories:
    """The categories of a column; the code of a category is its place."""

    labels: tuple[Label, ...]
    other: bool = False  # whether rarer categories share one more code

    def __len__(self) -> int:
        return len(self.labels) + self.other

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each code."""
        return (*map(label_text, self.labels), *([OTHER] if self.other else []))

    def codes(self, values: Iterable[Label | None]) -> NDArray[np.float64]:
        """Return the code of each value, NaN where it is missing (None).

        A category that `fit` did not see is as rare as can be: it has the code of the rare ones.
        """
        rest = float(len(self.labels)) if self.other else UNKNOWN
        codes: dict[Label | None, float] = {label: float(i) for i, label in enumerate(self.labels)}
        codes[None] = math.nan
        return np.array([codes.get(value, rest) for value in values], np.float64)


def fit_categories(values: Sequence[Label | None]) -> Categories:
    """Return the categories of a column; None is a missing value.

    >>> fit_categories(["b", "a", None, "b"])
    Categories(labels=('a', 'b'), other=False)
    """
    counts = Counter(value for value in values if value is not None)
    least = min(RARE, math.ceil(RARE_SHARE * len(values)))
    labels = [label for label, n in counts.items() if n >= least]
    labels.sort(key=lambda label: (isinstance(label, str), label))
    return Categories(tuple(labels), len(labels) < len(counts) or not counts)


def label_text(label: Label) -> str:
    """Return a category as text; whole numbers have no decimal point.

    >>> label_text("red"), label_text(3.0), label_text(0.5)
    ('red', '3', '0.5')
    """
    if isinstance(label, str):
        return label
    return str(int(label)) if float(label).is_integer() else repr(label)


LEAST_ONE_HOT_SHARE = 0.5  # of samples that have a category, for columns to count as one-hot


def one_hot_groups(X: NDArray) -> list[tuple[int, ...]]:
    """Return runs of three or more neighbouring columns that look like one-hot categories.

    They hold 0 and 1, at most a single 1 in a row, and a 1 in most rows.

    >>> one_hot_groups(np.array([[5, 1, 0, 0], [7, 0, 0, 1], [6, 0, 1, 0]]))
    [(1, 2, 3)]
    """
    binary = np.flatnonzero(((X == 0) | (X == 1)).all(axis=0))
    result: list[tuple[int, ...]] = []
    run: list[int] = []
    taken = np.zeros(len(X), bool)
    for j in [*binary.tolist(), None]:
        ones = taken if j is None else X[:, j] == 1
        if run and (j != run[-1] + 1 or (taken & ones).any()):
            if len(run) >= 3 and taken.mean() >= LEAST_ONE_HOT_SHARE:
                result.append(tuple(run))
            run, taken = [], np.zeros(len(X), bool)
        if j is not None:
            run.append(j)
            taken = taken | ones
    return result


@dataclass(frozen=True)
class Encoding:
    """Which inputs of a network each column becomes."""

    fill: NDArray[np.float64]  # (columns,) what replaces a missing number; 0 for categories
    indicated: NDArray[np.bool_]  # (columns,) does an input tell whether the value is missing?
    categories: Mapping[int, Categories]  # by column

    @property
    def n_columns(self) -> int:
        """The number of columns."""
        return len(self.fill)

    @property
    def is_identity(self) -> bool:
        """Whether the inputs are the columns themselves."""
        return not self.categories and not self.indicated.any()

    @property
    def n_inputs(self) -> int:
        """The number of inputs."""
        return self.n_columns if self.is_identity else len(self.column)

    @cached_property
    def _inputs(self) -> list[tuple[int, Transfer, float, str]]:
        """The column, transfer and constant of each input, and what is appended to its name."""
        found = []
        for j, (fill, indicated) in enumerate(zip(self.fill, self.indicated, strict=True)):
            if j in self.categories:
                names = enumerate(self.categories[j].names)
                found += [(j, Transfer.EQUALS, float(c), f" = {name}") for c, name in names]
            else:
                transfer = Transfer.FILLED if indicated else Transfer.LINEAR  # linear: as it is
                found.append((j, transfer, float(fill), ""))
            if indicated:
                found.append((j, Transfer.MISSING, 0.0, " is missing"))
        return found

    @cached_property
    def column(self) -> NDArray[np.int64]:
        """The column that each input is computed from: (inputs,)."""
        return np.array([column for column, *_ in self._inputs], np.int64)

    @cached_property
    def transfer(self) -> NDArray[np.str_]:
        """The `Transfer` that makes each input of its column: (inputs,)."""
        return np.array([transfer for _, transfer, *_ in self._inputs])

    @cached_property
    def constants(self) -> NDArray[np.float64]:
        """What fills a gap of each input, or the category that it equals: (inputs,)."""
        return np.array([constant for _, _, constant, _ in self._inputs])

    @property
    def is_number(self) -> NDArray[np.bool_]:
        """Whether each input is the number of a column, and no indicator: (inputs,)."""
        return (self.transfer == Transfer.LINEAR) | (self.transfer == Transfer.FILLED)

    @cached_property
    def groups(self) -> InputGroups:
        """Which inputs are of the same column."""
        if self.is_identity:
            return NO_GROUPS
        of_column = [np.flatnonzero(self.column == j).tolist() for j in range(self.n_columns)]
        return InputGroups(
            tuple(tuple(of_column[j]) for j in sorted(self.categories)),
            tuple(
                (own[0], own[1])
                for j, own in enumerate(of_column)
                if self.indicated[j] and j not in self.categories
            ),
        )

    def names(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Return the names of the inputs, given those of the columns.

        >>> encoding = fit_encoding(np.array([[1.0], [3.0], [np.nan]]), {})
        >>> encoding.names(["age"])
        ('age', 'age is missing')
        """
        if self.is_identity:
            return tuple(columns)
        return tuple(columns[column] + more for column, *_, more in self._inputs)

    def per_column(self, of_inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the sum over the inputs of each column."""
        if self.is_identity:
            return of_inputs
        total = np.zeros(self.n_columns)
        np.add.at(total, self.column, of_inputs)
        return total

    def numbers(self, inputs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the columns, given the inputs: gaps are filled, and categories are 0."""
        if self.is_identity:
            return inputs
        columns = np.zeros((len(inputs), self.n_columns))
        columns[:, self.column[self.is_number]] = inputs[:, self.is_number]
        return columns

    def columns_of(self, inputs: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return the columns of some inputs, each once."""
        chosen = np.flatnonzero(inputs)
        return chosen if self.is_identity else np.unique(self.column[chosen])

    def attach(self, builder: Builder) -> Signals:
        """Add the steps of the encoding to a program of the columns; return the inputs."""
        if self.is_identity:
            return builder.inputs
        value = self.column.copy()
        for transfer in (Transfer.FILLED, Transfer.MISSING, Transfer.EQUALS):
            own = np.flatnonzero(self.transfer == transfer)
            if len(own):
                source = builder.inputs.take(self.column[own])
                value[own] = builder.block(
                    transfer, source.sums, constant=self.constants[own]
                ).value
        return plain(value)

    @cached_property
    def _program(self) -> Program:
        builder = Builder(self.n_columns)
        return builder.whole({OUTPUTS: self.attach(builder)})

    def encode(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the inputs, given numbers, codes of categories, and NaN: (samples, inputs)."""
        unforeseen = np.isnan(X)
        unforeseen[:, [*self.categories, *np.flatnonzero(self.indicated)]] = False
        if unforeseen.any():
            X = np.where(unforeseen, self.fill, X)
        return X if self.is_identity else evaluate(self._program, X)[OUTPUTS]


def fit_encoding(
    X: NDArray[np.float64],
    categories: Mapping[int, Categories],
    indicated: NDArray[np.bool_] | None = None,
) -> Encoding:
    """Return the encoding of columns as `fit` sees them; those of categories hold codes.

    `indicated` are the columns of which an input tells whether the value is missing; by default
    those that have missing values, and others too.
    """
    missing = np.isnan(X)
    n_missing = np.count_nonzero(missing, axis=0)
    fill, whole = np.zeros(X.shape[1]), n_missing == 0
    fill[whole] = mean_and_std(X[:, whole])[0]
    some = (n_missing > 0) & (n_missing < len(X))  # a column without any value tells nothing
    for j in np.flatnonzero(some):
        fill[j] = mean_and_std(X[~missing[:, j], j, None])[0][0]
    fill[list(categories)] = 0.0
    return Encoding(fill, some if indicated is None else indicated, dict(categories))


def with_medians(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return X with the median of its column (0 if there is none) for each missing value."""
    missing = np.isnan(X)
    if not missing.any():
        return X
    result = X.copy()
    for j in np.flatnonzero(missing.any(axis=0)):
        known = X[~missing[:, j], j]
        result[missing[:, j], j] = np.median(known) if len(known) else 0.0
    return result
