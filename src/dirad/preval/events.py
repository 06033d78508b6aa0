"""What a system reports: of every batch, and of everything that happens to its models."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dirad.preval.model import Verdict

LEARNING, KNOWN, MIXED, NEW = "learning", "known", "mixed", "new"
NO_CHANCE = float("nan")
MAX_VERDICTS = 8  # verdicts that an event keeps


@dataclass(frozen=True)
class Event:
    """Something that happened to the system, and why."""

    batch: int  # batches seen before it
    kind: str  # "opened", "L0 stable", "stable", "chosen", "merged", "removed"
    model: int
    evidence: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        why = f" ({self.evidence['reason']})" if "reason" in self.evidence else ""
        return f"batch {self.batch}: model {self.model} {self.kind}{why}"


class Report(NamedTuple):
    """What the system says of one batch."""

    batch: int
    kind: str  # known; new; mixed: in part known; learning: nobody can tell yet
    model: int  # that took it, or most of it
    p: float = NO_CHANCE  # chance that a known task shows so unusual a batch

    def __str__(self) -> str:
        text = {KNOWN: f"known: {self.model}", NEW: "new", MIXED: "mixed"}.get(self.kind, self.kind)
        return text if self.p != self.p else f"{text} (p = {self.p:.2g})"


def evidence_of(verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """Return what models said of a batch, for an event; of many, those who came closest."""
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
