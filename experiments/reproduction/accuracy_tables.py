"""Accuracies and retention: our runs beside the paper's."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from scipy.stats import ttest_ind

from dirad.report.tables import Section
from dirad.streams.averages import mean, spread
from experiments.reproduction import published
from experiments.reproduction.protocol import (
    Run,
    class_accuracies,
    missed_a_task,
    net_accuracy,
    net_retention,
    task_retention,
)

BLANK = "–"
both = partial(spread, missing=BLANK)  # mean ± standard deviation


def groups(runs: Sequence[Run]) -> dict[float, list[Run]]:
    """Return the runs by T_CP."""
    return {
        T_CP: [one for one in runs if one.setting.T_CP == T_CP]
        for T_CP in sorted({one.setting.T_CP for one in runs})
    }


def welch(a: Sequence[float], b: Sequence[float]) -> float:
    """Return the probability of so different means if the truth is the same (Welch's test)."""
    result: Any = ttest_ind(a, b, equal_var=False)
    return float(result.pvalue)


def accuracy_section(title: str, runs: Sequence[Run]) -> Section:
    """Return accuracies after each task, with and without runs that missed one."""
    tasks = runs[0].setting.tasks
    rows: list[dict[str, Any]] = []
    reasons = []
    for T_CP, some in groups(runs).items():
        ours = [one.tests for one in some]
        found = [one.tests for one in some if not one.missed]
        ours_default = some[0].setting.preset == "default"
        label = "ours" if ours_default else f"{T_CP:.2f}"
        row: dict[str, Any] = {"T_CP": label, "source": "ours"}
        theirs = [] if ours_default else list(published.RUNS.get(T_CP, ()))
        for task in range(tasks):
            values = [net_accuracy(tests, task) for tests in ours]
            row[f"T{task + 1}"] = both(values)
            if theirs and task < 3 and len(values) > 1:
                p = welch(values, [net_accuracy(tests, task) for tests in theirs])
                row[f"T{task + 1}"] += f" (p {p:.2f})"
                if p < 0.05:
                    reasons.append(f"T{task + 1} at {T_CP:.2f}")
        for task in range(tasks):
            row[f"T{task + 1}, none missed"] = both([net_accuracy(t, task) for t in found])
        row["missed"] = f"{len(ours) - len(found)}/{len(ours)}"
        row["false alarms"] = f"{mean(one.false_alarms[-1] for one in some):.2f}"
        row["right model"] = f"{mean(one.routed[-1] for one in some):.2f}"
        rows.append(row)
        if theirs and tasks == 3:
            kept = [one for one in theirs if not missed_a_task(one)]
            paper: dict[str, Any] = {"T_CP": label, "source": "paper"}
            for task in range(3):
                paper[f"T{task + 1}"] = both([net_accuracy(t, task) for t in theirs])
                paper[f"T{task + 1}, none missed"] = both([net_accuracy(t, task) for t in kept])
            paper["missed"] = f"{len(theirs) - len(kept)}/{len(theirs)}"
            rows.append(paper)
    for name, value in (("chance", lambda x: 1 / (2 * x)), ("latest task only", lambda x: 1 / x)):
        rows.append(
            {"T_CP": name, "source": ""} | {f"T{x}": f"{value(x):.2f}" for x in range(1, tasks + 1)}
        )
    note = (
        "Mean ± standard deviation over runs; p: Welch's test of our runs against the paper's. "
        "'None missed': runs in which every task was detected. False alarms: share of fresh "
        "batches of known tasks, after the last task, that would open a model. Right model: share "
        "of test samples that reach the model of their own task."
    )
    if reasons:
        note += f" Different from the paper (p < 0.05): {', '.join(reasons)}."
    return Section(title, rows, note)


def retention_section(runs: Sequence[Run]) -> Section:
    """Return what is left of an accuracy after the next task."""
    rows = []
    for T_CP, some in groups(runs).items():
        default = some[0].setting.preset == "default"
        label = "ours" if default else f"{T_CP:.2f}"
        sources: list[tuple[str, Sequence, Sequence]] = [
            ("ours", [one.tests for one in some], [one.tests for one in some if not one.missed])
        ]
        if not default and T_CP in published.RUNS and some[0].setting.tasks == 3:
            theirs = published.RUNS[T_CP]
            sources.append(("paper", theirs, [one for one in theirs if not missed_a_task(one)]))
        for source, every, found in sources:
            row = {"T_CP": label, "source": source}
            without = net_retention(found)
            for i, value in enumerate(net_retention(every)):
                inner = (
                    f"{without[i]:.2f}" if i < len(without) and without[i] == without[i] else BLANK
                )
                row[f"ALL+{i + 2}"] = f"{value:.2f} ({inner})"
            for name, value in task_retention(found).items():
                row[name] = f"{value:.2f}" if value == value else BLANK
            rows.append(row)
    note = (
        "Mean over runs of accuracy after ÷ before the task was introduced; in parentheses, and in "
        "columns TX+Y, without runs that missed a task."
    )
    return Section("Retention", rows, note)


def class_section(runs: Sequence[Run]) -> Section:
    """Return mean accuracies by class after the last task."""
    rows = []
    for T_CP, some in groups(runs).items():
        for source, tests in (
            ("ours", [one.tests for one in some]),
            ("paper", published.RUNS.get(T_CP, ())),
        ):
            if tests:
                found = class_accuracies(tests)
                rows.append(
                    {"T_CP": f"{T_CP:.2f}", "source": source}
                    | {f"C{d}": f"{a:.2f} ({n})" if n else BLANK for d, (a, n) in found.items()}
                )
    return Section(
        "Mean accuracies by class, after the last task", rows, "In parentheses: the number of runs."
    )


def per_run_section(title: str, runs: Sequence[Run]) -> Section:
    """Return a table of single runs by class."""
    rows = []
    for one in runs:
        row: dict[str, Any] = {"run": one.number + 1}
        for task, test in enumerate(one.tests):
            row[f"T{task + 1}"] = ", ".join(f"{d}: {a:.2f}" for d, a in test.items())
        row["detected"] = " ".join("yes" if found else "no" for found in one.detected)
        rows.append(row)
    return Section(title, rows, "Class: accuracy. Detected: was a model opened for the task?")
