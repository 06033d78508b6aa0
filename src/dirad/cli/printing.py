"""How commands on model files print: a table for people, or JSON for scripts."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dirad.cli.app import Output, as_json, stdout
from dirad.report.tables import Section, print_sections

SHOWN = 12  # members of a list that are printed


class Findings:
    """Tables of a command, printed together at its end: JSON is one object."""

    def __init__(self, talk: Output) -> None:
        self.talk = talk
        self.sections: list[Section] = []
        self.record: dict[str, Any] = {}

    def facts(self, title: str, facts: Mapping[str, Any], note: str = "") -> None:
        """Add single facts, one below the other."""
        self.record[title] = {key: _plain(value) for key, value in facts.items()}
        rows = [{"what": key, "value": _text(value)} for key, value in facts.items()]
        self.sections.append(Section(title, rows, note))

    def table(self, title: str, rows: Sequence[Mapping[str, Any]], note: str = "") -> None:
        """Add rows."""
        self.record[title] = [{key: _plain(value) for key, value in row.items()} for row in rows]
        texts = [{key: _text(value) for key, value in row.items()} for row in rows]
        if rows:
            self.sections.append(Section(title, texts, note))

    def print(self) -> None:
        """Print all of it."""
        if self.talk.json:
            print(as_json(self.record))
        elif not self.talk.quiet:
            print_sections(stdout(), self.sections)


def _plain(value: Any) -> Any:
    """Return a value as JSON takes it."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(value: Any) -> Any:
    """Return a value as people read it."""
    if isinstance(value, list):
        some = ", ".join(map(str, value[:SHOWN]))
        return some if len(value) <= SHOWN else f"{some} and {len(value) - SHOWN} others"
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value
