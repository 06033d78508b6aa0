"""The signed-XOR story, told on a console and as a figure.

The stages are those of `experiments.xor.stages`.
"""

import textwrap
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch, PathPatch
from matplotlib.path import Path
from numpy.typing import NDArray
from rich import box
from rich.console import Console, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dirad.plot.colours import (
    HIDDEN_EDGE,
    HIDDEN_FILL,
    INK,
    INPUT_FILL,
    NEGATIVE,
    NEUTRAL,
    OUTPUT_FILL,
    PALE,
    POSITIVE,
)

ZERO = 5e-4  # as in the signs of the stages: what shows as 0.000

# --- on a console -----------------------------------------------------------------------------


def print_stages(console: Console, stages: Sequence[Any]) -> None:
    """Print one panel per stage: the words, then states, deltas and gradients of all patterns."""
    for stage in stages:
        title = Text.assemble(
            (f" {stage.number}  {stage.title} ", "bold"),
            (f" {_steps(stage.step)} · error {stage.error:.3g} ", "dim"),
        )
        body = Group(Text(stage.text), Padding(_table(stage), (1, 0, 0, 0)))
        console.print(Panel(body, title=title, title_align="left", width=min(console.width, 88)))
    console.print(
        "[dim]a state · gate σ₁ of term 1 · δ = ∂C/∂z (of node,term) · G = ∂C/∂w (into node,term)\n"
        "net: the mean over the four patterns[/dim]"
    )


def _steps(n: int) -> str:
    return f"after {n:,} step{'' if n == 1 else 's'}"


