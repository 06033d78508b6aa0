"""A recorded history as changes: which edges came and went with every event."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dirad.core.describe import node_name
from dirad.core.network import Network
from dirad.history import PHASE_NAMES, Event, History
from dirad.plot.layout import used_edges

Topology = dict[int, tuple[int, int]]  # edge -> (source, term), as in `History.topology`
Effect = dict[int, tuple[int, int] | None]  # edge -> what it becomes; None: it goes


class Edge(NamedTuple):
    """An edge as it was for a while; its place may serve others before and after."""

    place: int
    source: int
    term: int


class Change(NamedTuple):
    """What one event did."""

    step: int
    kind: str  # as in the history; "kept" for the network chosen in the end, if it is another
    text: str
    added: list[Edge]
    removed: list[Edge]


def final_topology(network: Network) -> Topology:
    """Return the edges that a network has."""
    return {
        int(e): (int(network.edges["source"][e]), int(network.edges["term"][e]))
        for e in used_edges(network)
    }


def effects(history: History, start: Topology) -> Iterator[tuple[Event, Topology, Effect]]:
    """Yield every event, the topology before it, and the places that it changes.

    The topology is one dictionary, which goes on changing.
    """
    wanted = sorted({event.part for event in history if event.kind == "restored"}, reverse=True)
    past: dict[int, Topology] = {}  # by step, where a later event goes back to it
    edges = dict(start)
    for event in history:
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
        elif event.kind == "restored":
            effect = _difference(edges, past.get(event.part, edges))
        yield event, edges, effect
        for place, ends in effect.items():
            if ends is None:
                del edges[place]
            else:
                edges[place] = ends


def _difference(before: Topology, after: Topology) -> Effect:
    """Return the places that differ, with what is there after."""
    places = sorted(before.keys() | after.keys())
    return {p: after.get(p) for p in places if before.get(p) != after.get(p)}


def replay(
    history: History,
    network: Network,
    inputs: Sequence[str] | None = None,
    start: Topology | None = None,
) -> list[Change]:
    """Return the changes that lead from `start`, by default from nothing, to the network.

    The network kept need not be the last one of its history (held-out samples may have chosen an
    earlier one): then one more change leads to it.
    """
    start = start or {}
    changes = []
    if start:
        text = f"begins on top of {len(start)} edges of an earlier model"
        changes.append(_change(0, "start", text, {}, dict(start)))
    now = start
    for event, now, effect in effects(history, start):
        text = describe(event, network, inputs, now)
        changes.append(_change(event.step, event.kind, text, now, effect))
    rest = _difference(now, final_topology(network))
    if rest:
        last = changes[-1].step if changes else 0
        text = f"the network kept: {network.n_edges} edges"
        changes.append(_change(last, "kept", text, now, rest))
    return changes


def _change(step: int, kind: str, text: str, before: Topology, effect: Effect) -> Change:
    added = [Edge(place, *ends) for place, ends in effect.items() if ends is not None]
    removed = [Edge(place, *before[place]) for place in effect if place in before]
    return Change(step, kind, text, added, removed)


def describe(event: Event, network: Network, inputs: Sequence[str] | None, before: Topology) -> str:
    """Return an event in words."""

    def name(node: int) -> str:
        if node < network.n_inputs + len(network.units):
            return node_name(network, node, inputs)
        return f"h{node - network.n_inputs}"  # of a node beyond all that were kept

    def ends(source: int, term: int) -> str:
        sign = " modulates " if term % 2 else " → "
        return name(source) + sign + name(network.n_inputs + term // 2)

    if event.kind == "edge":
        return f"new edge {ends(event.source, event.term)}"
    if event.kind == "phase":
        return f"phase: {PHASE_NAMES[event.part]}"
    if event.kind == "restored":
        return f"back to the best network, of step {event.part}"
    if event.kind == "node removed":
        return f"node h{event.unit} removed"
    what = ends(*before[event.part])
    if event.kind == "ENC":
        return f"node h{event.unit} put on edge {what}"
    return f"edge {what} removed"
