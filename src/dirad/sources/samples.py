"""Samples: what a line of a CSV file, or a message, says to a stream."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dirad.client import Client, ClientError
from dirad.sources.errors import SourceError
from dirad.tables.values import category, whole_number


@dataclass(frozen=True)
class Naming:
    """Which columns of a source are what, and which stream they are for."""

    target: str = "label"  # the column, or field, of labels
    id: str = "id"  # of the samples' own names
    text_labels: bool = False  # are labels texts even where they look like numbers?
    create: str | None = None  # the kind of stream to create if there is none
    columns: Sequence[str] = ()  # of the stream to create; none: all but labels and ids
    categories: Mapping[str, Sequence[str]] = field(default_factory=dict)  # of some of them
    gaps: bool = False  # may their values be missing?

    def described(self, names: Sequence[str]) -> list[Any]:
        """Return the columns of the stream to create, given the names that the source has."""
        names = list(self.columns) or [one for one in names if one not in (self.target, self.id)]
        absent = next((one for one in self.categories if one not in names), None)
        if absent is not None:
            raise SourceError(f"there is no column {absent!r:.80} that could hold categories")
        return [self._described(name) for name in names]

    def _described(self, name: str) -> Any:
        found: dict[str, Any] = {"gaps": True} if self.gaps else {}
        if name in self.categories:
            found |= {"kind": "category", "categories": list(self.categories[name]), "other": True}
        return found | {"name": name} if found else name


@dataclass(frozen=True)
class Sample:
    """A row of a stream."""

    values: list[Any]  # in the order of the stream's columns
    label: Any = None
    id: str | None = None


@dataclass(frozen=True)
class Layout:
    """The columns of a stream, and how to find them."""

    columns: tuple[str, ...]
    is_regressor: bool
    naming: Naming

    @classmethod
    def of_stream(cls, client: Client, naming: Naming, names: Sequence[str]) -> "Layout":
        """Ask the service for the columns of the stream, which is created if this was asked for.

        `names` are those that the source has.
        """
        try:
            state = client.state()
        except ClientError as error:
            if error.status != 404:
                raise
            if naming.create is None:
                raise SourceError(f"{error.detail} (--create classifier creates it)") from None
            client.create(naming.create, naming.described(names))
            state = client.state()
        if naming.create not in (None, state["kind"]):
            raise SourceError(f"stream {client.stream} exists already, and is a {state['kind']}")
        return cls(tuple(client.columns), state["kind"] == "regressor", naming)

    def missing(self, names: Sequence[str]) -> str | None:
        """Return a column of the stream that is not among names; None if all are there."""
        return next((one for one in self.columns if one not in names), None)

    def of_fields(self, names: Sequence[str], fields: Sequence[str]) -> Sample:
        """Return the sample of a line of a CSV file; other columns are left out."""
        if len(fields) != len(names):
            raise ValueError(f"{len(fields)} fields, and the header has {len(names)}")
        found = dict(zip(names, fields, strict=True))
        values = [found[name] for name in self.columns]
        label, id = found.get(self.naming.target), found.get(self.naming.id, "").strip()
        return Sample(values, None if label is None else self._label_of_text(label), id or None)

    def of_message(self, payload: bytes) -> Sample:
        """Return the sample of a message: an object by column names, or a list in their order."""
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError):
            raise ValueError("the message is no JSON") from None
        if isinstance(found, list):
            if len(found) != len(self.columns):
                raise ValueError(f"{len(found)} values, and there are {len(self.columns)} columns")
            return Sample([_finite(one) for one in found])
        if not isinstance(found, dict):
            raise ValueError("the message is neither an object nor a list")
        missing = self.missing(list(found))
        if missing is not None:
            raise ValueError(f"column {missing!r:.80} is missing")
        label, id = found.get(self.naming.target), found.get(self.naming.id)
        if isinstance(label, str) and not self.naming.text_labels and self.is_regressor:
            label = self._label_of_text(label)
        elif self.naming.text_labels and label is not None:
            label = str(label)
        values = [_finite(found[name]) for name in self.columns]
        return Sample(values, _finite(label), None if id is None else str(id))

    def _label_of_text(self, given: str) -> Any:
        """Return a label as the service takes it; None where it is missing."""
        text = category(given)
        if text is None:
            return None
        if self.is_regressor:
            try:
                return _finite(float(text))
            except ValueError:
                raise ValueError(
                    f"column {self.naming.target!r}: {text!r:.40} is no number"
                ) from None
        number = None if self.naming.text_labels else whole_number(text)
        return text if number is None else number


def _finite(value: Any) -> Any:
    """Return a value that JSON has; NaN is a missing one."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    if math.isnan(value):
        return None
    raise ValueError("a value is infinite")
