"""Matrices of continual learning: accuracy on each task, and which model gets its samples."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import ArrayLike, NDArray

from dirad.plot.colours import INK
from dirad.plot.data import accuracy_matrix, routing
from dirad.plot.figure import root, shown

MANY_CELLS = 16  # rows or columns above which numbers would be too small to read
LETTERS = 6  # that fit below a column


def draw_matrix(
    values: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], ax: Axes | None
) -> Axes:
    """Draw shares from 0 to 1 as shades with numbers; NaN stays blank."""
    longest = max(map(len, columns))
    if ax is None:
        height = max(1.3 + 0.45 * len(rows), 2.6) + (0.07 * longest if longest > LETTERS else 0.0)
        size = (max(1.7 + 0.55 * len(columns), 3.6), height)
        ax = shown(figsize=size, layout="constrained").subplots()
    ax.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=1.15, aspect="auto")
    if max(values.shape) <= MANY_CELLS:
        for (i, j), value in np.ndenumerate(values):
            if value == value:
                colour = "white" if value > 0.6 else INK
                text = f"{value:.0f}" if value in (0.0, 1.0) else f"{value:.2f}"
                ax.text(j, i, text, ha="center", va="center", fontsize=9, color=colour)
    ax.set_xticks(range(len(columns)), columns)
    if longest > LETTERS:
        ax.tick_params(axis="x", labelrotation=90)  # side by side they would overlap
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


class AccuracyMatrixDisplay:
    """Accuracy on each task after learning each task: what is kept, what is forgotten.

    Parameters
    ----------
    matrix : array (tasks learned, tasks)
    task_names : sequence of str, optional
    """

    def __init__(self, matrix: ArrayLike, *, task_names: Sequence[str] | None = None) -> None:
        self.matrix = np.asarray(matrix, float)
        if self.matrix.ndim != 2:
            raise ValueError(f"an accuracy matrix has rows and columns, got {self.matrix.shape}")
        names = range(self.matrix.shape[1]) if task_names is None else task_names
        self.task_names = [str(name) for name in names]
        if len(self.task_names) != self.matrix.shape[1]:
            raise ValueError(f"{len(self.task_names)} names for {self.matrix.shape[1]} tasks")

    @classmethod
    def from_estimator(
        cls,
        estimators: Sequence[Any],
        X: ArrayLike,
        y: ArrayLike,
        tasks: ArrayLike,
        *,
        ax: Axes | None = None,
    ) -> "AccuracyMatrixDisplay":
        """Draw the accuracy of copies of an estimator, one made after each task."""
        return cls.from_predictions(tasks, y, [one.predict(X) for one in estimators], ax=ax)

    @classmethod
    def from_predictions(
        cls,
        tasks: ArrayLike,
        y_true: ArrayLike,
        predictions: Sequence[ArrayLike],
        *,
        ax: Axes | None = None,
    ) -> "AccuracyMatrixDisplay":
        """Draw the accuracy of predictions for the same samples, one set made after each task."""
        names, matrix = accuracy_matrix(tasks, y_true, predictions)
        return cls(matrix, task_names=names).plot(ax)

    def plot(self, ax: Axes | None = None) -> "AccuracyMatrixDisplay":
        """Draw on `ax`, or on a new figure."""
        learned: Sequence[Any] = self.task_names[: len(self.matrix)]
        if len(self.matrix) > len(self.task_names):
            learned = range(len(self.matrix))
        rows = [f"after {name}" for name in learned]
        self.ax_ = draw_matrix(self.matrix, rows, self.task_names, ax)
        self.ax_.set_xlabel("accuracy on task")
        self.figure_ = root(self.ax_)
        return self


class RoutingDisplay:
    """The share of each true task's samples that goes to each model.

    Parameters
    ----------
    matrix : array (tasks, models) of shares
    task_names, models : names of rows and numbers of models
    """

    def __init__(self, matrix: ArrayLike, task_names: Sequence[Any], models: Sequence[int]) -> None:
        self.matrix = np.asarray(matrix, float)
        self.task_names = [str(name) for name in task_names]
        self.models = list(models)
        if self.matrix.shape != (len(self.task_names), len(self.models)):
            raise ValueError(
                f"{len(self.task_names)} tasks and {len(self.models)} models for a matrix of "
                f"shape {self.matrix.shape}"
            )

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, tasks: ArrayLike, *, ax: Axes | None = None
    ) -> "RoutingDisplay":
        """Draw to which models a PREVALClassifier sends samples whose true tasks are given."""
        return cls.from_predictions(tasks, estimator.route(X), ax=ax)

    @classmethod
    def from_predictions(
        cls, tasks: ArrayLike, route: ArrayLike, *, ax: Axes | None = None
    ) -> "RoutingDisplay":
        """Draw routes, which are the number of a model for each sample, against true tasks."""
        return cls(*routing(tasks, route)).plot(ax)

    def plot(self, ax: Axes | None = None) -> "RoutingDisplay":
        """Draw on `ax`, or on a new figure."""
        self.ax_ = draw_matrix(self.matrix, self.task_names, [str(m) for m in self.models], ax)
        self.ax_.set_xlabel("model that gets the sample")
        self.ax_.set_ylabel("true task")
        self.figure_ = root(self.ax_)
        return self
