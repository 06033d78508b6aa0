"""Alarms where samples depend on those before: one unchanging task, and planted changes.

Each stream has five inputs, and a class by the side of a line. Without a change, every model after
the first is a false alarm. The promise is made for the whole stream: at most 5 % of streams ever
raise one.

Dependent samples are worth fewer independent ones. What a delay should be is told by streams of
independent samples whose batches have only that many.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from dirad.estimators import PREVALClassifier
from dirad.report.tables import Section
from experiments.metrics import interval

N_INPUTS, N_SAMPLES, BATCH_SIZE = 5, 20_000, 200
PROMISED = 0.05  # of streams
SEASON, AMPLITUDE = 1000, 2.0  # samples; standard deviations of one input
BURST_EVERY, BURST_LENGTH, BURST_SCALE = 1500.0, 40, 4.0  # on average
CHANGED = 3  # the input that changes
LEAST_CHANGED, MOST_CHANGED = 50, 60  # batches after which a change is planted

Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


def independent(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Return independent normal inputs."""
    return rng.normal(size=(n, N_INPUTS))


def autoregression(rng: np.random.Generator, n: int, phi: float) -> NDArray[np.float64]:
    """Return inputs of variance 1, each correlated by φ with the one before."""
    noise = independent(rng, n) * np.sqrt(1.0 - phi**2)
    noise[0] /= np.sqrt(1.0 - phi**2)
    return np.asarray(lfilter([1.0], [1.0, -phi], noise, axis=0))


