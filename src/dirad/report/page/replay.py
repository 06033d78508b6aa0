"""A recorded history as changes: the edges that each event added and removed."""

from collections.abc import Sequence
from typing import NamedTuple

from dirad.core.describe import node_name
from dirad.core.network import Network
from dirad.history import PHASE_NAMES, Effect, Event, History, Topology, difference
from dirad.plot.layout import used_edges


class Edge(NamedTuple):
    """An edge between its addition and its removal; other edges may reuse its number."""

    number: int
    source: int
    term: int


class Change(NamedTuple):
    """The edges that one event added and removed."""

    step: int
    kind: str  # as in the history; "kept" for the network selected in the end, if it differs
    text: str
    added: list[Edge]
    removed: list[Edge]


def final_topology(network: Network) -> Topology:
    """Return the edges of a network."""
    return {
        int(e): (int(network.edges["source"][e]), int(network.edges["term"][e]))
        for e in used_edges(network)
    }


def replay(
    history: History,
    network: Network,
    inputs: Sequence[str] | None = None,
    start: Topology | None = None,
) -> list[Change]:
    """Return the changes that lead from `start`, by default no edges, to the network.

    The final network need not be the last one of its history, since held-out samples may have
    selected an earlier one; then one more change leads to it.
    """
    start = start or {}
    changes = []
    if start:
        text = f"starts with the {len(start)} edges of an earlier model"
        changes.append(_change(0, "start", text, {}, dict(start)))
    now = start
    for event, now, effect in history.effects(start):
        text = describe(event, network, inputs, now)
        changes.append(_change(event.step, event.kind, text, now, effect))
    rest = difference(now, final_topology(network))
    if rest:
        last = changes[-1].step if changes else 0
        text = f"the selected network: {network.n_edges} edges"
        changes.append(_change(last, "kept", text, now, rest))
    return changes


def _change(step: int, kind: str, text: str, before: Topology, effect: Effect) -> Change:
    added = [Edge(number, *ends) for number, ends in effect.items() if ends is not None]
    removed = [Edge(number, *before[number]) for number in effect if number in before]
    return Change(step, kind, text, added, removed)


def describe(event: Event, network: Network, inputs: Sequence[str] | None, before: Topology) -> str:
    """Return an event in words."""

    def name(node: int) -> str:
        if node < network.n_inputs + len(network.units):
            return node_name(network, node, inputs)
        return f"h{node - network.n_inputs}"  # removed since, and beyond all units that remain

    def ends(source: int, term: int) -> str:
        sign = " modulates " if term % 2 else " → "
        return name(source) + sign + name(network.n_inputs + term // 2)

    if event.kind == "edge":
        return f"new edge {ends(event.source, event.term)}"
    if event.kind == "phase":
        return f"phase: {PHASE_NAMES[event.part]}"
    if event.kind == "restored":
        which = f", from step {event.part}" if event.part >= 0 else " so far"
        return f"restored the best network{which}"
    if event.kind == "gate":
        what = "several inputs" if event.source < 0 else name(event.source)
        return f"node h{event.unit} is a gate of {what}"
    if event.kind == "kept":
        return "the best network so far"
    if event.kind == "node removed":
        return f"node h{event.unit} removed"
    what = ends(*before[event.part])
    if event.kind == "ENC":
        return f"node h{event.unit} inserted into edge {what}"
    return f"edge {what} removed"
