"""Detectors of change beside ours, on the synthetic streams of `dependence`.

A detector watches every input, and whether a logistic regression of the first samples is right. Its
first alarm counts: before the change it is false, afterwards the change is found.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.linear_model import LogisticRegression

from dirad.report.tables import Section
from experiments.peers.trees import ADVICE
from experiments.streams import dependence
from experiments.streams.dependence import BATCH_SIZE, NONE, PROMISED
from experiments.streams.ours import PREVAL

LEARNED = 2000  # first samples, in which nothing is watched for
MMD_SAMPLES = 200  # of those, with which each batch is compared
PERMUTATIONS = 50
ALWAYS, ADWIN, KSWIN, PAGE_HINKLEY = "always alarm", "ADWIN", "KSWIN", "Page-Hinkley"
MMD = "maximum mean discrepancy"
METHODS = (ALWAYS, ADWIN, KSWIN, PAGE_HINKLEY, MMD, PREVAL)
KINDS = ("independent", "AR(1), φ = 0.9", "AR(1), φ = 0.99", "seasonal")
CHANGES = (NONE, "moved input", "wider input", "new rule")
NOTE = (
    f"Streams as in the part `dependence`. After {LEARNED:,} samples, a detector watches every "
    "input and the errors of a logistic regression of these samples: ADWIN, KSWIN and "
    "Page-Hinkley of river, with its defaults, sample by sample; maximum mean discrepancy (normal "
    f"kernel, median distance) of each batch of {BATCH_SIZE} and {MMD_SAMPLES} of the first "
    f"samples, at the rate {PROMISED:g} divided by the batches, with a normal approximation of "
    f"{PERMUTATIONS} permutations. The first alarm counts. False: an alarm without a change, or "
    f"before it. Found: the first alarm comes after the change. {PREVAL} has the promise "
    f"{PROMISED:g} for the stream, and learns all the while."
)

Watch = Callable[[NDArray[np.float64], NDArray[np.float64]], int]


@dataclass(frozen=True)
class Run:
    """When a detector raised its first alarm in a stream."""

    method: str
    kind: str
    change: str
    seed: int
    at: int  # first batch after the change; -1: none
    alarm: int  # batch; -1: none


def run(method: str, kind: str, change: str, seed: int) -> Run:
    """Return the first alarm of a detector."""
    if method == PREVAL:
        ours = dependence.run(kind, change, seed)
        return Run(method, kind, change, seed, ours.at, min(ours.opened, default=-1))
    X, y, at = dependence.stream(kind, change, seed)
    model = LogisticRegression(max_iter=1000).fit(X[:LEARNED], y[:LEARNED])
    wrong = (model.predict(X) != y).astype(np.float64)
    values = np.column_stack([X, wrong])
    sample = watches()[method](values[:LEARNED], values[LEARNED:])
    batch = (LEARNED + sample) // BATCH_SIZE if sample >= 0 else -1
    return Run(method, kind, change, seed, at, batch)


def watches() -> dict[str, Watch]:
    """Return the detectors: functions of the first samples and the rest to the first alarm."""
    return {
        ALWAYS: lambda first, rest: 0,
        ADWIN: lambda first, rest: one_by_one("ADWIN", first, rest),
        KSWIN: lambda first, rest: one_by_one("KSWIN", first, rest, seed=0),
        PAGE_HINKLEY: lambda first, rest: one_by_one("PageHinkley", first, rest),
        MMD: mean_discrepancy_alarm,
    }


def one_by_one(name: str, first: NDArray, rest: NDArray, **options: Any) -> int:
    """Return the first sample of the rest at which some column's detector of river alarms.

    The first samples are shown too; a detector that alarms in them is reset.
    """
    try:
        from river import drift
    except ImportError as error:
        raise ImportError(f"{name} {ADVICE}") from error
    found = [len(rest)]
    for column in range(rest.shape[1]):
        detector = getattr(drift, name)(**options)
        for value in first[:, column].tolist():
            detector.update(value)
            if detector.drift_detected:
                detector = getattr(drift, name)(**options)
        for i, value in enumerate(rest[: min(found), column].tolist()):
            detector.update(value)
            if detector.drift_detected:
                found.append(i)
                break
    return min(found) if len(found) > 1 else -1


def mean_discrepancy_alarm(first: NDArray, rest: NDArray) -> int:
    """Return the last sample of the first batch that differs from the first samples, or -1."""
    rng = np.random.default_rng(0)
    known = first[np.linspace(0, len(first) - 1, MMD_SAMPLES, dtype=int)]
    scale = np.maximum(first.std(axis=0), 1e-9)
    n_batches = len(rest) // BATCH_SIZE
    for batch in range(n_batches):
        new = rest[batch * BATCH_SIZE : (batch + 1) * BATCH_SIZE]
        if discrepancy_p_value(known / scale, new / scale, rng) < PROMISED / n_batches:
            return (batch + 1) * BATCH_SIZE - 1
    return -1


def discrepancy_p_value(A: NDArray, B: NDArray, rng: np.random.Generator) -> float:
    """Return the p-value of the maximum mean discrepancy of two samples, by permutations.

    Its distribution is taken for normal, with mean and deviation of the permuted ones.
    """
    both = np.concatenate([A, B])
    squares = np.square(both).sum(axis=1)
    distance = np.maximum(squares[:, None] + squares - 2.0 * both @ both.T, 0.0)
    kernel = np.exp(-distance / np.median(distance[distance > 0]))
    sign = np.repeat([1.0 / len(A), -1.0 / len(B)], [len(A), len(B)])
    own = float(sign @ kernel @ sign)
    permuted = rng.permuted(np.tile(sign, (PERMUTATIONS, 1)), axis=1)
    chance = np.einsum("ij,jk,ik->i", permuted, kernel, permuted, optimize=True)
    return float(ndtr(-(own - chance.mean()) / max(chance.std(), 1e-12)))


def jobs(seeds: Sequence[int]) -> list[tuple[str, str, str, int]]:
    """Return the arguments of all runs."""
    return [
        (method, kind, change, seed)
        for method in METHODS
        for kind in KINDS
        for change in CHANGES
        for seed in seeds
    ]


def section(runs: Sequence[Run]) -> Section:
    """Return a row per detector and kind of stream."""
    rows: list[dict[str, Any]] = []
    for method, kind in dict.fromkeys((one.method, one.kind) for one in runs):
        own = [one for one in runs if (one.method, one.kind) == (method, kind)]
        row: dict[str, Any] = {"detector": method, "stream": kind}
        early = [one for one in own if one.alarm >= 0 and (one.at < 0 or one.alarm < one.at)]
        row["false"] = f"{len(early)} of {len(own)}"
        for change in CHANGES[1:]:
            planted = [one for one in own if one.change == change]
            delays = [one.alarm - one.at + 1 for one in planted if one.alarm >= one.at]
            row[change] = f"{len(delays)} of {len(planted)}"
            if delays:
                row[change] += f", delay {np.median(delays):g}"
        rows.append(row)
    return Section("Detectors", rows, NOTE)
