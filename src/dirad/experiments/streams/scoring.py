"""How well a learner noticed the changes of a stream, as plain functions of moments and events.

A batch is *of* a task if at least three quarters of its samples are. A *part* of a stream is a
longest run of batches of one task. It begins with its *onset*, the first batch that holds samples
of the task and from which on all do; it ends before the onset of the next part. So where tasks
change gradually, the batches that mix two of them belong to the later one. Batches that mix tasks
at the end of a stream belong to no part. A *change* is every part but the first.

The *home* of a task is the model that took the last batch of its last part. A change is *noticed*
by the first batch of the part for which a model is opened, or which goes to the home of the task
while the batch before went to another model.
"""

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from dirad.datasets import Dataset, load_fashion_mnist
from dirad.experiments.pairs import small_digits
from dirad.experiments.protocol import CLASSES, Setting, images
from dirad.experiments.runner import mean
from dirad.experiments.streams.follow import Moment, Watcher, accuracy_of, follow
from dirad.experiments.streams.kinds import KINDS, Stream
from dirad.preval.events import Event
from dirad.preval.settings import Settings
from dirad.preval.systems import new_system

MAINLY = 0.75  # share of a batch that makes it one of a task
MISSED = -1


class Part(NamedTuple):
    """A stretch of a stream that shows one task."""

    task: int
    onset: int  # the first batch with samples of the task
    last: int  # the batch before the next part, or before tasks are mixed


class Visit(NamedTuple):
    """What a learner did in a part."""

    part: Part
    home: int  # the model that had the task before; -1: none
    own: bool  # was a model opened for the task before? Else its home is that of another task
    noticed: int  # the batch that showed it; MISSED: none did
    anew: bool  # was it noticed by opening a model?
    models: list[int]  # that took its batches, in the order of their first


class Detection(NamedTuple):
    """How the changes of a stream were noticed."""

    delays: list[int]  # per change: batches from its onset until it was noticed, or MISSED
    false_alarms: int  # models opened where no change called for one
    recurrences: int  # changes to a task for which a model was opened before
    reopened: int  # of these, how many were taken for new

    @property
    def missed(self) -> int:
        """Changes that were not noticed before the next one."""
        return self.delays.count(MISSED)


def parts(moments: Sequence[Moment]) -> list[Part]:
    """Return the parts of a stream."""
    runs: list[list[int]] = []  # task, first batch, last batch
    for number, moment in enumerate(moments):
        if moment.shares[moment.task] >= MAINLY:
            if runs and runs[-1][0] == moment.task:
                runs[-1][2] = number
            else:
                runs.append([moment.task, number, number])
    onsets = []
    for task, first, _ in runs:
        while first > 0 and moments[first - 1].shares[task] > 0:
            first -= 1
        onsets.append(first)
    spans = itertools.pairwise([*onsets, len(moments)])
    return [
        Part(task, onset, min(last, following - 1))
        for (task, _, last), (onset, following) in zip(runs, spans, strict=True)
    ]


def switches(moments: Sequence[Moment]) -> list[bool]:
    """Return of each batch: was the last one that any model took, taken by another model?"""
    result, before = [], -1
    for moment in moments:
        result.append(before >= 0 and moment.model not in (-1, before))
        before = moment.model if moment.model >= 0 else before
    return result


def visits(moments: Sequence[Moment], events: Sequence[Event]) -> list[Visit]:
    """Return what the learner did in each part."""
    switch = switches(moments)
    homes: dict[int, int] = {}
    found: list[Visit] = []
    for part in parts(moments):
        here = range(part.onset, part.last + 1)
        home = heir(homes.get(part.task, -1), events, part.last)
        own = home >= 0 and any(v.anew for v in found if v.part.task == part.task)
        opened = [event.batch for event in events if event.kind == "opened" and event.batch in here]
        back = [n for n in here if switch[n] and moments[n].model == home]
        noticed = min([*opened, *back], default=MISSED)
        models = [moments[n].model for n in here if moments[n].model >= 0]
        if models:
            homes[part.task] = models[-1]
        unique = list(dict.fromkeys(models))
        found.append(Visit(part, home, own, noticed, noticed in opened, unique))
    return found


def heir(model: int, events: Sequence[Event], batch: int) -> int:
    """Return the model that a model is by this batch: itself, or the one it was merged into.

    -1 if it was removed.
    """
    for event in events:
        if event.batch <= batch and event.kind == "removed" and event.model == model:
            return -1
        if event.batch <= batch and event.kind == "merged" and event.evidence["model"] == model:
            return heir(event.model, events, batch)
    return model


def detection(moments: Sequence[Moment], events: Sequence[Event]) -> Detection:
    """Return how changes were noticed.

    A model by whose opening a change is noticed is right, unless one was opened for the task before
    and is still there; then the task was re-opened. All others that are opened, a second one in a
    part say, are false alarms.
    """
    found = visits(moments, events)
    changes = found[1:]
    known = [visit for visit in changes if visit.own]
    return Detection(
        [v.noticed - v.part.onset if v.noticed != MISSED else MISSED for v in changes],
        sum(event.kind == "opened" for event in events) - sum(visit.anew for visit in found),
        len(known),
        sum(visit.anew for visit in known),
    )


def undone(events: Sequence[Event]) -> int:
    """Return how many models were removed or merged into another."""
    return sum(event.kind in ("removed", "merged") for event in events)


