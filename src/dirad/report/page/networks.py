"""What the page shows of one network: nodes, edges, changes, growth."""

from typing import Any

import numpy as np

from dirad.core.describe import equations, node_name, summary
from dirad.core.network import MODULATORY, OUTPUT, SOFTMAX, TRANSFER, Network, output_units
from dirad.history import History
from dirad.names import quoted
from dirad.plot.growth import phases
from dirad.plot.layout import Point, used_edges
from dirad.plot.subject import Subject
from dirad.report.page.numbers import binned, short
from dirad.report.page.places import place_nodes
from dirad.report.page.replay import Edge, Topology, final_topology, replay

MOST_POINTS = 500  # of a curve


def network_data(
    one: Subject, shape: tuple[int, int] | None, start: Topology | None = None
) -> dict[str, Any]:
    """Return a network and its history as plain data.

    Edges are numbered as they first appeared; changes name those that came and went.
    """
    network = one.network
    changes = replay(one.history, network, one.inputs, start)
    ever = list(dict.fromkeys(edge for change in changes for edge in change.added))
    places = place_nodes(network, ever, shape)
    place = places.nodes
    row = {node: i for i, node in enumerate(place)}
    number = {edge: i for i, edge in enumerate(ever)}
    final = final_topology(network)
    strengths = one.strengths()
    written = _equations(network, one.inputs)
    return {
        "summary": summary(network),
        "ids": list(place),
        "nodes": [_node(one, node, place[node], written.get(node)) for node in place],
        "edges": [_edge(network, edge, row, final, places.waypoints, strengths) for edge in ever],
        "changes": [
            [c.step, c.kind, c.text, [number[e] for e in c.added], [number[e] for e in c.removed]]
            for c in changes
        ],
        "growth": growth_data(one.history),
    }


def _node(one: Subject, node: int, place: tuple[float, float], equation: str | None) -> Any:
    """Return a node: name, label, kind, place, equation, bias of each term, gain."""
    network = one.network
    unit = node - network.n_inputs
    kinds = network.units["kind"]
    kind = "input" if unit < 0 else "hidden"
    if 0 <= unit < len(kinds) and kinds[unit] == OUTPUT:
        kind = "output"
    there = 0 <= unit < len(kinds)
    name = node_name(network, node, one.inputs) if unit < 0 or there else f"h{unit}"
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
    """Return source, target, term, weight, waypoints and strength; None of what is gone.

    The strength is the weight for an input of spread 1: what the width of the edge shows.
    """
    kept = final.get(edge.place) == (edge.source, edge.term)
    weight = short(network.edges["weight"][edge.place]) if kept else None
    way = waypoints.get(edge.place, []) if kept else []
    strength = short(strengths[edge.place]) if kept else None
    target = row[network.n_inputs + edge.term // 2]
    return [row[edge.source], target, edge.term % 2, weight, way, strength]


def _equations(network: Network, inputs: list[str]) -> dict[int, str]:
    """Return the equation of each node, in the order in which `equations` writes them."""
    hidden = np.flatnonzero(network.units["kind"] == MODULATORY)
    outputs = np.flatnonzero(network.units["kind"] == OUTPUT)
    nodes = [network.n_inputs + int(unit) for unit in (*outputs, *hidden)]
    return dict(zip(nodes, equations(network, quoted(inputs)), strict=True))


def growth_data(history: History) -> dict[str, Any]:
    """Return error and size along the steps, and the phases."""
    at, error = binned(history.error, MOST_POINTS)
    return {
        "steps": len(history.error),
        "at": at,
        "error": short(error),
        "edges": short(history.edges[at]) if at else [],
        "hidden": short(history.hidden[at]) if at else [],
        "phases": phases(history),
    }


def weight_out_of_inputs(network: Network) -> np.ndarray:
    """Return Σ|w| of the edges that leave each input, summing to 1."""
    edges = network.edges[used_edges(network)]
    direct = edges[edges["source"] < network.n_inputs]
    total = np.bincount(direct["source"], np.abs(direct["weight"]), minlength=network.n_inputs)
    return total / total.sum() if total.sum() > 0 else total


def n_used_inputs(network: Network) -> int:
    """Return how many inputs feed something."""
    return int(np.count_nonzero(weight_out_of_inputs(network)))


def functions(network: Network) -> list[str]:
    """Return what the functions in a network's equations are; those that it has."""
    found = []
    if network.n_hidden:
        found.append(
            "σ₁(z; K) = 4/(1 + e^(−K·z)) − 1, between −1 and 3, is how strongly a node lets "
            "through."
        )
    if network.counts[TRANSFER] == SOFTMAX:
        found.append(
            "softmax(z) = e^z/Σe^z, the sum over all outputs: the scores become probabilities that "
            "add up to 1."
        )
    return found


def written_out(one: Subject) -> list[dict[str, str]]:
    """Return every equation, with the class that an output stands for."""
    lines = equations(one.network, quoted(one.inputs))
    labels = {f"y{i}": name if name != f"y{i}" else "" for i, name in enumerate(one.outputs)}
    n_outputs = len(output_units(one.network))
    return [
        {"text": line, "label": labels[line.split(" = ")[0]] if i < n_outputs else ""}
        for i, line in enumerate(lines)
    ]
