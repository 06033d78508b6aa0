"""How a table is to be encoded: learned from what its columns hold."""

from collections.abc import Collection, Sequence

import numpy as np

from dirad.tables import cells
from dirad.tables.error import TableError, shown, to_drop
from dirad.tables.fields import EXACT, TASKS, Input, Label, Target
from dirad.tables.scan import FEW, MAX_DISTINCT, Summary
from dirad.tables.table import Table

MAX_CATEGORIES = 100  # of one input
TINY = 10  # rows up to which all categories may differ
MOST = 0.5  # of the rows: more different values are an id, or numbers in disguise


def learn_inputs(
    table: Table, names: Sequence[str], categories: Collection[str], impute: bool
) -> tuple[Input, ...]:
    """Return the inputs `names`; those of no use are refused, all in one message."""
    if not names:
        raise TableError(f"{table.path}: no column is left as input")
    kinds = {**dict(table.columns), **dict.fromkeys(categories, "category")}
    summaries = {name: table.summaries[name] for name in names}
    problems = {name: _problem(kinds[name], summaries[name]) for name in names}
    refused = {name: problem for name, problem in problems.items() if problem is not None}
    if refused:
        reasons = "; ".join(f"column {shown(name)} {problem}" for name, problem in refused.items())
        advice = f"leave out what is no input ({to_drop(refused)})"
        raise TableError(f"{table.path}: {reasons}; {advice}")
    numbers = [name for name in names if kinds[name] == "number"]
    medians = _medians(table, numbers) if impute else {}
    inputs = []
    for name in names:
        kind, counts = kinds[name], summaries[name].counts
        fill = medians.get(name)
        if impute and kind != "number":
            usual = min(counts, key=lambda text: (-counts[text], text))
            fill = cells.truth(usual) == 1 if kind == "boolean" else usual
        known = tuple(sorted(counts)) if kind == "category" else ()
        inputs.append(Input(name, kind, known, fill))
    return tuple(inputs)


def _problem(kind: str, summary: Summary) -> str | None:
    """Say why a column cannot be an input, None if it can."""
    if summary.unusable is not None:
        return f"holds {summary.unusable}, neither numbers nor booleans nor text"
    if summary.n_values == 0:
        return "holds no value"
    return _too_many(summary, MAX_CATEGORIES) if kind == "category" else None


def _too_many(summary: Summary, limit: int) -> str | None:
    """Say why the values of a column are no categories, None if they are."""
    n = len(summary.counts)
    all_differ = summary.n_values > TINY and (
        n == summary.n_values or (limit == MAX_CATEGORIES and n > MOST * summary.n_values)
    )
    if n <= limit and not all_differ:
        return None
    number = f"{n:,}" if summary.counted_all else f"more than {MAX_DISTINCT:,}"
    example = shown(next(iter(summary.counts)))
    guess = (
        "an id, a date, or numbers in disguise?"
        if all_differ or not summary.counted_all
        else f"{limit:,} are allowed"
    )
    return (
        f"has {number} different values in {summary.n_values:,} rows, such as {example} ({guess})"
    )


def _medians(table: Table, names: Sequence[str]) -> dict[str, float]:
    """Return the median of each column of numbers, missing values apart."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for chunk in table.chunks():
        for name in names:
            parts[name].append(chunk.numbers(name))
    return {name: float(np.nanmedian(np.concatenate(part))) for name, part in parts.items()}


def learn_target(table: Table, name: str, task: str, as_category: bool) -> Target:
    """Return the target; its task is found out where it is not said (see `Encoder.fit`)."""
    if task not in ("auto", *TASKS):
        raise ValueError(f"task must be 'auto', {TASKS[0]!r} or {TASKS[1]!r}, not {task!r}")
    summary = table.summaries[name]
    kind = "category" if as_category else dict(table.columns)[name]
    place = f"{table.path}: the target {shown(name)}"
    if kind == "unusable" or summary.n_values == 0:
        raise TableError(f"{place} {_problem(kind, summary)}")
    if task == "auto":
        task = "regression" if kind == "number" and not _few_whole(summary) else "classification"
    if task == "regression":
        if kind != "number":
            example = shown(next(iter(summary.counts)))
            raise TableError(f"{place} holds {example}, no number: --task classification")
        return Target(name, task, kind)
    problem = _too_many(summary, MAX_DISTINCT)
    if problem is not None:
        advice = " (--task regression?)" if kind == "number" else ""
        raise TableError(f"{place} {problem}: these are no classes{advice}")
    kind, classes = _classes(kind, summary)
    return Target(name, task, kind, classes)


def _few_whole(summary: Summary) -> bool:
    whole = _whole_numbers(summary)
    return whole is not None and len(whole) <= FEW and 2 * len(whole) <= summary.n_values


def _whole_numbers(summary: Summary) -> set[int] | None:
    """Return the different values as whole numbers, None if some are not."""
    numbers = [cells.number(text) for text in summary.counts]
    if any(n is None or not n.is_integer() or abs(n) > EXACT for n in numbers):
        return None
    return {int(n) for n in numbers if n is not None}


def _classes(kind: str, summary: Summary) -> tuple[str, tuple[Label, ...]]:
    """Return the kind of the labels, and the classes in order."""
    if kind == "boolean":
        return kind, tuple(sorted({cells.truth(text) == 1 for text in summary.counts}))
    whole = _whole_numbers(summary) if kind == "number" else None
    if whole is not None:
        return "number", tuple(sorted(whole))
    return "category", tuple(sorted(summary.counts))
