"""What a system records: a verdict per model, a report per batch, an event per change."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LEARNING, KNOWN, MIXED, NEW, UNDECIDED = "learning", "known", "mixed", "new", "undecided"
BACK = "back"  # a change to a known task that is not the one in use
NEW_INPUTS, SHIFTED_INPUTS, NEW_RULE = "new inputs", "shifted inputs", "new rule"  # changes
CHANGES = (BACK, NEW_INPUTS, SHIFTED_INPUTS, NEW_RULE)
NO_P_VALUE = float("nan")
MAX_VERDICTS = 8  # that an event keeps
MAX_RECORDS = 10_000  # events, and reports, that are kept: the last ones


class Verdict(NamedTuple):
    """What a model says of a batch: known, if `value` is at most `limit`."""

    model: int
    value: float
    limit: float
    p: float = NO_P_VALUE  # p-value of so unusual a batch of the known task (ours)
    p_inputs: float = NO_P_VALUE  # by the inputs alone
    p_labels: float = NO_P_VALUE  # by L0's wrong answers alone

    @property
    def validated(self) -> bool:
        """Is the batch of the task that the model has learned?"""
        return self.value <= self.limit


class InputChange(NamedTuple):
    """How an input of a batch differs from what is usual, in its own units."""

    input: int  # its number
    usual: float  # mean
    found: float
    usual_spread: float  # standard deviation
    found_spread: float
    # Of the contradiction, in standard errors; of a new rule: by how much the effect of the input
    # differs, per standard deviation of the input.
    strength: float

    def text(self, names: Sequence[str] | None = None, *, rule: bool = False) -> str:
        """Return the change in words; with `rule`, that of its effect on the target.

        The effect is in units of the target, or in log-odds of a class, per unit of the input.

        >>> change = InputChange(2, 0.0, 4.0, 1.0, 1.1, 40.0)
        >>> change.text(["a", "b", "load"])
        'load: 4 ± 1.1, usually 0 ± 1'
        >>> change._replace(strength=2.5, usual_spread=10.0).text(rule=True)
        'input 2: its effect differs by 0.25 per unit'
        """
        name = f"input {self.input}" if names is None else str(names[self.input])
        if rule:
            return f"{name}: its effect differs by {self.strength / self.usual_spread:.2g} per unit"
        return (
            f"{name}: {self.found:.3g} ± {self.found_spread:.2g}, "
            f"usually {self.usual:.3g} ± {self.usual_spread:.2g}"
        )


class Explanation(NamedTuple):
    """What a batch is to the models: of a known task, or what kind of change it shows, and why."""

    # "known"; "back": known by another model than the one in use; "new inputs"; "shifted inputs"
    # (the labels agree); "new rule"; "mixed": of several tasks, known or new
    kind: str
    model: int  # that knows it, or is closest to it
    p: float  # p-value of so unusual a batch of the known task
    inputs: list[InputChange]  # that contradict the model most, the strongest first
    cause: str = ""  # of a mixed batch: the kind of change that its new samples show
    models: tuple[int, ...] = ()  # of a mixed batch: the models that know some of its samples

    def as_evidence(self) -> dict[str, Any]:
        """Return what an event keeps of it."""
        return {"cause": self.cause or self.kind, "inputs": [list(one) for one in self.inputs]}

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the explanation in words."""
        said = words(self.kind, self.model, self.cause, self.models)
        return with_reasons(said, reasons(self.cause or self.kind, self.inputs, names))


def words(kind: str, model: int, cause: str = "", models: Sequence[int] = ()) -> str:
    """Return in words what was said of a batch.

    >>> words(KNOWN, 2), words(KNOWN, 2, BACK), words(NEW, 3, NEW_RULE)
    ('known: 2', 'back to 2', 'new rule')
    >>> words(MIXED, 3, SHIFTED_INPUTS, [0]), words(MIXED, 1, models=[0, 1])
    ('mixed: 0 and shifted inputs', 'mixed: 0 and 1')
    """
    if kind == BACK or (kind == KNOWN and cause == BACK):
        return f"back to {model}"
    if kind == KNOWN:
        return f"known: {model}"
    if kind == MIXED:
        parts = [*map(str, models), *([cause] if cause else [])]
        return f"mixed: {', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else kind
    return cause or kind


def reasons(
    cause: str, inputs: Sequence[InputChange], names: Sequence[str] | None = None
) -> list[str]:
    """Return in words how inputs contradict, the strongest first."""
    return [one.text(names, rule=cause == NEW_RULE) for one in inputs]


