"""The fields of an encoder as they are stored: each input, and the target.

Each record checks itself when it is created and raises a ValueError if it is invalid, so a record
from an altered file is as reliable as one that was learned.
"""

import math
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, TypeVar

KINDS = ("number", "boolean", "category")
REFUSE, ACCEPT, INDICATE = MISSING = ("refuse", "accept", "indicate")
TASKS = ("classification", "regression")
NO_VALUE = "(missing)"  # the category of missing values
OTHER = "(other)"  # and of all categories that are not known
EXACT = 2**53  # up to here a float represents every whole number

NEW = {"missing", "other"}  # fields that older files do not have

Label = str | int | bool
Record = TypeVar("Record")


@dataclass(frozen=True)
class Input:
    """An input column: a number, a boolean (0 or 1), or a category (one-hot encoded)."""

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | bool | str | None = None  # replaces a missing value
    # Without `fill`, a missing value is refused (as in older files), or accepted: NaN for a number
    # or a boolean, 0 for each category; or a category has one more feature that indicates it.
    missing: str = REFUSE
    other: bool = False  # has a category one more feature, which indicates all that are not known?

    def __post_init__(self) -> None:
        check(isinstance(self.name, str), "an input has no name")
        check(self.kind in KINDS, f"input {self.name!r}: kind {self.kind!r}")
        check(
            _sorted_labels(self.categories, str)
            and bool(self.categories) == (self.kind == "category"),
            f"input {self.name!r}: categories {self.categories!r}",
        )
        check(self.fill is None or self._can_fill(), f"input {self.name!r}: fill {self.fill!r}")
        allowed = MISSING if self.kind == "category" else (REFUSE, ACCEPT)
        allowed = allowed if self.fill is None else (REFUSE,)
        check(type(self.other) is bool and (not self.other or self.kind == "category"),
              f"input {self.name!r}: other {self.other!r}")  # fmt: skip
        check(self.missing in allowed, f"input {self.name!r}: missing {self.missing!r}")

    def _can_fill(self) -> bool:
        if self.kind == "number":
            return type(self.fill) in (int, float) and math.isfinite(self.fill)  # type: ignore
        return type(self.fill) is bool if self.kind == "boolean" else self.fill in self.categories

    def feature_names(self) -> tuple[str, ...]:
        """Return the names of its features: 'age', or 'colour=blue', 'colour=red'."""
        if self.kind == "category":
            return tuple(f"{self.name}={category}" for category in self.all_categories())
        return (self.name,)

    def all_categories(self) -> tuple[str, ...]:
        """Return the category of each feature, with those of unknown and missing values."""
        other = [OTHER] if self.other else []
        missing = [NO_VALUE] if self.missing == INDICATE else []
        return (*self.categories, *other, *missing)

    @property
    def is_mixed(self) -> bool:
        """May it hold what no earlier value was: no value at all, or a category that is new?"""
        return self.other or self.missing != REFUSE


@dataclass(frozen=True)
class Target:
    """The column to predict."""

    name: str
    task: str
    kind: str  # of a label: "number" (a whole number), "boolean" or "category"
    classes: tuple[Label, ...] = ()  # sorted; empty in regression

    def __post_init__(self) -> None:
        check(isinstance(self.name, str), "the target has no name")
        check(self.task in TASKS, f"target {self.name!r}: task {self.task!r}")
        check(self.kind in KINDS, f"target {self.name!r}: kind {self.kind!r}")
        if self.task == "regression":
            valid = self.kind == "number" and self.classes == ()
        else:
            type = {"number": int, "boolean": bool, "category": str}[self.kind]
            valid = bool(self.classes) and _sorted_labels(self.classes, type)
        check(valid, f"target {self.name!r}: classes {self.classes!r}")


def from_json(record: type[Record], obj: Any) -> Record:
    """Return the record of this type that JSON describes; raise a ValueError if it is invalid."""
    names = [field.name for field in fields(record)]  # type: ignore[arg-type]
    valid = isinstance(obj, dict) and set(obj) | NEW.intersection(names) == set(names)
    check(valid, f"the {record.__name__.lower()} does not consist of {', '.join(names)}")
    return record(**{key: tuple(v) if isinstance(v, list) else v for key, v in obj.items()})


def check(valid: bool, problem: str) -> None:
    """Raise a ValueError unless a part of an encoder is valid."""
    if not valid:
        raise ValueError(f"not a valid encoder: {problem[:200]}")


def _sorted_labels(labels: Any, type_: type) -> bool:
    """Return whether these are distinct labels of one type, in ascending order."""
    if not isinstance(labels, tuple) or any(type(label) is not type_ for label in labels):
        return False
    if type_ is int and any(abs(label) > EXACT for label in labels):
        return False
    return all(a < b for a, b in pairwise(labels))
