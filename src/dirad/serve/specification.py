"""What a stream is: its kind, its columns and the settings of its learner."""

import json
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from dirad.serve.errors import Refused
from dirad.tables.encoder import Encoder
from dirad.tables.fields import ACCEPT, INDICATE, REFUSE, Input, Target
from dirad.tables.values import category

KINDS = ("classifier", "regressor", "detector")
COLUMN_KINDS = ("number", "boolean", "category")
NAMES = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
MAX_NAME = 200  # characters of a column's or category's name
MAX_CATEGORIES = 1000
TARGET = "label"  # the column of a CSV, Arrow or Parquet body that holds the labels
IDS = "id"  # the column that holds the client's own ids
# Settings of the learners, with the largest value that a client may ask for.
LARGEST = {
    "batch_size": 10_000,
    "buffer_size": 100_000,
    "begin": 100_000,
    "steps_per_batch": 10_000,
    "modes": 100,
    "max_models": 1000,
    "random_state": 2**32 - 1,
}
SMALLEST = {"max_models": 1}  # where 0 would mean that there is no limit
SHARES = ("false_alarms", "held_out")
CHOICES = {"false_alarms_per": ("batch", "stream"), "models": ("separate", "shared")}
CLASSES_ONLY = ("models",)  # settings that a regressor does not have


