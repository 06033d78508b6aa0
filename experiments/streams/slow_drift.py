"""Slow drift: one task that moves by some standard deviations in the course of a stream.

Nothing happens at once, so that every model after the first is a false regime. Accuracy is that of
test-then-train, beside a logistic regression that is fitted again to the latest tenth of the stream
after every batch. The rule is linear, so that this is the model that suits it best.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from dirad.estimators import PREVALClassifier
from dirad.report.tables import Section
from dirad.streams.averages import mean, spread
from experiments.streams.dependence import (
    BATCH_SIZE,
    CHANGED,
    N_SAMPLES,
    PROMISED,
    autoregression,
    independent,
)

SIZES = (2, 5)  # standard deviations by which a stream drifts
PHI = 0.9  # of the stream whose samples depend on those before
MARGIN = 0.01  # by which accuracy may be lower than that of the model that is fitted again
TENTH = N_SAMPLES // 10  # samples
ANOTHER_INPUT = "an input that the rule does not use"
INPUT_OF_RULE = "an input of the rule, which stays where it is"
WITH_RULE = "an input and the rule with it"
DEPENDENT = f"an input and the rule with it, AR(1), φ = {PHI:g}"
DRIFTS = (ANOTHER_INPUT, INPUT_OF_RULE, WITH_RULE, DEPENDENT)
NOTE = (
    f"Streams of {N_SAMPLES:,} samples, test-then-train in batches of {BATCH_SIZE}; one input "
    "drifts evenly from the first to the last sample, by so many of its standard deviations. "
    f"False regimes: streams with a second model. Fitted again: a logistic regression of the "
    f"latest {TENTH:,} samples, fitted after every batch. Both are compared from the sample "
    f"{TENTH:,} on. Mean ± standard deviation over seeds. Within {MARGIN:g}: streams in which our "
    "accuracy is not lower by more."
)


@dataclass(frozen=True)
class Run:
    """What became of one stream."""

    drift: str
    size: int
    seed: int
    accuracy: float
    fitted_again: float  # accuracy of the model of the latest tenth
    opened: list[int]  # batches in which a model was opened, but for the first


def stream(drift: str, size: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the samples of a stream."""
    rng = np.random.default_rng([seed, DRIFTS.index(drift), size])
    X = autoregression(rng, N_SAMPLES, PHI) if drift == DEPENDENT else independent(rng, N_SAMPLES)
    way = size * np.linspace(0.0, 1.0, N_SAMPLES)
    if drift == ANOTHER_INPUT:
        y = X[:, 0] + X[:, 1] > 0
        X[:, CHANGED] += way
    elif drift == INPUT_OF_RULE:
        X[:, 0] += way
        y = X[:, 0] + X[:, 1] > size / 2.0
    else:
        y = X[:, 0] + X[:, 1] > 0
        X[:, 0] += way
    return X, y.astype(np.int64)


def run(drift: str, size: int, seed: int) -> Run:
    """Return what becomes of one stream."""
    X, y = stream(drift, size, seed)
    model = PREVALClassifier(
        random_state=seed, n_jobs=1, false_alarms=PROMISED, false_alarms_per="stream"
    )
    ours, again = [], []
    for first in range(0, N_SAMPLES, BATCH_SIZE):
        batch, latest = slice(first, first + BATCH_SIZE), slice(first - TENTH, first)
        if first >= TENTH:
            ours.append(np.mean(model.predict(X[batch]) == y[batch]))
            again.append(np.mean(retrained(X[latest], y[latest], X[batch]) == y[batch]))
        model.partial_fit(X[batch], y[batch])
    opened = [event.batch for event in model.events_ if event.kind == "opened"][1:]
    return Run(drift, size, seed, float(np.mean(ours)), float(np.mean(again)), opened)


def retrained(X: NDArray, y: NDArray, new: NDArray) -> NDArray:
    """Return what a logistic regression of some samples predicts for new ones."""
    if len(np.unique(y)) == 1:
        return np.full(len(new), y[0])
    return LogisticRegression(max_iter=1000).fit(X, y).predict(new)


def section(runs: Sequence[Run]) -> Section:
    """Return a row per kind and size of drift."""
    rows: list[dict[str, Any]] = []
    for drift, size in dict.fromkeys((one.drift, one.size) for one in runs):
        own = [one for one in runs if (one.drift, one.size) == (drift, size)]
        rows.append(
            {
                "what drifts": drift,
                "by": size,
                "streams": len(own),
                "false regimes": sum(bool(one.opened) for one in own),
                "accuracy": spread((one.accuracy for one in own), 4),
                "fitted again": spread((one.fitted_again for one in own), 4),
                "difference": f"{mean(one.accuracy - one.fitted_again for one in own):+.4f}",
                f"within {MARGIN:g}": sum(one.accuracy >= one.fitted_again - MARGIN for one in own),
            }
        )
    return Section("Slow drift", rows, NOTE)
