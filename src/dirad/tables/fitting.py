"""How to encode a table, decided by what its columns contain."""

from collections.abc import Collection, Sequence

import numpy as np

from dirad.tables import values
from dirad.tables.errors import TableError, drop_options, shown
from dirad.tables.fields import ACCEPT, EXACT, INDICATE, REFUSE, TASKS, Input, Label, Target
from dirad.tables.table import Table
from dirad.tables.values import MAX_CODES, MAX_DISTINCT, Summary

MAX_CATEGORIES = 100  # of one input
TINY = 10  # rows up to which all categories may differ
MAX_DISTINCT_SHARE = 0.5  # of the rows: more distinct values are an id, or numbers written as text


def fit_inputs(
    table: Table,
    names: Sequence[str],
    categories: Collection[str],
    missing: str,
    *,
    stream: bool = False,
) -> tuple[Input, ...]:
    """Return the inputs `names`; one error lists all columns that cannot be inputs.

    `missing` tells what becomes of missing values, and `stream` of categories that come later, see
    `Encoder.fit`.
    """
    if not names:
        raise TableError(f"{table.path}: no column is left as input")
    kinds = dict(table.columns) | dict.fromkeys(categories, "category")
    problems = {name: _problem(kinds[name], table.summaries[name]) for name in names}
    refused = {name: problem for name, problem in problems.items() if problem is not None}
    if refused:
        reasons = "; ".join(f"column {shown(name)} {problem}" for name, problem in refused.items())
        advice = f"leave out what is not an input ({drop_options(refused)})"
        raise TableError(f"{table.path}: {reasons}; {advice}")
    fills: dict[str, float | bool | str] = {}
    if missing == "median":
        fills |= _medians(table, [name for name in names if kinds[name] == "number"])
        for name in names:
            if kinds[name] != "number":
                counts = table.summaries[name].counts
                mode = min(counts, key=lambda text: (-counts[text], text))
                fills[name] = values.boolean(mode) == 1 if kinds[name] == "boolean" else mode
    return tuple(
        Input(
            name,
            kinds[name],
            tuple(sorted(table.summaries[name].counts)) if kinds[name] == "category" else (),
            fills.get(name),
            _missing(kinds[name], table.summaries[name], stream) if missing == ACCEPT else REFUSE,
            stream and kinds[name] == "category",
        )
        for name in names
    )


def _missing(kind: str, summary: Summary, stream: bool) -> str:
    """Say how missing values of a column are encoded: categories may have gaps of their own."""
    return INDICATE if kind == "category" and (stream or summary.has_gaps) else ACCEPT


def _problem(kind: str, summary: Summary) -> str | None:
    """Say why a column cannot be an input, None if it can."""
    if summary.unusable is not None:
        return f"holds {summary.unusable}, not numbers, booleans or text"
    if summary.n_values == 0:
        return "holds no value"
    return _too_many(summary, MAX_CATEGORIES) if kind == "category" else None


def _too_many(summary: Summary, limit: int) -> str | None:
    """Say why the values of a column are not categories, None if they are."""
    n = len(summary.counts)
    all_differ = summary.n_values > TINY and (
        n == summary.n_values
        or (limit == MAX_CATEGORIES and n > MAX_DISTINCT_SHARE * summary.n_values)
    )
    if n <= limit and not all_differ:
        return None
    number = f"{n:,}" if summary.counted_all else f"more than {MAX_DISTINCT:,}"
    example = shown(next(iter(summary.counts)))
    guess = f"{limit:,} are allowed"
    if all_differ or not summary.counted_all:
        guess = "an id, a date, or numbers written as text?"
    return f"has {number} distinct values in {summary.n_values:,} rows, such as {example} ({guess})"


def _medians(table: Table, names: Sequence[str]) -> dict[str, float]:
    """Return the median of each column of numbers, without missing values."""
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for chunk in table.chunks():
        for name in names:
            parts[name].append(chunk.numbers(name))
    return {name: float(np.nanmedian(np.concatenate(part))) for name, part in parts.items()}


def fit_target(table: Table, name: str, task: str, as_category: bool) -> Target:
    """Return the target; with task "auto" the values decide the task (see `Encoder.fit`)."""
    if task not in ("auto", *TASKS):
        raise ValueError(f"task must be 'auto', {TASKS[0]!r} or {TASKS[1]!r}, not {task!r}")
    summary = table.summaries[name]
    kind = "category" if as_category else dict(table.columns)[name]
    place = f"{table.path}: the target {shown(name)}"
    if kind == "unusable" or summary.n_values == 0:
        raise TableError(f"{place} {_problem(kind, summary)}")
    whole = _whole_numbers(summary) if kind == "number" else None
    if task == "auto":
        are_codes = whole and len(whole) <= MAX_CODES and 2 * len(whole) <= summary.n_values
        task = "regression" if kind == "number" and not are_codes else "classification"
    if task == "regression":
        if kind != "number":
            example = shown(next(iter(summary.counts)))
            raise TableError(f"{place} holds {example}, not a number: --task classification")
        return Target(name, task, kind)
    problem = _too_many(summary, MAX_DISTINCT)
    if problem is not None:
        advice = " (--task regression?)" if kind == "number" else ""
        raise TableError(f"{place} {problem}: these are not classes{advice}")
    classes: set[Label] = set(summary.counts)
    if kind == "boolean":
        classes = {values.boolean(text) == 1 for text in summary.counts}
    elif whole is not None:
        classes = set(whole)
    else:
        kind = "category"
    return Target(name, task, kind, tuple(sorted(classes)))  # type: ignore[type-var]


def _whole_numbers(summary: Summary) -> set[int] | None:
    """Return the distinct values as whole numbers, None if some are not whole."""
    numbers = [values.number(text) for text in summary.counts]
    if any(n is None or not n.is_integer() or abs(n) > EXACT for n in numbers):
        return None
    return {int(n) for n in numbers if n is not None}