def _table(stage: Any) -> Table:
    """Return one table, so that the four patterns stand in the same columns throughout."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("x0, x1")
    table.add_column("w", justify="right")
    for pattern in stage.patterns:
        table.add_column(", ".join("+1" if x > 0 else "−1" for x in pattern), justify="right")
    table.add_column("signs")
    table.add_column("net", justify="right")
    kinds = {node.node: node.kind for node in stage.nodes}
    targets = [Text(f"{target:.0f}", "dim") for target in stage.targets]
    table.add_row(Text("target", "dim"), "", *targets, "", "")
    for node in stage.nodes:
        if node.kind != "input":
            table.add_row(f"a  {node.name}", "", *map(_number, node.state), node.signs, "")
        if node.gate is not None:
            table.add_row(f"   {node.name} gate", "", *map(_number, node.gate), "", "")
    table.add_section()
    for term in stage.terms:
        values = map(_number, term.delta)
        table.add_row(f"δ  {term.name}", "", *values, term.signs, _number(term.net))
    table.add_section()
    for edge in stage.edges:
        modulatory = kinds[edge.target] == "modulatory"
        name = f"G  {edge.name}" + (f",{edge.term}" if modulatory else "")
        values = map(_number, edge.gradient)
        weight = _number(edge.weight)
        table.add_row(name, weight, *values, edge.signs, _number(edge.net))
    return table


def _number(value: float) -> Text:
    """Return a number coloured by its sign."""
    style = "dim" if abs(value) < ZERO else "blue" if value > 0 else "dark_orange3"
    return Text(_plain(value), style)


def _plain(value: float) -> str:
    """Return a number with three digits and the minus of print; no minus on a zero."""
    return "0.000" if abs(value) < ZERO else f"{value:.3f}".replace("-", "−")


# --- as a figure ------------------------------------------------------------------------------

WIDTH, TEXT_WIDTH, ROW = 6.9, 3.5, 2.25  # inches: a drawing, the words beside it, their height
UPPER, LOWER = 1.6, 0.65  # heights of the two rows of nodes in a drawing
RADIUS = 0.2
LEFT, RIGHT = 0.75, 1.25  # where inputs stand; where the output does, from the right


def draw_stages(stages: Sequence[Any]) -> Figure:
    """Draw the stages one below the other, each with its words, and a legend at the end."""
    foot = 0.55
    height = ROW * len(stages) + foot
    figure = Figure(figsize=(WIDTH + TEXT_WIDTH + 0.2, height), facecolor="white")
    full = WIDTH + TEXT_WIDTH + 0.2
    heights = _rows(stages[-1])
    for i, stage in enumerate(stages):
        bottom = (height - ROW * (i + 1)) / height
        drawing = figure.add_axes((0, bottom, WIDTH / full, ROW / height))
        words = figure.add_axes((WIDTH / full, bottom, TEXT_WIDTH / full, ROW / height))
        for axes, width in ((drawing, WIDTH), (words, TEXT_WIDTH)):
            axes.set_xlim(0, width)
            axes.set_ylim(0, ROW)
            axes.set_axis_off()
        _draw_stage(drawing, stage, heights)
        _write_stage(words, stage)
        if i:
            line = Line2D([0.02, 0.98], [bottom + ROW / height] * 2, color="#dddddd", lw=0.8)
            figure.add_artist(line)
    _legend(figure)
    return figure


def _write_stage(axes: Axes, stage: Any) -> None:
    """Write title, step, error and explanation."""
    top = ROW - 0.22
    axes.text(
        0, top, f"{stage.number}  {stage.title}", fontsize=11, weight="bold", color=INK, va="top"
    )
    status = f"{_steps(stage.step)} · error {stage.error:.3g}"
    axes.text(0, top - 0.24, status, fontsize=8.5, color=PALE, va="top")
    text = textwrap.fill(stage.text, 54)
    axes.text(0, top - 0.47, text, fontsize=8.5, color=INK, va="top", linespacing=1.3)


def _rows(stage: Any) -> dict[int, float]:
    """Return the height of each node: x0 above, x1 below, others beside what their term 0 gets.

    Taken from the last stage, so that nothing moves from one drawing to the next.
    """
    rows = {0: UPPER, 1: LOWER}
    for _ in stage.nodes:  # as often as the longest path may be
        for edge in sorted(stage.edges, key=lambda edge: abs(edge.weight)):
            if edge.term == 0 and edge.source in rows:
                rows[edge.target] = rows[edge.source]
    return rows


def _places(stage: Any, rows: dict[int, float]) -> dict[int, tuple[float, float]]:
    """Return where each node is: columns by depth, the output on the right."""
    depth = {node.node: 0 for node in stage.nodes}
    for _ in stage.nodes:
        for edge in stage.edges:
            depth[edge.target] = max(depth[edge.target], depth[edge.source] + 1)
    deepest = max(1, *(depth[node.node] + 1 for node in stage.nodes if node.kind != "output"))
    places: dict[int, tuple[float, float]] = {}
    for node in stage.nodes:
        column = deepest if node.kind == "output" else depth[node.node]
        x = LEFT + (WIDTH - LEFT - RIGHT) * column / deepest
        y = rows.get(node.node, LOWER)
        while (x, y) in places.values():  # two nodes in one place: the later one moves aside
            y += 0.45 if y < 0.5 * ROW else -0.45
        places[node.node] = (x, y)
    return places


def _draw_stage(axes: Axes, stage: Any, rows: dict[int, float]) -> None:
    """Draw one network with what the paper's figure shows: a, G and their signs."""
    places = _places(stage, rows)
    for edge in stage.edges:
        _draw_edge(axes, edge, places)
    deltas = {(term.node, term.term): term for term in stage.terms}
    for node in stage.nodes:
        x, y = places[node.node]
        fill, rim = {
            "input": (INPUT_FILL, "#555555"),
            "modulatory": (HIDDEN_FILL, HIDDEN_EDGE),
            "output": (OUTPUT_FILL, INK),
        }[node.kind]
        axes.add_patch(Circle((x, y), RADIUS, fc=fill, ec=rim, lw=1.3, zorder=4))
        axes.text(x, y, _symbol(node.name), ha="center", va="center", fontsize=10, zorder=5)
        lines = [f"$a$ {node.signs}"]
        if node.kind == "modulatory":
            lines.append(f"$\\delta_1$ {deltas[node.node, 1].signs}")
        if node.kind == "output":
            answers = "  ".join(f"{value:.2f}" for value in node.state)
            lines = [f"$a$  {answers}", f"$\\delta$ {deltas[node.node, 0].signs}"]
        # Outside the drawing: above a node of the upper row, below one of the lower.
        above = y > 0.5 * ROW
        offset = RADIUS + 0.05
        axes.text(
            x,
            y + offset if above else y - offset,
            "\n".join(lines),
            ha="center",
            va="bottom" if above else "top",
            fontsize=8,
            color=INK,
            linespacing=1.25,
        )


