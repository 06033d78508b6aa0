"""Figures of a network and of its growth.

Everything is drawn on matplotlib's own objects, without pyplot: no window, no global state.
Coordinates of a network are inches, so that text and nodes keep their proportions.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection, PathCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from matplotlib.path import Path
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
INPUT_FILL, OUTPUT_FILL, HIDDEN_FILL = "#eeeeee", "#ffffff", "#fdf0b8"
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
    height = float(np.clip(0.34 * max(map(len, drawn)), 2.8, 9.0))
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
    room = {node: need * min(1.0, height / tallest) for node, need in room.items()}
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

    Inputs that feed nothing are not drawn. With `image_shape` (rows, columns) the inputs are the
    pixels of an image, and are drawn at their places in it. Colour is the sign of a weight, width
    and darkness its size; solid edges are summed (term 0), dashed ones modulate (term 1).
    """
    if image_shape is not None and image_shape[0] * image_shape[1] != network.n_inputs:
        raise ValueError(f"an image of {image_shape} has not {network.n_inputs} pixels")
    for names, n, what in (
        (input_names, network.n_inputs, "inputs"),
        (output_names, network.n_outputs, "outputs"),
    ):
        if names is not None and len(names) != n:
            raise ValueError(f"{len(names)} names for {n} {what}")
    layout = lay_out(network, image_shape)
    if ax is None:
        size = (max(layout.width + 1.6, 5.2), layout.height + 1.5)
        ax = Figure(figsize=size, layout="constrained", facecolor="white").add_subplot()
    if layout.image is not None and image_shape is not None:
        _draw_image(ax, layout.image, image_shape)
    _draw_edges(ax, network, layout)
    _draw_nodes(ax, network, layout, input_names, output_names)
    used = sum(node < network.n_inputs for node in layout.place)
    ax.set_title(f"{summary(network)}\n{used} of the inputs used", fontsize=9, color=INK)
    if not len(used_edges(network)):
        ax.text(0, 0.5 * layout.height, "no edge yet", color=PALE, fontsize=9, va="center")
    _legend(ax, network)
    ax.set_xlim(-0.75 if layout.image is None else -0.3, layout.width + 0.75)
    ax.set_ylim(-0.25, layout.height + 0.25)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return cast(Figure, ax.get_figure(root=True))


def _draw_image(ax: Axes, image: tuple[float, float, float], shape: tuple[int, int]) -> None:
    """Draw the frame of the image and its pixels, with the first and last row and column named."""
    left, bottom, cell = image
    rows, cols = shape
    ax.add_patch(
        Rectangle((left, bottom), cols * cell, rows * cell, fc="#fafafa", ec="none", zorder=0)
    )
    lines = [[(left, bottom + r * cell), (left + cols * cell, bottom + r * cell)]
             for r in range(rows + 1)]  # fmt: skip
    lines += [[(left + c * cell, bottom), (left + c * cell, bottom + rows * cell)]
              for c in range(cols + 1)]  # fmt: skip
    ax.add_collection(LineCollection(lines, colors="#e9e9e9", linewidths=0.6, zorder=0.5))
    style: dict[str, Any] = {"fontsize": 7, "color": PALE}
    top = bottom + rows * cell
    for c in (0, cols - 1):
        x = left + (c + 0.5) * cell
        ax.text(x, top + 0.05, str(c), ha="center", va="bottom", **style)
    for r in (0, rows - 1):
        y = top - (r + 0.5) * cell
        ax.text(left - 0.06, y, str(r), ha="right", va="center", **style)


def edge_path(
    start: tuple[float, float], end: tuple[float, float], from_side: bool, radius: float
) -> Path:
    """Return the curve of an edge from a node to the border of another.

    It enters from the left, or (a modulating edge) from above or below.
    """
    (x0, y0), (x1, y1) = start, end
    reach = max(KAPPA * abs(x1 - x0), 0.3)
    if from_side:
        tip = (x1 - radius, y1)
        handle = (tip[0] - reach, y1)
    else:
        side = 1.0 if y0 >= y1 else -1.0
        tip = (x1, y1 + side * radius)
        handle = (x1, tip[1] + side * max(KAPPA * abs(y1 - y0), 0.25))
    points = [(x0, y0), (x0 + reach, y0), handle, tip]
    return Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])


