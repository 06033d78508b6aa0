"""Pictures of a comparison: how accuracy falls as tasks come, and what it costs to keep it."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dirad.report.continual import ALERT, INK, QUIET, TASK_COLOURS

OURS = "ours (default)"
NAMED = {  # drawn in colour; all others are grey
    OURS: ALERT,
    "Gaussian per task": TASK_COLOURS[0],
    "QDA: Gaussian per class": TASK_COLOURS[2],
    "random features + ridge": TASK_COLOURS[3],
    "joint training, MLP": INK,
    "replay, 10,000 samples": TASK_COLOURS[4],
    "GDumb, 10,000 samples": TASK_COLOURS[1],
}


def draw_tasks(accuracies: Mapping[str, NDArray], title: str) -> Figure:
    """Draw the accuracy over all classes seen, after each task; the best methods close up.

    `accuracies` has by method an array (orders, tasks).
    """
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    whole, close = figure.subplots(1, 2, width_ratios=(1, 1.15))
    ends: list[tuple[float, str, str]] = []
    last = 1
    for method, runs in accuracies.items():
        last = runs.shape[1]
        tasks = np.arange(1, runs.shape[1] + 1)
        colour = NAMED.get(method, QUIET)
        ours = method == OURS
        for axes in (whole, close):
            axes.plot(
                tasks,
                runs.mean(axis=0),
                color=colour,
                lw=2.6 if ours else 1.2,
                alpha=1.0 if method in NAMED else 0.6,
                marker="o" if ours else None,
                ms=4,
                zorder=3 if ours else 2,
            )
        if len(runs) > 1 and ours:
            spread = runs.std(axis=0, ddof=1)
            close.fill_between(
                tasks,
                runs.mean(axis=0) - spread,
                runs.mean(axis=0) + spread,
                color=colour,
                alpha=0.15,
                lw=0,
            )
        ends.append((float(runs[:, -1].mean()), method, colour))
    shown = sorted((end for end in ends if end[1] in NAMED), reverse=True)
    low = min((value for value, _, _ in shown), default=0.8) - 0.02
    close.set_ylim(max(low, 0.6), 1.003)
    whole.set_ylim(0, 1.02)
    gap = (close.get_ylim()[1] - close.get_ylim()[0]) / 19
    place = close.get_ylim()[1]
    for value, method, colour in shown:
        place = min(value, place - gap)
        close.annotate(
            f"{method}  {value:.3f}", (last, value), (last + 0.12, place), color=colour,
            va="center", fontsize=8.5, annotation_clip=False,
            fontweight="bold" if method == OURS else "normal",
        )  # fmt: skip
    for axes in (whole, close):
        axes.set_xlabel("tasks seen")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    close.set_xlim(0.9, last + 2.1)
    close.set_xticks(range(1, last + 1))
    close.spines["bottom"].set_bounds(1, last)
    whole.set_ylabel("test accuracy over all classes seen")
    whole.set_title("all methods", loc="left", fontsize=10)
    close.set_title("the best, close up (band: ± one deviation)", loc="left", fontsize=10)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def draw_sizes(
    accuracies: Mapping[str, NDArray], stored: Mapping[str, float], title: str
) -> Figure:
    """Draw the final accuracy against the numbers that are stored, by method."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    points = [
        (stored[method], float(runs[:, -1].mean()), method) for method, runs in accuracies.items()
    ]
    for size, accuracy, method in points:
        ours = method == OURS
        axes.plot(size, accuracy, "o", ms=9 if ours else 6, color=NAMED.get(method, QUIET))
        axes.annotate(
            method, (size, accuracy), (6, -3 if not ours else 6), textcoords="offset points",
            fontsize=8.5, color=NAMED.get(method, "#5b6b73"),
            fontweight="bold" if ours else "normal",
        )  # fmt: skip
    axes.set_xscale("log")
    sizes = [size for size, _, _ in points]
    axes.set_xlim(min(sizes) / 1.6, max(sizes) * 8)
    axes.set_xlabel("numbers stored at the end (parameters and samples)")
    axes.set_ylabel("final test accuracy over all classes")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_title(title, loc="left", fontweight="bold")
    return figure
