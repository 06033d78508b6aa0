"""The picture of a network. Coordinates are inches, so that text and nodes keep proportion."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
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
from dirad.core.network import OUTPUT, Network
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
from dirad.plot.data import names, renamed, scaled_weights, subject
from dirad.plot.figure import Maker, root, shown
from dirad.plot.layout import (
    MANY_EDGES,
    Layout,
    Point,
    edge_ends,
    lay_out,
    output_nodes,
    used_edges,
)

FEW_EDGES = 12  # up to so many edges have their weights written on them
MANY_LABELS = 40  # with more inputs, their names are left out
LETTER = 0.075  # width of a letter
FADED = 0.12  # opacity of weak edges where there are many edges
KAPPA = 0.45  # distance of a curve's control points from its ends, as a share of its width
DASHES = (0, (3.0, 1.5))


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

    Inputs without edges are not drawn. The colour of an edge shows the sign of its weight, its
    width and darkness |weight|, times the `input_spread` if given. Solid edges are summed (term 0),
    dashed edges modulate (term 1). With `image_shape` (rows, columns) the inputs are the pixels of
    an image. If there are few edges, they leave from its pixels; otherwise the image is drawn
    beside the inputs and shows the sum of |weight| out of each pixel, and a small image beside
    each output shows the weights of its direct edges.
    """
    if image_shape is not None and image_shape[0] * image_shape[1] != network.n_inputs:
        raise ValueError(
            f"image_shape {image_shape} has {image_shape[0] * image_shape[1]} pixels, but the "
            f"network has {network.n_inputs} inputs"
        )
    inputs = _checked_names(input_names, network.n_inputs, "inputs")
    outputs = _checked_names(output_names, network.n_outputs, "outputs")
    written = network.edges["weight"]
    network = network.copy()
    network.edges["weight"] = scaled_weights(network, input_spread)
    layout = lay_out(network, image_shape)
    labels = _node_labels(network, layout, inputs, outputs)
    longest = max((len(labels[n]) for n in labels if n < network.n_inputs), default=0)
    left = 0.35 if layout.pixel else 0.25 + layout.input_radius + LETTER * longest
    right = 0.45 + LETTER * max(map(len, outputs))
    side = min(0.9 * layout.height / max(network.n_outputs, 1), 1.4) if layout.apart else 0.0
    box = (-left, layout.width + right + 1.2 * side, -0.25, layout.height + 0.3)
    if ax is None:
        ax = _axes_of_size(box[1] - box[0], box[3] - box[2], 0.5, 0.85, make)
    if image_shape is not None:
        _draw_image(ax, network, layout, image_shape)
        if layout.apart:
            _draw_maps(ax, network, layout, image_shape, layout.width + right, side)
    _draw_edges(ax, network, layout, written)
    _draw_nodes(ax, network, layout, labels)
    used = sum(node < network.n_inputs for node in layout.place)
    ax.set_title(f"{summary(network)}\n{used} of the inputs used", fontsize=9, color=INK)
    if not len(used_edges(network)):
        middle = (0.5 * layout.width, 0.5 * layout.height)
        ax.text(*middle, "no edge yet", color=PALE, fontsize=9, ha="center", va="center")
    _draw_legend(ax, network, "" if input_spread is None else " × standard deviation of the input")
    ax.set_xlim(box[0], box[1])
    ax.set_ylim(box[2], box[3])
    ax.set_aspect("equal")
    ax.set_axis_off()
    return root(ax)


def _checked_names(given: Sequence[str] | None, n: int, what: str) -> list[str]:
    """Return a name for each input or output; x0, x1, … and y0, y1, … by default."""
    if given is not None and len(given) != n:
        raise ValueError(f"{len(given)} names for {n} {what}")
    return names(given, n, "x" if what == "inputs" else "y")


def _node_labels(
    network: Network, layout: Layout, inputs: list[str], outputs: list[str]
) -> dict[int, str]:
    """Return the label of each node that gets one."""
    drawn = [node for node in layout.place if node < network.n_inputs]
    on_image = layout.pixel and not layout.apart
    labels = {n: inputs[n] for n in drawn} if not on_image and len(drawn) <= MANY_LABELS else {}
    labels |= dict(zip(output_nodes(network), outputs, strict=True))
    if layout.radius >= 0.13:
        hidden = layout.place.keys() - labels.keys() - set(drawn)
        labels |= {node: node_name(network, node) for node in hidden}
    return labels


