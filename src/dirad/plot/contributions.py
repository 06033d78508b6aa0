"""What contributes to a prediction, and to predictions on average, as horizontal bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dirad.explanation import CONSTANT, Explanation, explain
from dirad.plot.colours import GRID, INK, NEGATIVE, PALE, POSITIVE
from dirad.plot.data import subject
from dirad.plot.figure import root, shown

MOST_BARS = 10


class ExplanationDisplay:
    """Bars of what contributes to one prediction, or, without a sample, to predictions on average.

    Of one sample, each bar begins where the one above it ends: the first at the bias, the last ends
    at the activation, which is the prediction of a regressor, the log-odds of the second of two
    classes, or the score of a class in a softmax, relative to the mean score of all classes. On
    average, a bar is the mean distance of a contribution from its mean.

    Parameters
    ----------
    names : sequence of str, one per bar
    contributions : array (bars,)
    bias : float or None
        The activation without any contribution; None if bars are averages.
    output : str, what the bars add up to
    """

    def __init__(
        self,
        names: Sequence[str],
        contributions: NDArray[np.float64],
        *,
        bias: float | None = None,
        output: str = "output",
    ) -> None:
        self.names = list(names)
        self.contributions = np.asarray(contributions, float)
        self.bias = bias
        self.output = output

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sample: int | None = None,
        output: int | None = None,
        by: str = "input",
        max_bars: int = MOST_BARS,
        ax: Axes | None = None,
    ) -> "ExplanationDisplay":
        """Draw the contributions to row `sample` of X; without it, their size on average over X.

        `output` is the number of an output; by default the one with the largest activation, and on
        average all outputs together. `by` is that of `dirad.explain`. Contributions beyond the
        `max_bars` largest are added up.
        """
        from dirad.estimators.checks import checked_inputs

        found = explain(estimator, X, by=by)
        if _is_softmax(estimator, found):
            found = found.relative()
        if sample is None:
            sizes = found.importances
            sizes = sizes.sum(axis=0) if output is None else sizes[output]
            names, sizes = _largest(list(found.names), sizes, max_bars)
            return cls(names, sizes, output=_meaning(estimator, found, output)).plot(ax)
        values = checked_inputs(estimator, X, reset=False)[sample]
        if output is None:
            output = int(np.argmax(found.activation[sample]))
        names = list(found.names)
        if by == "input":
            names = [
                _with_values(found, i, values, subject(estimator).inputs) for i in range(len(names))
            ]
        names, sizes = _largest(names, found.contributions[sample, output], max_bars)
        bias = float(found.bias[output])
        return cls(names, sizes, bias=bias, output=_meaning(estimator, found, output)).plot(ax)

    def plot(self, ax: Axes | None = None) -> "ExplanationDisplay":
        """Draw on `ax`, or on a new figure."""
        n = len(self.names)
        if ax is None:
            size = (7.0, 0.32 * n + (1.5 if self.bias is not None else 1.0))
            ax = shown(figsize=size, layout="constrained").subplots()
        ax.spines[["top", "right", "left"]].set_visible(False)
        ax.tick_params(axis="y", length=0)
        ax.tick_params(axis="x", labelsize=8, colors=PALE)
        ax.grid(axis="x", color=GRID, lw=0.6)
        ax.set_axisbelow(True)
        ax.set_yticks(range(n), self.names, fontsize=9, color=INK)
        ax.set_ylim(n - 0.4, -0.9 if self.bias is not None else -0.6)
        if self.bias is None:
            ax.barh(range(n), self.contributions, height=0.62, color=POSITIVE)
            ax.set_xlabel(f"mean |contribution − mean| to {self.output}", fontsize=9, color=INK)
        else:
            self._draw_sum(ax, self.bias)
        self.ax_: Axes = ax
        self.figure_ = root(ax)
        return self

    def _draw_sum(self, ax: Axes, bias: float) -> None:
        """Draw each bar from the end of the one before, from the bias to the activation."""
        ends = bias + np.cumsum(self.contributions)
        starts = ends - self.contributions
        colours = [POSITIVE if one >= 0 else NEGATIVE for one in self.contributions]
        ax.barh(range(len(ends)), self.contributions, left=starts, height=0.62, color=colours)
        reach = max(np.ptp([bias, *ends]), 1e-12)
        for row, (start, end, one) in enumerate(zip(starts, ends, self.contributions, strict=True)):
            at = max(start, end) + 0.012 * reach
            text = f"{one:+.3g}".replace("-", "−")
            ax.text(at, row, text, va="center", fontsize=8, color=INK)
            if row:
                ax.plot([start, start], [row - 0.69, row - 0.31], color=PALE, lw=0.8)
        total = float(ends[-1]) if len(ends) else bias
        last = len(ends) - 0.69
        ax.plot([bias, bias], [-0.9, -0.31], color=PALE, lw=0.8)
        ax.plot([total, total], [last, last + 0.3], color=PALE, lw=0.8)
        ax.set_xlim(min([bias, *ends]) - 0.06 * reach, max([bias, *ends]) + 0.16 * reach)
        words = f"{self.output}: {_short(total)} (bias: {_short(bias)})"
        ax.set_title(words, fontsize=10, color=INK)


def _short(value: float) -> str:
    return f"{value:.4g}".replace("-", "−")


def _largest(
    names: list[str], sizes: NDArray[np.float64], most: int
) -> tuple[list[str], NDArray[np.float64]]:
    """Return names and sizes, the largest first; those beyond the first `most` are added up."""
    order = [i for i in np.argsort(-np.abs(sizes), kind="stable") if sizes[i] != 0.0]
    if len(order) <= most:
        return [names[i] for i in order], sizes[order]
    first, rest = order[: most - 1], order[most - 1 :]
    total = float(sizes[rest].sum())
    return [*(names[i] for i in first), f"{len(rest)} others"], np.append(sizes[first], total)


def _with_values(
    found: Explanation, place: int, values: NDArray[np.float64], inputs: Sequence[str]
) -> str:
    """Return the name of a group with the values that its inputs have in a sample."""

    def given(i: int) -> str:
        return f"{inputs[i]} = {_short(values[i])}" if i < len(inputs) else found.names[place]

    source, others = found.sources[place], [given(i) for i in found.modulators[place]]
    if source == CONSTANT:
        return " × ".join(others) or found.names[place]
    return f"{given(source)} [{', '.join(others)}]" if others else given(source)


def _is_softmax(estimator: Any, found: Explanation) -> bool:
    return len(found.outputs) > 1 and hasattr(estimator, "classes_") and estimator.preset != "paper"


def _meaning(estimator: Any, found: Explanation, output: int | None) -> str:
    """Return what the contributions add up to."""
    logistic = estimator.preset == "paper"
    if not hasattr(estimator, "classes_"):
        name = "prediction" if len(found.outputs) == 1 else found.outputs[output or 0]
        return f"log-odds of {name}" if logistic else name
    if not _is_softmax(estimator, found):
        return f"log-odds of {found.outputs[output or 0]}"
    which = "the classes" if output is None else found.outputs[output]
    return f"relative score of {which}"
