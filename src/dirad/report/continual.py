"""Pictures of models that validate: how one adapts, and how batches and samples find theirs."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dirad.preval.model import Model
from dirad.preval.system import System

INK, QUIET, ACCENT, ALERT = "#1b3a4b", "#8fa3ad", "#1f77b4", "#d1495b"
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
        ratio = scores[row]
        mark = "  ← answers" if model.number == route else ""
        for column, (image, title) in enumerate(
            zip(picture, ("the sample", "predicted by L1", "conflicted"), strict=True)
        ):
            ax = axes[row, column]
            if column < 2:
                ax.imshow(image.reshape(side, side), cmap="gray_r", vmin=0, vmax=1)
            else:
                ax.imshow(picture[0].reshape(side, side), cmap="gray_r", vmin=0, vmax=3)
                y, x = np.nonzero(image.reshape(side, side))
                ax.scatter(x, y, s=2200 / side**2, marker="s", color=ALERT, linewidths=0)
            ax.set_xticks([])
            ax.set_yticks([])
            if row == 0:
                ax.set_title(title, fontsize=10)
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


def seen_by(system: System, model: Model, sample: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return a sample, its inputs as L1 predicts them, and which of them are conflicted."""
    assert model.l1 is not None
    scaled = system.scaled(sample[None])
    nodes, predicted = model.l1.predictions(scaled)
    inputs = nodes < system.n_inputs
    image = np.zeros(system.n_inputs)
    image[nodes[inputs]] = predicted[0, inputs]
    if system.settings.standardize:
        image = image * system.scale + system.offset
    bad = model.conflicted(scaled)[0, : system.n_inputs]
    return sample, np.clip(image, 0, 1), bad
