"""Pictures of costs: measured points, the power law through them, and its exponent."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from dirad.plot.colours import ALERT, GRID, NAVY, PALE, TASK_COLOURS
from experiments.scale.power_law import law_of
from experiments.scale.tables import MOST_GROWTH, MOST_OF_ONE

HEADROOM = 0.25  # share of a logarithmic axis

# By part: title, what grows, and panels: a unit, and by name the cost that is drawn.
PICTURES: dict[str, tuple[str, str, dict[str, dict[str, str]]]] = {
    "inputs": (
        "One L0 as inputs grow",
        "inputs",
        {
            "seconds": {"whole fit": "fit", "a round of growth": "round", "a step": "step"},
            "megabytes": {"memory": "megabytes"},
        },
    ),
    "targets": (
        "One model's L1 as targets grow",
        "targets",
        {
            "seconds": {
                "before L1 adapts": "L0",
                "L1": "L1",
                "per target": "per_target",
            },
            "megabytes": {"memory": "megabytes"},
        },
    ),
    "edges": (
        "One network as edges grow",
        "edges",
        {
            "seconds": {"a step": "step", "response to a sample": "response"},
            "megabytes": {"memory": "megabytes"},
        },
    ),
    "permuted": (
        "One system as models grow",
        "models",
        {
            "seconds for 10,000 samples": {"asking all": "all", "routing": "route"},
            "seconds for a batch of 50": {"taking it": "batch"},
        },
    ),
    "samples": (
        "A stream as it goes on",
        "samples",
        {"megabytes": {"peak of memory": "megabytes"}},
    ),
}

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


def draw(rows: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, Figure]:
    """Return a picture of each part that was measured at two sizes or more."""
    pictures = {}
    for part, (title, sizes, panels) in PICTURES.items():
        some = rows.get(part, ())
        if len(some) < 2:
            continue
        flat = part == "samples"
        drawn = [
            Panel(
                unit,
                {name: curve_of(some, cost, flat) for name, cost in costs.items()},
                limit_of(some, part) if not number else None,
                flat,
            )
            for number, (unit, costs) in enumerate(panels.items())
        ]
        pictures["models" if part == "permuted" else part] = draw_costs(title, sizes, drawn)
    return pictures


def curve_of(rows: Sequence[Mapping[str, float]], cost: str, flat: bool) -> Curve:
    """Return a cost and its law; none of what is meant to stay as it is."""
    sizes, costs = [row["size"] for row in rows], [row[cost] for row in rows]
    law = None if flat else law_of(rows, cost)
    return Curve(sizes, costs) if law is None else Curve(sizes, costs, law.at, str(law))


def limit_of(rows: Sequence[Mapping[str, float]], part: str) -> float | None:
    """Return what the costs of a part must stay below, where something is required."""
    if part == "permuted":
        return MOST_OF_ONE * rows[-1]["one"]
    return (1.0 + MOST_GROWTH) * rows[0]["megabytes"] if part == "samples" else None
