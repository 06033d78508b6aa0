"""Pictures of models that validate: how one adapts, and how batches and samples find theirs."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dirad.preval.model import Model
from dirad.preval.system import System

INK, QUIET, ACCENT, ALERT = "#1b3a4b", "#8fa3ad", "#1f77b4", "#d1495b"
TASK_COLOURS = ("#1f77b4", "#e07b00", "#2a9d55", "#8e44ad", "#b5762a")
PIXELS = colormaps["gray_r"].with_extremes(bad="#d5e3ea")
MOST_MODELS = 6  # rows of a flow picture


def draw_adaptation(model: Model) -> Figure:
    """Error, edges and hidden nodes of L0 and then of L1, with the transition marked."""
    assert model.l1 is not None
    l0 = model.history
    error, edges, hidden = model.l1.progress()
    first, last = len(l0.error), len(l0.error) + len(error)
    n_outputs = max(model.network.n_outputs, 1)
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    squared = model.settings.l0.cost == "squared"
    l0_error = 2 * l0.error / n_outputs if squared else l0.error
    top.plot(range(first), l0_error, color=ACCENT, lw=0.8, label="L0: outputs")
    top.plot(range(first, last), error, color=ALERT, lw=0.8, label="L1: states of L0's nodes")
    top.set_ylabel("mean squared error\nper target" if squared else "error")
    top.set_ylim(bottom=0)
    top.legend(frameon=False, loc="upper right")
    for values, l1_values, colour, label in (
        (l0.edges, edges, INK, "edges"),
        (l0.hidden, hidden, QUIET, "hidden nodes"),
    ):
        bottom.plot(range(first), values, color=colour, label=label)
        bottom.plot(range(first, last), l1_values, color=colour)
    bottom.set_yscale("symlog", linthresh=10)
    bottom.set_ylim(bottom=0)
    bottom.set_ylabel("size of the network\nthat adapts")
    bottom.set_xlabel("step (one batch each)" if not model.settings.buffer_size else "step")
    bottom.legend(frameon=False, loc="lower right")
    for axes in (top, bottom):
        axes.axvline(first, color=INK, lw=1, ls=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    top.annotate(
        " L0 stable: L1 begins", (first, top.get_ylim()[1]), va="top", color=INK, fontsize=9
    )
    figure.suptitle(f"Adaptation of one model: {first:,} steps of L0, then {len(error):,} of L1")
    return figure


def draw_flow(system: System, batch: NDArray, sample: NDArray) -> Figure:
    """One batch and one sample, as every stable model sees them.

    Left: the sample, L1's prediction of it and what contradicts; the model with the least score
    answers. Right: the batch's value against the limit up to which each model calls it known.
    """
    models = system.stable[:MOST_MODELS]
    side = round(np.sqrt(system.n_inputs))
    route = int(system.route(sample[None])[0])
    scores = system.scores(sample[None])[0]
    verdicts = system.judge(batch)[:MOST_MODELS]
    known = [v for v in verdicts if v.validated]
    chosen = min(known, key=lambda v: v.value).model if known else None
    figure = Figure(figsize=(9.5, 1.9 * len(models) + 1.1), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.5, 1))
    left, right = halves
    axes: Any = left.subplots(len(models), 3, squeeze=False)
    for row, model in enumerate(models):
        picture = seen_by(system, model, sample)
        blank = " (blue: not predicted)" if row == 0 and np.isnan(picture[1]).any() else ""
        predicted_title = f"predicted by L1{blank}"
        ratio = scores[row]
        mark = "  ← answers" if model.number == route else ""
        for column, (image, title) in enumerate(
            zip(picture, ("the sample", predicted_title, "conflicted"), strict=True)
        ):
            ax = axes[row, column]
            if column < 2:
                ax.imshow(image.reshape(side, side), cmap=PIXELS, vmin=0, vmax=1)
            else:
                ax.imshow(picture[0].reshape(side, side), cmap="gray_r", vmin=0, vmax=3)
                y, x = np.nonzero(image.reshape(side, side))
                ax.scatter(x, y, s=2200 / side**2, marker="s", color=ALERT, linewidths=0)
            ax.set_xticks([])
            ax.set_yticks([])
            if row == 0:
                ax.set_title(title, fontsize=9)
        axes[row, 0].set_ylabel(f"model {model.number}", fontsize=10)
        axes[row, 2].set_xlabel(
            f"score {ratio:.3f}{mark}",
            fontsize=9,
            color=INK if mark else QUIET,
            fontweight="bold" if mark else "normal",
        )
    left.suptitle("One sample goes to the model with the least score")
    ax = right.subplots()
    places = np.arange(len(verdicts))[::-1]
    colours = [ACCENT if v.validated else ALERT for v in verdicts]
    ax.barh(places, [v.value for v in verdicts], color=colours, height=0.5)
    ax.plot([v.limit for v in verdicts], places, "k|", ms=26, mew=2)
    ax.annotate("limit", (verdicts[0].limit, places[0] + 0.3), ha="center", va="bottom", fontsize=9)
    names = [f"model {v.model}" + ("\ntakes it" if v.model == chosen else "") for v in verdicts]
    ax.set_yticks(places, names)
    ax.set_xlabel(
        "deviations above the usual error"
        if system.settings.buffer_size
        else "share of invalid samples"
    )
    ax.spines[["top", "right"]].set_visible(False)
    verdict = f"model {chosen} knows it" if chosen is not None else "new to all: a model is opened"
    right.suptitle(f"One batch: {verdict}")
    return figure


def draw_timeline(moments: Sequence[Any], digits: Sequence[int], events: Sequence[Any]) -> Figure:
    """What a stream showed and what the system made of it, batch by batch.

    `moments` are those of `experiments.streams`: batch, task, accuracy, value, model.
    """
    batches = np.array([m.batch for m in moments])
    tasks = np.array([m.task for m in moments])
    models = np.array([m.model for m in moments])
    figure = Figure(figsize=(9.5, 6), layout="constrained")
    top, middle, bottom = figure.subplots(3, 1, sharex=True, height_ratios=(1.2, 1, 1))
    top.set_title("Tasks arrive unannounced; each batch goes to a model", loc="left", fontsize=11)
    starts = [0, *(np.flatnonzero(np.diff(tasks)) + 1).tolist(), len(tasks)]
    for first, last in itertools.pairwise(starts):
        colour = TASK_COLOURS[tasks[first] % len(TASK_COLOURS)]
        a, b = digits[2 * tasks[first] : 2 * tasks[first] + 2]
        for axes in (top, middle, bottom):
            axes.axvspan(first - 0.5, last - 0.5, color=colour, alpha=0.12, lw=0)
        top.text(
            (first + last - 1) / 2,
            models.max() + 0.55,
            f"{a} and {b}" if last - first > len(tasks) / 10 else f"{a}, {b}",
            ha="center",
            va="center",
            fontsize=9,
            color=colour,
            fontweight="bold",
        )
    top.scatter(
        batches, models, s=14, c=[TASK_COLOURS[t % len(TASK_COLOURS)] for t in tasks], marker="s"
    )
    for event in events:
        if event.kind in ("opened", "stable"):
            style = {"marker": "^" if event.kind == "opened" else "o", "color": INK}
            top.scatter([event.batch], [event.model - 0.28], s=26, **style)
    top.scatter([], [], s=26, marker="^", color=INK, label="opened")
    top.scatter([], [], s=26, marker="o", color=INK, label="stable")
    top.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")
    top.set_yticks(range(models.max() + 1), [f"model {i}" for i in range(models.max() + 1)])
    top.set_ylim(-0.6, models.max() + 0.9)
    values = np.array([m.value for m in moments])
    middle.scatter(batches, values, s=10, color=np.where(values > 1, ALERT, ACCENT).tolist())
    middle.axhline(1, color=INK, lw=1, ls=":")
    middle.set_yscale("symlog", linthresh=1)
    finite = values[np.isfinite(values)]
    if len(finite):
        middle.set_ylim(min(-1.2, 1.2 * finite.min()), max(2.0, 2.0 * finite.max()))
    middle.set_ylabel("novelty ÷ limit\n(no model adapting)")
    bottom.plot(batches, [m.accuracy for m in moments], color=INK, lw=1)
    bottom.set_ylim(-0.02, 1.02)
    bottom.set_ylabel("accuracy before\nlearning the batch")
    bottom.set_xlabel("batch")
    for axes in (top, middle, bottom):
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    return figure


def seen_by(system: System, model: Model, sample: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return a sample, its inputs as L1 predicts them, and which of them are conflicted."""
    inputs, predicted = model.predicted_inputs(sample[None])
    image = np.full(system.n_inputs, np.nan)  # what L1 does not predict stays blank
    image[inputs] = predicted[0]
    bad = model.conflicted(sample[None])[0, : system.n_inputs]
    return sample, np.clip(image, 0, 1), bad
