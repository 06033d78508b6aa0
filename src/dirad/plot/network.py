"""The picture of a network.

Drawn on matplotlib's own objects. Coordinates are inches, so that text and nodes keep their
proportions.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PatchCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from dirad.core.describe import node_name, summary
from dirad.core.network import OUTPUT, Network, output_units
from dirad.plot.colours import (
    HIDDEN_EDGE,
    HIDDEN_FILL,
    INK,
    INPUT_FILL,
    NEGATIVE,
    OUTPUT_FILL,
    PALE,
    POSITIVE,
    weight_colours,
    weight_scale,
)
from dirad.plot.figure import Maker, root, shown
from dirad.plot.layout import MANY_EDGES, Layout, Point, lay_out, target_node, used_edges
from dirad.plot.subject import strengths, subject

FEW_EDGES = 12  # up to so many, weights are written out
MANY_LABELS = 40  # above it, inputs go without names
FADED = 0.12  # how much of a weak edge is left where edges are many
KAPPA = 0.45  # how far the handles of an edge's curve reach, as a share of its width


def draw_network(
    network: Network,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    input_spread: NDArray[np.float64] | None = None,
    ax: Axes | None = None,
    make: Maker = Figure,
) -> Figure:
    """Draw a network from its inputs on the left to its outputs on the right.

    Inputs that feed nothing are not drawn. Colour is the sign of a weight, width and darkness its
    size, times the `input_spread` where that is given; solid edges are summed (term 0), dashed ones
    modulate (term 1). With `image_shape` (rows, columns) the inputs are the pixels of an image:
    edges leave from there as long as they are few; otherwise the image stands apart and shows how
    much leaves each pixel, and a map beside each output shows the weights that lead straight to it.
    """
    _check(network, input_names, output_names, image_shape)
    raw = network.edges["weight"]
    network = network.copy()
    network.edges["weight"] = strengths(network, input_spread)
    layout = lay_out(network, image_shape)
    right = 0.45 + 0.075 * max(map(len, _output_labels(network, output_names)))
    map_side = _map_side(network, layout) if layout.apart else 0.0
    left = 0.35 if layout.pixel else 0.25 + _longest_label(network, layout, input_names)
    box = (-left, layout.width + right + 1.2 * map_side, -0.25, layout.height + 0.3)
    if ax is None:
        ax = _axes_of_size(box[1] - box[0], box[3] - box[2], 0.5, 0.85, make)
    if layout.pixel and image_shape is not None:
        _draw_image(ax, network, layout, image_shape)
    _draw_edges(ax, network, layout, raw)
    _draw_nodes(ax, network, layout, input_names, output_names)
    if map_side and image_shape is not None:
        _draw_maps(ax, network, layout, image_shape, layout.width + right, map_side)
    used = sum(node < network.n_inputs for node in layout.place)
    ax.set_title(f"{summary(network)}\n{used} of the inputs used", fontsize=9, color=INK)
    if not len(used_edges(network)):
        middle = (0.5 * layout.width, 0.5 * layout.height)
        ax.text(*middle, "no edge yet", color=PALE, fontsize=9, ha="center", va="center")
    _legend(ax, network, "|w|" if input_spread is None else "|w| · spread of the input")
    ax.set_xlim(box[0], box[1])
    ax.set_ylim(box[2], box[3])
    ax.set_aspect("equal")
    ax.set_axis_off()
    return root(ax)


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


def _axes_of_size(width: float, height: float, above: float, below: float, make: Maker) -> Axes:
    """Return axes of this size in inches in a figure of their own, with margins around."""
    full_width, full_height = max(width + 0.2, 5.6), height + above + below
    figure = make(figsize=(full_width, full_height), facecolor="white")
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


def _draw_edges(ax: Axes, network: Network, layout: Layout, raw: NDArray[np.float64]) -> None:
    """Draw every edge, strong ones on top; `raw` are the weights that are written."""
    numbers = used_edges(network)
    if not len(numbers):
        return
    numbers = numbers[np.argsort(np.abs(network.edges["weight"][numbers]), kind="stable")]
    edges = network.edges[numbers]
    few = len(edges) <= MANY_EDGES
    scale = weight_scale(edges["weight"])
    strength = np.sqrt(np.clip(np.abs(edges["weight"]) / scale, 0, 1))
    colours = weight_colours(edges["weight"], scale)
    colours[:, 3] = 0.95 if few else FADED + (0.85 - FADED) * strength**2
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
            _write_weights(ax, paths, raw[numbers[chosen]], written)


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


def _legend(ax: Axes, network: Network, size: str) -> None:
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
        title=f"width and darkness: {size}, full at {weight_scale(weights):.2g}",
        title_fontsize=8,
    )


class NetworkDisplay:
    """The picture of a network: layered, weights as colour and width, modulation as modulation.

    Parameters
    ----------
    network : Network
    input_names, output_names : sequence of str, optional
    shape : (rows, columns), optional
        Of the image whose pixels the inputs are.
    input_spread : array, optional
        Of inputs of different scales: widths then show weights for inputs of spread 1.

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        network: Network,
        *,
        input_names: Sequence[str] | None = None,
        output_names: Sequence[str] | None = None,
        shape: tuple[int, int] | None = None,
        input_spread: NDArray[np.float64] | None = None,
    ) -> None:
        self.network = network
        self.input_spread = input_spread
        self.input_names = input_names
        self.output_names = output_names
        self.shape = shape

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        model: int | None = None,
        input_names: Sequence[str] | None = None,
        shape: tuple[int, int] | None = None,
        ax: Axes | None = None,
    ) -> "NetworkDisplay":
        """Draw the network of a fitted estimator; of PREVAL L0 of one `model`, else the newest."""
        found = subject(estimator, model)
        names = found.inputs if input_names is None else input_names
        return cls(
            found.network,
            input_names=names,
            output_names=found.outputs,
            shape=shape,
            input_spread=found.spread,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> "NetworkDisplay":
        """Draw; without axes on a new figure of fitting size."""
        self.figure_ = draw_network(
            self.network,
            input_names=self.input_names,
            output_names=self.output_names,
            image_shape=self.shape,
            input_spread=self.input_spread,
            ax=ax,
            make=shown,
        )
        self.ax_ = self.figure_.axes[0] if ax is None else ax
        return self
