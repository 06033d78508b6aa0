"""Continual classifiers and regressors in a model file."""

from typing import Any

from dirad.estimators.number_stream import NumberStream
from dirad.estimators.stream_state import StreamState
from dirad.preval.targets import CLASSES, NUMBERS, UNLABELLED
from dirad.storage.codecs import Array, Int, Plain
from dirad.storage.composites import Maybe, Object, Row
from dirad.storage.models import Estimator, Labels
from dirad.storage.networks import INT, REAL, must
from dirad.storage.systems import OUR_SYSTEM, SYSTEM, Targets


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
    X, y = stream.waiting
    must(len(X) == len(y) and X.shape[1] == stream.system.n_inputs, "waiting samples do not fit")
    must(((y >= UNLABELLED) & (y < len(labels))).all(), "a sample has no label")


def check_preval(model: Any) -> None:
    """Refuse an estimator of other inputs than its system."""
    must(model._stream.system.n_inputs == model.n_features_in_, "the system has other inputs")


STREAM = Object(
    stream_state,
    {
        "system": SYSTEM,
        "labels": Plain(),
        "classes": Labels(),
        "waiting": Row(Array(REAL, "samples", "inputs"), Array(INT, "samples")),
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
    system, (X, y) = stream.system, stream.waiting
    must(system.settings.targets == NUMBERS and y.dtype.kind == "f", "the targets are classes")
    must(len(X) == len(y) and X.shape[1] == system.n_inputs, "waiting samples do not fit")
    must(system.n_classes <= 1, "numbers have no classes")


NUMBER_STREAM = Object(
    NumberStream,
    {"system": OUR_SYSTEM, "waiting": Row(Array(REAL, "samples", "inputs"), Targets())},
    check_number_stream,
)
PREVAL_REGRESSOR = Estimator(
    "PREVALRegressor",
    {"_stream": NUMBER_STREAM, "n_features_in_": Int(1), "feature_names_in_": Maybe(Labels())},
    check_preval,
)
