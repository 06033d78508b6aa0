"""Where pictures are drawn: on axes given, on a new figure, or on one that pyplot shows."""

from collections.abc import Callable, Sequence
from typing import Any, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

Maker = Callable[..., Figure]  # Figure: no window, no global state; `shown`: pyplot knows it
INDENT = 0.07  # room for names beside such panels, as a share of their width
GAP = 0.05  # between stacked panels in axes given, as a share of their height


def shown(**options: Any) -> Figure:
    """Return a new figure that pyplot shows, as the displays of scikit-learn do."""
    from matplotlib import pyplot

    return pyplot.figure(**options)


def root(ax: Axes) -> Figure:
    """Return the figure that axes are in."""
    return cast(Figure, ax.get_figure(root=True))


def panels_in(figure: Figure, ax: Axes | None) -> list[Axes]:
    """Return the panels that were drawn: in axes given, or in a figure of their own."""
    return cast(list[Axes], list(figure.axes if ax is None else ax.child_axes))


def stacked(
    heights: Sequence[float], size: tuple[float, float], ax: Axes | None, make: Maker
) -> list[Axes]:
    """Return panels one below the other that share x: in `ax`, or in a new figure of this size."""
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
