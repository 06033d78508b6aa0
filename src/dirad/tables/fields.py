"""The fields of an encoder, as they are stored: each input, and the target.

Whatever breaks a rule is refused with a ValueError where a record is made, so that one from a
foreign or altered file is as sound as one that was learned.
"""

import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

KINDS = ("number", "boolean", "category")
TASKS = ("classification", "regression")
EXACT = 2**53  # up to here a float holds every whole number

Label = str | int | bool


@dataclass(frozen=True)
class Input:
    """A column that is an input: a number, a boolean (0 or 1), or a category (one-hot)."""

    name: str
    kind: str
    categories: tuple[str, ...] = ()
    fill: float | bool | str | None = None  # what stands in for a missing value; None: refused

    def __post_init__(self) -> None:
        _check(isinstance(self.name, str), "an input has no name")
        _check(self.kind in KINDS, f"input {self.name!r}: kind {self.kind!r}")
        _check(
            _sorted_labels(self.categories, str) and bool(self.categories) == self._is_category,
            f"input {self.name!r}: categories {self.categories!r}",
        )
        _check(self.fill is None or self._can_fill(), f"input {self.name!r}: fill {self.fill!r}")

    @property
    def _is_category(self) -> bool:
        return self.kind == "category"

    def _can_fill(self) -> bool:
        if self.kind == "number":
            return type(self.fill) in (int, float) and math.isfinite(self.fill)  # type: ignore
        return type(self.fill) is bool if self.kind == "boolean" else self.fill in self.categories

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {**asdict(self), "categories": list(self.categories)}

    @classmethod
    def from_json(cls, obj: Any) -> "Input":
        """Return the input of what `to_json` gave; anything else is a ValueError."""
        obj = need_keys(obj, "input", ("name", "kind", "categories", "fill"))
        return cls(**{**obj, "categories": _tuple(obj["categories"])})

    def feature_names(self) -> tuple[str, ...]:
        """Return the names of what it becomes: 'age', or 'colour=blue', 'colour=red'."""
        if self._is_category:
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name,)


@dataclass(frozen=True)
class Target:
    """The column to be predicted."""

    name: str
    task: str
    kind: str  # of a label: "number" (a whole one), "boolean" or "category"
    classes: tuple[Label, ...] = ()  # in order; none in regression

    def __post_init__(self) -> None:
        _check(isinstance(self.name, str), "the target has no name")
        _check(self.task in TASKS, f"target {self.name!r}: task {self.task!r}")
        _check(self.kind in KINDS, f"target {self.name!r}: kind {self.kind!r}")
        if self.task == "regression":
            sound = self.kind == "number" and self.classes == ()
        else:
            type = {"number": int, "boolean": bool, "category": str}[self.kind]
            sound = bool(self.classes) and _sorted_labels(self.classes, type)
        _check(sound, f"target {self.name!r}: classes {self.classes!r}")

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return {**asdict(self), "classes": list(self.classes)}

    @classmethod
    def from_json(cls, obj: Any) -> "Target":
        """Return the target of what `to_json` gave; anything else is a ValueError."""
        obj = need_keys(obj, "target", ("name", "task", "kind", "classes"))
        return cls(**{**obj, "classes": _tuple(obj["classes"])})


def need_keys(obj: Any, what: str, keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a dict that has these keys and no other; anything else is a ValueError."""
    if not isinstance(obj, dict) or set(obj) != set(keys):
        raise ValueError(f"not a sound encoder: the {what} is not one of {', '.join(keys)}")
    return obj


def _tuple(labels: Any) -> tuple[Any, ...]:
    _check(isinstance(labels, list), f"{labels!r} is no list")
    return tuple(labels)


def _sorted_labels(labels: Any, type_: type) -> bool:
    """Whether these are different labels of one type, in order."""
    if not isinstance(labels, tuple) or any(type(label) is not type_ for label in labels):
        return False
    if type_ is int and any(abs(label) > EXACT for label in labels):
        return False
    return all(a < b for a, b in pairwise(labels))


def _check(sound: bool, what: str) -> None:
    if not sound:
        raise ValueError(f"not a sound encoder: {what[:200]}")
