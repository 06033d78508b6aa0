"""One batch and one sample, as every model of a system sees them."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from dirad.plot.colours import ACCENT, ALERT, NAVY, QUIET
from dirad.plot.conflicts import draw_view, name_columns, seen_by
from dirad.preval.choice import ContinualSystem

MOST_ROWS = 6


def draw_flow(system: ContinualSystem, batch: NDArray, sample: NDArray) -> Figure:
    """One batch and one sample, as every stable model sees them.

    Left: the sample, L1's prediction of it and what contradicts; the model with the least score
    answers. Right: the batch's value against the limit up to which each model calls it known.
    """
    models = system.experts[:MOST_ROWS]
    side = round(np.sqrt(system.n_inputs))
    route = int(system.answer(sample[None]).route[0])
    scores = system.scores(sample[None])[0]
    verdicts = system.judge(batch)[:MOST_ROWS]
    known = [v for v in verdicts if v.validated]
    chosen = min(known, key=lambda v: v.value).model if known else None
    figure = Figure(figsize=(9.5, 1.9 * len(models) + 1.1), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.5, 1))
    left, right = halves
    axes: Any = left.subplots(len(models), 3, squeeze=False)
    for row, model in enumerate(models):
        view = seen_by(model, sample[None])
        draw_view(axes[row], view, 0, (side, side), (0.0, 1.0))
        if row == 0:
            name_columns(axes[row], view)
        ratio = scores[row]
        mark = "  ← answers" if model.number == route else ""
        axes[row, 0].set_ylabel(f"model {model.number}", fontsize=10)
        axes[row, 2].set_xlabel(
            f"score {ratio:.3f}{mark}",
            fontsize=9,
            color=NAVY if mark else QUIET,
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
        "how improbable the batch is: 1 − p"
        if system.settings.buffer_size
        else "share of invalid samples"
    )
    ax.spines[["top", "right"]].set_visible(False)
    verdict = f"model {chosen} knows it" if chosen is not None else "new to all: a model is opened"
    right.suptitle(f"One batch: {verdict}")
    return figure
