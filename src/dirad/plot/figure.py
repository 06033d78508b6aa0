"""Where pictures are drawn: on given axes, on a new figure, or on a figure that pyplot shows."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Makes a new figure: `Figure` without a window or global state, `shown` one that pyplot manages.
Maker = Callable[..., Figure]
INDENT = 0.07  # room for labels beside panels in given axes, as a share of the width
GAP = 0.05  # between panels in given axes, as a share of the height


def shown(**options: Any) -> Figure:
    """Return a new figure that pyplot shows, as the displays of scikit-learn do."""
    from matplotlib import pyplot

    return pyplot.figure(**options)


def root(ax: Axes) -> Figure:
    """Return the figure that axes are in."""
    return cast(Figure, ax.get_figure(root=True))


def panels_in(figure: Figure, ax: Axes | None) -> list[Axes]:
    """Return the panels that `stacked` made, in given axes or in a figure of their own."""
    return cast(list[Axes], list(figure.axes if ax is None else ax.child_axes))


def width_within(ax: Axes) -> float:
    """Return the width of the panels that `stacked` makes in given axes, in inches."""
    return ax.get_window_extent().width / root(ax).dpi * (1.0 - 2.5 * INDENT)


def stacked(
    heights: Sequence[float], size: tuple[float, float], ax: Axes | None, make: Maker
) -> list[Axes]:
    """Return panels below each other that share x: in `ax`, or in a new figure of this size."""
    if ax is None:
        figure = make(figsize=size, layout="constrained", facecolor="white")
        return list(figure.subplots(len(heights), 1, sharex=True, height_ratios=list(heights)))
    ax.set_axis_off()
    unit = (1.0 - GAP * (len(heights) - 1)) / sum(heights)
    panels: list[Axes] = []
    top = 1.0
    for height in heights:
        bounds = (INDENT, top - unit * height, 1.0 - 2.5 * INDENT, unit * height)
        panels.append(ax.inset_axes(bounds, sharex=panels[0] if panels else None))
        top -= unit * height + GAP
    for panel in panels[:-1]:
        panel.tick_params(labelbottom=False)
    return panels
