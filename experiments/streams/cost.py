"""What a sample costs in a long stream: time and memory must not grow with its length.

Two normal tasks alternate, so that known models are asked again and again. The adaptive random
forest follows the first samples of the same stream, in the same process.
"""

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.report.tables import Section
from dirad.streams.averages import mean
from experiments.streams import ours
from experiments.streams.dependence import BATCH_SIZE, CHANGED, N_INPUTS
from experiments.streams.peers import FOREST, METHODS, Learner

N_SAMPLES = 1_000_000
PARTS = 10  # of the stream, which are timed one by one
SAMPLES_PER_TASK = 50_000  # until the other task takes over
SHIFT = 6.0  # of an input, between the tasks
FOREST_SAMPLES = 20_000
WRONG = 0.05  # share of labels
ONE_TASK, TWO_TASKS = "one task", "two tasks in turn"
STREAMS = (ONE_TASK, TWO_TASKS)
NOTE = (
    f"A stream of {N_INPUTS} normal inputs, a class by the side of a line and {WRONG:.0%} of wrong "
    f"labels, predicted and learned in batches of {BATCH_SIZE}; of two tasks, each lasts "
    f"{SAMPLES_PER_TASK:,} samples, and one input of the second is larger by {SHIFT:g}. Time of "
    "the processor per sample, and size of the pickled learner at the end of each tenth. Forest: "
    f"river's {FOREST}, on the first {FOREST_SAMPLES:,} samples in the same run; its own cost "
    "grows afterwards."
)


@dataclass(frozen=True)
class Run:
    """What one stream cost."""

    stream: str
    seed: int
    samples: int
    milliseconds: list[float]  # per sample, in each part
    kilobytes: list[float]  # at the end of each part
    accuracy: float
    models: int
    forest: float  # milliseconds per sample


def batch(stream: str, number: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return a batch of a stream, by its number."""
    rng = np.random.default_rng([seed, number])
    X = rng.normal(size=(BATCH_SIZE, N_INPUTS))
    second = number * BATCH_SIZE // SAMPLES_PER_TASK % 2 == 1 and stream == TWO_TASKS
    y = X[:, 0] + (X[:, CHANGED] if second else X[:, 1]) > 0
    if second:
        X[:, CHANGED] += SHIFT
    return X, (y ^ (rng.random(BATCH_SIZE) < WRONG)).astype(np.int64)


def follow(learner: Learner, stream: str, first: int, last: int, seed: int) -> tuple[float, float]:
    """Predict and learn batches; return processor seconds and the share of right answers."""
    seconds, right = 0.0, []
    for number in range(first, last):
        X, y = batch(stream, number, seed)
        start = time.process_time()
        if number:
            right.append(np.mean(learner.predict(X) == y))
        learner.partial_fit(X, y)
        seconds += time.process_time() - start
    return seconds, float(np.mean(right))


def run(stream: str, seed: int, n_samples: int = N_SAMPLES) -> Run:
    """Return what a stream costs."""
    size = n_samples // BATCH_SIZE // PARTS  # batches of a part
    learner = ours.METHOD.classifier(seed)
    milliseconds, kilobytes, right = [], [], []
    for part in range(PARTS):
        seconds, share = follow(learner, stream, part * size, (part + 1) * size, seed)
        milliseconds.append(1000.0 * seconds / (size * BATCH_SIZE))
        kilobytes.append(len(pickle.dumps(learner)) / 1024.0)
        right.append(share)
    n = min(FOREST_SAMPLES, n_samples) // BATCH_SIZE
    seconds, _ = follow(METHODS[FOREST].classifier(seed), stream, 0, n, seed)
    return Run(
        stream,
        seed,
        size * BATCH_SIZE * PARTS,
        milliseconds,
        kilobytes,
        float(np.mean(right)),
        ours.describe(learner)["models"],
        1000.0 * seconds / (n * BATCH_SIZE),
    )


def sections(runs: Sequence[Run]) -> list[Section]:
    """Return the table of cost, and its course."""
    totals: list[dict[str, Any]] = []
    course: list[dict[str, Any]] = []
    for stream in dict.fromkeys(one.stream for one in runs):
        own = [one for one in runs if one.stream == stream]
        ms = mean(mean(one.milliseconds) for one in own)
        forest = mean(one.forest for one in own)
        totals.append(
            {
                "stream": stream,
                "samples": f"{own[0].samples:,}",
                "accuracy": f"{mean(one.accuracy for one in own):.4f}",
                "models": f"{mean(one.models for one in own):.1f}",
                "ms per sample": f"{ms:.4f}",
                "forest's": f"{forest:.4f}",
                "ratio": f"{ms / forest:.3f}",
            }
        )
        for what, values in (
            ("ms per sample", [one.milliseconds for one in own]),
            ("kilobytes", [one.kilobytes for one in own]),
        ):
            form = "{:.4f}" if what == "ms per sample" else "{:,.0f}"
            parts = [form.format(mean(part)) for part in zip(*values, strict=True)]
            course.append({"stream": stream, "what": what} | numbered(parts))
    return [Section("Cost of long streams", totals, NOTE), Section("Tenth by tenth", course)]


def numbered(values: Sequence[str]) -> dict[str, str]:
    """Return values by their numbers, counted from 1."""
    return {str(i): value for i, value in enumerate(values, 1)}