def _axes_of_size(width: float, height: float, above: float, below: float, make: Maker) -> Axes:
    """Return axes of this size in inches in a new figure, with margins above and below."""
    full_width, full_height = max(width + 0.2, 5.6), height + above + below
    figure = make(figsize=(full_width, full_height), facecolor="white")
    share = width / full_width
    return figure.add_axes(((1 - share) / 2, below / full_height, share, height / full_height))


def _draw_image(ax: Axes, network: Network, layout: Layout, shape: tuple[int, int]) -> None:
    """Draw the grid of the image and, beside the inputs, the sum of |weight| out of each pixel."""
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
        ax.text(0.5 * cols * cell, bottom - 0.08, "Σ|weight| of each pixel", **style)
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


def _draw_maps(
    ax: Axes, network: Network, layout: Layout, shape: tuple[int, int], left: float, side: float
) -> None:
    """Draw beside each output an image with the weights of its direct edges from the pixels."""
    edges = network.edges[used_edges(network)]
    scale = weight_scale(edges["weight"])
    top = 0.0
    for node in output_nodes(network):
        term = 2 * (node - network.n_inputs)
        direct = edges[(edges["term"] == term) & (edges["source"] < network.n_inputs)]
        picture = np.full((network.n_inputs, 4), 1.0)
        picture[direct["source"]] = weight_colours(direct["weight"], scale)
        bottom = layout.place[node][1] - 0.5 * side
        extent = (left, left + side, bottom, bottom + side)
        ax.imshow(picture.reshape(*shape, 4), extent=extent, interpolation="nearest", zorder=2)
        frame = Rectangle((left, bottom), side, side, fc="none", ec="#bbbbbb", lw=0.6, zorder=3)
        ax.add_patch(frame)
        top = max(top, bottom + side)
    style: dict[str, Any] = {"fontsize": 8, "color": PALE, "ha": "center", "va": "bottom"}
    ax.text(left + 0.5 * side, top + 0.05, "direct weights", **style)