@dataclass(frozen=True)
class Specification:
    """What a stream is; it never changes."""

    kind: str
    columns: tuple[Input, ...]
    settings: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def encoder(self) -> Encoder:
        """How rows become the numbers that the learner takes; its target is never used."""
        return Encoder(self.columns, Target(TARGET, "regression", "number"))

    def model_encoder(self, classes: list[Any]) -> dict[str, Any] | None:
        """Return the encoder of a model file, by which `dirad predict` reads data files.

        A stream without labels has no target, so that its file has none.
        """
        if self.kind == "regressor":
            return self.encoder.to_json()
        if not classes or not all(type(one) is type(classes[0]) for one in classes):
            return None
        kind = {str: "category", bool: "boolean", int: "number"}[type(classes[0])]
        target = Target(TARGET, "classification", kind, tuple(sorted(classes)))
        return Encoder(self.columns, target).to_json()

    def new_learner(self) -> Any:
        """Return an estimator that has seen nothing. It learns on one core."""
        from dirad.estimators import PREVALClassifier, PREVALRegressor

        make = PREVALRegressor if self.kind == "regressor" else PREVALClassifier
        options: dict[str, Any] = {"random_state": 0, "n_jobs": 1} | self.settings
        if any(column.is_mixed for column in self.columns):
            options["missing_features"] = self.encoder.number_features
        return make(**options)

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON; columns that are plain numbers by their names alone."""
        columns = [
            one.name if one == Input(one.name, "number") else _without_defaults(one)
            for one in self.columns
        ]
        return {"kind": self.kind, "columns": columns, "settings": self.settings}

    @property
    def text(self) -> str:
        """The same text for the same specification."""
        return json.dumps(self.to_json(), sort_keys=True)

    @classmethod
    def from_json(cls, obj: Any, max_columns: int = 10_000) -> "Specification":
        """Return the specification that a client describes; refuse it if it makes no sense."""
        if not isinstance(obj, dict):
            raise Refused("a stream is described by an object with kind, columns and settings")
        unknown = sorted(set(obj) - {"kind", "columns", "settings"})
        if unknown:
            raise Refused(f"unknown field {unknown[0]!r:.80}; known: kind, columns, settings")
        kind = obj.get("kind")
        if kind not in KINDS:
            raise Refused(f"kind must be one of {', '.join(KINDS)}, got {kind!r:.80}")
        listed = obj.get("columns")
        if not isinstance(listed, list) or not listed:
            raise Refused("columns must be a list of names, or of objects with a name and a kind")
        if len(listed) > max_columns:
            raise Refused(f"{len(listed)} columns, and {max_columns} are allowed", 413)
        settings = _checked_settings(kind, obj.get("settings") or {})
        for one in listed:
            _check_column(one)
        result = cls(kind, tuple(map(_column, listed)), settings)
        try:
            width = len(result.encoder.feature_names)
        except ValueError as error:  # two columns have the same name
            raise Refused(f"columns: {error}") from None
        if width > max_columns:
            raise Refused(f"{width} inputs with categories, and {max_columns} are allowed", 413)
        _check_learner(result)
        return result

    @classmethod
    def of_text(cls, text: str) -> "Specification":
        """Return the specification of a stream that was accepted before, as `text` gave it.

        It is not checked again, and the same text gives the same object: both would cost each
        request some time.
        """
        return _of_text(text)


@lru_cache(maxsize=1000)
def _of_text(text: str) -> Specification:
    obj = json.loads(text)
    return Specification(obj["kind"], tuple(map(_column, obj["columns"])), obj["settings"])


def check_name(name: str) -> str:
    """Return the name of a stream; refuse what could be mistaken for anything else."""
    if not NAMES.fullmatch(name):
        raise Refused(
            "the name of a stream consists of 1 to 63 letters, digits, and . _ - after the first, "
            f"got {name!r:.80}"
        )
    return name


def _column(obj: Any) -> Input:
    """Return a column: a name alone means a number."""
    obj = {"name": obj} if isinstance(obj, str) else obj
    kind, categories = obj.get("kind", "number"), tuple(sorted(obj.get("categories", [])))
    accepted = INDICATE if kind == "category" else ACCEPT
    missing = accepted if obj.get("gaps", False) else REFUSE
    other = obj.get("other", False)
    return Input(obj["name"], kind, categories, obj.get("fill"), missing, other)


def _check_column(obj: Any) -> None:
    """Refuse the description of a column that makes no sense."""
    obj = {"name": obj} if isinstance(obj, str) else obj
    if not isinstance(obj, dict) or not isinstance(obj.get("name"), str):
        raise Refused(f"a column is a name or an object with a name, got {obj!r:.80}")
    name, kind, fill = obj["name"], obj.get("kind", "number"), obj.get("fill")
    unknown = sorted(set(obj) - {"name", "kind", "categories", "fill", "gaps", "other"})
    if unknown:
        raise Refused(f"column {name!r:.80}: unknown field {unknown[0]!r:.80}")
    if not name.strip() or len(name) > MAX_NAME or not name.isprintable():
        raise Refused(
            f"the name of a column has 1 to {MAX_NAME} printable characters: {name!r:.80}"
        )
    if name in (TARGET, IDS):
        raise Refused(f"column {name!r} is the name of the labels or ids of a body: rename it")
    if kind not in COLUMN_KINDS:
        kinds = ", ".join(COLUMN_KINDS)
        raise Refused(f"column {name!r}: kind must be one of {kinds}, got {kind!r:.80}")
    gaps, other = obj.get("gaps", False), obj.get("other", False)
    if type(gaps) is not bool or type(other) is not bool:
        raise Refused(f"column {name!r}: gaps and other must be true or false")
    if other and kind != "category":
        raise Refused(f"column {name!r}: a {kind} has no other categories")
    if gaps and fill is not None:
        raise Refused(f"column {name!r}: missing values are filled, or learned as gaps, not both")
    _check_categories(name, kind, obj.get("categories", []))
    try:
        _column(obj)
    except (ValueError, OverflowError):
        raise Refused(f"column {name!r}: fill {fill!r:.80} is no value of a {kind}") from None


def _check_categories(name: str, kind: str, categories: Any) -> None:
    if not isinstance(categories, list) or not all(isinstance(one, str) for one in categories):
        raise Refused(f"column {name!r}: categories must be a list of texts")
    if bool(categories) != (kind == "category"):
        wrong = "needs a list of categories" if kind == "category" else "has no categories"
        raise Refused(f"column {name!r}: a {kind} {wrong}")
    if len(categories) > MAX_CATEGORIES or any(len(one) > MAX_NAME for one in categories):
        raise Refused(f"column {name!r}: more than {MAX_CATEGORIES} categories, or too long ones")
    if len(set(categories)) < len(categories):
        raise Refused(f"column {name!r}: two categories are the same")
    for one in categories:
        if category(one) is None:
            raise Refused(f"column {name!r}: the text {one!r} means that a value is missing")
        if category(one) != one:
            raise Refused(f"column {name!r}: category {one!r} begins or ends with a space")


def _without_defaults(column: Input) -> dict[str, Any]:
    found = asdict(column) | {"categories": list(column.categories)}
    gaps, other = found.pop("missing") != REFUSE, found.pop("other")
    found = {name: value for name, value in found.items() if value not in (None, [])}
    return found | ({"gaps": True} if gaps else {}) | ({"other": True} if other else {})


def _checked_settings(kind: str, given: Any) -> dict[str, Any]:
    """Return settings that are of the right type and within bounds."""
    known = [*LARGEST, *SHARES, *CHOICES]
    known = [name for name in known if kind != "regressor" or name not in CLASSES_ONLY]
    if not isinstance(given, dict):
        raise Refused(f"settings must be an object; known are {', '.join(known)}")
    for name, value in given.items():
        if name not in known:
            raise Refused(f"unknown setting {name!r:.80}; known are {', '.join(known)}")
        if name in CHOICES and value not in CHOICES[name]:
            raise Refused(f"{name} must be one of {', '.join(CHOICES[name])}, got {value!r:.80}")
        least, most = SMALLEST.get(name, 0), LARGEST.get(name)
        if most is not None and (type(value) is not int or not least <= value <= most):
            raise Refused(
                f"{name} must be a whole number from {least} to {most}, got {value!r:.80}"
            )
        if name in SHARES and (type(value) not in (int, float) or not 0 < value < 1):
            raise Refused(f"{name} must be a number between 0 and 1, got {value!r:.80}")
    return dict(given)


def _check_learner(specification: Specification) -> None:
    """Let the estimator itself check the settings."""
    from dirad.estimators.stream_checks import chosen_settings, with_options
    from dirad.preval.settings import REGRESSION

    learner = specification.new_learner()
    try:
        if specification.kind == "regressor":
            with_options(learner, REGRESSION)
        else:
            chosen_settings(learner)
    except (ValueError, TypeError) as error:
        raise Refused(f"settings: {error}") from None