def _draw_edges(ax: Axes, network: Network, layout: Layout) -> None:
    """Draw every edge; weak ones first, so that strong ones lie on top."""
    numbers = used_edges(network)
    if not len(numbers):
        return
    edges = network.edges[numbers]
    edges = edges[np.argsort(np.abs(edges["weight"]), kind="stable")]
    scale = weight_scale(edges["weight"])
    few = len(edges) <= MANY_EDGES
    colours = weight_colours(edges["weight"], scale)
    colours[:, 3] = np.clip(1.15 - 0.12 * np.log(len(edges)), 0.45, 0.95)
    thick = np.clip(9.0 / np.sqrt(len(edges)), 1.1, 3.2)
    widths = thick * (0.25 + 0.75 * np.sqrt(np.clip(np.abs(edges["weight"]) / scale, 0, 1)))
    for term, style, name in ((0, "solid", "edges of term 0"), (1, (0, (3, 1.4)), "edges of term 1")):
        chosen = np.flatnonzero(edges["term"] % 2 == term)
        paths, tips = [], []
        for i in chosen:
            target = network.n_inputs + int(edges["term"][i]) // 2
            path = edge_path(
                layout.place[int(edges["source"][i])],
                layout.place[target],
                term == 0,
                layout.radius + (0.07 if few else 0.02),
            )
            paths.append(path)
            tips.append(cast(NDArray, path.vertices)[-1])
        if not paths:
            continue
        lines = PathCollection(
            paths,
            facecolors="none",
            edgecolors=colours[chosen],
            linewidths=widths[chosen],
            linestyles=[style],
            capstyle="butt",
            zorder=1 if term == 0 else 1.5,
        )
        lines.set_gid(name)
        ax.add_collection(lines)
        if few or term == 1:
            solid = colours[chosen].copy()
            solid[:, 3] = 1.0
            x, y = np.array(tips).T
            size = (26 if few else 12) * (1 if term == 0 else 1.15)
            shift = 0.03 if term == 0 and few else 0.0
            ax.scatter(x + shift, y, s=size, c=solid, marker=">" if term == 0 else "D", lw=0, zorder=4)


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
    fill = "#d5d5d5" if layout.image is not None else INPUT_FILL
    ax.add_collection(PatchCollection(squares, fc=fill, ec="#555555", lw=0.7, zorder=3))
    if layout.image is None and len(inputs) <= MANY_LABELS:
        for node in inputs:
            x, y = layout.place[node]
            name = node_name(network, node, input_names)
            ax.text(x - half - 0.06, y, name, ha="right", va="center", fontsize=8, color=INK)
    for node, (x, y) in layout.place.items():
        if node < n_inputs:
            continue
        unit = node - n_inputs
        output = network.units["kind"][unit] == OUTPUT
        fill, edge = (OUTPUT_FILL, INK) if output else (HIDDEN_FILL, "#8a6d00")
        ax.add_patch(
            Circle((x, y), layout.radius, fc=fill, ec=edge, lw=1.4 if output else 1.0, zorder=3)
        )
        name = node_name(network, node)
        if output:
            if output_names is not None:
                name = str(output_names[network.units["output"][unit]])
            ax.text(x + layout.radius + 0.07, y, name, va="center", fontsize=10, color=INK)
        elif layout.radius >= 0.13:
            ax.text(x, y, name, ha="center", va="center", fontsize=7, color=INK, zorder=5)