def edge_path(points: Sequence[Point], into_side: bool, radius: float, level: bool = True) -> Path:
    """Return the curve of an edge through `points`, ending at the border of the last node.

    It ends on the left side of the node or, if it modulates, above or below it. It starts
    horizontally if `level`, else towards the next point.
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
    """Return the slope of the curve at each stop; harmonic means prevent overshooting."""
    pieces = [(yb - ya) / max(xb - xa, 0.05) for (xa, ya), (xb, yb) in pairwise(stops)]
    inner = [2 * a * b / (a + b) if a * b > 0 else 0.0 for a, b in pairwise(pieces)]
    return [0.0 if level else pieces[0], *inner, 0.0]


def _draw_edges(ax: Axes, network: Network, layout: Layout, written: NDArray[np.float64]) -> None:
    """Draw every edge, strong edges on top; `written` are the weights as text shows them."""
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
    texts: list[Point] = []
    for term, style in ((0, "solid"), (1, DASHES)):
        chosen = np.flatnonzero(edges["term"] % 2 == term)
        if not len(chosen):
            continue
        paths = _edge_paths(network, layout, numbers[chosen].tolist(), term, few)
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
            x, y = np.array([cast(NDArray, path.vertices)[-1] for path in paths]).T
            x = x + 0.035 if term == 0 else x
            marks: dict[str, Any] = {"marker": ">" if term == 0 else "D", "s": 24 if few else 14}
            ax.scatter(x, y, c=colours[chosen, :3], lw=0, zorder=4, **marks)
        if len(edges) <= FEW_EDGES:
            _write_weights(ax, paths, written[numbers[chosen]], texts)


def _edge_paths(
    network: Network, layout: Layout, numbers: list[int], term: int, few: bool
) -> list[Path]:
    """Return the curves of edges into a term."""
    ends = edge_ends(network)
    border = layout.radius + (0.07 if term == 0 and few else 0.03)
    on_image = layout.pixel and not layout.apart
    paths = []
    for e in numbers:
        source, target = ends[e]
        points = [layout.place[source], *layout.waypoints.get(e, []), layout.place[target]]
        # Horizontal edges out of an image would hide each other.
        level = not on_image or source >= network.n_inputs
        paths.append(edge_path(points, term == 0, border, level))
    return paths


def _write_weights(
    ax: Axes, paths: list[Path], weights: NDArray[np.float64], texts: list[Point]
) -> None:
    """Write each weight on the last segment of its edge, away from the other `texts`."""
    box = {"boxstyle": "square,pad=0.25", "fc": "white", "ec": "none", "alpha": 0.9}
    for path, weight in zip(paths, weights, strict=True):
        a, b, c, d = cast(NDArray, path.vertices)[-4:]
        x, y = 0.0, 0.0
        for t in (0.45, 0.3, 0.6, 0.15, 0.75):
            x, y = (1 - t) ** 3 * a + 3 * (1 - t) ** 2 * t * b + 3 * (1 - t) * t**2 * c + t**3 * d
            if all(abs(x - u) > 0.45 or abs(y - v) > 0.16 for u, v in texts):
                break
        texts.append((x, y))
        text = f"{weight:.3g}".replace("-", "−")
        ax.text(x, y, text, ha="center", va="center", fontsize=7, color=INK, bbox=box, zorder=2)


def _draw_nodes(ax: Axes, network: Network, layout: Layout, labels: dict[int, str]) -> None:
    """Draw inputs as squares, hidden nodes and outputs as circles, with their labels."""
    half = layout.input_radius
    squares = []
    for node, (x, y) in layout.place.items():
        if node < network.n_inputs:
            squares.append(Rectangle((x - half, y - half), 2 * half, 2 * half))
            at, style = (x - half - 0.06, y), {"ha": "right", "fontsize": 8}
        elif network.units["kind"][node - network.n_inputs] == OUTPUT:
            circle = Circle((x, y), layout.radius, fc=OUTPUT_FILL, ec=INK, lw=1.4, zorder=3)
            ax.add_patch(circle)
            at, style = (x + layout.radius + 0.07, y), {"ha": "left", "fontsize": 10}
        else:
            circle = Circle((x, y), layout.radius, fc=HIDDEN_FILL, ec=HIDDEN_EDGE, lw=1.0, zorder=3)
            ax.add_patch(circle)
            at, style = (x, y), {"ha": "center", "fontsize": 7, "zorder": 5}
        if node in labels:
            ax.text(*at, labels[node], va="center", color=INK, **style)
    # Pixels of an image are half transparent, so that the start of each edge is visible.
    fill = "#cfcfcf88" if layout.pixel and not layout.apart else INPUT_FILL
    lines = 0.8 if half > 0.05 else 0.4
    ax.add_collection(PatchCollection(squares, fc=fill, ec="#555555", lw=lines, zorder=3))


def _draw_legend(ax: Axes, network: Network, factor: str) -> None:
    """Explain colours, line styles and nodes below the picture."""
    weights = network.edges["weight"][used_edges(network)]
    if not len(weights):
        return
    handles = [
        Line2D([], [], color=POSITIVE, lw=2.5, label="positive weight"),
        Line2D([], [], color=NEGATIVE, lw=2.5, label="negative weight"),
        Line2D([], [], color=PALE, lw=1.5, label="summed"),
    ]
    if network.n_hidden:
        dashed: dict[str, Any] = {"ls": DASHES, "marker": "D", "markersize": 4}
        circle: dict[str, Any] = {"ls": "", "marker": "o", "mfc": HIDDEN_FILL, "mec": HIDDEN_EDGE}
        handles += [
            Line2D([], [], color=PALE, lw=1.5, label="modulating", **dashed),
            Line2D([], [], markersize=8, label="modulatory node", **circle),
        ]
    ax.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncol=3,
        frameon=False,
        fontsize=8,
        title=f"width and darkness: |weight|{factor}, maximal from {weight_scale(weights):.2g}",
        title_fontsize=8,
    )


@dataclass(eq=False)
class NetworkDisplay:
    """The picture of a network, layered, with weights as colours and widths of edges.

    Parameters
    ----------
    network : Network
    input_names, output_names : sequence of str, optional
    shape : (rows, columns), optional
        Shape of the image whose pixels the inputs are.
    input_spread : array, optional
        Standard deviations of inputs that are not standardized, which scale the drawn weights.
    """

    network: Network
    _: KW_ONLY
    input_names: Sequence[str] | None = None
    output_names: Sequence[str] | None = None
    shape: tuple[int, int] | None = None
    input_spread: NDArray[np.float64] | None = None

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
        """Draw the network of an estimator (of PREVAL, L0 of `model`); names are of columns."""
        found = subject(estimator, model)
        if input_names is not None:
            found = renamed(estimator, found, input_names)
        return cls(
            found.network,
            input_names=found.inputs,
            output_names=found.outputs,
            shape=shape,
            input_spread=found.spread,
        ).plot(ax)

    def plot(self, ax: Axes | None = None) -> "NetworkDisplay":
        """Draw on `ax`, or on a new figure of fitting size."""
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
