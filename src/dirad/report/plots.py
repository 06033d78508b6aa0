"""Figures of a network and of its growth.

Everything is drawn on matplotlib's own objects, without pyplot: no window, no global state.
Coordinates of a network are inches, so that text and nodes keep their proportions.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection, PathCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray
from sklearn.isotonic import isotonic_regression

from dirad.core.describe import node_name, summary
from dirad.core.network import MODULATORY, OUTPUT, Network
from dirad.core.order import LENGTH, new_plan
from dirad.core.propagate import output_units
from dirad.history import EDGE, EDGE_REMOVED, ENC, NODE_REMOVED, PHASE, PHASE_NAMES, History

# Blue and vermilion of Okabe and Ito, which the colour-blind tell apart; never lighter than is
# seen on white.
POSITIVE, NEGATIVE, NEUTRAL = "#0072b2", "#d55e00", "#8a8a8a"
INK, PALE, GRID = "#222222", "#666666", "#dddddd"
INPUT_FILL, OUTPUT_FILL = "#eeeeee", "#ffffff"
HIDDEN_FILL, HIDDEN_EDGE = "#fdf0b8", "#8a6d00"
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights",
    [
        (0.0, "#7a3500"),
        (0.2, NEGATIVE),
        (0.499, "#f0c3a0"),
        (0.501, "#b3d4ea"),
        (0.8, POSITIVE),
        (1.0, "#003c60"),
    ],
)

FEW_EDGES = 12  # up to so many, weights are written out
MANY_EDGES = 80  # above it, arrowheads would be a blur
MANY_LABELS = 40  # above it, inputs go without names
KAPPA = 0.45  # how far the handles of an edge's curve reach, as a share of its width


def weight_scale(weights: NDArray[np.float64]) -> float:
    """Return the |w| at which colour and width are full: large, but blind to a few outliers."""
    return float(np.quantile(np.abs(weights), 0.95)) if np.any(weights) else 1.0


def weight_colours(weights: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return one colour per weight: blue above 0, vermilion below, darker with |w|."""
    return WEIGHTS(0.5 + 0.5 * np.clip(weights / scale, -1, 1))


# --- where things are -------------------------------------------------------------------------
#
# Layered drawing after Sugiyama. Nodes stand in columns by depth. Where edges are few, one that
# passes a column gets a waypoint there, so that it goes around the nodes; columns are sorted by
# the mean height of their neighbours, then heights are relaxed under a least distance.

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


# --- a network --------------------------------------------------------------------------------


