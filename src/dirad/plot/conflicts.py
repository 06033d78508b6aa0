"""Conflicts as images: a sample, how L1 predicts it, and where the two conflict."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from numpy.typing import ArrayLike, NDArray

from dirad.plot.colours import ALERT
from dirad.plot.data import View, model_of, seen_by
from dirad.plot.figure import root, shown

if TYPE_CHECKING:
    from dirad.estimators import PREVALClassifier

PIXELS = colormaps["gray_r"].with_extremes(bad="#d5e3ea")
MOST_ROWS = 6


def draw_view(
    axes: Sequence[Axes], view: View, row: int, shape: tuple[int, int], limits: tuple[float, float]
) -> None:
    """Draw a sample, its prediction and its conflicts on three axes, from white to black."""
    low, high = limits
    style: dict[str, Any] = {"aspect": "equal" if shape[0] > 1 else "auto"}
    for ax, image in zip(axes[:2], (view.samples[row], view.predicted[row]), strict=True):
        ax.imshow(image.reshape(shape), cmap=PIXELS, vmin=low, vmax=high, **style)
    faint = low + 3 * (high - low)
    axes[2].imshow(view.samples[row].reshape(shape), cmap="gray_r", vmin=low, vmax=faint, **style)
    red = np.zeros((*shape, 4))
    red[...] = to_rgba(ALERT)
    red[..., 3] = view.conflicted[row].reshape(shape)
    axes[2].imshow(red, **style)
    for ax in axes:
        ax.set_xticks([])
        ax.set_yticks([])


def name_columns(axes: Sequence[Axes], view: View) -> None:
    """Write the titles above the three axes of `draw_view`."""
    blank = " (blue: not predicted)" if np.isnan(view.predicted).any() else ""
    for ax, title in zip(axes, ("sample", f"predicted by L1{blank}", "conflicts"), strict=True):
        ax.set_title(title, fontsize=9)


def image_shape(n_inputs: int) -> tuple[int, int]:
    """Return the shape of a square image of `n_inputs` pixels; one row if that is no square.

    >>> image_shape(196), image_shape(30)
    ((14, 14), (1, 30))
    """
    side = round(np.sqrt(n_inputs))
    return (side, side) if side * side == n_inputs and side > 3 else (1, n_inputs)


class ConflictDisplay:
    """Samples, the predictions of a model and the conflicts between them, as images.

    Up to six samples get a row each. Of more samples, one row shows the means, and the share of
    samples in which each input conflicts.

    Parameters
    ----------
    view : View
    names : sequence of str, one per row
    shape : (rows, columns), optional
        Shape of the image whose pixels the inputs are; by default a square, else a single row.
    """

    def __init__(
        self, view: View, names: Sequence[str], *, shape: tuple[int, int] | None = None
    ) -> None:
        n_inputs = view.samples.shape[1]
        self.view = view
        self.names = names
        self.shape = image_shape(n_inputs) if shape is None else shape
        if self.shape[0] * self.shape[1] != n_inputs:
            raise ValueError(f"shape {self.shape} does not fit {n_inputs} inputs")

    @classmethod
    def from_estimator(
        cls,
        estimator: "PREVALClassifier",
        X: ArrayLike,
        *,
        model: int | None = None,
        shape: tuple[int, int] | None = None,
        ax: Axes | None = None,
    ) -> "ConflictDisplay":
        """Draw samples as a `model` sees them, by default the one that predicts their class."""
        from dirad.estimators.columns import network_inputs

        samples: Any = X if hasattr(X, "iloc") else np.atleast_2d(np.asarray(X))
        route = estimator.route(samples) if model is None else np.full(len(samples), model)
        inputs = network_inputs(estimator, samples)
        parts = [
            seen_by(model_of(estimator, int(r)), x[None])
            for r, x in zip(route, inputs, strict=True)
        ]
        view = View(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
        names = [f"model {number}" for number in route]
        if len(inputs) > MOST_ROWS:
            view = View(*(column.mean(axis=0, keepdims=True) for column in view))
            names = [f"mean of {len(inputs)}"]
        return cls(view, names, shape=shape).plot(ax)

    def plot(self, ax: Axes | None = None) -> "ConflictDisplay":
        """Draw on `ax`, or on a new figure."""
        rows = len(self.names)
        self.axes_: NDArray
        if ax is None:
            height = 1.9 if self.shape[0] > 1 else 0.7
            figure = shown(figsize=(6.6, height * rows + 0.4), layout="constrained")
            self.axes_ = figure.subplots(rows, 3, squeeze=False)
        else:
            ax.set_axis_off()
            places = [(j / 3, 1 - (i + 1) / rows) for i in range(rows) for j in range(3)]
            panels = [ax.inset_axes((x, y, 0.31, 0.92 / rows)) for x, y in places]
            self.axes_ = np.array(panels).reshape(rows, 3)
        limits = float(self.view.samples.min()), float(self.view.samples.max())
        for i, name in enumerate(self.names):
            draw_view(self.axes_[i], self.view, i, self.shape, limits)
            self.axes_[i, 0].set_ylabel(name, fontsize=9)
        name_columns(self.axes_[0], self.view)
        self.ax_: Axes = self.axes_[0, 0] if ax is None else ax
        self.figure_ = root(self.ax_)
        return self
