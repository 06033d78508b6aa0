"""Lives in streams as rows of tables."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from dirad.experiments.runner import deviation, mean
from dirad.experiments.streams.scoring import MISSED, Life, Lived, visits

NOTICED = (
    "Missed: changes of task for which no model was opened, or chosen again, before the next "
    "change. Delay: batches from the first that holds samples of a task until it is noticed. False "
    "alarms: models opened where no change called for one, per stream. Re-opened: tasks that had a "
    "model and got another. Precision and recall: of batches said to be new, mixed or changed, "
    "against those that hold samples of another task than that of the batch before."
)
ANSWERED = (
    "Accuracy of answers given before a batch was learned, in all batches and in those that mix "
    "all tasks at the end; then on test samples of all classes, when the stream is over, and after "
    "the learner could finish what it was learning."
)


def noticed(lives: Sequence[Life]) -> dict[str, Any]:
    """Return how changes were noticed in some streams: counts over all of them, means ± sd."""
    delays = [float(delay) for life in lives for delay in life.delays if delay != MISSED]
    changes = sum(len(life.delays) for life in lives)
    recurrences = sum(life.recurrences for life in lives)
    undone = sum(life.undone for life in lives)
    digits = 1 if len(lives) > 1 else 0
    return {
        "missed": f"{sum(life.missed for life in lives)}/{changes}",
        "delay": spread(delays, 1),
        "false alarms": spread([life.false_alarms for life in lives], digits),
        "re-opened": f"{sum(life.reopened for life in lives)}/{recurrences}" if recurrences else "",
        "precision": spread([life.precision for life in lives]),
        "recall": spread([life.recall for life in lives]),
        "models": spread([life.models for life in lives], digits)
        + (f" ({undone} undone)" if undone else ""),
    }


def answered(lives: Sequence[Life]) -> dict[str, Any]:
    """Return how right the answers were in some streams."""
    return {
        "before learning": spread([life.prequential for life in lives], 3),
        "mixed": spread([life.mixed for life in lives], 3),
        "test, at the end": spread([life.accuracy for life in lives], 3),
        "test, finished": spread([life.finished for life in lives], 3),
        "parameters": f"{mean(life.parameters for life in lives):,.0f}",
        "seconds": f"{mean(life.seconds for life in lives):,.0f}",
    }


def table(lives: Sequence[Life], row: Callable[[Sequence[Life]], dict]) -> list[dict[str, Any]]:
    """Return rows by kind of stream: one for each seed and, of several seeds, one for all.

    `row` is one of the functions above. Columns that say nothing in any row are left out.
    """
    rows = []
    for kind in dict.fromkeys(life.kind for life in lives):
        some = [life for life in lives if life.kind == kind]
        for life in some:
            rows.append({"kind": kind, "seed": str(life.seed)} | row([life]))
        if len(some) > 1:
            rows.append({"kind": kind, "seed": f"all {len(some)}"} | row(some))
    return [{key: row[key] for key in row if any(r[key] != "" for r in rows)} for row in rows]


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Return mean ± standard deviation of what is a number; nothing of none.

    >>> spread([0.5, float("nan"), 0.75], 1)
    '0.6 ± 0.2'
    """
    values = [value for value in values if not math.isnan(value)]
    if not values:
        return ""
    text = f"{mean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {deviation(values):.{digits}f}"


def what_happened(lived: Lived) -> list[dict[str, str]]:
    """Return a row per part of one stream: what was shown and what the learner did."""
    rows = []
    for visit in visits(lived.moments, lived.events):
        first, last = visit.part.onset, visit.part.last
        delay = visit.noticed - first
        when = "at once" if delay == 0 else f"after {delay} batch{'es' if delay > 1 else ''}"
        accuracies = [m.accuracy for m in lived.moments[first : last + 1]]
        rows.append(
            {
                "batches": f"{first}–{last}",
                "shown": shown(lived.classes, visit.part.task),
                "model before": str(visit.home) if visit.home >= 0 else "",
                "noticed": "missed" if visit.noticed == MISSED else when,
                "by": ""
                if visit.noticed == MISSED
                else "a new model"
                if visit.anew
                else f"model {visit.home}",
                "taken by": ", ".join(str(model) for model in visit.models),
                "accuracy before learning": f"{mean(a for a in accuracies if a == a):.2f}",
            }
        )
    return rows


def shown(classes: Sequence[Sequence[int]], task: int) -> str:
    """Return what a task is called: its classes, and its rule where several tasks share them.

    >>> shown([[1, 2], [3, 4], [1, 2]], 2)
    '1 and 2, rule 2'
    """
    own = classes[task]
    name = " and ".join(str(c) for c in own)
    alike = [number for number, other in enumerate(classes) if other == own]
    return name if len(alike) == 1 else f"{name}, rule {alike.index(task) + 1}"
