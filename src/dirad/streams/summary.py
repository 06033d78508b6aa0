"""Scores of streams as rows of tables."""

from collections.abc import Callable, Sequence
from typing import Any

from dirad.streams.averages import mean, spread
from dirad.streams.detection import MISSED, visits
from dirad.streams.run import StreamRun, StreamScores

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


def noticed(runs: Sequence[StreamScores]) -> dict[str, Any]:
    """Return how changes were noticed in some streams: counts over all of them, means ± sd."""
    delays = [float(delay) for one in runs for delay in one.delays if delay != MISSED]
    changes = sum(len(one.delays) for one in runs)
    recurrences = sum(one.recurrences for one in runs)
    undone = sum(one.undone for one in runs)
    digits = 1 if len(runs) > 1 else 0
    return {
        "missed": f"{sum(one.missed for one in runs)}/{changes}",
        "delay": spread(delays, 1),
        "false alarms": spread([one.false_alarms for one in runs], digits),
        "re-opened": f"{sum(one.reopened for one in runs)}/{recurrences}" if recurrences else "",
        "precision": spread([one.precision for one in runs]),
        "recall": spread([one.recall for one in runs]),
        "models": spread([one.models for one in runs], digits)
        + (f" ({undone} undone)" if undone else ""),
    }


def answered(runs: Sequence[StreamScores]) -> dict[str, Any]:
    """Return how right the answers were in some streams."""
    return {
        "before learning": spread([one.prequential for one in runs], 3),
        "mixed": spread([one.mixed for one in runs], 3),
        "test, at the end": spread([one.accuracy for one in runs], 3),
        "test, finished": spread([one.finished for one in runs], 3),
        "parameters": f"{mean(one.parameters for one in runs):,.0f}",
        "seconds": f"{mean(one.seconds for one in runs):,.0f}",
    }


def table(
    runs: Sequence[StreamScores], row: Callable[[Sequence[StreamScores]], dict]
) -> list[dict[str, Any]]:
    """Return rows by kind of stream: one for each seed and, of several seeds, one for all.

    `row` is one of the functions above. Columns that say nothing in any row are left out.
    """
    rows = []
    for kind in dict.fromkeys(one.kind for one in runs):
        some = [one for one in runs if one.kind == kind]
        for one in some:
            rows.append({"kind": kind, "seed": str(one.seed)} | row([one]))
        if len(some) > 1:
            rows.append({"kind": kind, "seed": f"all {len(some)}"} | row(some))
    return [{key: row[key] for key in row if any(r[key] != "" for r in rows)} for row in rows]


def what_happened(run: StreamRun) -> list[dict[str, str]]:
    """Return a row per part of one stream: what was shown and what the learner did."""
    rows = []
    for visit in visits(run.moments, run.events):
        first, last = visit.part.onset, visit.part.last
        delay = visit.noticed - first
        when = "at once" if delay == 0 else f"after {delay} batch{'es' if delay > 1 else ''}"
        accuracies = [m.accuracy for m in run.moments[first : last + 1]]
        rows.append(
            {
                "batches": f"{first}–{last}",
                "shown": shown(run.classes, visit.part.task),
                "model before": str(visit.home) if visit.home >= 0 else "",
                "noticed": "missed" if visit.noticed == MISSED else when,
                "by": ""
                if visit.noticed == MISSED
                else "a new model"
                if visit.by_opening
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
