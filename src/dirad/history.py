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

# Columns of an event row.
STEP, KIND, PART, SOURCE, TERM, UNIT, SECOND = 0, 1, 2, 3, 4, 5, 6
N_COLUMNS = 7


class Event(NamedTuple):
    """One structural event. Fields that do not apply are -1."""

    step: int  # the step in which it happened
    kind: str  # one of KIND_NAMES
    edge: int  # the edge made, converted or removed; the phase; the step restored
    source: int  # node the edge leaves
    term: int  # term the edge enters
    unit: int  # unit made by ENC, or removed
    second: int  # ENC: the new edge into term 0 of the new unit
    value: float  # ENC: the weight of the converted edge; PHASE: the watched error


@dataclass
class History:
    """Events in order, and one row of measurements per step."""

    rows: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, N_COLUMNS), np.int64))
    values: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    error: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # (steps,) batch error
    edges: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (steps,)
    hidden: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))  # (steps,)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Event]:
        for row, value in zip(self.rows, self.values, strict=True):
            step, kind, *rest = (int(x) for x in row)
            yield Event(step, KIND_NAMES[kind], *rest, value=float(value))

    def extend(self, other: "History") -> None:
        """Append what came later."""
        self.rows = np.concatenate([self.rows, other.rows])
        self.values = np.concatenate([self.values, other.values])
        self.error = np.concatenate([self.error, other.error])
        self.edges = np.concatenate([self.edges, other.edges])
        self.hidden = np.concatenate([self.hidden, other.hidden])

    def count(self, kind: str) -> int:
        """Return how many events of a kind there were."""
        return int(np.count_nonzero(self.rows[:, KIND] == KIND_NAMES.index(kind)))

    def topology(self, step: int | None = None) -> dict[int, tuple[int, int]]:
        """Return {edge: (source, term)} as it was after `step` (default: at the end)."""
        edges: dict[int, tuple[int, int]] = {}
        units: dict[int, int] = {}  # unit -> its node number, learned from ENC events
        for row in self.rows:
            if step is not None and row[STEP] > step:
                break
            kind, part = int(row[KIND]), int(row[PART])
            if kind == EDGE:
                edges[part] = (int(row[SOURCE]), int(row[TERM]))
            elif kind == ENC:
                source, term = edges[part]
                units[int(row[UNIT])] = int(row[SOURCE])
                edges[part] = (int(row[SOURCE]), term)
                edges[int(row[SECOND])] = (source, 2 * int(row[UNIT]))
            elif kind == EDGE_REMOVED:
                del edges[part]
            elif kind == RESTORED:
                edges = self.topology(part)
        return edges
