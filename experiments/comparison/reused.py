"""Streams in which a label does not tell the task: what is detection worth by itself?

- "odd or even": five tasks of one odd and one even class each; the label says which of the two a
  sample is. So labels are the same in all tasks, and one label stands for five classes at the end.
- "changing rules": two classes, then the same with their labels swapped; so again with two other
  classes; at the end the first rule comes again. Answers are right by the rule in force.
- "no labels": five tasks of two classes, and not one label: only tasks can be found.
"""

import itertools
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.preval.buffer import UNLABELLED
from dirad.streams.detection import successor
from dirad.streams.kinds import Stream, swapped
from experiments.comparison.methods import METHODS, Ours
from experiments.comparison.run import NAN, bytes_of, models_of, routing
from experiments.comparison.scenario import load, standard
from experiments.metrics import mutual_information, purity
from experiments.peers import TaskGaussians

ODD, RULES, NO_LABELS = KINDS = ("odd or even", "changing rules", "no labels")
DETECTING = ("ours (default)", "Gaussian per task")
LABELLED = (
    *DETECTING, "QDA: Gaussian per class", "streaming LDA", "RanPAC, 1,000 features",
    "replay, 10,000 samples",
)  # fmt: skip
METHODS_OF = {ODD: LABELLED, RULES: LABELLED, NO_LABELS: DETECTING}
KEY = 900  # first part of random keys here
RULE_TASKS = 4  # and the first again


@dataclass(frozen=True)
class Reused:
    """What became of one method in such a stream."""

    kind: str
    data: str
    method: str
    order: int
    accuracy: float  # at the end, over test samples of all tasks; NaN without labels
    changes: int
    missed: int  # changes after which most batches went to the model of the part before
    models: int
    purity: float  # of models, over batches of the stream
    nmi: float
    purity_test: float  # over test samples; NaN where two tasks have the same inputs
    nmi_test: float
    n_bytes: int
    seconds: float


def measure_reused(kind: str, data: str, method: str, order: int) -> Reused:
    """Return what a method does in a stream of this kind."""
    scenario = standard(data)
    stream = new_stream(kind, data, order)
    learner = METHODS[method](scenario, stream.X.shape[1], order)
    start = time.perf_counter()
    models = []
    for number in range(stream.n_batches):
        batch = stream.batch(number)
        learner.learn(stream.X[batch], stream.y[batch])
        models.append(model_at_hand(learner))
    if hasattr(learner, "end"):
        learner.end()
    seconds = time.perf_counter() - start
    found = found_tasks(learner, models)
    tasks = stream.task[:: stream.batch_size]
    detects = method in DETECTING
    changes, missed = changes_missed(tasks, found)
    answers = NAN if kind == NO_LABELS else float(np.mean(right(learner, stream)))
    routed = detects and kind != RULES
    _, purity_test, nmi_test = routing(learner, stream) if routed else (NAN, NAN, NAN)
    by_batch = (purity(tasks, found), mutual_information(tasks, found)) if detects else (NAN, NAN)
    return Reused(
        kind, data, method, order, answers, changes, missed if detects else changes,
        models_of(learner), *by_batch, purity_test, nmi_test,
        bytes_of(learner, scenario, stream.X.shape[1]), seconds,
    )  # fmt: skip


def new_stream(kind: str, data: str, order: int) -> Stream:
    """Return the stream of a kind, in one order of the classes."""
    scenario = standard(data)
    if kind == ODD:
        return odd_or_even(data, order)
    if kind == RULES:
        per_task, size = scenario.per_task, scenario.batch_size
        return swapped(load(data), RULE_TASKS, per_task, size, order)
    stream = scenario.stream(order)
    return _relabelled(stream, "no labels", np.full(len(stream.y), UNLABELLED), stream.y_test)


def odd_or_even(data: str, order: int) -> Stream:
    """Return tasks of one odd and one even class, labelled 1 and 0."""
    scenario, samples = standard(data), load(data)
    rng = np.random.default_rng([order, KEY])
    classes = np.unique(samples.y_train)
    pairs = np.stack([rng.permutation(classes[classes % 2 == odd]) for odd in (1, 0)], axis=1)
    pairs = pairs[: scenario.tasks]
    rows = []
    for pair in pairs:
        pool = np.flatnonzero(np.isin(samples.y_train, pair))
        rows.append(np.resize(rng.permutation(pool), scenario.per_task))
    shown = np.concatenate(rows)
    task_of = {int(c): task for task, pair in enumerate(pairs) for c in pair}
    tested = np.isin(samples.y_test, pairs)
    y_test = samples.y_test[tested]
    return Stream(
        ODD,
        samples.X_train[shown],
        samples.y_train[shown].astype(np.int64) % 2,
        np.repeat(np.arange(len(pairs)), scenario.per_task),
        np.zeros(len(shown), np.int64),
        scenario.batch_size,
        samples.X_test[tested],
        y_test.astype(np.int64) % 2,
        np.array([task_of[int(c)] for c in y_test]),
        pairs.tolist(),
    )


def _relabelled(stream: Stream, name: str, y: NDArray, y_test: NDArray) -> Stream:
    fields = vars(stream) | {"name": name, "y": y, "y_test": y_test}
    return Stream(**fields)


def right(learner: Any, stream: Stream) -> NDArray[np.bool_]:
    """Return which test samples are answered right."""
    return learner.predict(stream.X_test) == stream.y_test


def model_at_hand(learner: Any) -> int:
    """Return the model that took the last batch; 0 of a method that has only one."""
    if isinstance(learner, Ours):
        return learner.system.journal.reports[-1].model
    return learner.at if isinstance(learner, TaskGaussians) else 0


def found_tasks(learner: Any, models: list[int]) -> NDArray[np.int64]:
    """Return the model of each batch, by the number it has at the end where models were merged."""
    if not isinstance(learner, Ours):
        return np.array(models)
    events = learner.system.journal.events
    last = learner.system.journal.batches
    return np.array([model if model < 0 else successor(model, events, last) for model in models])


def changes_missed(tasks: NDArray, found: NDArray) -> tuple[int, int]:
    """Return how many changes of task there were, and how many were missed.

    A change is missed if most batches after it, up to the next one, go to the model that took most
    batches before it.

    >>> changes_missed(np.array([0, 0, 1, 1, 2, 2]), np.array([3, 3, 3, 3, 5, 5]))
    (2, 1)
    """
    starts = np.flatnonzero(np.diff(tasks)) + 1
    parts = np.split(found, starts)
    main = [np.unique(part, return_counts=True) for part in parts]
    models = [values[counts.argmax()] for values, counts in main]
    missed = sum(a == b for a, b in itertools.pairwise(models))
    return len(starts), int(missed)