def draw_network(
    network: Network,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a network from its inputs on the left to its outputs on the right.

    Inputs that feed nothing are not drawn. Colour is the sign of a weight, width and darkness its
    size; solid edges are summed (term 0), dashed ones modulate (term 1). With `image_shape` (rows,
    columns) the inputs are the pixels of an image: edges leave from there as long as they are
    few; otherwise the image stands apart and shows how much leaves each pixel, and a map beside
    each output shows the weights that lead straight to it.
    """
    _check(network, input_names, output_names, image_shape)
    layout = lay_out(network, image_shape)
    right = 0.45 + 0.075 * max(map(len, _output_labels(network, output_names)))
    map_side = _map_side(network, layout) if layout.apart else 0.0
    left = 0.35 if layout.pixel else 0.25 + _longest_label(network, layout, input_names)
    box = (-left, layout.width + right + 1.2 * map_side, -0.25, layout.height + 0.3)
    if ax is None:
        ax = _axes_of_size(box[1] - box[0], box[3] - box[2], above=0.5, below=0.85)
    if layout.pixel and image_shape is not None:
        _draw_image(ax, network, layout, image_shape)
    _draw_edges(ax, network, layout)
    _draw_nodes(ax, network, layout, input_names, output_names)
    if map_side and image_shape is not None:
        _draw_maps(ax, network, layout, image_shape, layout.width + right, map_side)
    used = sum(node < network.n_inputs for node in layout.place)
    ax.set_title(f"{summary(network)}\n{used} of the inputs used", fontsize=9, color=INK)
    if not len(used_edges(network)):
        middle = (0.5 * layout.width, 0.5 * layout.height)
        ax.text(*middle, "no edge yet", color=PALE, fontsize=9, ha="center", va="center")
    _legend(ax, network)
    ax.set_xlim(box[0], box[1])
    ax.set_ylim(box[2], box[3])
    ax.set_aspect("equal")
    ax.set_axis_off()
    return cast(Figure, ax.get_figure(root=True))


def _check(
    network: Network,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    image_shape: tuple[int, int] | None,
) -> None:
    """Refuse names and shapes that do not fit the network."""
    if image_shape is not None and image_shape[0] * image_shape[1] != network.n_inputs:
        raise ValueError(
            f"image_shape {image_shape} has {image_shape[0] * image_shape[1]} pixels, but the "
            f"network has {network.n_inputs} inputs"
        )
    for names, n, what in (
        (input_names, network.n_inputs, "inputs"),
        (output_names, network.n_outputs, "outputs"),
    ):
        if names is not None and len(names) != n:
            raise ValueError(f"{len(names)} names for {n} {what}")


def _axes_of_size(width: float, height: float, above: float, below: float) -> Axes:
    """Return axes of this size in inches in a figure of their own, with margins around."""
    full_width, full_height = max(width + 0.2, 5.6), height + above + below
    figure = Figure(figsize=(full_width, full_height), facecolor="white")
    share = width / full_width
    return figure.add_axes(((1 - share) / 2, below / full_height, share, height / full_height))


def _output_labels(network: Network, names: Sequence[str] | None) -> list[str]:
    """Return what is written beside each output."""
    if names is not None:
        return [str(name) for name in names]
    return [node_name(network, network.n_inputs + int(u)) for u in output_units(network)]


def _longest_label(network: Network, layout: Layout, names: Sequence[str] | None) -> float:
    """Return the room in inches that the names of the drawn inputs need."""
    drawn = [node for node in layout.place if node < network.n_inputs]
    longest = max((len(node_name(network, node, names)) for node in drawn), default=0)
    return layout.input_radius + (0.075 * longest if len(drawn) <= MANY_LABELS else 0.0)


def _draw_image(ax: Axes, network: Network, layout: Layout, shape: tuple[int, int]) -> None:
    """Draw the frame of the image, and what leaves its pixels if it stands apart."""
    rows, cols = shape
    cell = layout.pixel
    middle = 0.5 * layout.height
    bottom, top = middle - 0.5 * rows * cell, middle + 0.5 * rows * cell
    frame = (0.0, cols * cell, bottom, top)
    if layout.apart:
        edges = network.edges[used_edges(network)]
        direct = edges[edges["source"] < network.n_inputs]
        leaves = np.zeros(network.n_inputs)
        np.add.at(leaves, direct["source"], np.abs(direct["weight"]))
        shade = np.sqrt(leaves / max(float(leaves.max()), 1e-300)).reshape(shape)
        ax.imshow(shade, cmap="Greys", vmin=0, vmax=1.15, extent=frame, zorder=0.4)
        style: dict[str, Any] = {"fontsize": 8, "color": PALE, "ha": "center", "va": "top"}
        ax.text(0.5 * cols * cell, bottom - 0.08, "Σ|w| out of each pixel", **style)
    else:
        box = Rectangle((0, bottom), cols * cell, rows * cell, fc="#fafafa", ec="none", zorder=0)
        ax.add_patch(box)
    across = [[(0, bottom + r * cell), (cols * cell, bottom + r * cell)] for r in range(rows + 1)]
    down = [[(c * cell, bottom), (c * cell, top)] for c in range(cols + 1)]
    ax.add_collection(LineCollection(across + down, colors="#e6e6e6", linewidths=0.6, zorder=0.5))
    small: dict[str, Any] = {"fontsize": 7, "color": PALE}
    for c in (0, cols - 1):
        ax.text((c + 0.5) * cell, top + 0.05, str(c), ha="center", va="bottom", **small)
    for r in (0, rows - 1):
        ax.text(-0.06, top - (r + 0.5) * cell, str(r), ha="right", va="center", **small)


def _map_side(network: Network, layout: Layout) -> float:
    """Return the side of the little image beside each output."""
    return min(0.9 * layout.height / max(network.n_outputs, 1), 1.4)


def _draw_maps(
    ax: Axes, network: Network, layout: Layout, shape: tuple[int, int], left: float, side: float
) -> None:
    """Draw beside each output the weights that lead straight to it, at their pixels' places."""
    edges = network.edges[used_edges(network)]
    scale = weight_scale(edges["weight"])
    outputs = [network.n_inputs + int(unit) for unit in output_units(network)]
    for unit in output_units(network):
        direct = edges[(edges["term"] == 2 * unit) & (edges["source"] < network.n_inputs)]
        picture = np.full((network.n_inputs, 4), 1.0)
        picture[direct["source"]] = weight_colours(direct["weight"], scale)
        _, y = layout.place[network.n_inputs + int(unit)]
        extent = (left, left + side, y - 0.5 * side, y + 0.5 * side)
        ax.imshow(picture.reshape(*shape, 4), extent=extent, interpolation="nearest", zorder=2)
        frame = Rectangle((left, extent[2]), side, side, fc="none", ec="#bbbbbb", lw=0.6, zorder=3)
        ax.add_patch(frame)
    style: dict[str, Any] = {"fontsize": 8, "color": PALE, "ha": "center", "va": "bottom"}
    highest = max(y for node, (_, y) in layout.place.items() if node in outputs)
    ax.text(left + 0.5 * side, highest + 0.5 * side + 0.05, "direct weights", **style)


def edge_path(points: Sequence[Point], into_side: bool, radius: float, level: bool = True) -> Path:
    """Return the curve of an edge through some points, ending at the border of the last node.

    It ends on the node's left side or (a modulating edge) above or below it. It begins level, or
    straight towards the next point.
    """
    (_, y0), (x1, y1) = points[-2], points[-1]
    above = 1.0 if y0 >= y1 else -1.0
    tip = (x1 - radius, y1) if into_side else (x1, y1 + above * radius)
    stops = [*points[:-1], tip]
    slopes = _slopes(stops, level)
    vertices, codes = [stops[0]], [Path.MOVETO]
    for i in range(1, len(stops)):
        (xa, ya), (xb, yb) = stops[i - 1], stops[i]
        reach = max(KAPPA * abs(xb - xa), 0.05)
        handle = (xb - reach, yb - reach * slopes[i])
        if i == len(stops) - 1 and not into_side:
            handle = (xb, yb + above * max(KAPPA * abs(yb - ya), 0.22))
        vertices += [(xa + reach, ya + reach * slopes[i - 1]), handle, (xb, yb)]
        codes += [Path.CURVE4] * 3
    return Path(vertices, codes)


def _slopes(stops: list[Point], level: bool) -> list[float]:
    """Return the slope of the curve at each stop, such that it never overshoots between them."""
    pieces = [(yb - ya) / max(xb - xa, 0.05) for (xa, ya), (xb, yb) in pairwise(stops)]
    inner = [2 * a * b / (a + b) if a * b > 0 else 0.0 for a, b in pairwise(pieces)]
    return [0.0 if level else pieces[0], *inner, 0.0]


def _draw_edges(ax: Axes, network: Network, layout: Layout) -> None:
    """Draw every edge; weak ones first, so that strong ones lie on top."""
    numbers = used_edges(network)
    if not len(numbers):
        return
    numbers = numbers[np.argsort(np.abs(network.edges["weight"][numbers]), kind="stable")]
    edges = network.edges[numbers]
    few = len(edges) <= MANY_EDGES
    scale = weight_scale(edges["weight"])
    strength = np.sqrt(np.clip(np.abs(edges["weight"]) / scale, 0, 1))
    colours = weight_colours(edges["weight"], scale)
    colours[:, 3] = np.clip(1.15 - 0.12 * np.log(len(edges)), 0.45, 0.95)
    widths = np.clip(12.0 / np.sqrt(len(edges)), 1.1, 3.0) * (0.3 + 0.7 * strength)
    level = not layout.pixel or layout.apart  # out of an image, level edges would hide each other
    written: list[Point] = []
    for term, style in ((0, "solid"), (1, (0, (3.0, 1.5)))):
        chosen = np.flatnonzero(edges["term"] % 2 == term)
        if not len(chosen):
            continue
        border = layout.radius + (0.07 if term == 0 and few else 0.03)
        paths = []
        for e in numbers[chosen]:
            start = layout.place[int(network.edges["source"][e])]
            end = layout.place[target_node(network, e)]
            points = [start, *layout.waypoints.get(int(e), []), end]
            from_input = int(network.edges["source"][e]) < network.n_inputs
            paths.append(edge_path(points, term == 0, border, level or not from_input))
        lines = PathCollection(
            paths,
            facecolors="none",
            edgecolors=colours[chosen],
            linewidths=widths[chosen],
            linestyles=[style],
            capstyle="butt",
            zorder=1 + 0.5 * term,
        )
        lines.set_gid(f"edges of term {term}")
        ax.add_collection(lines)
        if few or term == 1:
            solid = colours[chosen].copy()
            solid[:, 3] = 1.0
            x, y = np.array([cast(NDArray, path.vertices)[-1] for path in paths]).T
            x = x + 0.035 if term == 0 else x
            size = 24 if few else 14
            ax.scatter(x, y, s=size, c=solid, marker=">" if term == 0 else "D", lw=0, zorder=4)
        if len(edges) <= FEW_EDGES:
            _write_weights(ax, paths, edges["weight"][chosen], written)


def _write_weights(
    ax: Axes, paths: list[Path], weights: NDArray[np.float64], written: list[Point]
) -> None:
    """Write each weight on the last stretch of its edge, where no other is `written`."""
    box = {"boxstyle": "square,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.9}
    for path, weight in zip(paths, weights, strict=True):
        a, b, c, d = cast(NDArray, path.vertices)[-4:]
        x, y = 0.0, 0.0
        for t in (0.45, 0.3, 0.6, 0.15, 0.75):
            x, y = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
            if all(abs(x - u) > 0.45 or abs(y - v) > 0.16 for u, v in written):
                break
        written.append((x, y))
        text = f"{weight:.3g}".replace("-", "−")
        ax.text(x, y, text, ha="center", va="center", fontsize=7, color=INK, bbox=box, zorder=2)


def _draw_nodes(
    ax: Axes,
    network: Network,
    layout: Layout,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> None:
    """Draw inputs as squares, hidden nodes and outputs as circles, with names where they fit."""
    n_inputs = network.n_inputs
    inputs = [node for node in layout.place if node < n_inputs]
    half = layout.input_radius
    squares = [
        Rectangle((x - half, y - half), 2 * half, 2 * half)
        for x, y in (layout.place[node] for node in inputs)
    ]
    on_image = layout.pixel and not layout.apart
    # On an image edges pass under pixels: they are let through to tell where each begins.
    fill = "#cfcfcf88" if on_image else INPUT_FILL
    lines = 0.8 if half > 0.05 else 0.4
    ax.add_collection(PatchCollection(squares, fc=fill, ec="#555555", lw=lines, zorder=3))
    if not on_image and len(inputs) <= MANY_LABELS:
        for node in inputs:
            x, y = layout.place[node]
            name = node_name(network, node, input_names)
            ax.text(x - half - 0.06, y, name, ha="right", va="center", fontsize=8, color=INK)
    labels = _output_labels(network, output_names)
    for node, (x, y) in layout.place.items():
        if node < n_inputs:
            continue
        unit = node - n_inputs
        output = network.units["kind"][unit] == OUTPUT
        fill, edge = (OUTPUT_FILL, INK) if output else (HIDDEN_FILL, HIDDEN_EDGE)
        width = 1.4 if output else 1.0
        ax.add_patch(Circle((x, y), layout.radius, fc=fill, ec=edge, lw=width, zorder=3))
        if output:
            name = labels[network.units["output"][unit]]
            ax.text(x + layout.radius + 0.07, y, name, va="center", fontsize=10, color=INK)
        elif layout.radius >= 0.13:
            name = node_name(network, node)
            ax.text(x, y, name, ha="center", va="center", fontsize=7, color=INK, zorder=5)


def _legend(ax: Axes, network: Network) -> None:
    """Explain colours, line styles and nodes below the picture."""
    weights = network.edges["weight"][used_edges(network)]
    if not len(weights):
        return
    handles = [
        Line2D([], [], color=POSITIVE, lw=2.5, label="weight above 0"),
        Line2D([], [], color=NEGATIVE, lw=2.5, label="weight below 0"),
        Line2D([], [], color=PALE, lw=1.5, label="summed (term 0)"),
    ]
    if network.n_hidden:
        dashed: dict[str, Any] = {"ls": (0, (3.0, 1.5)), "marker": "D", "markersize": 4}
        circle: dict[str, Any] = {"ls": "", "marker": "o", "mfc": HIDDEN_FILL, "mec": HIDDEN_EDGE}
        handles += [
            Line2D([], [], color=PALE, lw=1.5, label="modulates (term 1)", **dashed),
            Line2D([], [], markersize=8, label="modulatory node", **circle),
        ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncol=3,
        frameon=False,
        fontsize=8,
        title=f"width and darkness: |w|, full at {weight_scale(weights):.2g}",
        title_fontsize=8,
    )


# --- growth -----------------------------------------------------------------------------------

EDGES_COLOUR, NODES_COLOUR = POSITIVE, "#009e73"
RUGS = (
    ("edges", (EDGE,), EDGES_COLOUR),
    ("ENC", (ENC,), NODES_COLOUR),
    ("removals", (EDGE_REMOVED, NODE_REMOVED), NEGATIVE),
)
PHASE_SHADES = ("#ffffff", "#f1f1f1", "#e6eef4", "#ffffff")


def phases(history: History) -> list[tuple[int, int, int]]:
    """Return (phase, first step, step after the last) of each phase that lasted."""
    changes = history.events[history.events["kind"] == PHASE]
    starts = [0, *(int(step) + 1 for step in changes["step"])]
    names = [0, *(int(part) for part in changes["part"])]
    ends = [*starts[1:], max(len(history.error), starts[-1])]
    return [(n, a, b) for n, a, b in zip(names, starts, ends, strict=True) if b > a]


def smooth(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the running mean over `width` steps, over fewer at the ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    i = np.arange(len(values))
    low, high = np.maximum(i - width // 2, 0), np.minimum(i + width // 2 + 1, len(values))
    return (total[high] - total[low]) / (high - low)


def draw_growth(history: History, *, title: str | None = None) -> Figure:
    """Draw the error, the size of the network and every structural event over the steps."""
    figure = Figure(figsize=(8.5, 6.0), layout="constrained", facecolor="white")
    top, middle, rug = figure.subplots(3, 1, sharex=True, height_ratios=[3, 2.4, 1.0])
    figure.suptitle(title or "Growth", fontsize=12, color=INK)
    n = len(history.error)
    for axes in (top, middle, rug):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=PALE, which="both")
        for phase, start, end in phases(history):
            axes.axvspan(start, end, color=PHASE_SHADES[phase], lw=0, zorder=0)
    for phase, start, end in phases(history):
        if end - start > 0.0085 * len(PHASE_NAMES[phase]) * max(n, 1):
            at, where = 0.5 * (start + end), top.get_xaxis_transform()
            style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8, "color": PALE}
            top.text(at, 1.01, PHASE_NAMES[phase], transform=where, **style)
    _draw_error(top, history)
    _draw_size(middle, history)
    _draw_events(rug, history)
    rug.set_xlabel("step", fontsize=9)
    rug.set_xlim(-0.008 * max(n, 1), max(n, 1))  # the first step's tick beside the axis, not on it
    return figure


def _draw_error(axes: Axes, history: History) -> None:
    """Draw the error of each batch, and its running mean, on a logarithmic scale."""
    n = len(history.error)
    axes.set_ylabel("error", fontsize=9)
    axes.grid(axis="y", color=GRID, lw=0.6)
    axes.set_yscale("log")
    if not n:
        return
    floor = float(np.min(history.error, where=history.error > 0, initial=1.0))
    error = np.maximum(history.error, floor)
    steps, width = np.arange(1, n + 1), max(1, n // 60)
    if width > 1:
        axes.plot(steps, error, color="#b9b9b9", lw=0.7, label="each batch")
    name = "each batch" if width == 1 else f"mean of {width} steps"
    axes.plot(steps, smooth(error, width), color=INK, lw=1.6, label=name)
    # Beside the axes, where no curve can run through it.
    beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
    axes.legend(frameon=False, fontsize=8, handlelength=1.0, borderpad=0.0, **beside)
    # Plain numbers, also between the powers of ten where the error spans few of them.
    many = error.max() > 30 * error.min()
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 3.0, 5.0)))
    axes.yaxis.set_minor_formatter(
        NullFormatter() if many else FuncFormatter(lambda value, _: f"{value:g}")
    )


def _draw_size(axes: Axes, history: History) -> None:
    """Draw the number of edges and of hidden nodes, each named at its end."""
    axes.set_ylabel("number", fontsize=9)
    axes.grid(axis="y", color=GRID, lw=0.6)
    n = len(history.edges)
    if not n:
        return
    steps = np.arange(1, n + 1)
    top = max(int(history.edges.max()), int(history.hidden.max()), 1)
    axes.set_ylim(-0.02 * top, 1.06 * top)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    edges, hidden = int(history.edges[-1]), int(history.hidden[-1])
    above = max(edges, hidden + 0.12 * top)  # the two names must not overlap
    for values, last, at, name, colour in (
        (history.hidden, hidden, hidden, "hidden node", NODES_COLOUR),
        (history.edges, edges, above, "edge", EDGES_COLOUR),
    ):
        axes.plot(steps, values, color=colour, lw=1.8, drawstyle="steps-post")
        axes.annotate(
            f"{last:,} {name}{'' if last == 1 else 's'}",
            (n, at),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
        )


def _draw_events(axes: Axes, history: History) -> None:
    """Draw one tick per event, a row per kind."""
    names = []
    for row, (name, kinds, colour) in enumerate(RUGS):
        at = history.events["step"][np.isin(history.events["kind"], kinds)] + 1
        axes.vlines(at, row - 0.36, row + 0.36, colors=colour, lw=1.0 if len(at) < 400 else 0.5)
        names.append(f"{name} ({len(at):,})")
    axes.set_yticks(range(len(RUGS)), names, fontsize=8, color=INK)
    axes.set_ylim(len(RUGS) - 0.5, -0.5)
