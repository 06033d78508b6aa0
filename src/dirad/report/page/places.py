"""Positions in the interactive network, also of nodes that were removed."""

from collections.abc import Sequence
from typing import NamedTuple

from dirad.core.network import Network
from dirad.plot.layout import (
    FEW_HIDDEN,
    MANY_EDGES,
    Point,
    Segments,
    add_waypoints,
    columns,
    lift,
    relax,
    sort_columns,
)
from dirad.report.page.replay import Edge, final_topology

PIXEL = 30.0  # distance between inputs that are pixels
INPUT_PITCH, NODE_PITCH = 30.0, 52.0  # smallest distance between nodes in a column
WAY = 26.0  # room for an edge that crosses a column
MOST_ROWS = 40  # of inputs in a column; more inputs form several columns side by side
COLUMN = 210.0  # distance between columns


class Places(NamedTuple):
    """Positions; y points downwards."""

    nodes: dict[int, Point]
    waypoints: dict[int, list[Point]]  # edge of the network -> points that it passes through


def place_nodes(network: Network, edges: Sequence[Edge], shape: tuple[int, int] | None) -> Places:
    """Return the position of each node, removed or not: inputs left, outputs right.

    With a shape, inputs are at their pixels. Removed nodes are in the column after their deepest
    source. If there are few edges, they pass between the nodes of the columns that they cross.
    """
    segments = sorted({(e.source, network.n_inputs + e.term // 2) for e in edges})
    nodes = _columns(network, segments)
    few = len(segments) <= MANY_EDGES
    passed: dict[int, list[int]] = {}
    if few:
        direct = set(final_topology(network).values())
        gone = {(e.source, network.n_inputs + e.term // 2) for e in edges if e[1:] not in direct}
        pieces, passed = add_waypoints(network, nodes)
        segments = [*pieces, *sorted(gone)]
    fixed = {len(nodes) - 1} | ({0} if shape is not None else set())
    sort_columns(nodes, segments, fixed)
    first = _pixels(nodes[0], shape) if shape is not None else _block(nodes[0])
    heights = _heights(nodes, segments, first, few)
    right = max((x for x, _ in first.values()), default=0.0)
    if shape is not None:
        right = (shape[1] - 1) * PIXEL
    span = max(heights.values(), default=0.0) - min(heights.values(), default=0.0)
    gap = COLUMN * max(1.0, span / 900)  # steep edges are hard to follow
    place = dict(first)
    for i, column in enumerate(nodes[1:], start=1):
        place |= {node: (right + gap * i, -heights[node]) for node in column}
    rounded = {node: (round(x, 1), round(y, 1)) for node, (x, y) in sorted(place.items())}
    return Places(
        {node: at for node, at in rounded.items() if node >= 0},
        {edge: [rounded[point] for point in points] for edge, points in passed.items()},
    )


def _heights(
    nodes: list[list[int]], segments: Segments, first: dict[int, Point], few: bool
) -> dict[int, float]:
    """Return the height of every node and waypoint above the middle."""
    height = {node: -y for node, (_, y) in first.items()}
    room = dict.fromkeys(height, INPUT_PITCH / 2)
    room |= {n: NODE_PITCH / 2 if n >= 0 else WAY / 2 for column in nodes[1:] for n in column}
    tallest = max((2 * sum(room[node] for node in column) for column in nodes[1:]), default=0.0)
    span = max(tallest, 0.8 * (max(height.values(), default=0) - min(height.values(), default=0)))
    for column in nodes[1:]:
        pitch = min(span / max(len(column), 1), 4 * NODE_PITCH)
        for i, node in enumerate(column):
            height[node] = pitch * ((len(column) - 1) / 2 - i)
    if not few and sum(map(len, nodes[1:-1])) <= FEW_HIDDEN:
        lift(nodes[1:-1], height, max(height.values(), default=0.0) + NODE_PITCH, NODE_PITCH)
    else:
        relax(nodes, segments, height, room, {0, len(nodes) - 1}, (-span / 2, span / 2))
    return height


def _columns(network: Network, segments: Segments) -> list[list[int]]:
    """Return the nodes by column; removed nodes are in the column after their deepest source."""
    nodes = columns(network)
    here = {node: i for i, column in enumerate(nodes) for node in column}
    gone = sorted({node for ends in segments for node in ends} - here.keys())
    nodes[0] += [node for node in gone if node < network.n_inputs]
    here |= dict.fromkeys(nodes[0], 0)
    hidden = [node for node in gone if node >= network.n_inputs]
    if hidden and len(nodes) == 2:
        nodes.insert(1, [])
    for node in hidden:
        sources = [here.get(source, 0) for source, target in segments if target == node]
        column = min(1 + max(sources, default=0), len(nodes) - 2)
        nodes[column].append(node)
        here[node] = column
    return nodes


def _pixels(inputs: list[int], shape: tuple[int, int]) -> dict[int, Point]:
    rows, cols = shape
    middle = (rows - 1) / 2
    return {node: (node % cols * PIXEL, (node // cols - middle) * PIXEL) for node in inputs}


def _block(inputs: list[int]) -> dict[int, Point]:
    """Return positions in one column, or in several if there are many, in the given order."""
    n_columns = -(-len(inputs) // MOST_ROWS) or 1
    rows = -(-len(inputs) // n_columns)
    return {
        node: (i % n_columns * INPUT_PITCH, (i / n_columns - (rows - 1) / 2) * INPUT_PITCH)
        for i, node in enumerate(inputs)
    }
