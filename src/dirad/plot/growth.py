"""Pictures of growth: error, size and structural events along the steps."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter
from numpy.typing import NDArray

from dirad.history import EDGE, EDGE_REMOVED, ENC, GATE, NODE_REMOVED, PHASE_NAMES, History
from dirad.plot.colours import ACCENT, ALERT, GRID, INK, NAVY, NEGATIVE, PALE, POSITIVE, QUIET
from dirad.plot.data import subject
from dirad.plot.figure import Maker, panels_in, root, shown, stacked

if TYPE_CHECKING:
    from dirad.preval.choice import AnyModel

EDGES_COLOUR, NODES_COLOUR = POSITIVE, "#009e73"
EVENT_ROWS = (
    ("edges added", (EDGE,), EDGES_COLOUR),
    ("nodes inserted", (ENC, GATE), NODES_COLOUR),
    ("removed", (EDGE_REMOVED, NODE_REMOVED), NEGATIVE),
)
PHASE_SHADES = ("#ffffff", "#f1f1f1", "#e6eef4", "#ffffff", "#f1f1f1")


def smooth(values: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Return the centred running mean over `width` steps, over fewer at the ends."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    i = np.arange(len(values))
    low, high = np.maximum(i - width // 2, 0), np.minimum(i + width // 2 + 1, len(values))
    return (total[high] - total[low]) / (high - low)


def draw_growth(
    history: History,
    *,
    title: str | None = None,
    ax: Axes | None = None,
    make: Maker = Figure,
) -> Figure:
    """Draw the error, the size of the network and every structural event along the steps."""
    top, middle, bottom = stacked((3, 2.4, 1.0), (8.5, 6.0), ax, make)
    figure = root(top)
    if ax is None:
        figure.suptitle(title or "Growth", fontsize=12, color=INK)
    else:
        ax.set_title(title or "Growth", fontsize=12, color=INK, pad=16)
    n = max(len(history.error), 1)
    phases = history.phases()
    for axes in (top, middle, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8, colors=PALE, which="both")
        for phase, start, end in phases:
            axes.axvspan(start, end, color=PHASE_SHADES[phase], lw=0, zorder=0)
    style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 8, "color": PALE}
    for phase, start, end in phases:
        if end - start > 0.0085 * len(PHASE_NAMES[phase]) * n:
            at, where = 0.5 * (start + end), top.get_xaxis_transform()
            top.text(at, 1.01, PHASE_NAMES[phase], transform=where, **style)
    _draw_error(top, history)
    _draw_size(middle, history)
    _draw_events(bottom, history)
    bottom.set_xlabel("step", fontsize=9)
    bottom.set_xlim(-0.008 * n, n)  # the first step's mark is drawn beside the axis, not on it
    return figure


def _draw_error(axes: Axes, history: History) -> None:
    """Draw the error of each step and its running mean on a logarithmic scale."""
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
        axes.plot(steps, error, color="#b9b9b9", lw=0.7, label="each step")
    name = "each step" if width == 1 else f"running mean of {width} steps"
    axes.plot(steps, smooth(error, width), color=INK, lw=1.6, label=name)
    axes.legend(loc="upper right", fontsize=8, handlelength=1.0, edgecolor="none")
    # Plain numbers, and more than the powers of ten where the error spans few of them.
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 3.0, 5.0)))
    many = error.max() > 30 * error.min()
    axes.yaxis.set_minor_formatter(NullFormatter() if many else plain)


def _draw_size(axes: Axes, history: History) -> None:
    """Draw the numbers of edges and of hidden nodes, each curve with a label at its end."""
    axes.set_ylabel("count", fontsize=9)
    axes.grid(axis="y", color=GRID, lw=0.6)
    n = len(history.edges)
    if not n:
        return
    steps = np.arange(1, n + 1)
    top = max(int(history.edges.max()), int(history.hidden.max()), 1)
    axes.set_ylim(-0.02 * top, 1.06 * top)
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    edges, hidden = int(history.edges[-1]), int(history.hidden[-1])
    above = max(edges, hidden + 0.12 * top)  # the two labels must not overlap
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
    """Draw one mark per event, in a row per kind."""
    names = []
    for row, (name, kinds, colour) in enumerate(EVENT_ROWS):
        at = history.events["step"][np.isin(history.events["kind"], kinds)] + 1
        axes.vlines(at, row - 0.36, row + 0.36, colors=colour, lw=1.0 if len(at) < 400 else 0.5)
        names.append(f"{name} ({len(at):,})")
    axes.set_yticks(range(len(EVENT_ROWS)), names, fontsize=8, color=INK)
    axes.set_ylim(len(EVENT_ROWS) - 0.5, -0.5)


@dataclass(eq=False)
class GrowthDisplay:
    """How a network grew: its error, nodes, edges and structural events along the steps."""

    history: History
    _: KW_ONLY
    title: str | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        model: int | None = None,
        title: str | None = None,
        ax: Axes | None = None,
    ) -> "GrowthDisplay":
        """Draw the growth of a fitted estimator; of PREVAL, of L0 of `model` or of the newest."""
        return cls(subject(estimator, model).history, title=title).plot(ax)

    def plot(self, ax: Axes | None = None) -> "GrowthDisplay":
        """Draw on `ax`, or on a new figure."""
        self.figure_ = draw_growth(self.history, title=self.title, ax=ax, make=shown)
        self.axes_ = panels_in(self.figure_, ax)
        self.ax_ = self.axes_[0] if ax is None else ax
        return self


def draw_adaptation(model: "AnyModel") -> Figure:
    """Draw error and size of L0 and then of L1 along the steps, and the transition between them."""
    assert model.l1 is not None
    l0 = model.history
    error, edges, hidden = model.l1.learning_curves
    first, last = len(l0.error), len(l0.error) + len(error)
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    squared = model.settings.l0.cost == "squared"
    l0_error = 2 * l0.error / max(model.network.n_outputs, 1) if squared else l0.error
    top.plot(range(first), l0_error, color=ACCENT, lw=0.8, label="L0: outputs")
    if len(error):
        top.plot(range(first, last), error, color=ALERT, lw=0.8, label="L1: states of L0's nodes")
    top.set_ylabel("mean squared error\nper target" if squared else "error")
    top.set_ylim(bottom=0)
    top.legend(loc="upper center", edgecolor="none")
    for values, l1_values, colour, label in (
        (l0.edges, edges, NAVY, "edges"),
        (l0.hidden, hidden, QUIET, "hidden nodes"),
    ):
        bottom.plot(range(last), [*values, *l1_values], color=colour, label=label)
    bottom.set_yscale("symlog", linthresh=10)
    bottom.set_ylim(bottom=0)
    bottom.set_ylabel("size of the\nadapting network")
    bottom.set_xlabel("step" if model.settings.buffer_size else "step (one batch each)")
    bottom.legend(frameon=False, loc="upper left")
    for axes in (top, bottom):
        axes.axvline(first, color=NAVY, lw=1, ls=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    style: dict[str, Any] = {"ha": "center", "va": "bottom", "fontsize": 9, "color": NAVY}
    l1 = "L1 starts" if len(error) else "L1 is solved for"
    top.text(first, 1.01, f"L0 stable, {l1}", transform=top.get_xaxis_transform(), **style)
    then = f", then {len(error):,} of L1" if len(error) else ""
    figure.suptitle(f"Adaptation of one model: {first:,} steps of L0{then}")
    return figure
