"""Test-then-train: a learner predicts every batch of a stream before it learns the batch.

The first batch is only learned. Within a batch no labels are seen, so that "no change" repeats the
last label before the batch; the usual figure, in which every sample is predicted by the label of
the sample before it, is computed beside it and is what Kappa temporal refers to.
"""

import pickle
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.metrics import kappa_temporal
from experiments.streams import ours
from experiments.streams.data import Stream, load
from experiments.streams.peers import METHODS, Learner, Method

BATCH_SIZE = 200
PARTS = 10  # of the stream, whose scores are recorded one by one
NAN = float("nan")


@dataclass(frozen=True)
class Run:
    """What came of one learner on one stream."""

    stream: str
    method: str
    seed: int
    samples: int  # that were predicted
    score: float  # accuracy, or root mean squared error (RMSE)
    previous: float  # the same, if every sample is predicted by the target of the one before it
    kappa: float  # Kappa temporal; NaN for regression
    course: list[float]  # the score in each tenth of the stream
    seconds: float  # of the processor, for predicting and learning
    pickled: int  # bytes of the learner, with all that it needs to go on
    alarms: int | None = None  # ours: batches called new or mixed
    opened: int | None = None  # ours: models
    models: int | None = None  # ours: models that are left
    model_bytes: int | None = None  # ours: of the numbers in all models


def method_of(name: str) -> Method:
    """Return a method by its name."""
    return ours.METHOD if name == ours.PREVAL else METHODS[name]


def run(stream: str, method: str, seed: int, limit: int) -> Run:
    """Let a new learner follow the first samples of a stream."""
    data = load(stream, limit)
    made = method_of(method)
    make = made.classifier if data.is_classification else made.regressor
    if make is None:
        raise ValueError(f"{method} has no regressor, which {stream} needs")
    return follow(data, make(seed), stream, method, seed)


def follow(data: Stream, learner: Learner, stream: str, method: str, seed: int) -> Run:
    """Let a learner follow a stream, and return what came of it."""
    predicted, seconds = predict_then_learn(learner, data.X, data.y)
    y, before = data.y[BATCH_SIZE:], data.y[BATCH_SIZE - 1 : -1]
    found, previous = score(y, predicted), score(y, before)
    return Run(
        stream,
        method,
        seed,
        len(y),
        found,
        previous,
        kappa_temporal(found, previous) if data.is_classification else NAN,
        [
            score(true, part)
            for true, part in zip(
                np.array_split(y, PARTS), np.array_split(predicted, PARTS), strict=True
            )
        ],
        seconds,
        len(pickle.dumps(learner)),
        **(ours.describe(learner) if method == ours.PREVAL else {}),
    )


def predict_then_learn(
    learner: Learner, X: NDArray, y: NDArray, batch_size: int = BATCH_SIZE
) -> tuple[NDArray, float]:
    """Return the predictions of all samples after the first batch, and processor seconds."""
    found: list[Any] = []
    start = time.process_time()
    learner.partial_fit(X[:batch_size], y[:batch_size])
    for first in range(batch_size, len(X), batch_size):
        batch = slice(first, first + batch_size)
        found.append(learner.predict(X[batch]))
        learner.partial_fit(X[batch], y[batch])
    return np.concatenate([y[:0], *found]), time.process_time() - start


def score(y: NDArray, predicted: NDArray) -> float:
    """Return the accuracy, or the root mean squared error where targets are not classes.

    >>> score(np.array([0, 1]), np.array([0, 0]))
    0.5
    >>> score(np.array([0.0, 2.0]), np.array([0.0, 0.0])) ** 2
    2.0000000000000004
    """
    if y.dtype.kind == "i":
        return float(np.mean(y == predicted))
    return float(np.sqrt(np.mean((y - predicted) ** 2)))
