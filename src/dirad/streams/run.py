"""A new system follows a stream from beginning to end; what it did becomes one record."""

import time
from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any, NamedTuple

from dirad.datasets import Dataset, load_fashion_mnist, load_mnist, small_digits
from dirad.preval.choice import new_system
from dirad.preval.events import ModelEvent
from dirad.preval.settings import PRESETS, Settings
from dirad.streams.detection import (
    detection,
    mixed_accuracy,
    precision_and_recall,
    prequential_accuracy,
    undone,
)
from dirad.streams.follow import Moment, Watcher, accuracy_of, follow
from dirad.streams.kinds import KINDS, Stream

CLASSES = 10  # of every data set here
PAPER_T_CP = 0.05  # the only value at which the paper's rule notices most new tasks
SHORTER = 5  # streams of scikit-learn's digits, which are few, are shorter by this factor


@dataclass(frozen=True)
class StreamScores:
    """How a system fared in a stream."""

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
    precision: float  # of the batches reported as new, mixed or changed
    recall: float
    prequential: float  # accuracy of answers before learning
    mixed: float  # the same, where tasks are mixed at the end
    accuracy: float  # on test samples of all classes, when the stream is over
    finished: float  # the same, after the system finished what it was learning
    models: int
    parameters: int
    seconds: float


class StreamRun(NamedTuple):
    """The scores of a stream with everything they were computed from."""

    scores: StreamScores
    classes: list[list[int]]  # of each task
    moments: list[Moment]
    events: list[ModelEvent]


@cache
def source(name: str) -> Dataset:
    """Return a data set by its name: mnist or fashion-mnist at 14 × 14, digits at 8 × 8."""
    if name == "digits":
        return small_digits()
    return load_fashion_mnist(14) if name == "fashion-mnist" else load_mnist(14)


def settings_of(preset: str, batch_size: int | None = None) -> Settings:
    """Return a preset at the paper's T_CP, with batches of another size if one is given."""
    settings = PRESETS[preset].replace(T_CP=PAPER_T_CP)
    if batch_size is None:
        return settings
    l0, l1 = (level.replace(batch_size=batch_size) for level in (settings.l0, settings.l1))
    return settings.replace(l0=l0, l1=l1)


def settings_for_digits(settings: Settings, batch_size: int = 100) -> Settings:
    """Return shorter settings for the 8 × 8 digits, where a task has a few hundred samples."""
    return settings.replace(
        l0=settings.l0.replace(batch_size=batch_size, max_steps=600, settle_steps=200),
        l1=settings.l1.replace(batch_size=batch_size, max_steps=400, settle_steps=200),
        buffer_size=2000,
    )


def new_stream(
    kind: str, data: str, seed: int, tasks: int | None = None, per_task: int | None = None
) -> Stream:
    """Return a stream, with the kind's defaults where None is given; shorter for digits."""
    build = KINDS[kind]
    own = {name: option.default for name, option in signature(build).parameters.items()}
    batch_size = own["batch_size"]
    if data == "digits":
        per_task = per_task or own["per_task"] // SHORTER
        batch_size //= 2
    return build(source(data), tasks or own["tasks"], per_task or own["per_task"], batch_size, seed)


def run_stream(
    stream: Stream,
    preset: str = "default",
    seed: int = 0,
    data: str = "mnist",
    report: Watcher | None = None,
) -> StreamRun:
    """Let a new system follow a stream that was built from the data of this name."""
    start = time.perf_counter()
    settings = settings_of(preset, stream.batch_size)
    if data == "digits" and preset == "default":
        settings = settings_for_digits(settings, stream.batch_size)
    system = new_system(stream.X.shape[1], CLASSES, settings, seed=seed, threads=1)
    moments = follow(system, stream, report)
    events, models, parameters = (
        list(system.journal.events),
        len(system.models),
        system.n_parameters,
    )
    accuracy = accuracy_of(system, stream.X_test, stream.y_test)
    system.finish(stream.X[:0], stream.y[:0])
    found = detection(moments, events)
    precision, recall = precision_and_recall(moments)
    scores = StreamScores(
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
    return StreamRun(scores, stream.classes, moments, events)


def run_kind(
    kind: str,
    preset: str = "default",
    seed: int = 0,
    data: str = "mnist",
    tasks: int | None = None,
    per_task: int | None = None,
) -> StreamRun:
    """Build a stream of this kind and let a new system follow it."""
    return run_stream(new_stream(kind, data, seed, tasks, per_task), preset, seed, data)


def measure(kind: str, *args: Any, **options: Any) -> StreamScores:
    """Return the scores alone; takes the arguments of `run_kind`."""
    return run_kind(kind, *args, **options).scores
