"""Pictures of costs: measured points, the law through them, and its exponent."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dirad.plot.colours import ALERT, GRID, NAVY, PALE, TASK_COLOURS

HEADROOM = 0.25  # share of a logarithmic axis

Law = Callable[[float], float]


class Curve(NamedTuple):
    """A cost as something grows."""

    sizes: Sequence[float]
    costs: Sequence[float]
    law: Law | None = None  # drawn as a line
    exponent: str = ""


class Panel(NamedTuple):
    """Curves in the same unit."""

    unit: str
    curves: Mapping[str, Curve]
    limit: float | None = None  # what costs must stay below
    linear: bool = False  # is the unit's axis linear, from 0?


def draw_costs(title: str, sizes: str, panels: Sequence[Panel]) -> Figure:
    """Draw panels side by side, over sizes on a logarithmic axis named `sizes`."""
    figure = Figure(figsize=(5.2 * len(panels), 4.2), layout="constrained")
    for axes, panel in zip(np.atleast_1d(figure.subplots(1, len(panels))), panels, strict=True):
        _draw(axes, panel)
        axes.set_xlabel(sizes)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log")
    costs = [cost for curve in panel.curves.values() for cost in curve.costs]
    linear = panel.linear or max(costs) <= 0  # nothing has no logarithm
    axes.set_yscale("linear" if linear else "log")
    for number, (name, curve) in enumerate(panel.curves.items()):
        colour = (NAVY, *TASK_COLOURS[1:])[number % (1 + len(TASK_COLOURS[1:]))]
        label = f"{name}: exponent {curve.exponent}" if curve.exponent else name
        joined = "none" if curve.law is not None else "-"
        axes.plot(curve.sizes, curve.costs, "o", ls=joined, ms=5, color=colour, label=label)
        if curve.law is not None:
            ends = np.geomspace(min(curve.sizes), max(curve.sizes), 30)
            axes.plot(ends, [curve.law(size) for size in ends], color=colour, lw=1.2, alpha=0.6)
    if panel.limit is not None:
        axes.axhline(panel.limit, ls="--", color=ALERT, lw=1, label="required: below")
    low, high = axes.get_ylim()  # with room for the legend
    axes.set_ylim(*((0, 1.2 * high) if linear else (low, high * (high / low) ** HEADROOM)))
    axes.set_ylabel(panel.unit)
    axes.grid(color=GRID, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(colors=PALE)
    axes.legend(frameon=False, fontsize=8.5)
