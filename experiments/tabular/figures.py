"""Pictures of the comparison: how far each method is from the best, and at what size."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from dirad.plot.colours import ALERT, NAVY, QUIET, TASK_COLOURS
from dirad.streams.averages import mean
from experiments.tabular.catalogue import BY_NAME
from experiments.tabular.methods import BOOSTING, DIRAD, EBM, FOREST, LINEAR, MLP, TREE
from experiments.tabular.run import Run
from experiments.tabular.tables import data_of, data_with, mean_scores, methods_of, of

COLOURS = {
    DIRAD: ALERT,
    LINEAR: QUIET,
    BOOSTING: TASK_COLOURS[0],
    FOREST: TASK_COLOURS[2],
    MLP: TASK_COLOURS[3],
    EBM: TASK_COLOURS[1],
    TREE: NAVY,
}
MARKERS = {DIRAD: "o", LINEAR: "s", BOOSTING: "D", FOREST: "^", MLP: "v", EBM: "P", TREE: "x"}
LINEAR_UP_TO = 0.01  # gaps below it are drawn on a linear scale, larger ones on a logarithmic one


def draw_gaps(runs: Sequence[Run]) -> Figure:
    """Draw, for each data set, how far below the best method's each method's score is."""
    names = data_of(runs)
    figure = Figure(figsize=(8.5, 1.6 + 0.24 * len(names)), layout="constrained")
    axes = figure.subplots()
    for method in methods_of(runs):
        own = data_with(runs, method)
        gaps = [_gap(runs, name, method) for name in own]
        rows = [names.index(name) for name in own]
        axes.plot(gaps, rows, MARKERS[method], ms=6, color=COLOURS[method],
                  label=method, zorder=3 if method == DIRAD else 2)  # fmt: skip
    axes.set_xscale("symlog", linthresh=LINEAR_UP_TO)
    axes.set_xlim(left=-0.0008)
    axes.invert_xaxis()
    labels = [f"{name} (R²)" if BY_NAME[name].task == "regression" else name for name in names]
    axes.set_yticks(range(len(names)), labels, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.grid(axis="y", lw=0.4)
    axes.set_xlabel("accuracy or R² below the best method's (the best is at the right)")
    axes.spines[["top", "left"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=7, frameon=False, fontsize=8.5)
    return figure


def draw_sizes(runs: Sequence[Run]) -> Figure:
    """Draw the gap to the best score against the numbers stored; large marks are medians."""
    figure = Figure(figsize=(8.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for method in methods_of(runs):
        names = data_with(runs, method)
        sizes = [mean(one.stored for one in of(runs, name, method)) for name in names]
        gaps = [_gap(runs, name, method) for name in names]
        style: dict[str, Any] = {"color": COLOURS[method], "marker": MARKERS[method], "ls": ""}
        axes.plot(sizes, gaps, ms=4, alpha=0.35, **style)
        axes.plot([np.median(sizes)], [np.median(gaps)], ms=11, label=method, **style)
    axes.set_xscale("log")
    axes.set_yscale("symlog", linthresh=LINEAR_UP_TO)
    axes.set_ylim(bottom=-0.0008)
    axes.invert_yaxis()
    axes.set_xlabel("numbers stored")
    axes.set_ylabel("accuracy or R² below the best method's")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=7, frameon=False, fontsize=8.5)
    return figure


def _gap(runs: Sequence[Run], data: str, method: str) -> float:
    found = mean_scores(runs, data)
    return max(found.values()) - found[method]
