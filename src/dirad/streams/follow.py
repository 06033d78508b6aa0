"""A system follows a stream batch by batch: it predicts each batch, then learns from it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dirad.preval.choice import ContinualSystem
from dirad.streams.kinds import NEVER, Stream

UNLABELLED = -1  # the label of a sample whose label is missing


@dataclass(frozen=True)
class Moment:
    """One batch of a stream: what it held, and what the system did with it."""

    batch: int
    shares: tuple[float, ...]  # of each task, which the learner is never told
    accuracy: float  # of answers given before the batch was learned; NaN without a model
    verdict: str  # "known", "new", "mixed" or "learning"
    model: int  # that took the batch; -1: none
    phase: str  # of that model afterwards; empty if it is gone
    p: float  # probability of such a batch if it were known; NaN if none was computed
    models: int  # that the learner has afterwards
    cause: str = ""  # kind of change: "back", "new inputs", "shifted inputs" or "new rule"
    why: str = ""  # the input that contradicts most, in words

    @property
    def task(self) -> int:
        """The main task: that of most samples."""
        return int(np.argmax(self.shares))


Watcher = Callable[[Moment, ContinualSystem], None]


def follow(learner: ContinualSystem, stream: Stream, report: Watcher | None = None) -> list[Moment]:
    """Return a moment per batch. The system must be new: its samples are counted from the first.

    The label of sample i with delay d arrives with sample i + d: with its own batch where that
    lies in it, else after the batch that holds sample i + d, or never if the stream ends before.
    """
    shares = stream.shares()
    # The batch whose end each label waits for.
    due = (np.arange(len(stream.y)) + stream.delay) // stream.batch_size
    due[stream.delay == NEVER] = NEVER
    moments = []
    for number in range(stream.n_batches):
        here = stream.batch(number)
        given = np.where(due[here] == number, stream.y[here], UNLABELLED)
        moment = predict_and_learn(learner, stream.X[here], stream.y[here], shares[number], given)
        late = np.flatnonzero(due[: here.start] == number)
        if len(late):
            learner.label(late, stream.y[late])
        moments.append(moment)
        if report is not None:
            report(moment, learner)
    return moments


def predict_and_learn(
    learner: ContinualSystem,
    X: NDArray,
    y: NDArray[np.int64],
    shares: NDArray[np.float64],
    given: NDArray[np.int64] | None = None,
) -> Moment:
    """Let the system predict a batch, then learn it with the labels `given` (default: all)."""
    accuracy = float("nan")
    if learner.models:
        accuracy = accuracy_of(learner, X, y)
    learner.learn(X, y if given is None else given)
    said = learner.journal.reports[-1]
    return Moment(
        said.batch,
        tuple(np.asarray(shares, float).tolist()),
        accuracy,
        said.kind,
        said.model,
        next((model.phase for model in learner.models if model.number == said.model), ""),
        said.p,
        len(learner.models),
        said.cause,
        "".join(said.reasons()[:1]),
    )


def accuracy_of(learner: ContinualSystem, X: NDArray, y: NDArray[np.int64]) -> float:
    """Return the share of right answers."""
    return float(np.mean(learner.answer(X).outputs.argmax(axis=1) == y))
