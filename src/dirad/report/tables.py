"""Rows of results as tables, on the terminal and in Markdown.

A row is a dictionary. `COLUMNS` defines the heading and the format of each key, and which keys
share a cell: 0.979 ± 0.001, 19/20, 7.2 (max 9).
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

MISSING = "–"

Row = Mapping[str, Any]


class Column(NamedTuple):
    """The heading and format of a number, and the other numbers in its cell."""

    heading: str
    format: str = ""
    beside: tuple[tuple[str, str], ...] = ()  # (key, format appended to the cell)


class Section(NamedTuple):
    """A table with a title and a note."""

    title: str
    rows: Sequence[Row]
    note: str = ""


def _spread(key: str, heading: str, digits: int = 4, sign: str = "") -> Column:
    """Return the column of a mean ± its standard error or standard deviation."""
    spread = tuple((f"{key}_{kind}", f" ± {{:.{digits}f}}") for kind in ("se", "sd"))
    return Column(heading, f"{sign}.{digits}f", spread)


def _count(key: str, heading: str) -> Column:
    """Return the column of a mean count, with its standard deviation or its maximum."""
    return Column(heading, ",.1f", ((f"{key}_sd", " ± {:,.1f}"), (f"{key}_max", " (max {:,.0f})")))


COLUMNS: dict[str, Column] = {
    "accuracy": _spread("accuracy", "test accuracy"),
    "right": Column("accuracy", ".4f"),
    "held_out": _spread("held_out", "held-out accuracy"),
    "difference": _spread("difference", "difference", sign="+"),
    "dirad": _spread("dirad", "DIRAD"),
    "linear": _spread("linear", "tuned linear"),
    "solved": Column("solved", "d", (("runs", "/{:d}"),)),
    "distinct": Column("distinct networks", "d"),
    "pairs_better": Column("pairs better", "d", (("pairs", "/{:d}"),)),
    "edges": _count("edges", "edges"),
    "hidden": _count("hidden", "hidden nodes"),
    "steps": _count("steps", "steps"),
    "last_change": _count("last_change", "steps to the last change"),
    "parameters": Column("parameters", ",.1f"),
    "linear_parameters": Column("parameters, linear", ",.1f"),
    "seconds": Column("seconds", ",.1f"),
    "size": Column("size"),
    "within_one_se": Column("within one SE or better"),
    "seed": Column("seed"),
}


def columns_of(rows: Sequence[Row]) -> list[str]:
    """Return the keys that become columns, in the order of their first appearance."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    shared = {name for key in keys if key in COLUMNS for name, _ in COLUMNS[key].beside}
    return [key for key in keys if key not in shared]


def heading(key: str) -> str:
    """Return a column's heading."""
    return COLUMNS[key].heading if key in COLUMNS else key.replace("_", " ")


def cell(row: Row, key: str) -> str:
    """Return the text of the cell of a row under a key.

    >>> cell({"solved": 19, "runs": 20}, "solved")
    '19/20'
    >>> cell({"accuracy": 0.97912, "accuracy_se": 0.0011}, "accuracy")
    '0.9791 ± 0.0011'
    """
    value = row.get(key)
    column = COLUMNS.get(key, Column(key))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    # A single count, unlike a mean of counts, needs no decimals.
    spec = "," if isinstance(value, int) and column.format.endswith("f") else column.format
    text = format(value, spec)
    for name, pattern in column.beside:
        extra = row.get(name)
        if extra is not None and not math.isnan(extra):
            text += pattern.format(extra)
    return text.replace("-", "−")


def rich_table(section: Section) -> "Table":
    """Return a table for the terminal; a rule separates rows where the first column changes."""
    from rich.markup import escape
    from rich.table import Table

    keys = columns_of(section.rows)
    table = Table(title=escape(section.title), title_justify="left", title_style="bold")
    for key in keys:
        numeric = any(isinstance(row.get(key), int | float) for row in section.rows)
        table.add_column(
            escape(heading(key)), justify="right" if numeric else "left", overflow="fold"
        )
    groups = [row.get(keys[0]) for row in section.rows] if keys else []
    divided = len(set(map(str, groups))) < len(groups)
    for i, row in enumerate(section.rows):
        last = divided and i + 1 < len(groups) and groups[i + 1] != groups[i]
        table.add_row(*(escape(cell(row, key)) for key in keys), end_section=last)
    return table


def print_sections(console: "Console", sections: Sequence[Section]) -> None:
    """Print the table of every section, and its note below."""
    for section in sections:
        console.print(rich_table(section))
        if section.note:
            console.print(section.note, style="dim", markup=False)
        console.print()


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table, with numbers aligned right.

    >>> print(markdown_table([{"method": "tree", "solved": 1, "runs": 5}]))
    | method | solved |
    |:---|---:|
    | tree | 1/5 |
    """
    keys = columns_of(rows)
    lines = [[heading(key) for key in keys]]
    numeric = [any(isinstance(row.get(key), int | float) for row in rows) for key in keys]
    lines += [[cell(row, key).replace("|", "\\|") for key in keys] for row in rows]
    text = ["| " + " | ".join(line) + " |" for line in lines]
    text.insert(1, "|" + "|".join("---:" if right else ":---" for right in numeric) + "|")
    return "\n".join(text)


def markdown(title: str, intro: str, sections: Sequence[Section]) -> str:
    """Return a whole Markdown document."""
    parts = [f"# {title}", intro]
    for section in sections:
        parts.append(f"## {section.title}")
        if section.note:
            parts.append(section.note)
        parts.append(markdown_table(section.rows))
    return "\n\n".join(part for part in parts if part) + "\n"
