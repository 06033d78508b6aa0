"""What happened while a network grew: every structural event, and the error along the way.

The record is replayable: from the events alone the topology at any step can be built again.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds of event.
EDGE, ENC, EDGE_REMOVED, NODE_REMOVED, PHASE, RESTORED = 0, 1, 2, 3, 4, 5
KIND_NAMES = ("edge", "ENC", "edge removed", "node removed", "phase", "restored")

# Phases of adaptation, as found in PHASE events.
GROWING, EXCHANGING, SETTLING, STABLE = 0, 1, 2, 3
PHASE_NAMES = ("growing", "exchanging", "settling", "stable")

RECORD = np.dtype(
    [
        ("step", np.int64),  # the step in which it happened
        ("kind", np.int64),  # one of the kinds above
        ("part", np.int64),  # the edge made, converted or removed; the phase; the step restored
        ("source", np.int64),  # node the edge leaves (after ENC: the new node)
        ("term", np.int64),  # term the edge enters
        ("unit", np.int64),  # unit made by ENC, or removed
        ("second", np.int64),  # ENC: the new edge into term 0 of the new unit
        ("value", np.float64),  # weight of the edge concerned; PHASE: the watched error
    ],
    align=True,
)


class Event(NamedTuple):
    """One structural event, readable. Fields that do not apply are -1 (see RECORD)."""

    step: int
    kind: str
    part: int
    source: int
    term: int
    unit: int
    second: int
    value: float


@dataclass
class History:
    """Events in order, and one row of measurements per step."""

    events: NDArray = field(default_factory=lambda: np.zeros(0, RECORD))
    error: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # (steps,) batch error
    edges: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (steps,)
    hidden: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (steps,)

    def __repr__(self) -> str:
        kinds = ("edge", "ENC", "edge removed", "node removed")
        counts = ", ".join(f"{self.count(kind)} × {kind}" for kind in kinds)
        return f"History({len(self.error):,} steps: {counts})"

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        for record in self.events:
            step, kind, *rest = record.item()
            yield Event(step, KIND_NAMES[kind], *rest)

    def extend(self, other: "History") -> None:
        """Append what came later."""
        if not len(self.error) and not len(self.events):
            self.events, self.error = other.events, other.error
            self.edges, self.hidden = other.edges, other.hidden
            return
        self.events = np.concatenate([self.events, other.events])
        self.error = np.concatenate([self.error, other.error])
        self.edges = np.concatenate([self.edges, other.edges])
        self.hidden = np.concatenate([self.hidden, other.hidden])

    def count(self, kind: str) -> int:
        """Return how many events of a kind there were."""
        return int(np.count_nonzero(self.events["kind"] == KIND_NAMES.index(kind)))

    def topology(self, step: int | None = None) -> dict[int, tuple[int, int]]:
        """Return {edge: (source, term)} as it was after `step` (default: at the end).

        `source` is a node: an input, or n_inputs + a unit. `term` is 2 · unit + 0 or 1: outputs
        have term 0 only; into term 1 of a modulatory node goes what modulates.
        """
        edges: dict[int, tuple[int, int]] = {}
        for event in self:
            if step is not None and event.step > step:
                break
            if event.kind == "edge":
                edges[event.part] = (event.source, event.term)
            elif event.kind == "ENC":
                before, term = edges[event.part]
                edges[event.part] = (event.source, term)
                edges[event.second] = (before, 2 * event.unit)
            elif event.kind == "edge removed":
                del edges[event.part]
            elif event.kind == "restored":
                edges = self.topology(event.part)
        return edges
