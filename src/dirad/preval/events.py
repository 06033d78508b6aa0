"""What a system records: a verdict per model, a report per batch, an event per change."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LEARNING, KNOWN, MIXED, NEW, UNDECIDED = "learning", "known", "mixed", "new", "undecided"
NEW_INPUTS, SHIFTED_INPUTS, NEW_RULE = "new inputs", "shifted inputs", "new rule"  # changes
SAME = "known"  # no change
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
    strength: float  # of the contradiction, in standard errors

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the change in words.

        >>> InputChange(2, 0.0, 4.0, 1.0, 1.1, 40.0).text(["a", "b", "load"])
        'load: 4 ± 1.1, usually 0 ± 1'
        """
        name = f"input {self.input}" if names is None else str(names[self.input])
        return (
            f"{name}: {self.found:.3g} ± {self.found_spread:.2g}, "
            f"usually {self.usual:.3g} ± {self.usual_spread:.2g}"
        )


class Explanation(NamedTuple):
    """What kind of change a batch shows to the model that is closest to knowing it."""

    kind: str  # "new inputs", "shifted inputs" (the labels agree), "new rule", "known"
    model: int
    p: float  # p-value of so unusual a batch of the known task
    inputs: list[InputChange]  # that contradict the model most, the strongest first

    def as_evidence(self) -> dict[str, Any]:
        """Return what an event keeps of it."""
        return {"cause": self.kind, "inputs": [list(one) for one in self.inputs]}

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the explanation in words."""
        if not self.inputs:
            return self.kind
        return f"{self.kind} ({'; '.join(one.text(names) for one in self.inputs)})"


@dataclass(frozen=True)
class ModelEvent:
    """Something that happened to a model, and why."""

    batch: int  # batches seen before it
    kind: str  # "opened", "L0 stable", "stable", "chosen", "merged", "removed"
    model: int
    evidence: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text()

    def text(self, names: Sequence[str] | None = None) -> str:
        """Return the event in words, with the names of inputs if they are given."""
        why = self.evidence.get("reason", self.evidence.get("cause"))
        if "inputs" in self.evidence:
            first = InputChange(*self.evidence["inputs"][0]).text(names)
            why = f"{why}; {first}"
        return f"batch {self.batch}: model {self.model} {self.kind}" + (f" ({why})" if why else "")


Event = ModelEvent  # the former name, for one version


class Report(NamedTuple):
    """What the system says of one batch."""

    batch: int
    # known; new; mixed: partly known; undecided: unusual from somewhere on, so that the next batch
    # tells; learning: no model can tell yet
    kind: str
    model: int  # that took it, or most of it
    p: float = NO_P_VALUE  # p-value of so unusual a batch of a known task

    def __str__(self) -> str:
        text = {KNOWN: f"known: {self.model}", NEW: "new", MIXED: "mixed"}.get(self.kind, self.kind)
        return text if self.p != self.p else f"{text} (p = {self.p:.2g})"


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
        self.reports.append(Report(self.batches, kind, model, p))
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
