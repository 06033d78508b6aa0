"""Seasons of a rule: it drifts away slowly and comes back, at once or as slowly, again and again.

While it drifts, the corrections of the model follow it. When it is back, its model should answer as
before: a second model is a false regime. Accuracy is that of test-then-train, with versions of a
model and without. The first batch of the old rule is predicted before its labels are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.estimators import PREVALClassifier
from dirad.report.tables import Section
from dirad.streams.averages import spread

BATCH_SIZE = 200
BUFFER_SIZE = 2000  # so that the model is finished before the rule drifts
STAY, DRIFT, CYCLES = 15, 20, 4  # batches of one rule; of the drift; seasons
AFTER = 5  # batches after the return
NOISE = 0.03  # share of labels that are wrong
AT_ONCE, SLOWLY = "at once", "slowly"
RETURNS = (AT_ONCE, SLOWLY)
SIZES = (4, 30)  # inputs
NOTE = (
    f"A rule stays for {STAY} batches of {BATCH_SIZE} samples, drifts by 60° in {DRIFT} batches, "
    f"stays again and returns, {CYCLES} times; {NOISE:.0%} of the labels are wrong. Accuracy: of "
    f"all batches after the first {STAY}, of the second to the {AFTER}th after a return, and of "
    f"the first {AFTER} in which the other rule stays. False regimes: models after the first, in "
    "all streams. Mean ± standard deviation over seeds."
)


@dataclass(frozen=True)
class Run:
    """What became of one stream."""

    returns: str
    inputs: int
    versions: int  # most that are kept
    seed: int
    accuracy: float
    after_return: float
    at_other: float
    opened: list[int]  # batches in which a model was opened, but for the first


def course(returns: str) -> tuple[NDArray[np.float64], list[int], list[int]]:
    """Return where the rule is, from 0 to 1, by sample; the batches of its returns and arrivals."""
    way = np.linspace(0.0, 1.0, DRIFT * BATCH_SIZE)
    back = way[::-1] if returns == SLOWLY else way[:0]
    stay = np.zeros(STAY * BATCH_SIZE)
    season = np.concatenate([stay, way, stay + 1.0, back])
    length = len(season) // BATCH_SIZE
    first = [STAY + i * length for i in range(CYCLES)]
    return (
        np.concatenate([stay, *[season] * CYCLES]),
        first[1:],
        [batch + STAY + DRIFT for batch in first],
    )


def stream(returns: str, inputs: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the samples of a stream."""
    angle = course(returns)[0] * np.pi / 3.0
    rng = np.random.default_rng([seed, inputs, RETURNS.index(returns)])
    X = rng.normal(size=(len(angle), inputs))
    half = inputs // 4
    one, other = X[:, :half].sum(axis=1), X[:, half : 2 * half].sum(axis=1)
    gated = X[:, -1] * (X[:, -2] > 0)
    y = (np.cos(angle) * one + np.sin(angle) * other + gated > 0).astype(np.int64)
    return X, np.where(rng.random(len(y)) < NOISE, 1 - y, y)


def run(returns: str, inputs: int, versions: int, seed: int) -> Run:
    """Return what becomes of one stream."""
    X, y = stream(returns, inputs, seed)
    model = PREVALClassifier(
        random_state=seed, n_jobs=1, buffer_size=BUFFER_SIZE, max_versions=versions
    )
    right = []
    for first in range(0, len(X), BATCH_SIZE):
        batch = slice(first, first + BATCH_SIZE)
        right.append(np.mean(model.predict(X[batch]) == y[batch]) if first else 0.0)
        model.partial_fit(X[batch], y[batch])
    _, back, there = course(returns)
    opened = [event.batch for event in model.events_ if event.kind == "opened"][1:]
    return Run(
        returns, inputs, versions, seed,
        float(np.mean(right[STAY:])),
        float(np.mean([right[batch + 1 : batch + AFTER] for batch in back])),
        float(np.mean([right[batch : batch + AFTER] for batch in there])),
        opened,
    )  # fmt: skip


def section(runs: Sequence[Run]) -> Section:
    """Return a row per kind of return, number of inputs, and whether versions are kept."""
    rows: list[dict[str, Any]] = []
    for kind in dict.fromkeys((one.returns, one.inputs, one.versions) for one in runs):
        own = [one for one in runs if (one.returns, one.inputs, one.versions) == kind]
        returns, inputs, versions = kind
        rows.append(
            {
                "returns": returns,
                "inputs": inputs,
                "versions kept": versions or "none",
                "streams": len(own),
                "false regimes": sum(len(one.opened) for one in own),
                "accuracy": spread((one.accuracy for one in own), 4),
                "after a return": spread((one.after_return for one in own), 4),
                "at the other rule": spread((one.at_other for one in own), 4),
            }
        )
    return Section("Seasons of a rule", rows, NOTE)