def _symbol(name: str) -> str:
    """Return a node's name with its number as an index."""
    return f"${name[0]}_{{{name[1:]}}}$"


def _draw_edge(axes: Axes, edge: Any, places: dict[int, tuple[float, float]]) -> None:
    """Draw an edge coloured by its sign, and write its weight and gradients beside it."""
    (x0, y0), (x1, y1) = places[edge.source], places[edge.target]
    colour = NEUTRAL if abs(edge.weight) < ZERO else POSITIVE if edge.weight > 0 else NEGATIVE
    width = 1.0 + 2.2 * float(np.sqrt(min(abs(edge.weight) / 2.0, 1.0)))
    label = [f"$w$ {_plain(edge.weight)}", f"$G$ {edge.signs}", f"net {_plain(edge.net)}"]
    style: dict[str, Any] = {"fontsize": 8, "color": INK, "linespacing": 1.2, "zorder": 3}
    if edge.term == 0:
        start, end = _towards((x0, y0), (x1, y1)), _towards((x1, y1), (x0, y0))
        arrow = FancyArrowPatch(
            start, end, arrowstyle="-|>", mutation_scale=11, color=colour, lw=width,
            shrinkA=0, shrinkB=0, zorder=2,
        )  # fmt: skip
        axes.add_patch(arrow)
        away = 0.06 if y1 <= 0.5 * ROW else -0.06
        at = (0.5 * (start[0] + end[0]), 0.5 * (start[1] + end[1]) + away)
        axes.text(*at, "\n".join(label), ha="center", va="bottom" if away > 0 else "top", **style)
    else:
        # From the side, then straight on to the node: it acts on what passes there. A longer one
        # swings out, past the label of a shorter one.
        side = 1.0 if y0 >= y1 else -1.0
        swing = min(max(x1 - x0 - 0.5 * (WIDTH - LEFT - RIGHT), 0.0), 0.4) * side
        tip = (x1, y1 + side * (RADIUS + 0.05))
        begin = (x0 + RADIUS, y0)
        path = Path([begin, (x1, y0 + swing), tip], [Path.MOVETO, Path.CURVE3, Path.CURVE3])
        dashes = (0, (3.0, 1.5))
        axes.add_patch(PathPatch(path, fc="none", ec=colour, lw=width, ls=dashes, zorder=2))
        axes.scatter(*tip, s=42, marker="D", color=colour, lw=0, zorder=5)
        at = (x1 + 0.1, 0.5 * (y0 + y1) + 0.22 * side)
        axes.text(*at, "\n".join(label), ha="left", va="center", **style)


def _towards(start: tuple[float, float], end: tuple[float, float]) -> tuple[float, float]:
    """Return the point on the border of the node at `start` that faces `end`."""
    step = np.subtract(end, start)
    point: NDArray = np.array(start) + RADIUS * step / max(float(np.hypot(*step)), 1e-9)
    return cast(tuple[float, float], tuple(point.tolist()))


def _legend(figure: Figure) -> None:
    """Explain lines, letters and signs."""
    handles = [
        Line2D([], [], color=POSITIVE, lw=2.2, label="weight above 0"),
        Line2D([], [], color=NEGATIVE, lw=2.2, label="below 0"),
        Line2D([], [], color=NEUTRAL, lw=1.2, label="0"),
        Line2D([], [], color=PALE, lw=1.5, ls=(0, (3.0, 1.5)), marker="D", markersize=4,
               label="modulates (term 1)"),
    ]  # fmt: skip
    figure.legend(handles=handles, loc="lower left", ncol=4, frameon=False, fontsize=8)
    figure.text(
        0.985,
        0.012,
        "$a$ state, $\\delta$ = ∂C/∂z, $G$ = ∂C/∂w; in parentheses the signs for\n"
        "($x_0$, $x_1$) = (−1, −1), (−1, +1), (+1, −1), (+1, +1); net: the mean",
        ha="right",
        va="bottom",
        fontsize=8,
        color=PALE,
    )
