"""What contributes to a prediction, and to predictions on average, as horizontal bars."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dirad.plot.bars import (
    average_bars,
    explained,
    inputs_in_words,
    name_in_sample,
    sample_bars,
    short_number,
)
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
        from dirad.estimators.answering import encoded
        from dirad.estimators.columns import checked_columns, encoding_of

        columns = subject(estimator).columns
        X, encoding = checked_columns(estimator, X), encoding_of(estimator)
        found = explained(estimator, encoded(encoding, X), by)
        if sample is None:
            bars = average_bars(estimator, found, output, max_bars)
        else:
            names = list(found.names)
            if by == "input":
                inputs = inputs_in_words(encoding, X[sample], columns)
                names = [name_in_sample(found, i, inputs) for i in range(len(names))]
            chosen = int(np.argmax(found.activation[sample])) if output is None else output
            bars = sample_bars(estimator, found, names, sample, chosen, max_bars)
        return cls(bars.names, bars.sizes, bias=bars.bias, output=bars.output).plot(ax)

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
        words = f"{self.output}: {short_number(total)} (bias: {short_number(bias)})"
        ax.set_title(words, fontsize=10, color=INK)
