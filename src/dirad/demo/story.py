"""A stream of three tasks, two of which come again, and what the system notices."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dirad.demo.recurring import learn_recurring
from dirad.preval.choice import ContinualSystem
from dirad.preval.settings import PRESETS
from dirad.streams.follow import Moment, Watcher, accuracy_of
from dirad.streams.run import settings_for_digits, source

ORDER = (0, 1, 2, 0, 1)  # of the tasks
PAPER_BEST = (0.92, 0.80, 0.71)  # the paper's best mean accuracy after each task, over all T_CP


@dataclass(frozen=True)
class Story:
    """A stream, and what the system did in it."""

    system: ContinualSystem
    moments: list[Moment]
    classes: list[list[int]]  # the digits of each task
    accuracies: list[float]  # on test samples of all tasks so far, as each became known


def follow_story(seed: int, quick: bool, report: Watcher) -> Story:
    """Show the stream to a new system."""
    data = source("digits" if quick else "mnist")
    settings = PRESETS["default"]
    if quick:
        settings = settings_for_digits(settings)
    accuracies: list[float] = []

    def look(moment: Moment, system: ContinualSystem) -> None:
        if len(system.experts) > len(accuracies):
            seen = [code for model in system.experts for code in model.classes]
            test = np.isin(data.y_test, seen)
            accuracies.append(accuracy_of(system, data.X_test[test], data.y_test[test]))
        report(moment, system)

    system, moments, classes = learn_recurring(
        "default", ORDER, seed=seed, data=data, settings=settings, report=look
    )
    return Story(system, moments, classes, accuracies)


def against_the_paper(story: Story) -> list[dict[str, Any]]:
    """Return the accuracy after each task, ours and the paper's best."""
    rows = [{"system": "this one"}, {"system": "the paper's best"}]
    rows += [{"system": "perfect on the latest task, nothing before"}, {"system": "chance"}]
    for task, best in enumerate(PAPER_BEST):
        name = f"after {2 * task + 2} digits"
        found = story.accuracies[task] if task < len(story.accuracies) else float("nan")
        for row, value in zip(rows, (found, best, 1 / (task + 1), 0.5 / (task + 1)), strict=True):
            row[name] = f"{value:.2f}"
    return rows


def what_happened(story: Story) -> list[dict[str, Any]]:
    """Return the events of the system beside what the stream showed at that time."""
    size = story.system.settings.l0.batch_size
    rows = []
    for event in story.system.journal.events:
        at = min(event.batch, len(story.moments) - 1)
        a, b = story.classes[story.moments[at].task]
        rows.append(
            {
                "batch": event.batch,
                "samples": event.batch * size,
                "shown": f"{a} and {b}",
                "event": f"model {event.model} {event.kind}",
                "p of each model": ", ".join(f"{p:.2g}" for p in event.evidence.get("p", [])),
            }
        )
    return rows
