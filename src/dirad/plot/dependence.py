"""The shape of the prediction against each column of X, with the thresholds of gates marked."""

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
from dirad.plot.responses import (
    Response,
    grouped,
    most_important,
    prediction_names,
    response,
    seen_thresholds,
)

MOST_FEATURES = 6
PANELS_PER_ROW = 3
MOST_LABELS = 3  # thresholds of one column that are labelled
LONG_NAMES = 22  # letters of all categories together, beyond which their names are turned
BESIDE = 0.12  # distance of a missing value from the curve, as a share of its width


class PartialDependenceDisplay:
    """The prediction against each column of X, averaged over samples of which only this one varies.

    Thin lines are single samples: where they are not parallel, the column interacts with others.
    Vertical lines are thresholds of gates on the column; the band around one is where its factor
    makes the middle 80 % of its change. Marks below are the deciles of the column. A category is a
    point, and so is a missing value where some were missing in `fit`; pale points are single
    samples.

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

        `features` are numbers or names of columns of X, by default the six most important; without
        `individual`, curves of single samples are not drawn.
        """
        from dirad.estimators.columns import checked_columns

        names = subject(estimator).columns
        X = checked_columns(estimator, X)
        every = grouped(names)
        if features is None:
            chosen = most_important(estimator, every, MOST_FEATURES)
        else:
            chosen = [every[_place(feature, names)] for feature in features]
        if not chosen:
            raise ValueError("no column of X matters to this model: name the features to draw")
        found = [response(estimator, X, one) for one in chosen]
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
        at, n = _positions(one), 0 if one.categories else one.n_known
        for curve in one.individual:
            if n:
                panel.plot(at[:n], curve[:n], color=QUIET, lw=0.6, alpha=0.5)
            if n < len(at):
                panel.plot(at[n:], curve[n:], "o", color=QUIET, ms=2.5, alpha=0.5, mew=0)
        for curve, name, colour in zip(
            one.mean, self.outputs, _colours(len(one.mean)), strict=True
        ):
            if n:
                panel.plot(at[:n], curve[:n], color=colour, lw=2.0, label=name)
            if n < len(at):
                panel.plot(at[n:], curve[n:], "o", color=colour, ms=6, label="" if n else name)
        if one.categories:
            turned = sum(map(len, one.categories)) > LONG_NAMES
            style = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if turned else {}
            panel.set_xticks(at, one.categories, fontsize=8, color=INK, **style)
            panel.set_xlim(-0.6, len(at) - 0.4)
            return
        panel.margins(x=0.02)
        if n < len(at):
            _mark_missing(panel, at)
        _mark_thresholds(panel, one)
        if not len(one.values):
            return
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


def _positions(one: Response) -> NDArray[np.float64]:
    """Return where each point is drawn: categories in a row, a missing value beside the curve."""
    if one.categories:
        return np.arange(len(one.grid), dtype=float)
    known = one.grid[: one.n_known]
    beside = known[-1] + BESIDE * (np.ptp(known) or 1.0)
    return np.where(np.isnan(one.grid), beside, one.grid)


def _mark_missing(panel: Axes, at: NDArray[np.float64]) -> None:
    """Name the last point, and separate it from the curve; it has no place on the axis."""
    panel.axvline(0.5 * (at[-2] + at[-1]), color=GRID, lw=0.8, zorder=0)
    panel.set_xlim(right=at[-1] + 0.6 * (at[-1] - at[-2]))
    low, high = at[0], at[-2]
    ticks = [tick for tick in panel.get_xticks() if low <= tick <= high]
    panel.set_xticks(ticks)
    panel.text(
        at[-1],
        -0.03,
        "missing",
        transform=panel.get_xaxis_transform(),
        ha="center",
        va="top",
        fontsize=8,
        color=INK,
    )


def _mark_thresholds(panel: Axes, one: Response) -> None:
    """Draw the thresholds within the range of the curve, and the width of their transitions."""
    seen = seen_thresholds(one)
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
    """Return the number of a column, given by its number or name."""
    if isinstance(feature, str):
        if feature not in names:
            raise ValueError(f"X has no column {feature!r}")
        return list(names).index(feature)
    if not -len(names) <= feature < len(names):
        raise ValueError(f"X has no column {feature}: it has {len(names)}")
    return int(feature) % len(names)


def _colours(n: int) -> list[str]:
    return [POSITIVE] if n == 1 else [TASK_COLOURS[i % len(TASK_COLOURS)] for i in range(n)]
