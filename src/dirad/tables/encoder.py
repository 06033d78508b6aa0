"""Encoder: turns the columns of a table into the numbers a network takes, and into its targets.

It is fitted to a training table and stored with the model, so that every other file is read in the
same way: columns are found by name, in any order.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import OutOfRange, check_range, too_large_message
from dirad.encoding import with_medians
from dirad.tables.errors import TableError, first_repeated, listed, shown
from dirad.tables.fields import ACCEPT, EXACT, REFUSE, Input, Label, Target, check, from_json
from dirad.tables.fitting import fit_inputs, fit_target
from dirad.tables.table import Chunk, Table
from dirad.tables.times import Moment, Time

UNSEEN = ("refuse", "zero")
NO_TARGET = "the target is missing"
MISSING = "the value is missing (--impute median, when fitting, fills missing values)"


@dataclass(frozen=True)
class Encoder:
    """Which columns are inputs and how each is encoded; which is the target, and its classes."""

    inputs: tuple[Input, ...]
    target: Target
    time: Time | None = None  # the column that orders the rows of a stream, if there is one

    def __post_init__(self) -> None:
        check(bool(self.inputs), "no input")
        names = [field.name for field in (*self.inputs, self.target, self.time) if field]
        for repeated in (first_repeated(names), first_repeated(self.feature_names)):
            check(repeated is None, f"two columns are named {shown(repeated)}")

    @classmethod
    def fit(
        cls,
        table: Table,
        target: str,
        task: str = "auto",
        impute: str | None = None,
        drop: Iterable[str] = (),
        columns: Iterable[str] | None = None,
        categories: Iterable[str] = (),
        accept_missing: bool = True,
        time: str | None = None,
        stream: bool = False,
    ) -> "Encoder":
        """Learn from a training table how to encode it.

        Parameters
        ----------
        table : Table
        target : the column to predict
        task : {"auto", "classification", "regression"}
            "auto" is classification if the target holds text, booleans, or few whole numbers: at
            most 20 distinct ones, each of which occurs twice on average. Otherwise regression.
        impute : {None, "median"}
            None leaves missing values to the model. "median" replaces them, here and in prediction,
            by the median of a number, the most frequent category, or the most frequent boolean.
        drop : columns that are not inputs
        columns : the inputs, in order; by default all columns but the target
        categories : columns of numbers that are codes, to be encoded as categories
        accept_missing : False refuses missing values that are not replaced
        time : the column that orders the rows of a stream; it is not an input
        stream : True gives each category a feature for categories that come later, and one for
            missing values, whether there are such in this table or not

        Raises
        ------
        TableError
            A column does not exist, is empty, or has so many categories that it looks like an id.
        """
        if impute not in (None, "median"):
            raise ValueError(f"impute must be None or 'median', not {impute!r}")
        drop, categories = set(drop), set(categories)
        names = list(table.names if columns is None else columns)
        for name in (target, *names, *drop, *categories):
            table.require(name)
        fitted_time = None if time is None else Time.fit(table, time)
        names = [name for name in names if name not in {target, time, *drop}]
        missing = impute or (ACCEPT if accept_missing else REFUSE)
        inputs = fit_inputs(table, names, categories, missing, stream=stream)
        fitted_target = fit_target(table, target, task, target in categories)
        try:
            return cls(inputs, fitted_target, fitted_time)
        except ValueError as error:  # two features with the same name
            raise TableError(f"{table.path}: {error}") from error

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the numbers that `transform` returns, in order."""
        return tuple(name for field in self.inputs for name in field.feature_names())

    @property
    def number_features(self) -> list[int]:
        """The places of features that are numbers or truth values, and may have gaps."""
        kinds = [field.kind for field in self.inputs for _ in field.feature_names()]
        return [place for place, kind in enumerate(kinds) if kind != "category"]

    def is_mixed(self, table: Table) -> bool:
        """Say whether the inputs of a table have categories, or gaps that are learned as such."""
        return any(
            field.kind == "category"
            or (field.missing != REFUSE and table.summaries[field.name].has_gaps)
            for field in self.inputs
        )

    def ignored(self, table: Table) -> tuple[str, ...]:
        """Return the columns of a table that have no role; require all inputs."""
        missing = [field.name for field in self.inputs if field.name not in table.names]
        if len(missing) > 1 and table.has_header:
            raise TableError(
                f"{table.path}: no columns {listed(missing)}; "
                "the model needs all columns it was fitted to"
            )
        for name in missing:
            table.require(name)
        known = {field.name for field in (*self.inputs, self.target, self.time) if field}
        return tuple(name for name in table.names if name not in known)

    def transform(self, chunk: Chunk, unseen: str = "refuse") -> NDArray[np.float64]:
        """Return the inputs: a row for each row of the chunk, a column for each feature.

        A category that did not occur in training is refused, or with unseen="zero" encoded as
        zeros; a stream has a feature for it. Numbers that are missing are NaN, unless they are
        replaced or refused.
        """
        if unseen not in UNSEEN:
            raise ValueError(f"unseen must be one of {UNSEEN}, not {unseen!r}")
        X = np.zeros((len(chunk), len(self.feature_names)))
        start = 0
        for field in self.inputs:
            stop = start + len(field.feature_names())
            if field.kind == "category":
                _one_hot(X[:, start:stop], chunk, field, unseen)
            else:
                X[:, start] = _number_input(chunk, field)
            start = stop
        return X

    def targets(
        self, chunk: Chunk, *, unlabelled: bool = False, new_classes: bool = False
    ) -> NDArray:
        """Return the targets: numbers in regression, labels in classification.

        Labels are text, whole numbers or booleans. With `unlabelled` a missing number is NaN and a
        missing label None (the array then holds objects); with `new_classes` labels that did not
        occur in training are accepted. By default both are refused.
        """
        name = self.target.name
        if self.target.task == "regression":
            return _finite(chunk, name, chunk.numbers(name), unlabelled)
        labels = _labels(chunk, self.target)
        known = set(self.target.classes)
        for row, label in enumerate(labels):
            if label is None and not unlabelled:
                raise chunk.error(row, name, NO_TARGET)
            if label is not None and label not in known and not new_classes:
                classes = listed(self.target.classes)
                raise chunk.error(row, name, f"class {shown(label)} is new; known: {classes}")
        return np.array(labels, object) if None in labels else np.array(labels)

    def read(self, table: Table) -> tuple[NDArray[np.float64], NDArray]:
        """Return all inputs and targets of a table; numbers too large to learn are refused."""
        parts, places = [], []
        for chunk in table.chunks():
            parts.append((self.transform(chunk), self.targets(chunk)))
            places.append(replace(chunk, columns={}))
        X, y = (np.concatenate(part) for part in zip(*parts, strict=True))
        with self.out_of_range_named(places):
            check_range(with_medians(X))
        if self.target.task == "regression":
            with self.out_of_range_named(places, target=True):
                check_range(y[:, None])
        return X, y

    @contextmanager
    def out_of_range_named(
        self, chunks: Sequence[Chunk], *, first: int = 0, target: bool = False
    ) -> Iterator[None]:
        """Turn an `OutOfRange` error into one that names the file, the row and the column.

        Row 0 of the `OutOfRange` error is row `first` of the chunks.
        """
        try:
            yield
        except OutOfRange as error:
            name = self.target.name if target else self.feature_names[error.column]
            row = first + error.row
            for chunk in chunks:
                if row < len(chunk):
                    raise chunk.error(row, name, too_large_message(error.value)) from error
                row -= len(chunk)
            raise

    def with_classes(self, labels: Iterable[Label]) -> "Encoder":
        """Return an encoder that knows these classes too."""
        classes = tuple(sorted({*self.target.classes, *labels}))
        return replace(self, target=replace(self.target, classes=classes))

    def learned_until(self, moment: Moment) -> "Encoder":
        """Return an encoder with the time of the last row learned."""
        return self if self.time is None else replace(self, time=self.time.after(moment))

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON: dicts, lists, text, numbers."""
        return json.loads(json.dumps(asdict(self)))

    @classmethod
    def from_json(cls, obj: Any) -> "Encoder":
        """Return the encoder that `to_json` described; anything else is a ValueError."""
        valid = isinstance(obj, dict) and set(obj) | {"time"} == {"inputs", "target", "time"}
        check(valid and isinstance(obj["inputs"], list), "it does not consist of inputs and target")
        inputs = tuple(from_json(Input, field) for field in obj["inputs"])
        time = obj.get("time")  # older files have none
        return cls(
            inputs,
            from_json(Target, obj["target"]),
            None if time is None else from_json(Time, time),
        )


def _number_input(chunk: Chunk, field: Input) -> NDArray[np.float64]:
    boolean = field.kind == "boolean"
    values = chunk.booleans(field.name) if boolean else chunk.numbers(field.name)
    missing = np.isnan(values)
    if field.fill is not None:
        values = np.where(missing, float(field.fill), values)
    elif missing.any() and field.missing == REFUSE:
        raise chunk.error(int(np.argmax(missing)), field.name, MISSING)
    return _finite(chunk, field.name, values, may_be_missing=True)


def _finite(
    chunk: Chunk, name: str, values: NDArray[np.float64], may_be_missing: bool = False
) -> NDArray[np.float64]:
    """Return the numbers unchanged; refuse infinite ones and, by default, missing ones."""
    infinite, missing = np.isinf(values), np.isnan(values)
    if infinite.any():
        raise chunk.error(int(np.argmax(infinite)), name, "the number is infinite")
    if missing.any() and not may_be_missing:
        raise chunk.error(int(np.argmax(missing)), name, NO_TARGET)
    return values


def _one_hot(X: NDArray[np.float64], chunk: Chunk, field: Input, unseen: str) -> None:
    """Write a 1 into the column of each row's category."""
    codes = {category: code for code, category in enumerate(field.categories)}
    for row, text in enumerate(chunk.texts(field.name)):
        if text is None:
            text = field.fill
        if text is None:
            if field.missing == REFUSE:
                raise chunk.error(row, field.name, MISSING)
            # The feature of missing values, if there is one.
            X[row, len(codes) + field.other :] = 1.0
        elif text in codes:
            X[row, codes[text]] = 1.0
        elif field.other:
            X[row, len(codes)] = 1.0
        elif unseen == "refuse":
            known = listed(field.categories)
            reason = f"{shown(text)} was not seen in training; known: {known} (--unseen zero)"
            raise chunk.error(row, field.name, reason)


def _labels(chunk: Chunk, target: Target) -> list[Label | None]:
    """Return the labels in the type of the classes, None where one is missing."""
    name = target.name
    if target.kind == "category":
        return list(chunk.texts(name))
    if target.kind == "boolean":
        return [None if np.isnan(value) else bool(value) for value in chunk.booleans(name)]
    labels: list[Label | None] = []
    for row, value in enumerate(chunk.numbers(name).tolist()):
        if value == value and not (value.is_integer() and abs(value) <= EXACT):
            raise chunk.error(row, name, f"{value!r} is not a whole number, as the classes are")
        labels.append(None if value != value else int(value))
    return labels
