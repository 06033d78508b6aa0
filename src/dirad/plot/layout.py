"""Positions of the nodes and edges of a drawn network.

This is a layered drawing after Sugiyama. Nodes form columns by depth. If there are few edges, one
that crosses a column gets a waypoint there, so that it passes between the nodes. Columns are sorted
by the mean height of their neighbours, then heights are adjusted while nodes keep their distance.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import MODULATORY, OUTPUT, Network

MANY_EDGES = 80  # with more edges, arrowheads and waypoints would be a blur
FEW_HIDDEN = 16  # up to so many hidden nodes are drawn above the edges if there are many edges
IMAGE_SIDE = 2.4  # of an image beside the inputs, in inches

Point = tuple[float, float]
Segments = list[tuple[int, int]]


class Layout(NamedTuple):
    """Positions in inches."""

    place: dict[int, Point]  # node -> centre; inputs without out-edges have none
    waypoints: dict[int, list[Point]]  # edge -> points that it passes through
    radius: float  # of hidden nodes and outputs
    input_radius: float  # half the side of an input's square
    width: float
    height: float
    pixel: float  # side of a pixel, 0 without an image; the image's left edge is at x = 0
    apart: bool  # the image is drawn beside a column of inputs, not as the inputs


def used_edges(network: Network) -> NDArray[np.int64]:
    """Return the numbers of the edges that exist."""
    return np.flatnonzero(network.edges["source"] >= 0)


def edge_ends(network: Network) -> dict[int, tuple[int, int]]:
    """Return {edge: (source node, target node)}."""
    numbers = used_edges(network)
    sources, terms = network.edges["source"][numbers], network.edges["term"][numbers]
    ends = zip(sources.tolist(), (network.n_inputs + terms // 2).tolist(), strict=True)
    return dict(zip(numbers.tolist(), ends, strict=True))


def output_nodes(network: Network) -> list[int]:
    """Return the outputs in the order of their columns."""
    units = np.flatnonzero(network.units["kind"] == OUTPUT)
    units = units[np.argsort(network.units["output"][units])]
    return [network.n_inputs + unit for unit in units.tolist()]


def columns(network: Network) -> list[list[int]]:
    """Return the drawn nodes by column: used inputs, hidden nodes by depth, outputs."""
    n_inputs, kinds = network.n_inputs, network.units["kind"]
    hidden = n_inputs + np.flatnonzero(kinds == MODULATORY)
    sources, targets = np.array([*edge_ends(network).values()], int).reshape(-1, 2).T
    depth = np.repeat([0, 1], [n_inputs, len(kinds)])
    for _ in hidden:  # no path is longer
        np.maximum.at(depth, targets, depth[sources] + 1)
    between = [hidden[depth[hidden] == d].tolist() for d in np.unique(depth[hidden])]
    inputs = np.unique(sources[sources < n_inputs]).tolist()
    return [inputs, *between, output_nodes(network)]


def add_waypoints(network: Network, nodes: list[list[int]]) -> tuple[Segments, dict[int, list]]:
    """Add a waypoint to every column that an edge crosses.

    Returns the segments between neighbouring columns, and the waypoints of each edge. Waypoints
    are numbered -1, -2, ...; an edge against the order of columns (out of an output) has none.
    """
    where = {node: i for i, column in enumerate(nodes) for node in column}
    segments, passed = [], {}
    for e, (source, target) in edge_ends(network).items():
        passed[e] = []
        last = source
        for i in range(where[source] + 1, where[target]):
            point = -1 - sum(map(len, passed.values()))
            nodes[i].append(point)
            passed[e].append(point)
            segments.append((last, point))
            last = point
        if where[source] < where[target]:
            segments.append((last, target))
    return segments, passed


def sort_columns(nodes: list[list[int]], segments: Segments, fixed: set[int]) -> None:
    """Sort each column by the mean height of its neighbours, repeatedly, to reduce crossings.

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
            mean = _mean_heights(nodes[i], neighbours, height)
            nodes[i].sort(key=lambda node, mean=mean: (mean[node], -node))
            height.update({node: (k + 0.5) / len(nodes[i]) for k, node in enumerate(nodes[i])})


def _neighbours(nodes: list[list[int]], segments: Segments) -> dict[int, list[int]]:
    neighbours: dict[int, list[int]] = {node: [] for column in nodes for node in column}
    for a, b in segments:
        neighbours[a].append(b)
        neighbours[b].append(a)
    return neighbours


def _mean_heights(
    column: list[int], neighbours: dict[int, list[int]], height: dict[int, float]
) -> dict[int, float]:
    """Return the mean height of each node's neighbours; its own height if it has none."""
    return {n: float(np.mean([height[o] for o in neighbours[n]] or [height[n]])) for n in column}


