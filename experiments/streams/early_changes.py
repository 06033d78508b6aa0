"""Changes soon after a stream begins, anywhere in a batch: are they found while a model learns?

Two normal inputs, and a class by the side of a line. A stream without a change counts false alarms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.estimators import PREVALClassifier
from dirad.report.tables import Section
from experiments.streams.dependence import BATCH_SIZE, autoregression

BATCHES_BEFORE = range(1, 9)
OFFSETS = (0, 50, 100, 150, 180)  # samples of the batch before the change
BATCHES_AFTER = 5  # whole ones
CHANGES = ("inputs + 6", "inputs + 3", "labels swapped")
UNCHANGED = {"none, independent": 0.0, "none, AR(1), φ = 0.9": 0.9, "none, AR(1), φ = 0.99": 0.99}
N_UNCHANGED = 3000  # samples
NOTE = (
    f"A change after {BATCHES_BEFORE[0]} to {BATCHES_BEFORE[-1]} batches of {BATCH_SIZE} samples "
    f"and {', '.join(map(str, OFFSETS))} samples of the next one. Found: a model was opened within "
    f"{BATCHES_AFTER} batches after the change. False: a model was opened before it, or in "
    f"{N_UNCHANGED:,} samples without a change."
)


@dataclass(frozen=True)
class Run:
    """What became of one stream."""

    change: str
    before: int  # samples before the change; -1: none
    seed: int
    opened: list[int]  # batches in which a model was opened, but for the first


def jobs(seeds: Sequence[int]) -> list[tuple[str, int, int]]:
    """Return the arguments of all runs."""
    places = [n * BATCH_SIZE + offset for n in BATCHES_BEFORE for offset in OFFSETS]
    changed = [(change, at, seed) for change in CHANGES for at in places for seed in seeds]
    # As many streams of each kind without a change as there are with one.
    numbers = range(seeds[0], seeds[0] + len(seeds) * len(places))
    return changed + [(kind, -1, seed) for kind in UNCHANGED for seed in numbers]


def stream(change: str, before: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the samples of a stream of whole batches."""
    n = N_UNCHANGED
    if change in CHANGES:
        n = (before // BATCH_SIZE + 1 + BATCHES_AFTER) * BATCH_SIZE
    rng = np.random.default_rng([seed, before + 1])
    X = autoregression(rng, n, UNCHANGED.get(change, 0.0))[:, :2]
    y = (X.sum(axis=1) > 0).astype(np.int64)
    if change == "labels swapped":
        y[before:] = 1 - y[before:]
    elif change in CHANGES:
        X[before:] += float(change.removeprefix("inputs + "))
    return X, y


def run(change: str, before: int, seed: int) -> Run:
    """Return what becomes of one stream."""
    model = PREVALClassifier(random_state=seed, n_jobs=1).partial_fit(*stream(change, before, seed))
    events = [event for event in model.events_ if event.kind == "opened"][1:]
    return Run(change, before, seed, [event.batch for event in events])


def section(runs: Sequence[Run]) -> Section:
    """Return the table: a row per kind of change."""
    rows: list[dict[str, Any]] = []
    for change in dict.fromkeys(one.change for one in runs):
        own = [one for one in runs if one.change == change]
        changed = change in CHANGES
        at = [one.before // BATCH_SIZE if changed else np.inf for one in own]
        first = [
            min((batch for batch in one.opened if batch >= place), default=None)
            for one, place in zip(own, at, strict=True)
        ]
        delays = [batch - place + 1 for batch, place in zip(first, at, strict=True) if batch]
        rows.append(
            {
                "change": change,
                "streams": len(own),
                "found": len(delays) if changed else "–",
                "median delay (batches)": float(np.median(delays)) if delays else "–",
                "false": sum(min(one.opened, default=np.inf) < place
                             for one, place in zip(own, at, strict=True)),
            }
        )  # fmt: skip
    return Section("Early changes", rows, NOTE)
