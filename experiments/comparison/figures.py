"""Pictures of a comparison: how accuracy falls as tasks come, and what it costs to keep it."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from numpy.typing import NDArray

from dirad.plot.colours import ALERT, NAVY, QUIET, TASK_COLOURS

OURS = "ours (default)"
NEAREST_FIRST = sorted(range(-200, 201), key=abs)  # steps up and down
LETTER, LINE = 0.0105, 0.030  # width and height of text, as shares of the axes
NAMED = {  # drawn in colour; all others are grey
    OURS: ALERT,
    "Gaussian per task": TASK_COLOURS[0],
    "QDA: Gaussian per class": TASK_COLOURS[2],
    "RanPAC, 1,000 features": TASK_COLOURS[3],
    "RanDumb, 5,000 features": "#0f8b8d",
    "factor analysers per class": "#c2569b",
    "joint training, MLP": NAVY,
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
    whole.set_ylim(0, 1.02)
    _name_best(close, ends, last)
    for axes in (whole, close):
        axes.set_xlabel("tasks seen")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.spines[["top", "right"]].set_visible(False)
    close.set_xlim(0.9, 1.42 * last)  # room for names
    close.set_xticks(range(1, last + 1, 1 + last // 11))
    close.spines["bottom"].set_bounds(1, last)
    whole.set_ylabel("test accuracy over all classes seen")
    whole.set_title("all methods", loc="left", fontsize=10)
    close.set_title("the best, close up (band: ± one deviation)", loc="left", fontsize=10)
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold")
    return figure


def _name_best(axes: Axes, ends: list[tuple[float, str, str]], last: int) -> None:
    """Show the range of the named methods, and write their names beside their ends."""
    shown = sorted((end for end in ends if end[1] in NAMED), reverse=True)
    low = min((value for value, _, _ in shown), default=0.8) - 0.02
    best = max((value for value, _, _ in shown), default=1.0)
    axes.set_ylim(max(low, min(0.6, best - 0.35)), 1.003)
    gap = (axes.get_ylim()[1] - axes.get_ylim()[0]) / 19
    bottom, place = axes.get_ylim()
    for value, method, colour in shown:
        if value < bottom:
            break
        place = min(value, place - gap)
        axes.annotate(
            f"{method}  {value:.3f}", (last, value), (1.024 * last, place), color=colour,
            va="center", fontsize=8.5, annotation_clip=False,
            fontweight="bold" if method == OURS else "normal",
        )  # fmt: skip


def draw_sizes(
    accuracies: Mapping[str, NDArray],
    stored: Mapping[str, float],
    title: str,
    sizes: Sequence[tuple[float, float, int]] = (),
) -> Figure:
    """Draw the share of mistakes at the end against the bytes that are stored, by method.

    `sizes` are points of ours, by rising size, that a line joins: bytes, accuracy, modes. The
    Pareto front joins the points that no other one beats in both bytes and mistakes.
    """
    figure = Figure(figsize=(9.5, 6.5), layout="constrained")
    axes = figure.subplots()
    points = [
        (stored[method], 1.0 - float(runs[:, -1].mean()), method)
        for method, runs in accuracies.items()
    ]
    ours_by_size = [(size, 1.0 - accuracy, modes) for size, accuracy, modes in sizes]
    kept, mistakes, _ = zip(*points, *ours_by_size, strict=True)
    _scale_sizes(axes, kept, mistakes)
    front = pareto_front(list(zip(kept, mistakes, strict=True)))
    _draw_front(axes, front)
    for (size, mistake, method), (x, y) in zip(points, places(points, axes), strict=True):
        colour, ours = NAMED.get(method, "#5b6b73"), method == OURS
        edge = "black" if (size, mistake) in front else colour
        axes.plot(size, mistake, "o", ms=9 if ours else 6, color=colour, mec=edge, mew=1.0)
        axes.annotate(
            method, (size, mistake), (x, y), textcoords="axes fraction", fontsize=8,
            color=colour, va="center", fontweight="bold" if ours else "normal",
            arrowprops={"arrowstyle": "-", "color": colour, "lw": 0.5, "shrinkA": 0, "shrinkB": 4},
        )  # fmt: skip
    if len(ours_by_size) > 1:
        x, y, _ = zip(*ours_by_size, strict=True)
        label = "ours, by modes per class"
        axes.plot(x, y, "o-", ms=4, lw=1.2, color=NAMED[OURS], zorder=1, label=label)
        for size, mistake, modes in ours_by_size:
            axes.annotate(
                str(modes), (size, mistake), (-5, 6), textcoords="offset points", ha="right",
                fontsize=7.5, color=NAMED[OURS],
            )  # fmt: skip
    axes.legend(loc="lower right", frameon=False, fontsize=8.5)
    axes.set_title(f"{title}: fewer mistakes are higher", loc="left", fontweight="bold")
    return figure


def _scale_sizes(axes: Axes, kept: Sequence[float], mistakes: Sequence[float]) -> None:
    """Set the axes of bytes and mistakes, with room for names on the right."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(min(kept) / 1.6, max(kept) * 9)
    axes.set_ylim(max(mistakes) * 1.9, min(mistakes) / 1.35)  # fewer mistakes: higher
    ticks = [t for t in (0.01, 0.02, 0.03, 0.05, 0.1, 0.2, 0.5, 0.8) if t <= max(mistakes) * 1.1]
    axes.set_yticks(ticks, [f"{tick:.0%}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: byte_text(size)))
    axes.set_xlabel("stored at the end: parameters, indices of sparse edges, samples")
    axes.set_ylabel("mistakes over all classes after the last task")
    axes.spines[["top", "right"]].set_visible(False)


def _draw_front(axes: Axes, front: Sequence[tuple[float, float]]) -> None:
    """Draw what can be had at each size: steps from each point of the front to the next."""
    x, y = zip(*front, strict=True)
    right = axes.get_xlim()[1]
    axes.step(
        [*x, right], [*y, y[-1]], where="post", color="#8a979e", lw=1.0, ls="--", zorder=0,
        label="Pareto front: none is smaller and better",
    )  # fmt: skip


def pareto_front(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the (size, mistakes) that no other point beats in both, by rising size.

    >>> pareto_front([(1, 0.5), (2, 0.6), (3, 0.1), (3, 0.2)])
    [(1, 0.5), (3, 0.1)]
    """
    front: list[tuple[float, float]] = []
    for size, mistakes in sorted(points):
        if not front or mistakes < front[-1][1]:
            front.append((size, mistakes))
    return front


def byte_text(size: float) -> str:
    """Return a size in readable units.

    >>> byte_text(1e4), byte_text(2e6)
    ('10 kB', '2 MB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size:g} B"


def places(points: Sequence[tuple[float, float, str]], axes: Axes) -> list[tuple[float, float]]:
    """Return where the names of points go, as shares of the axes, so that none covers another."""
    where = axes.transScale.transform([point[:2] for point in points])
    corners = np.array([axes.transLimits.transform(at) for at in where])
    # Left, right, height, and the distance in height that a name keeps from it: dots, then names.
    taken = [(x - 0.008, x + 0.008, y, 0.7 * LINE) for x, y in corners.tolist()]
    result: dict[int, tuple[float, float]] = {}
    for i in np.lexsort((corners[:, 0], -corners[:, 1])):
        left = float(corners[i, 0]) + 0.02
        right = left + LETTER * len(points[i][2])
        beside = [(h, gap) for a, b, h, gap in taken if a < right and left < b]
        # The nearest free height, not that of the dot: the Pareto front runs to the right of it.
        first = float(corners[i, 1]) + (0.8 if points[i][2] == OURS else -0.7) * LINE
        tried = first + LINE / 4 * np.array(NEAREST_FIRST)
        height = next(h for h in tried if all(abs(h - other) >= gap for other, gap in beside))
        taken.append((left, right, float(height), LINE))
        result[int(i)] = (left, float(height))
    return [result[i] for i in range(len(points))]
