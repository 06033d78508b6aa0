"""The shape of the prediction against each input, with the thresholds of gates marked."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dirad.plot.colours import (
    GRID,
    HIDDEN_EDGE,
    HIDDEN_FILL,
    INK,
    PALE,
    POSITIVE,
    QUIET,
    TASK_COLOURS,
)
from dirad.plot.data import subject
from dirad.plot.figure import root, shown
from dirad.plot.responses import Response, most_important, prediction_names, response

MOST_FEATURES = 6
PANELS_PER_ROW = 3
MOST_LABELS = 3  # thresholds of one input that are labelled


class PartialDependenceDisplay:
    """The prediction against each input, averaged over samples of which only this input varies.

    Thin lines are single samples: where they are not parallel, the input interacts with others.
    Vertical lines are thresholds of gates on the input; the band around one is where its factor
    makes the middle 80 % of its change. Marks below are the deciles of the input.

    Parameters
    ----------
    responses : sequence of Response
    outputs : sequence of str, the names of the predictions
    """

    def __init__(self, responses: Sequence[Response], outputs: Sequence[str]) -> None:
        self.responses = list(responses)
        self.outputs = list(outputs)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        features: Sequence[int | str] | None = None,
        *,
        individual: bool = True,
        ax: Axes | None = None,
    ) -> "PartialDependenceDisplay":
        """Draw a DIRADClassifier (probabilities) or a DIRADRegressor on samples X.

        `features` are numbers or names of inputs, by default the six most important; without
        `individual`, curves of single samples are not drawn.
        """
        from dirad.estimators.checks import checked_inputs

        names = subject(estimator).inputs
        X = checked_inputs(estimator, X, reset=False)
        chosen = most_important(estimator, MOST_FEATURES) if features is None else features
        places = [_place(feature, names) for feature in chosen]
        if not places:
            raise ValueError("no input matters to this model: name the features to draw")
        found = [response(estimator, X, place, names[place]) for place in places]
        if not individual:
            found = [one._replace(individual=one.individual[:0]) for one in found]
        return cls(found, prediction_names(estimator)).plot(ax)

    def plot(self, ax: Axes | None = None) -> "PartialDependenceDisplay":
        """Draw on `ax`, or on a new figure."""
        n = len(self.responses)
        columns = min(n, PANELS_PER_ROW)
        rows = -(-n // columns)
        if ax is None:
            size = (max(3.1 * columns, 4.0), 2.7 * rows + 0.2)
            figure = shown(figsize=size, layout="constrained")
            grid: NDArray = figure.subplots(rows, columns, squeeze=False, sharey=True)
            panels = list(grid.ravel())
            for spare in panels[n:]:
                spare.set_axis_off()
        elif n == 1:
            panels = [ax]
        else:
            ax.set_axis_off()
            width, height = 1.0 / columns, 1.0 / rows
            panels = [
                ax.inset_axes(
                    (
                        i % columns * width,
                        1 - (i // columns + 1) * height,
                        0.85 * width,
                        0.7 * height,
                    )
                )
                for i in range(n)
            ]
        self.axes_: list[Axes] = panels[:n]
        for place, (panel, one) in enumerate(zip(self.axes_, self.responses, strict=True)):
            self._draw(panel, one, leftmost=place % columns == 0)
        if len(self.outputs) > 1:
            self.axes_[0].legend(fontsize=8, handlelength=1.0, edgecolor="none")
        self.ax_: Axes = self.axes_[0] if ax is None else ax
        self.figure_ = root(self.ax_)
        return self

    def _draw(self, panel: Axes, one: Response, *, leftmost: bool) -> None:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8, colors=PALE)
        panel.grid(axis="y", color=GRID, lw=0.6)
        panel.set_xlabel(one.name, fontsize=9, color=INK)
        single = len(self.outputs) == 1
        if leftmost:
            panel.set_ylabel(self.outputs[0] if single else "probability", fontsize=9, color=INK)
        for curve in one.individual:
            panel.plot(one.grid, curve, color=QUIET, lw=0.6, alpha=0.5)
        for curve, name, colour in zip(
            one.mean, self.outputs, _colours(len(one.mean)), strict=True
        ):
            panel.plot(one.grid, curve, color=colour, lw=2.0, label=name)
        panel.margins(x=0.02)
        _mark_thresholds(panel, one)
        deciles = np.quantile(one.values, np.arange(1, 10) / 10)
        panel.plot(
            deciles,
            np.zeros(9),
            "|",
            color=PALE,
            ms=6,
            transform=panel.get_xaxis_transform(),
            clip_on=False,
            zorder=3,
        )


def _mark_thresholds(panel: Axes, one: Response) -> None:
    """Draw the thresholds within the range of the curve, and the width of their transitions."""
    seen = [gate for gate in one.thresholds if one.grid[0] <= gate.value <= one.grid[-1]]
    for gate in seen:
        if not gate.is_sharp:
            ends = gate.value - gate.half_width, gate.value + gate.half_width
            panel.axvspan(*ends, color=HIDDEN_FILL, lw=0, zorder=0)
        panel.axvline(gate.value, color=HIDDEN_EDGE, lw=1.0, ls=(0, (4, 2)), zorder=1)
        if len(seen) <= MOST_LABELS:
            panel.text(
                gate.value,
                1.01,
                gate.condition("").split(" ± ")[0].strip().split(" ")[1],
                transform=panel.get_xaxis_transform(),
                ha="center",
                va="bottom",
                fontsize=8,
                color=HIDDEN_EDGE,
            )


def _place(feature: int | str, names: Sequence[str]) -> int:
    """Return the number of an input, given by its number or name."""
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"there is no input {feature!r}")
        return list(names).index(feature)
    if not -len(names) <= feature < len(names):
        raise ValueError(f"there is no input {feature}: the model has {len(names)}")
    return int(feature) % len(names)


def _colours(n: int) -> list[str]:
    return [POSITIVE] if n == 1 else [TASK_COLOURS[i % len(TASK_COLOURS)] for i in range(n)]
