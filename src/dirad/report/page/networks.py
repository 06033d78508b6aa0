"""One network as data for the page: nodes, edges, changes, growth."""

from typing import Any

import numpy as np

from dirad.core.describe import equations, node_name, notation, summary
from dirad.core.network import MODULATORY, OUTPUT, SOFTMAX, TRANSFER, Network
from dirad.history import History, Topology
from dirad.names import quoted
from dirad.plot.data import Subject, scaled_weights
from dirad.plot.layout import Point, used_edges
from dirad.report.page.numbers import binned, short
from dirad.report.page.places import place_nodes
from dirad.report.page.replay import Edge, final_topology, replay

MOST_POINTS = 500  # on a curve


def network_data(
    one: Subject, shape: tuple[int, int] | None, start: Topology | None = None
) -> dict[str, Any]:
    """Return a network and its history as plain data.

    Edges are numbered in the order of their first appearance; changes refer to these numbers.
    """
    network = one.network
    changes = replay(one.history, network, one.inputs, start)
    ever = list(dict.fromkeys(edge for change in changes for edge in change.added))
    places = place_nodes(network, ever, shape)
    row = {node: i for i, node in enumerate(places.nodes)}
    number = {edge: i for i, edge in enumerate(ever)}
    final = final_topology(network)
    strengths = scaled_weights(network, one.spread)
    written = _equations(one)
    return {
        "summary": summary(network),
        "ids": list(places.nodes),
        "nodes": [_node(one, node, at, written.get(node)) for node, at in places.nodes.items()],
        "edges": [_edge(network, edge, row, final, places.waypoints, strengths) for edge in ever],
        "changes": [
            [c.step, c.kind, c.text, [number[e] for e in c.added], [number[e] for e in c.removed]]
            for c in changes
        ],
        "growth": growth_data(one.history),
    }


def _node(one: Subject, node: int, place: Point, equation: str | None) -> dict[str, Any]:
    """Return the name, label, kind, position and equation of a node, which may be removed."""
    network = one.network
    unit = node - network.n_inputs
    kind = "input" if unit < 0 else "hidden"
    name = f"h{unit}"
    if unit < len(network.units):
        name = node_name(network, node, one.inputs)
        if unit >= 0 and network.units["kind"][unit] == OUTPUT:
            kind = "output"
    label = one.outputs[network.units["output"][unit]] if kind == "output" else name
    return {"name": name, "label": label, "kind": kind, "at": place, "equation": equation}


def _edge(
    network: Network,
    edge: Edge,
    row: dict[int, int],
    final: Topology,
    waypoints: dict[int, list[Point]],
    strengths: np.ndarray,
) -> list[Any]:
    """Return source, target, term, weight, waypoints and scaled weight of an edge.

    The last three are None or empty if the edge was removed. The scaled weight, which refers to
    an input of standard deviation 1, determines the width of the edge.
    """
    ends = [row[edge.source], row[network.n_inputs + edge.term // 2], edge.term % 2]
    if final.get(edge.number) != (edge.source, edge.term):
        return [*ends, None, [], None]
    weight, strength = network.edges["weight"][edge.number], strengths[edge.number]
    return [*ends, short(weight), waypoints.get(edge.number, []), short(strength)]


def _equations(one: Subject) -> dict[int, str]:
    """Return the equation of each node, outputs first."""
    kinds = one.network.units["kind"]
    units = [*np.flatnonzero(kinds == OUTPUT), *np.flatnonzero(kinds == MODULATORY)]
    lines = equations(one.network, quoted(one.inputs), one.spread, one.conditions)
    return {one.network.n_inputs + int(u): line for u, line in zip(units, lines, strict=True)}


def equation_rows(one: Subject) -> list[dict[str, str]]:
    """Return every equation, with the class of an output as its label."""
    rows = []
    for node, line in _equations(one).items():
        unit = one.network.units[node - one.network.n_inputs]
        label = one.outputs[unit["output"]] if unit["kind"] == OUTPUT else ""
        rows.append({"text": line, "label": "" if label == line.split(" = ")[0] else label})
    return rows


def growth_data(history: History) -> dict[str, Any]:
    """Return error, size and phases along the steps."""
    at, error = binned(history.error, MOST_POINTS)
    return {
        "steps": len(history.error),
        "at": at,
        "error": short(error),
        "edges": short(history.edges[at]) if at else [],
        "hidden": short(history.hidden[at]) if at else [],
        "phases": history.phases(),
    }


def input_weights(network: Network) -> np.ndarray:
    """Return Σ|weight| of the edges that leave each input, normalized to the sum 1."""
    edges = network.edges[used_edges(network)]
    direct = edges[edges["source"] < network.n_inputs]
    total = np.bincount(direct["source"], np.abs(direct["weight"]), minlength=network.n_inputs)
    return total / total.sum() if total.sum() > 0 else total


def functions(one: Subject) -> list[str]:
    """Return definitions of the functions in a network's equations."""
    network = one.network
    found = notation(network, one.spread, one.conditions)
    if network.counts[TRANSFER] == SOFTMAX:
        found.append(
            "softmax(z) = e^z/Σe^z, with the sum over all outputs, makes probabilities that add up "
            "to 1."
        )
    return found
