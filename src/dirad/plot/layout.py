"""Where the parts of a network are drawn.

Layered drawing after Sugiyama. Nodes stand in columns by depth. Where edges are few, one that
passes a column gets a waypoint there, so that it goes around the nodes; columns are sorted by
the mean height of their neighbours, then heights are relaxed under a least distance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from dirad.core.network import MODULATORY, Network, output_units
from dirad.core.order import LENGTH, new_plan

MANY_EDGES = 80  # above it, arrowheads and waypoints would be a blur

Point = tuple[float, float]
Segments = list[tuple[int, int]]


class Layout(NamedTuple):
    """Positions in inches."""

    place: dict[int, Point]  # node -> centre; inputs without out-edges have none
    waypoints: dict[int, list[Point]]  # edge -> points it passes on its way
    radius: float  # of hidden nodes and outputs
    input_radius: float  # half the side of an input's square
    width: float
    height: float
    pixel: float  # side of a pixel, 0 without an image; the image's left edge is at x = 0
    apart: bool  # the image stands beside a column of inputs


def used_edges(network: Network) -> NDArray[np.int64]:
    """Return the numbers of the edges that exist."""
    return np.flatnonzero(network.edges["source"] >= 0)


def target_node(network: Network, edge: int) -> int:
    """Return the node whose term an edge enters."""
    return network.n_inputs + int(network.edges["term"][edge]) // 2


def columns(network: Network) -> list[list[int]]:
    """Return the nodes drawn, by column: used inputs, hidden nodes by depth, outputs."""
    n_inputs, edges = network.n_inputs, network.edges[used_edges(network)]
    plan = new_plan(network)
    depth: dict[int, int] = {}
    for unit in plan.order[: plan.status[LENGTH]]:
        sources = edges["source"][edges["term"] // 2 == unit]
        deepest = max((depth[s - n_inputs] for s in sources if s >= n_inputs), default=0)
        depth[int(unit)] = 1 + deepest
    hidden = {u: d for u, d in depth.items() if network.units["kind"][u] == MODULATORY}
    inputs = sorted({int(s) for s in edges["source"] if s < n_inputs})
    between = [
        [n_inputs + u for u in hidden if hidden[u] == d]
        for d in range(1, 1 + max(hidden.values(), default=0))
    ]
    return [inputs, *(c for c in between if c), [n_inputs + int(u) for u in output_units(network)]]


def add_waypoints(network: Network, nodes: list[list[int]]) -> tuple[Segments, dict[int, list]]:
    """Put a waypoint into every column that an edge passes.

    Returns the segments between neighbouring columns, and the waypoints of each edge. Waypoints
    are numbered -1, -2, ...; an edge against the order of columns (out of an output) has none.
    """
    where = {node: i for i, column in enumerate(nodes) for node in column}
    segments, passed = [], {}
    for e in used_edges(network):
        source, target = int(network.edges["source"][e]), target_node(network, e)
        passed[int(e)] = []
        last = source
        for i in range(where[source] + 1, where[target]):
            point = -1 - sum(map(len, passed.values()))
            nodes[i].append(point)
            passed[int(e)].append(point)
            segments.append((last, point))
            last = point
        if where[source] < where[target]:
            segments.append((last, target))
    return segments, passed


def sort_columns(nodes: list[list[int]], segments: Segments, fixed: set[int]) -> None:
    """Reorder each column by the mean height of its neighbours, in turns, to part crossing edges.

    Columns in `fixed` stay as they are.
    """
    neighbours = _neighbours(nodes, segments)
    height = {}
    for column in nodes:
        height.update({node: (i + 0.5) / len(column) for i, node in enumerate(column)})
    for _ in range(12):
        for i in [*range(len(nodes)), *reversed(range(len(nodes)))]:
            if i in fixed:
                continue
            mean = {
                node: np.mean([height[other] for other in neighbours[node]] or [height[node]])
                for node in nodes[i]
            }
            nodes[i].sort(key=lambda node, mean=mean: (mean[node], -node))
            height.update({node: (k + 0.5) / len(nodes[i]) for k, node in enumerate(nodes[i])})


def _neighbours(nodes: list[list[int]], segments: Segments) -> dict[int, list[int]]:
    neighbours: dict[int, list[int]] = {node: [] for column in nodes for node in column}
    for a, b in segments:
        neighbours[a].append(b)
        neighbours[b].append(a)
    return neighbours


def relax(
    nodes: list[list[int]],
    segments: Segments,
    height: dict[int, float],
    room: dict[int, float],
    fixed: set[int],
    limits: Point,
) -> None:
    """Move each node towards the mean height of its neighbours, as far as order and room allow.

    `height` is changed in place; columns run from the top down. `room` is what a node needs above
    and below its centre. `limits` are the lowest and the highest place.
    """
    neighbours = _neighbours(nodes, segments)
    low, high = limits
    for sweep in range(40):
        order = range(len(nodes)) if sweep % 2 else reversed(range(len(nodes)))
        for i in order:
            column = nodes[i]
            if i in fixed or not column:
                continue
            wanted = [
                np.mean([height[other] for other in neighbours[node]] or [height[node]])
                for node in column
            ]
            needs = np.array([room[node] for node in column])
            below = np.concatenate([[0.0], np.cumsum(needs[:-1] + needs[1:])])
            # Heights less the room taken so far must not rise along the column.
            free = isotonic_regression(
                np.array(wanted) + below,
                increasing=False,
                y_min=low + needs[-1] + below[-1],
                y_max=max(high - needs[0], low + needs[-1] + below[-1]),
            )
            height.update(zip(column, (free - below).tolist(), strict=True))


def lay_out(network: Network, image_shape: tuple[int, int] | None) -> Layout:
    """Return where everything is drawn: inputs on the left, outputs on the right."""
    nodes = columns(network)
    n_edges = len(used_edges(network))
    few = n_edges <= MANY_EDGES
    apart = image_shape is not None and not few
    on_image = image_shape is not None and few
    last = len(nodes) - 1
    n_hidden = sum(map(len, nodes[1:-1]))
    drawn = nodes[1:] if on_image else nodes
    tall = max(map(len, drawn))
    height = float(np.clip(max(0.34 * tall, min(0.9 * tall, 2.6)), 1.2, 9.0))
    if on_image:
        height = max(height, 3.6)
    radius = float(np.clip(0.42 * height / max(1, *map(len, nodes[1:])), 0.05, 0.19))
    if n_hidden > 12:
        radius = min(radius, 0.15)

    segments, passed = add_waypoints(network, nodes) if few else (_direct(network), {})
    heights: dict[int, float] = {}
    pixel = 0.0
    if on_image and image_shape is not None:
        rows, cols = image_shape
        pixel = min(height, 4.6) / max(rows, cols)
        for node in nodes[0]:
            heights[node] = 0.5 * height + (0.5 * rows - node // cols - 0.5) * pixel
    sort_columns(nodes, segments, {0, last} if on_image else {last})
    for i, column in enumerate(nodes):
        if i or not on_image:
            heights.update(zip(column, _spread(len(column), height, 0.9), strict=True))

    room = {node: radius + 0.06 if node >= network.n_inputs else 0.05 for node in heights}
    tallest = max(2 * sum(room[node] for node in column) for column in nodes[1:])
    stretch = height / tallest if tallest > height else min(max(0.7 * height / tallest, 1.0), 2.2)
    room = {node: need * stretch for node, need in room.items()}
    top = height
    if few:
        relax(nodes, segments, heights, room, {0}, (0.0, height))
    elif 0 < n_hidden <= 16:
        top = height + _place_above(nodes[1:-1], heights, height, radius)

    gap = float(np.clip(9.0 / max(last, 1), 1.0, 2.4 if n_hidden else 3.2))
    left = 0.0
    if image_shape is not None:
        if apart:
            pixel = 2.4 / max(image_shape)
        left = image_shape[1] * pixel + (0.9 if apart else 0.0)
    pitch = height / max(len(nodes[0]), 1)
    place, x_of = {}, {}
    for i, column in enumerate(nodes):
        for node in column:
            x_of[node] = left + i * gap
            if i == 0 and on_image and image_shape is not None:
                x_of[node] = (node % image_shape[1] + 0.5) * pixel
            if node >= 0:
                place[node] = (x_of[node], heights[node])
    return Layout(
        place=place,
        waypoints={e: [(x_of[p], heights[p]) for p in points] for e, points in passed.items()},
        radius=radius,
        input_radius=0.42 * pixel if on_image else float(np.clip(0.38 * pitch, 0.02, 0.11)),
        width=left + last * gap,
        height=top,
        pixel=pixel,
        apart=apart,
    )


def _direct(network: Network) -> Segments:
    """Return every edge as one segment."""
    return [(int(network.edges["source"][e]), target_node(network, e)) for e in used_edges(network)]


def _spread(n: int, height: float, most: float) -> list[float]:
    """Return n heights from the top down, evenly, at most `most` apart, around the middle."""
    pitch = min(most, height / max(n, 1))
    return [0.5 * height + pitch * (0.5 * (n - 1) - i) for i in range(n)]


def _place_above(
    between: list[list[int]], heights: dict[int, float], height: float, radius: float
) -> float:
    """Put a few hidden nodes above the throng of edges; return the height that this adds."""
    pitch = 2 * radius + 0.25
    for column in between:
        for i, node in enumerate(reversed(column)):
            heights[node] = height + 0.45 + i * pitch
    return 0.45 + radius + pitch * (max(map(len, between)) - 1)
