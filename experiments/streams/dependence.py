"""Alarms where samples depend on those before: one unchanging task, and planted changes.

Each stream has five inputs, and a class by the side of a line. Without a change, every model after
the first is a false alarm. The promise is made for the whole stream: at most 5 % of streams ever
raise one.

Dependent samples are worth fewer independent ones. How soon a change should be found is told by
streams of independent samples in smaller batches.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from dirad.estimators import PREVALClassifier

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


AUTOREGRESSIONS = {f"AR(1), φ = {phi}": phi for phi in (0.5, 0.9, 0.95, 0.99)}
# Streams of independent samples, as many batches as the others; samples of a batch of each.
SMALL_BATCHES = {f"independent, batches of {n}": n for n in (11, 21, 40, 67, 120)}

KINDS: dict[str, Draw] = {
    "independent": independent,
    **{kind: partial(autoregression, phi=phi) for kind, phi in AUTOREGRESSIONS.items()},
    "seasonal": seasonal,
    "heavy-tailed (Student's t, 2 degrees of freedom)": lambda rng, n: rng.standard_t(
        2, size=(n, N_INPUTS)
    ),
    "rare bursts": with_bursts,
    **dict.fromkeys(SMALL_BATCHES, independent),
}
NONE = "none"
WIDER = "wider input"
CHANGES = (NONE, "moved input", WIDER, "new inputs", "new rule", "new class")


@dataclass(frozen=True)
class Run:
    """What became of one stream."""

    kind: str
    change: str
    seed: int
    at: int  # first batch after the change; -1: none
    opened: list[int]  # batches in which a model was opened, but for the first
    named: int  # is the planted cause among the first three inputs? -1: there is none


def batch_size(kind: str) -> int:
    """Return how many samples a batch of a kind of stream has."""
    return SMALL_BATCHES.get(kind, BATCH_SIZE)


def stream(kind: str, change: str, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64], int]:
    """Return the samples of a stream, and the batch in which it changes."""
    rng = np.random.default_rng([seed, list(KINDS).index(kind)])
    size = batch_size(kind)
    X = KINDS[kind](rng, N_SAMPLES // BATCH_SIZE * size)
    y = (X[:, 0] + X[:, 1] > 0).astype(np.int64)
    batch = int(rng.integers(LEAST_CHANGED, MOST_CHANGED))
    rest = slice(batch * size, None)
    if change == "moved input":
        X[rest, CHANGED] += 4.0
    elif change == WIDER:
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
        batch_size=batch_size(kind),
        false_alarms=PROMISED,
        false_alarms_per="stream",
    ).partial_fit(X, y)
    events = [event for event in model.events_ if event.kind == "opened"][1:]
    found = next((event for event in events if event.batch >= at), None)
    named = -1
    if at >= 0 and found is not None and change not in ("new inputs", "new class"):
        named = int(CHANGED in [one[0] for one in found.evidence["inputs"][:3]])
    return Run(kind, change, seed, at, [event.batch for event in events], named)


def delay(run: Run) -> float:
    """Return the batches from the change to the alarm, 1 if in the first; infinite without one."""
    return min((batch for batch in run.opened if batch >= run.at), default=np.inf) - run.at + 1


def worth(kind: str, change: str) -> float:
    """Return how many independent samples tell as much of a change as a batch does.

    The mean of samples varies as that of n·(1 − φ)/(1 + φ) independent ones. A change of the spread
    shows in squares, whose autocorrelations are those of the samples, squared.

    >>> round(worth("AR(1), φ = 0.9", "moved input"), 1), round(worth("AR(1), φ = 0.9", WIDER), 1)
    (10.5, 21.0)
    """
    phi = AUTOREGRESSIONS.get(kind, 0.0)
    phi = phi**2 if change == WIDER else phi
    return batch_size(kind) * (1.0 - phi) / (1.0 + phi)
