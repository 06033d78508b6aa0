"""Why batches of a timeline are new, written below them so that no text covers another."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes

from dirad.plot.colours import INK, PALE, VERDICT_COLOURS

LETTERS_PER_INCH = 16.5
WIDTH = 8.2  # of a panel in a figure of its own, in inches
ROWS = 4  # below each other; reasons that do not fit are counted


class Reason(NamedTuple):
    """Why a run of batches got its verdict, and where that is written."""

    batch: int
    row: int
    text: str
    verdict: str
    on_left: bool  # the text ends at the batch: to the right of it there is no room


def said(moment: Any) -> str:
    """Return the verdict on a batch: the kind of change if there is one, and no mixture."""
    return moment.verdict if moment.verdict == "mixed" else moment.cause or moment.verdict


def placed_reasons(moments: Sequence[Any], inches: float = WIDTH) -> tuple[list[Reason], int]:
    """Return the reasons that fit into a panel of this width, and how many do not.

    The first batch of each run with one verdict is explained, in the first row that is free there.
    """
    n, found, left_out = len(moments), [], 0
    letters = LETTERS_PER_INCH * inches
    rows: list[list[tuple[float, float]]] = [[] for _ in range(ROWS)]  # what is written in each
    before = None
    for i, moment in enumerate(moments):
        now = said(moment), moment.model
        if moment.why and now != before:
            width = (len(moment.why) + 2) * n / letters
            on_left = i + width > n
            begin = i - width if on_left else float(i)
            free = [
                row
                for row, spans in enumerate(rows)
                if all(end <= begin or begin + width <= start for start, end in spans)
            ]
            if free and begin >= 0:
                rows[free[0]].append((begin, begin + width))
                found.append(Reason(i, free[0], moment.why, now[0], on_left))
            else:
                left_out += 1
        before = now
    return found, left_out


def height_of(reasons: Sequence[Reason]) -> float:
    """Return the height of the panel, in the units of a timeline's panels."""
    return 0.16 * (1.5 + max(one.row for one in reasons))


def draw_reasons(axes: Axes, reasons: Sequence[Reason], left_out: int) -> None:
    """Write at each change which input contradicts most, and by how much."""
    lowest = max(one.row for one in reasons) + 0.6
    for one in reasons:
        colour = VERDICT_COLOURS[one.verdict]
        axes.plot([one.batch, one.batch], [one.row - 0.4, one.row + 0.4], color=colour, lw=2.5)
        side, text = ("right", f"{one.text}  ") if one.on_left else ("left", f"  {one.text}")
        axes.text(one.batch, one.row, text, ha=side, va="center", fontsize=7, color=INK)
    if left_out:
        axes.text(
            1.0, 1.0, f"and {left_out} more", transform=axes.transAxes,
            ha="right", va="bottom", fontsize=7, color=PALE,
        )  # fmt: skip
    axes.set_ylim(lowest, -0.6)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylabel("why", rotation=0, ha="right", va="center")