def with_reasons(said: str, why: Sequence[str]) -> str:
    """Add the reasons in brackets, where there are any."""
    return f"{said} ({'; '.join(why)})" if why else said


@dataclass(frozen=True)
class ModelEvent:
    """Something that happened to a model, and why."""

    batch: int  # batches seen before it
    # "opened", "L0 stable", "stable", "chosen", "merged", "removed"; "refined": a correction was
    # kept as a version; "returned": an earlier version answers again
    kind: str
    model: int
    evidence: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text()

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the event in words, with the names of inputs if they are given."""
        why = self.evidence.get("reason", self.evidence.get("cause"))
        if "inputs" in self.evidence:
            changes = [InputChange(*one) for one in self.evidence["inputs"][:1]]
            why = "; ".join([str(why), *reasons(str(why), changes, names)])
        return f"batch {self.batch}: model {self.model} {self.kind}" + (f" ({why})" if why else "")


Event = ModelEvent  # the former name, for one version


class Report(NamedTuple):
    """What the system says of one batch, and why."""

    batch: int
    # known; new; mixed: partly known; undecided: unusual from somewhere on, so that the next batch
    # tells; learning: no model can tell yet
    kind: str
    model: int  # that took it, or most of it
    p: float = NO_P_VALUE  # p-value of so unusual a batch of a known task
    # What has changed: "back": known by another model than the batch before; "new inputs";
    # "shifted inputs" (the labels agree); "new rule"; "": nothing, or it is not known
    cause: str = ""
    inputs: tuple[InputChange, ...] = ()  # that contradict most where something is new
    models: tuple[int, ...] = ()  # of a mixed batch: the models that know some of its samples
    version: int = 0  # of the model; 0: the model as it was learned

    def __str__(self) -> str:
        text = self._replace(inputs=()).text()
        return text if self.p != self.p else f"{text} (p = {self.p:.2g})"

    @property
    def verdict(self) -> str:
        """The kind in one word: the kind of change if there is one, and no mixture."""
        return self.kind if self.kind == MIXED else self.cause or self.kind

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the verdict and its reasons in words, with the names of inputs if given."""
        said = words(self.kind, self.model, self.cause, self.models)
        said += f", version {self.version}" if self.version else ""
        return with_reasons(said, self.reasons(names))

    def reasons(self, names: Sequence[str] | None = None) -> list[str]:
        """Return in words how inputs contradict, the strongest first."""
        return reasons(self.cause, self.inputs, names)


@dataclass
class Journal:
    """The events and reports of a stream, and how much of it was seen."""

    events: list[ModelEvent] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)  # one per batch
    batches: int = 0  # seen
    samples: int = 0  # seen

    def record(self, kind: str, model: int, evidence: dict[str, Any] | None = None) -> None:
        """Record an event; of very many the last are kept."""
        self.events.append(ModelEvent(self.batches, kind, model, evidence or {}))
        del self.events[:-MAX_RECORDS]

    def report(self, kind: str, model: int, p: float = NO_P_VALUE) -> None:
        """Record what was said of a batch, and count it."""
        self.add(Report(self.batches, kind, model, p))

    def add(self, report: Report) -> None:
        """Record the report on a batch, and count it."""
        self.reports.append(report)
        del self.reports[:-MAX_RECORDS]
        self.batches += 1

    def copy(self) -> "Journal":
        """Return a copy whose lists may be extended."""
        return Journal(list(self.events), list(self.reports), self.batches, self.samples)


def network_sizes(model: Any) -> dict[str, Any]:
    """Return the sizes of a model's networks, for an event."""
    network = model.network
    evidence: dict[str, Any] = {"edges": network.n_edges, "hidden": network.n_hidden}
    if model.error_stats is not None and model.l1 is not None:
        grown = model.l1.network
        evidence |= {
            "confident": len(model.error_stats.mean),
            "R_IS": model.error_stats.invalid_share,
            "L1_edges": grown.n_edges if grown is not None else 0,
        }
    return evidence


def closest_verdicts(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what models said of a batch, for an event; of many, those closest to knowing it."""
    closest = sorted(verdicts, key=lambda v: v.value - v.limit)[:MAX_VERDICTS]
    verdicts = [v for v in verdicts if v in closest]
    found = {
        "model": [v.model for v in verdicts],
        "value": [v.value for v in verdicts],
        "limit": [v.limit for v in verdicts],
    }
    if any(v.p == v.p for v in verdicts):
        found["p"] = [v.p for v in verdicts]
    return found