def _legend(ax: Axes, network: Network) -> None:
    """Explain colours, line styles and nodes below the picture."""
    weights = network.edges["weight"][used_edges(network)]
    full = f"{weight_scale(weights):.2g}"
    handles = [
        Line2D([], [], color=POSITIVE, lw=2.5, label="weight above 0"),
        Line2D([], [], color=NEGATIVE, lw=2.5, label="weight below 0"),
        Line2D([], [], color=PALE, lw=1.5, marker=">", markevery=[1], label="summed (term 0)"),
    ]
    if network.n_hidden:
        dashed = {"color": PALE, "lw": 1.5, "ls": (0, (3, 1.4)), "marker": "D", "markersize": 4}
        circle = {"marker": "o", "ls": "", "mfc": HIDDEN_FILL, "mec": "#8a6d00", "markersize": 8}
        handles += [
            Line2D([], [], label="modulates (term 1)", **dashed),
            Line2D([], [], label="modulatory node", **circle),
        ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncol=3,
        frameon=False,
        fontsize=8,
        title=f"width and darkness: |w|, full at {full}" if len(weights) else None,
        title_fontsize=8,
    )


# --- growth -----------------------------------------------------------------------------------

RUGS = (("edges", (EDGE,), POSITIVE), ("ENC", (ENC,), "#009e73"),
        ("removals", (EDGE_REMOVED, NODE_REMOVED), NEGATIVE))  # fmt: skip
PHASE_SHADES = ("#ffffff", "#f1f1f1", "#e6eef4", "#ffffff")


def phases(history: History) -> list[tuple[str, int, int]]:
    """Return (name, first step, step after the last) of each phase that lasted."""
    changes = history.events[history.events["kind"] == PHASE]
    starts = [0, *(int(step) + 1 for step in changes["step"])]
    names = [PHASE_NAMES[0], *(PHASE_NAMES[int(part)] for part in changes["part"])]
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
    steps = np.arange(1, n + 1)
    for axes in (top, middle, rug):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=PALE)
        for name, start, end in phases(history):
            axes.axvspan(start, end, color=PHASE_SHADES[PHASE_NAMES.index(name)], lw=0, zorder=0)
    top.grid(axis="y", color=GRID, lw=0.6)
    middle.grid(axis="y", color=GRID, lw=0.6)

    if n:
        floor = max(float(np.min(history.error, where=history.error > 0, initial=1.0)), 1e-12)
        error = np.maximum(history.error, floor)
        top.plot(steps, error, color="#b9b9b9", lw=0.7, label="each batch")
        width = max(1, n // 60)
        top.plot(steps, smooth(error, width), color=INK, lw=1.6, label=f"mean of {width} steps")
        top.set_yscale("log")
        top.legend(frameon=False, fontsize=8, loc="upper right")
        middle.plot(steps, history.edges, color=POSITIVE, lw=1.8, drawstyle="steps-post")
        middle.plot(steps, history.hidden, color="#009e73", lw=1.8, drawstyle="steps-post")
    top.set_ylabel("error", fontsize=9)
    middle.set_ylabel("number", fontsize=9)
    middle.set_ylim(bottom=0)
    handles = [Line2D([], [], color=POSITIVE, lw=1.8, label="edges"),
               Line2D([], [], color="#009e73", lw=1.8, label="hidden nodes")]  # fmt: skip
    middle.legend(handles=handles, frameon=False, fontsize=8, loc="lower right")

    names = []
    for row, (name, kinds, colour) in enumerate(RUGS):
        at = history.events["step"][np.isin(history.events["kind"], kinds)] + 1
        rug.vlines(at, row - 0.36, row + 0.36, colors=colour, lw=1.0 if len(at) < 400 else 0.5)
        names.append(f"{name} ({len(at):,})")
    rug.set_yticks(range(len(RUGS)), names, fontsize=8, color=INK)
    rug.set_ylim(len(RUGS) - 0.5, -0.5)
    rug.set_xlabel("step", fontsize=9)
    rug.set_xlim(0, max(n, 1))
    for name, start, end in phases(history):
        if (end - start) > 0.08 * max(n, 1):
            top.text(0.5 * (start + end), 1.01, name, transform=top.get_xaxis_transform(),
                     ha="center", va="bottom", fontsize=8, color=PALE)  # fmt: skip
    return figure