def precision_and_recall(moments: Sequence[Moment]) -> tuple[float, float]:
    """Return how right the learner is, batch by batch, when it says that something changed.

    True: a batch that holds samples of a task other than the main task of the batch before. So the
    first batch of each part is, where tasks change abruptly; every batch that mixes two tasks,
    where they change gradually; and all, where tasks are mixed for good. Said: "mixed"; "new",
    unless it follows another "new" that went to the same model, which says that the new task goes
    on; or given to another model than the last batch that a model took. The first batch of the
    stream does not count. Precision: the share of said ones that are true; recall: of true ones
    that are said; NaN of none.
    """
    true, said = [], []
    for switch, (before, now) in zip(
        switches(moments)[1:], itertools.pairwise(moments), strict=True
    ):
        goes_on = before.verdict == "new" and before.model == now.model
        true.append(any(s > 0 for task, s in enumerate(now.shares) if task != before.task))
        said.append(switch or now.verdict == "mixed" or (now.verdict == "new" and not goes_on))
    both = sum(a and b for a, b in zip(true, said, strict=True))
    return (
        both / sum(said) if any(said) else float("nan"),
        both / sum(true) if any(true) else float("nan"),
    )


def prequential_accuracy(moments: Sequence[Moment]) -> float:
    """Return the accuracy of all answers given before learning, once there was a model."""
    return mean(m.accuracy for m in moments if not np.isnan(m.accuracy))


def mixed_accuracy(moments: Sequence[Moment]) -> float:
    """Return the same of batches after the last part, which mix tasks; NaN if there are none."""
    over = max((part.last + 1 for part in parts(moments)), default=0)
    return prequential_accuracy(moments[over:])


# ------------------------------------------------------------------ a whole run

SHORTER = 5  # how much shorter streams of scikit-learn's digits are, of which there are few


@dataclass(frozen=True)
class Life:
    """What became of a learner in a stream."""

    kind: str
    data: str
    preset: str
    seed: int
    batches: int
    delays: list[int]  # per change: batches until it was noticed, or -1
    missed: int  # changes
    false_alarms: int
    recurrences: int
    reopened: int
    undone: int  # models removed or merged
    precision: float  # of batches said to be new, mixed or changed
    recall: float
    prequential: float  # accuracy of answers before learning
    mixed: float  # the same, where tasks are mixed at the end
    accuracy: float  # on test samples of all classes, when the stream is over
    finished: float  # the same, after the learner could finish what it was learning
    models: int
    parameters: int
    seconds: float


class Lived(NamedTuple):
    """A life with all that happened in it."""

    life: Life
    classes: list[list[int]]  # of each task
    moments: list[Moment]
    events: list[Event]


@cache
def source(name: str) -> Dataset:
    """Return a data set by its name: mnist or fashion-mnist at 14 × 14, digits at 8 × 8."""
    if name == "digits":
        return small_digits()
    return load_fashion_mnist(14) if name == "fashion-mnist" else images(14)


def quick(settings: Settings, batch_size: int = 100) -> Settings:
    """Return settings for small digits, of which a task has no more than some hundred."""
    return settings.replace(
        l0=settings.l0.replace(batch_size=batch_size, max_steps=600, settle_steps=200),
        l1=settings.l1.replace(batch_size=batch_size, max_steps=400, settle_steps=200),
        buffer_size=2000,
    )


def new_stream(
    kind: str, data: str, seed: int, tasks: int | None = None, per_task: int | None = None
) -> Stream:
    """Return a stream; what is not given is the kind's own. Those of digits are shorter."""
    build = KINDS[kind]
    own = {name: option.default for name, option in signature(build).parameters.items()}
    batch_size = own["batch_size"]
    if data == "digits":
        per_task = per_task or own["per_task"] // SHORTER
        batch_size //= 2
    return build(source(data), tasks or own["tasks"], per_task or own["per_task"], batch_size, seed)


def live(
    stream: Stream,
    preset: str = "default",
    seed: int = 0,
    data: str = "mnist",
    report: Watcher | None = None,
) -> Lived:
    """Let a new system follow a stream, made of the data of this name; return how it fared."""
    start = time.perf_counter()
    settings = Setting(preset, 0.05, batch_size=stream.batch_size).settings()
    if data == "digits" and preset == "default":
        settings = quick(settings, stream.batch_size)
    system = new_system(stream.X.shape[1], CLASSES, settings, seed=seed, threads=1)
    moments = follow(system, stream, report)
    events, models, parameters = list(system.events), len(system.models), system.n_parameters
    accuracy = accuracy_of(system, stream.X_test, stream.y_test)
    system.finish(stream.X[:0], stream.y[:0])
    found = detection(moments, events)
    precision, recall = precision_and_recall(moments)
    life = Life(
        stream.name,
        data,
        preset,
        seed,
        len(moments),
        found.delays,
        found.missed,
        found.false_alarms,
        found.recurrences,
        found.reopened,
        undone(events),
        precision,
        recall,
        prequential_accuracy(moments),
        mixed_accuracy(moments),
        accuracy,
        accuracy_of(system, stream.X_test, stream.y_test),
        models,
        parameters,
        time.perf_counter() - start,
    )
    return Lived(life, stream.classes, moments, events)


def run(
    kind: str,
    preset: str = "default",
    seed: int = 0,
    data: str = "mnist",
    tasks: int | None = None,
    per_task: int | None = None,
) -> Lived:
    """Return all that happens to a new system in a stream of this kind."""
    return live(new_stream(kind, data, seed, tasks, per_task), preset, seed, data)


def measure(kind: str, *args: Any, **options: Any) -> Life:
    """Return how a new system fares in a stream of this kind, given as to `run`."""
    return run(kind, *args, **options).life
