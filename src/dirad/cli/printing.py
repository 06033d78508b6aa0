"""How commands on model files print: tables or JSON at the end, notices and progress before."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from dirad.cli.app import Output, as_json, stderr, stdout
from dirad.report.tables import Section, print_sections

MAX_ITEMS = 12  # items of a list that are printed

Progress = Callable[[int, int | None, str], None]  # done, total if known, text


class Findings:
    """The tables of a command, printed together at its end; as JSON they are one object."""

    def __init__(self, talk: Output) -> None:
        self.talk = talk
        self.sections: list[Section] = []
        self.record: dict[str, Any] = {}

    def facts(self, title: str, facts: Mapping[str, Any], note: str = "") -> None:
        """Add a table of single facts, one per line."""
        self.record[title] = {key: _plain(value) for key, value in facts.items()}
        rows = [{"what": key, "value": _text(value)} for key, value in facts.items()]
        self.sections.append(Section(title, rows, note))

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
        """Add a table; it is printed only if it has rows."""
        self.record[title] = [{key: _plain(value) for key, value in row.items()} for row in rows]
        texts = [{key: _text(value) for key, value in row.items()} for row in rows]
        if rows:
            self.sections.append(Section(title, texts, note))

    def print(self) -> None:
        """Print all tables."""
        if self.talk.json:
            print(as_json(self.record))
        elif not self.talk.quiet:
            print_sections(stdout(), self.sections)


def notice(talk: Output, text: str) -> None:
    """Print a line to standard error, unless the command is quiet."""
    stderr(talk).print(text, highlight=False, markup=False)


@contextmanager
def progress(talk: Output, text: str, unit: str) -> Iterator[Progress]:
    """Show a progress bar on a terminal; yield the function that updates it."""
    console = stderr(talk)
    if talk.quiet or not console.is_terminal:
        yield lambda done, total, text: None
        return
    from rich import progress as rich

    columns = (
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TextColumn("{task.completed:,} " + unit),
        rich.TimeElapsedColumn(),
        rich.TextColumn("elapsed,"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("left"),
    )
    with rich.Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total, text: bar.update(
            task, completed=done, total=total, description=text
        )


def _plain(value: Any) -> Any:
    """Return a value that JSON can represent."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: Any) -> Any:
    """Return a value as people read it."""
    if isinstance(value, list):
        some = ", ".join(map(str, value[:MAX_ITEMS]))
        return some if len(value) <= MAX_ITEMS else f"{some} and {len(value) - MAX_ITEMS} others"
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