def seasonal(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Return inputs of which the first has a season."""
    X = independent(rng, n)
    X[:, 0] += AMPLITUDE * np.sin(2.0 * np.pi * (np.arange(n) / SEASON + rng.random()))
    return X


def with_bursts(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    """Return inputs that are larger in rare bursts."""
    X, at = independent(rng, n), 0
    while True:
        at += int(rng.exponential(BURST_EVERY))
        if at >= n:
            return X
        length = int(rng.geometric(1.0 / BURST_LENGTH))
        X[at : at + length] *= BURST_SCALE
        at += length


AUTOREGRESSIONS = (0.5, 0.9, 0.95, 0.99)  # φ
# How many independent samples tell as much about a mean as a batch with this φ.
WORTH = {phi: round(BATCH_SIZE * (1.0 - phi) / (1.0 + phi)) for phi in AUTOREGRESSIONS}


def name(phi: float) -> str:
    """Return the name of the streams whose samples depend on those before by φ."""
    return f"AR(1), φ = {phi}"


def few(phi: float) -> str:
    """Return the name of the independent streams whose batches are worth as much as with φ."""
    return f"independent, batches of {WORTH[phi]}"


FEW = {few(phi): WORTH[phi] for phi in AUTOREGRESSIONS}  # samples of a batch

KINDS: dict[str, Draw] = {
    "independent": independent,
    **{name(phi): partial(autoregression, phi=phi) for phi in AUTOREGRESSIONS},
    "seasonal": seasonal,
    "heavy-tailed (Student's t, 2 degrees of freedom)": lambda rng, n: rng.standard_t(
        2, size=(n, N_INPUTS)
    ),
    "rare bursts": with_bursts,
    **dict.fromkeys(FEW, independent),
}
NONE = "none"
CHANGES = (NONE, "moved input", "wider input", "new inputs", "new rule", "new class")


@dataclass(frozen=True)
class Run:
    """What became of one stream."""

    kind: str
    change: str
    seed: int
    at: int  # first batch after the change; -1: none
    opened: list[int]  # batches in which a model was opened, but for the first
    named: int  # is the planted cause among the first three inputs? -1: there is none


def stream(kind: str, change: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Return the samples of a stream, and the batch in which it changes."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    size = FEW.get(kind, BATCH_SIZE)
    X = KINDS[kind](rng, N_SAMPLES // BATCH_SIZE * size)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
    batch = int(rng.integers(LEAST_CHANGED, MOST_CHANGED))
    rest = slice(batch * size, None)
    if change == "moved input":
        X[rest, CHANGED] += 4.0
    elif change == "wider input":
        X[rest, CHANGED] *= 4.0
    elif change == "new inputs":
        X[rest] += 8.0
    elif change == "new rule":
        y[rest] = X[rest, 0] - X[rest, CHANGED] > 0
    elif change == "new class":
        y[rest][X[rest, CHANGED] > 0] = 2
    return X, y, batch if change != NONE else -1


def run(kind: str, change: str, seed: int) -> Run:
    """Return what becomes of one stream."""
    X, y, at = stream(kind, change, seed)
    model = PREVALClassifier(
        random_state=seed,
        n_jobs=1,
        batch_size=FEW.get(kind, BATCH_SIZE),
        false_alarms=PROMISED,
        false_alarms_per="stream",
    ).partial_fit(X, y)
    events = [event for event in model.events_ if event.kind == "opened"][1:]
    found = next((event for event in events if event.batch >= at), None)
    named = -1
    if at >= 0 and found is not None and change not in ("new inputs", "new class"):
        named = int(CHANGED in [one[0] for one in found.evidence["inputs"][:3]])
    return Run(kind, change, seed, at, [event.batch for event in events], named)


def false_alarm_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per kind of stream that does not change."""
    rows = []
    for kind in dict.fromkeys(one.kind for one in runs):
        own = [one for one in runs if one.kind == kind and one.change == NONE]
        alarmed = sum(bool(one.opened) for one in own)
        low, high = interval(alarmed, len(own))
        rows.append(
            {
                "stream": kind,
                "streams": len(own),
                "with a second model": alarmed,
                "95 % interval of the share": f"{low:.3f} to {high:.3f}",
            }
        )
    return rows


def change_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per kind of stream and of change."""
    rows = []
    changed = [one for one in runs if one.change != NONE]
    equal_worth = {name(phi): few(phi) for phi in AUTOREGRESSIONS}
    for kind, change in dict.fromkeys((one.kind, one.change) for one in changed):
        own = [one for one in changed if (one.kind, one.change) == (kind, change)]
        like = [one for one in changed if (one.kind, one.change) == (equal_worth.get(kind), change)]
        named = [one.named for one in own if one.named >= 0]
        rows.append(
            {
                "stream": kind,
                "change": change,
                "streams": len(own),
                "alarm before": sum(min(one.opened, default=one.at) < one.at for one in own),
                "found": sum(delay(one) < np.inf for one in own),
                "median delay (batches)": _median(own),
                "of independent samples of equal worth": _median(like) if like else "–",
                "cause named": f"{sum(named)} of {len(named)}" if named else "–",
            }
        )
    return rows


def delay(run: Run) -> float:
    """Return the batches from the change to the alarm, 1 if in the first; infinite without one."""
    return min((batch for batch in run.opened if batch >= run.at), default=np.inf) - run.at + 1


def _median(runs: Sequence[Run]) -> float | str:
    """Return the median delay; a change that is not found has an infinite one."""
    median = float(np.median([delay(one) for one in runs]))
    return median if np.isfinite(median) else "not found"


def sections(runs: Sequence[Run]) -> list[Section]:
    """Return the tables of false alarms and of changes."""
    note = (
        f"Streams of {N_SAMPLES:,} samples, promise {PROMISED:g} for the whole stream. The season "
        f"has {SEASON:,} samples and an amplitude of {AMPLITUDE:g} standard deviations; bursts of "
        f"{BURST_LENGTH} samples on average come every {BURST_EVERY:,.0f}."
    )
    changes = (
        f"The change is planted between batches {LEAST_CHANGED} and {MOST_CHANGED} of "
        f"{BATCH_SIZE} samples; a delay of 1 is an alarm in the first batch after it, and a change "
        "that is not found has an infinite delay. Independent samples of equal worth: streams of "
        "as many batches, each of as many independent samples as tell as much about a mean as "
        f"{BATCH_SIZE} dependent ones, before the change and after it. Alarm "
        "before: streams with a false alarm before the change. Cause named: the input that "
        "changed is among the first three of the alarm's explanation."
    )
    result = []
    if any(one.change == NONE for one in runs):
        result.append(Section("One unchanging task", false_alarm_rows(runs), note))
    if any(one.change != NONE for one in runs):
        result.append(Section("Planted changes", change_rows(runs), changes))
    return result