def relax(
    nodes: list[list[int]],
    segments: Segments,
    height: dict[int, float],
    room: dict[int, float],
    fixed: set[int],
    limits: Point,
) -> None:
    """Move each node towards the mean height of its neighbours, as far as order and room allow.

    `height` is changed in place; columns run from the top down. `room` is the space that a node
    needs above and below its centre. `limits` are the lowest and the highest position.
    """
    from sklearn.isotonic import isotonic_regression

    neighbours = _neighbours(nodes, segments)
    low, high = limits
    for sweep in range(40):
        order = range(len(nodes)) if sweep % 2 else reversed(range(len(nodes)))
        for i in order:
            column = nodes[i]
            if i in fixed or not column:
                continue
            wanted = list(_mean_heights(column, neighbours, height).values())
            needs = np.array([room[node] for node in column])
            below = np.concatenate([[0.0], np.cumsum(needs[:-1] + needs[1:])])
            # Heights, without the room taken so far, must not rise along the column.
            free = isotonic_regression(
                np.array(wanted) + below,
                increasing=False,
                y_min=low + needs[-1] + below[-1],
                y_max=max(high - needs[0], low + needs[-1] + below[-1]),
            )
            height.update(zip(column, (free - below).tolist(), strict=True))


def lift(between: list[list[int]], heights: dict[int, float], lowest: float, pitch: float) -> None:
    """Place hidden nodes at and above the height `lowest`, so that edges do not cover them."""
    for column in between:
        for i, node in enumerate(reversed(column)):
            heights[node] = lowest + pitch * i


def lay_out(network: Network, image_shape: tuple[int, int] | None) -> Layout:
    """Return all positions: inputs on the left, outputs on the right."""
    nodes = columns(network)
    few = len(used_edges(network)) <= MANY_EDGES
    apart = image_shape is not None and not few
    pixels = image_shape if few else None  # inputs are drawn as the pixels of an image
    n_hidden = sum(map(len, nodes[1:-1]))
    height, radius = _size(nodes, pixels is not None)
    pixel = 0.0
    if image_shape is not None:
        pixel = (IMAGE_SIDE if apart else min(height, 4.6)) / max(image_shape)
    segments, passed = list(edge_ends(network).values()), {}
    if few:
        segments, passed = add_waypoints(network, nodes)
    heights = _heights(nodes, segments, height, pixels, pixel)
    top = height
    if few:
        room = _room(network, nodes, heights, height, radius)
        relax(nodes, segments, heights, room, {0}, (0.0, height))
    elif 0 < n_hidden <= FEW_HIDDEN:
        lift(nodes[1:-1], heights, height + 0.45, 2 * radius + 0.25)
        top = max(heights[node] for column in nodes[1:-1] for node in column) + radius

    gap = float(np.clip(9.0 / (len(nodes) - 1), 1.0, 2.4 if n_hidden else 3.2))
    left = 0.0 if image_shape is None else image_shape[1] * pixel + (0.9 if apart else 0.0)
    x_of = {node: left + i * gap for i, column in enumerate(nodes) for node in column}
    if pixels is not None:
        x_of |= {node: (node % pixels[1] + 0.5) * pixel for node in nodes[0]}
    half = 0.38 * height / max(len(nodes[0]), 1)
    return Layout(
        place={node: (x, heights[node]) for node, x in x_of.items() if node >= 0},
        waypoints={e: [(x_of[p], heights[p]) for p in points] for e, points in passed.items()},
        radius=radius,
        input_radius=float(np.clip(half, 0.02, 0.11)) if pixels is None else 0.42 * pixel,
        width=left + (len(nodes) - 1) * gap,
        height=top,
        pixel=pixel,
        apart=apart,
    )


def _size(nodes: list[list[int]], on_image: bool) -> tuple[float, float]:
    """Return the height of the drawing and the radius of its nodes."""
    tall = max(map(len, nodes[1:] if on_image else nodes))
    height = float(np.clip(max(0.34 * tall, min(0.9 * tall, 2.6)), 1.2, 9.0))
    if on_image:
        height = max(height, 3.6)
    most = 0.15 if sum(map(len, nodes[1:-1])) > 12 else 0.19
    radius = float(np.clip(0.42 * height / max(1, *map(len, nodes[1:])), 0.05, most))
    return height, radius


def _heights(
    nodes: list[list[int]],
    segments: Segments,
    height: float,
    pixels: tuple[int, int] | None,
    pixel: float,
) -> dict[int, float]:
    """Sort the columns, and return the heights of their nodes, evenly spaced around the middle."""
    heights: dict[int, float] = {}
    last = len(nodes) - 1
    sort_columns(nodes, segments, {last} if pixels is None else {0, last})
    for column in nodes:
        pitch = min(0.9, height / max(len(column), 1))
        for i, node in enumerate(column):
            heights[node] = 0.5 * height + pitch * (0.5 * (len(column) - 1) - i)
    if pixels is not None:
        rows, cols = pixels
        for node in nodes[0]:
            heights[node] = 0.5 * height + (0.5 * rows - node // cols - 0.5) * pixel
    return heights


def _room(
    network: Network,
    nodes: list[list[int]],
    heights: dict[int, float],
    height: float,
    radius: float,
) -> dict[int, float]:
    """Return the space that each node needs above and below, stretched to the height."""
    room = {node: radius + 0.06 if node >= network.n_inputs else 0.05 for node in heights}
    tallest = max(2 * sum(room[node] for node in column) for column in nodes[1:])
    stretch = height / tallest if tallest > height else min(max(0.7 * height / tallest, 1.0), 2.2)
    return {node: need * stretch for node, need in room.items()}
