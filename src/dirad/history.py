"""What happened while a network grew: every structural event, and the error of every step.

The events alone determine the topology at any step.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds of event.
EDGE, ENC, EDGE_REMOVED, NODE_REMOVED, PHASE, RESTORED, GATE, KEPT = range(8)
KIND_NAMES = (
    "edge", "ENC", "edge removed", "node removed", "phase", "restored", "gate", "kept"
)  # fmt: skip

# Phases of adaptation, as found in PHASE events.
GROWING, EXCHANGING, SETTLING, STABLE, TRIMMING, THINNING = 0, 1, 2, 3, 4, 5
PHASE_NAMES = ("growing", "exchanging", "settling", "stable", "trimming", "thinning")

Topology = dict[int, tuple[int, int]]  # edge -> (source, term)
Effect = dict[int, tuple[int, int] | None]  # edge -> its new source and term; None: it is removed

# A restored network is the one after step `part`, or the one last kept in the slot −1 − `part`.
RECORD = np.dtype(
    [
        ("step", np.int64),  # the step of the event
        ("kind", np.int64),  # one of the kinds above
        (
            "part",
            np.int64,
        ),  # the edge added, converted or removed; the phase; RESTORED, KEPT: see below
        ("source", np.int64),  # node that the edge leaves (after ENC: the new node); of a gate: −1
        # if there are several
        ("term", np.int64),  # term that the edge enters
        ("unit", np.int64),  # unit inserted by ENC or as a gate, or removed
        ("second", np.int64),  # ENC: the new edge into term 0 of the new unit
        ("value", np.float64),  # weight of the edge; PHASE: the monitored error; GATE: threshold
    ],
    align=True,
)


class Event(NamedTuple):
    """One structural event with the name of its kind. Fields that do not apply are -1."""

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
        kinds = ("edge", "ENC", "gate", "edge removed", "node removed")
        counts = ", ".join(f"{self.count(kind)} × {kind}" for kind in kinds)
        return f"History({len(self.error):,} steps: {counts})"

    def __len__(self) -> int:
        return len(self.events)

    def __iter__(self) -> Iterator[Event]:
        for record in self.events:
            step, kind, *rest = record.item()
            yield Event(step, KIND_NAMES[kind], *rest)

    def extend(self, other: "History") -> None:
        """Append a later history."""
        if not len(self.error) and not len(self.events):
            self.events, self.error = other.events, other.error
            self.edges, self.hidden = other.edges, other.hidden
            return
        self.events = np.concatenate([self.events, other.events])
        self.error = np.concatenate([self.error, other.error])
        self.edges = np.concatenate([self.edges, other.edges])
        self.hidden = np.concatenate([self.hidden, other.hidden])

    def count(self, kind: str) -> int:
        """Return the number of events of a kind."""
        return int(np.count_nonzero(self.events["kind"] == KIND_NAMES.index(kind)))

    def phases(self) -> list[tuple[int, int, int]]:
        """Return (phase, first step, step after the last) of each phase of at least one step."""
        changes = self.events[self.events["kind"] == PHASE]
        starts = [0, *(int(step) + 1 for step in changes["step"])]
        names = [0, *(int(part) for part in changes["part"])]
        ends = [*starts[1:], max(len(self.error), starts[-1])]
        return [(n, a, b) for n, a, b in zip(names, starts, ends, strict=True) if b > a]

    def topology(self, step: int | None = None) -> Topology:
        """Return {edge: (source, term)} as it was after `step` (default: at the end).

        `source` is a node: an input, or n_inputs + a unit. `term` is 2 · unit + 0 or 1: outputs
        have term 0 only; edges into term 1 of a modulatory node modulate it.
        """
        edges: Topology = {}
        for event, now, _ in self.effects({}):
            edges = now
            if step is not None and event.step > step:
                break
        return edges

    def effects(self, start: Topology) -> Iterator[tuple[Event, Topology, Effect]]:
        """Yield every event, the topology before it, and the edges that it changes.

        The topology is one dictionary, which is updated after each event.
        """
        restored = {event.part for event in self if event.kind == "restored" and event.part >= 0}
        wanted = sorted(restored, reverse=True)
        past: dict[int, Topology] = {}  # by step or slot, where a later event restores it
        edges = dict(start)
        for event in self:
            while wanted and event.step > wanted[-1]:
                past[wanted.pop()] = dict(edges)
            effect: Effect = {}
            if event.kind == "edge":
                effect = {event.part: (event.source, event.term)}
            elif event.kind == "ENC":
                before, term = edges[event.part]
                effect = {event.part: (event.source, term), event.second: (before, 2 * event.unit)}
            elif event.kind == "edge removed":
                effect = {event.part: None}
            elif event.kind == "kept":
                past[event.part] = dict(edges)
            elif event.kind == "restored":
                effect = difference(edges, past.get(event.part, edges))
            yield event, edges, effect
            for edge, ends in effect.items():
                if ends is None:
                    del edges[edge]
                else:
                    edges[edge] = ends


def difference(before: Topology, after: Topology) -> Effect:
    """Return the edges in which two topologies differ, as they are afterwards."""
    edges = sorted(before.keys() | after.keys())
    return {edge: after.get(edge) for edge in edges if before.get(edge) != after.get(edge)}
