"""Which tasks were missed, why our runs differ from the paper's, and whether its tables agree."""

from collections.abc import Sequence

import numpy as np

from dirad.report.tables import Section
from experiments.reproduction import published
from experiments.reproduction.accuracy_tables import BLANK, both, groups, welch
from experiments.reproduction.protocol import (
    Run,
    accuracies,
    missed_a_task,
    net_accuracy,
    net_retention,
    task_retention,
)


def check_section() -> Section:
    """Return how well the paper's tables follow from its own per-run tables."""
    rows = []
    for T_CP in published.T_CP:
        runs = published.RUNS[T_CP]
        found = [one for one in runs if not missed_a_task(one)]
        derived = [*accuracies(runs), *accuracies(found)]
        printed = [*published.ACCURACIES[T_CP][0], *published.ACCURACIES[T_CP][1]]
        kept = [*net_retention(runs), *net_retention(found), *task_retention(found).values()]
        kept_printed = [value for part in published.RETENTION[T_CP] for value in part]
        rows.append(
            {
                "T_CP": f"{T_CP:.2f}",
                "largest difference, accuracies": f"{largest(derived, printed):.3f}",
                "largest difference, retention": f"{largest(kept, kept_printed):.3f}",
                "missed, derived": len(runs) - len(found),
                "missed, printed": published.ACCURACIES[T_CP][2],
            }
        )
    note = (
        "The paper's averages computed again from its per-run tables. They agree to a unit or two "
        "of the last digit if retention is the mean over runs of accuracy after ÷ before (the "
        "caption says the reverse) and TX+Y leaves out every run that missed any task. So all "
        "tables below are computed, from our runs and from the paper's."
    )
    return Section("First: do the paper's tables follow from its runs?", rows, note)


def largest(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the largest difference between two lists."""
    return max(abs(x - y) for x, y in zip(a, b, strict=True))


def missed_section(title: str, runs: Sequence[Run]) -> Section:
    """Return whether the paper's rule can fire at all, by T_CP."""
    rows = []
    dead_models = dead_misses = live_models = live_misses = 0
    for T_CP, some in groups(runs).items():
        limits, own, following, misses = [], [], [], 0
        for one in some:
            for probe in one.probes:
                # The latest model before a change of task decides with the older ones.
                task = owner_task(one, probe.model)
                if task is None or task + 1 >= one.setting.tasks:
                    continue
                missed = not one.detected[task + 1]
                dead = probe.limit >= 1.0
                dead_models, live_models = dead_models + dead, live_models + (not dead)
                dead_misses += dead and missed
                live_misses += (not dead) and missed
                limits.append(probe.limit)
                own.append(float(np.mean(probe.own)))
                following.append(float(np.mean(probe.next)))
                misses += missed
        rows.append(
            {
                "T_CP": f"{T_CP:.2f}",
                "R_IS": both([m["R_IS"] for one in some for m in one.models]),
                "limit (1+ε)R_IS": both(limits),
                "invalid share, own task": both(own),
                "invalid share, next task": both(following),
                "limit of 1 or more": f"{sum(x >= 1 for x in limits)}/{len(limits)}",
                "next task missed": f"{misses}/{len(limits)}",
            }
        )
    note = (
        "Invalid shares: mean over 20 fresh batches, judged by the model of the latest detected "
        f"task. Where its limit is 1 or more, no batch can ever be new: {dead_misses} of "
        f"{dead_models} such changes of task were missed, and {live_misses} of the {live_models} "
        "others."
    )
    return Section(title, rows, note)


def difference_section(main: Sequence[Run], told: Sequence[Run]) -> Section:
    """Return, for each cell that differs from the paper's, how much of it detection explains."""
    rows = []
    for T_CP, some in groups(main).items():
        theirs = published.RUNS[T_CP]
        kept = [one for one in theirs if not missed_a_task(one)]
        hinted = groups(told).get(T_CP, [])
        dead = [probe.limit >= 1.0 for one in some for probe in one.probes if probe.next]
        for task in (1, 2):
            ours = [net_accuracy(one.tests, task) for one in some]
            p = welch(ours, [net_accuracy(tests, task) for tests in theirs])
            routed = [net_accuracy(one.tests, task) for one in hinted]
            paper = [net_accuracy(tests, task) for tests in kept]
            rows.append(
                {
                    "T_CP": f"{T_CP:.2f}",
                    "cell": f"T{task + 1}",
                    "ours": both(ours),
                    "paper": both([net_accuracy(tests, task) for tests in theirs]),
                    "p": f"{p:.2f}",
                    "missed, ours": f"{sum(one.missed for one in some)}/{len(some)}",
                    "rule cannot fire": f"{sum(dead)}/{len(dead)}",
                    "ours, told": both(routed),
                    "paper, none missed": both(paper),
                    "p of these": f"{welch(routed, paper):.2f}" if len(routed) > 1 else BLANK,
                }
            )
    note = (
        "A batch is new if more than (1+ε)R_IS of its samples are invalid, or all of them. R_IS is "
        "high, because a sample is invalid as soon as one node in a hundred is conflicted, and of "
        "about 200 confidently predicted nodes nearly always some are. Where R_IS is above 1/(1+ε) "
        "= 0.83, a batch is new only if all of its samples are invalid, and a single valid sample "
        "in its first batch lets a task be missed. 'Rule cannot fire': models with a limit of 1 or "
        "more, as the printed limit alone would give. Told when a task is new, our system shows "
        "what routing alone does ('ours, told'), beside those of the paper's runs that missed none."
    )
    return Section("What differs from the paper, and why", rows, note)


def owner_task(one: Run, model: int) -> int | None:
    """Return the task that a model was opened for."""
    opened = [task for task, detected in enumerate(one.detected) if detected]
    return opened[model] if model < len(opened) else None
