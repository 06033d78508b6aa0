"""Continual classifiers and regressors in a model file."""

from typing import Any

import numpy as np

from dirad.estimators.number_stream import NumberStream
from dirad.estimators.stream_columns import StreamColumns
from dirad.estimators.stream_state import StreamState
from dirad.preval.targets import CLASSES, NUMBERS, UNLABELLED
from dirad.storage.codecs import Array, Int, Plain
from dirad.storage.composites import Dictionary, List, Maybe, Object, Row
from dirad.storage.models import CATEGORIES, ENCODING, Estimator, Labels
from dirad.storage.networks import INT, REAL, must
from dirad.storage.systems import OUR_SYSTEM, SYSTEM, WEIGHT, Targets


def stream_state(labels: Any, **parts: Any) -> StreamState:
    """Return the state of a stream; a file has its labels as a list."""
    must(isinstance(labels, list), "the labels are no list")
    return StreamState(labels=tuple(labels), **parts)


def check_stream(stream: StreamState) -> None:
    """Refuse a stream whose labels and codes do not fit."""
    labels = stream.labels
    must(len(set(labels)) == len(labels), "a label is there twice")
    must(set(labels) == set(stream.classes.tolist()), "labels and classes differ")
    must(stream.system.n_classes <= len(labels), "a class has no label")
    must(stream.system.settings.targets == CLASSES, "the models predict numbers")
    check_columns(stream)
    y = stream.waiting[1]
    must(((y >= UNLABELLED) & (y < len(labels))).all(), "a sample has no label")


def check_columns(stream: StreamState | NumberStream) -> None:
    """Refuse a stream whose waiting samples, columns and inputs do not belong together."""
    system, (X, y), columns = stream.system, stream.waiting, stream.columns
    inputs = system.n_inputs
    if columns is not None:
        places = [*columns.categories, *(columns.gaps or ())]
        must(all(j < columns.n for j in places), "a column does not exist")
        encoding = columns.encoding
        if encoding is None:
            must(not system.journal.samples, "the encoding of the inputs is missing")
            inputs = columns.n
        else:
            must(encoding.n_columns == columns.n, "the encoding has other columns")
            must(encoding.categories == columns.categories, "the encoding has other categories")
            must(encoding.n_inputs == inputs, "the system has other inputs")
            inputs = columns.n
    must(len(X) == len(y) and X.shape[1] == inputs, "waiting samples do not fit")
    finite = np.isfinite(X) if columns is None else ~np.isinf(X)
    must(bool(finite.all()), "a waiting sample is not finite")
    must(stream.weight is None or len(stream.weight) == len(y), "waiting samples have no weights")


def check_preval(model: Any) -> None:
    """Refuse an estimator of other columns than its stream."""
    stream = model._stream
    n = stream.system.n_inputs if stream.columns is None else stream.columns.n
    must(n == model.n_features_in_, "the system has other inputs")


STREAM_COLUMNS = Object(
    StreamColumns,
    {
        "n": Int(1),
        "categories": Dictionary(Int(0), CATEGORIES),
        "gaps": Maybe(List(Int(0), tuple)),
        "encoding": Maybe(ENCODING),
    },
)
COLUMNS_AND_WEIGHT = {"columns": Maybe(STREAM_COLUMNS), "weight": Maybe(WEIGHT)}
STREAM = Object(
    stream_state,
    {
        "system": SYSTEM,
        "labels": Plain(),
        "classes": Labels(),
        "waiting": Row(Array(REAL, "samples", "columns", finite=False), Array(INT, "samples")),
        **COLUMNS_AND_WEIGHT,
    },
    check_stream,
)
PREVAL = Estimator(
    "PREVALClassifier",
    {"_stream": STREAM, "n_features_in_": Int(1), "feature_names_in_": Maybe(Labels())},
    check_preval,
)


def check_number_stream(stream: NumberStream) -> None:
    """Refuse a stream whose samples or models are not of numbers."""
    check_columns(stream)
    system, y = stream.system, stream.waiting[1]
    must(system.settings.targets == NUMBERS and y.dtype.kind == "f", "the targets are classes")
    must(system.n_classes <= 1, "numbers have no classes")


NUMBER_STREAM = Object(
    NumberStream,
    {
        "system": OUR_SYSTEM,
        "waiting": Row(Array(REAL, "samples", "columns", finite=False), Targets()),
        **COLUMNS_AND_WEIGHT,
    },
    check_number_stream,
)
PREVAL_REGRESSOR = Estimator(
    "PREVALRegressor",
    {"_stream": NUMBER_STREAM, "n_features_in_": Int(1), "feature_names_in_": Maybe(Labels())},
    check_preval,
)
