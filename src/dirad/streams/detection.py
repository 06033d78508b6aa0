"""How well a system noticed the changes of a stream, computed from its moments and events.

A batch is *of* a task if at least three quarters of its samples are. A *part* of a stream is a
maximal run of batches of one task. It starts with its *onset*, the first batch of the unbroken
run of batches that hold samples of the task, and ends before the onset of the next part. So where
tasks change gradually, the batches that mix two of them belong to the later one. Batches that mix
tasks at the end of a stream belong to no part. A *change* is every part but the first.

The *home* of a task is the model that took the last batch of its last part. A change is *noticed*
by the first batch of the part for which a model is opened, or which goes to the home of the task
while the batch before went to another model.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dirad.preval.events import ModelEvent
from dirad.streams.averages import mean
from dirad.streams.follow import Moment

MAINLY = 0.75  # share of a batch that makes it one of a task
MISSED = -1


class Part(NamedTuple):
    """A stretch of a stream that shows one task."""

    task: int
    onset: int  # the first batch with samples of the task
    last: int  # the batch before the next part, or before tasks are mixed


class Visit(NamedTuple):
    """What a system did in a part."""

    part: Part
    home: int  # the model that had the task before; -1: none
    own: bool  # was a model opened for the task before? Else its home is that of another task
    noticed: int  # the batch that showed it; MISSED: none did
    by_opening: bool  # was it noticed by opening a model?
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


def visits(moments: Sequence[Moment], events: Sequence[ModelEvent]) -> list[Visit]:
    """Return what the learner did in each part."""
    switch = switches(moments)
    homes: dict[int, int] = {}
    found: list[Visit] = []
    for part in parts(moments):
        here = range(part.onset, part.last + 1)
        home = successor(homes.get(part.task, -1), events, part.last)
        own = home >= 0 and any(v.by_opening for v in found if v.part.task == part.task)
        opened = [event.batch for event in events if event.kind == "opened" and event.batch in here]
        back = [n for n in here if switch[n] and moments[n].model == home]
        noticed = min([*opened, *back], default=MISSED)
        models = [moments[n].model for n in here if moments[n].model >= 0]
        if models:
            homes[part.task] = models[-1]
        unique = list(dict.fromkeys(models))
        found.append(Visit(part, home, own, noticed, noticed in opened, unique))
    return found


def successor(model: int, events: Sequence[ModelEvent], batch: int) -> int:
    """Return the model that holds this model's task at a batch: itself, or the one it merged into.

    -1 if it was removed.
    """
    for event in events:
        if event.batch <= batch and event.kind == "removed" and event.model == model:
            return -1
        if event.batch <= batch and event.kind == "merged" and event.evidence["model"] == model:
            return successor(event.model, events, batch)
    return model


def detection(moments: Sequence[Moment], events: Sequence[ModelEvent]) -> Detection:
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
        sum(event.kind == "opened" for event in events) - sum(visit.by_opening for visit in found),
        len(known),
        sum(visit.by_opening for visit in known),
    )


def undone(events: Sequence[ModelEvent]) -> int:
    """Return how many models were removed or merged into another."""
    return sum(event.kind in ("removed", "merged") for event in events)


def precision_and_recall(moments: Sequence[Moment]) -> tuple[float, float]:
    """Return precision and recall of the batches that the system reports as a change.

    A true change is a batch that holds samples of a task other than the main task of the batch
    before: the first batch of each part where tasks change abruptly, every batch that mixes two
    tasks where they change gradually, and every batch where tasks stay mixed.

    A batch is reported as a change if it is called "mixed"; or "new", unless the batch before was
    "new" too and went to the same model, which means that the new task goes on; or if it goes to
    another model than the last batch that a model took. The first batch of the stream does not
    count. A share of no batches is NaN.
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
