"""Matrices of continual learning: accuracy of tasks after tasks, and who answers which task."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from dirad.plot.colours import INK
from dirad.plot.figure import root, shown

MANY_CELLS = 16  # rows or columns above which numbers would not be read


def draw_matrix(
    values: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str], ax: Axes | None
) -> Axes:
    """Draw shares from 0 to 1 as shades, with their numbers; NaN stays blank."""
    if ax is None:
        size = (1.7 + 0.55 * len(columns), 1.3 + 0.45 * len(rows))
        ax = shown(figsize=(max(size[0], 3.6), max(size[1], 2.6)), layout="constrained").subplots()
    ax.imshow(np.ma.masked_invalid(values), cmap="Blues", vmin=0.0, vmax=1.15, aspect="auto")
    if max(values.shape) <= MANY_CELLS:
        for (i, j), value in np.ndenumerate(values):
            if value == value:
                colour = "white" if value > 0.6 else INK
                ax.text(j, i, _share(value), ha="center", va="center", fontsize=9, color=colour)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax


def _share(value: float) -> str:
    """Return a share as text: 1 and 0 are exact, others have two digits."""
    return f"{value:.0f}" if value in (0.0, 1.0) else f"{value:.2f}"


def accuracy_matrix(
    tasks: ArrayLike, y_true: ArrayLike, predictions: Sequence[ArrayLike]
) -> tuple[NDArray, NDArray[np.float64]]:
    """Return the tasks, and R[i, j]: accuracy on samples of task j by the i-th predictions.

    >>> accuracy_matrix(["a", "b"], [0, 1], [[0, 0], [0, 1]])[1].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    tasks, y_true = np.asarray(tasks), np.asarray(y_true)
    for answers in predictions:
        check_consistent_length(tasks, y_true, answers)
    names = np.array(list(dict.fromkeys(tasks.tolist())))
    right = [np.asarray(answers) == y_true for answers in predictions]
    return names, np.array([[r[tasks == name].mean() for name in names] for r in right])


class AccuracyMatrixDisplay:
    """Accuracy on each task after each task was learned: what is kept, what is forgotten.

    Parameters
    ----------
    matrix : array (tasks learned, tasks)
    task_names : sequence of str, optional

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Axes
    figure_: Figure

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
        """Draw the accuracy of an estimator as it was after each task: one copy per task."""
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
        """Draw the accuracy of predictions made after each task, all of the same samples."""
        names, matrix = accuracy_matrix(tasks, y_true, predictions)
        return cls(matrix, task_names=names.tolist()).plot(ax)

    def plot(self, ax: Axes | None = None) -> "AccuracyMatrixDisplay":
        """Draw; without axes on a new figure."""
        learned = [f"after {name}" for name in self.task_names[: len(self.matrix)]]
        if len(self.matrix) > len(self.task_names):
            learned = [f"after {i}" for i in range(len(self.matrix))]
        self.ax_ = draw_matrix(self.matrix, learned, self.task_names, ax)
        self.ax_.set_xlabel("accuracy on the task")
        self.figure_ = root(self.ax_)
        return self


class RoutingDisplay:
    """Who answers: of the samples of each true task, the share that goes to each model.

    Parameters
    ----------
    matrix : array (tasks, models) of shares
    task_names, models : names of rows and numbers of models

    Attributes
    ----------
    ax_ : matplotlib Axes
    figure_ : matplotlib Figure
    """

    ax_: Axes
    figure_: Figure

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
        """Draw where a PREVALClassifier sends samples of known tasks."""
        return cls.from_predictions(tasks, estimator.route(X), ax=ax)

    @classmethod
    def from_predictions(
        cls, tasks: ArrayLike, route: ArrayLike, *, ax: Axes | None = None
    ) -> "RoutingDisplay":
        """Draw routes, the number of a model for each sample, against the true tasks."""
        return cls(*routing(tasks, route)).plot(ax)

    def plot(self, ax: Axes | None = None) -> "RoutingDisplay":
        """Draw; without axes on a new figure."""
        self.ax_ = draw_matrix(self.matrix, self.task_names, [str(m) for m in self.models], ax)
        self.ax_.set_xlabel("model that answers")
        self.ax_.set_ylabel("true task")
        self.figure_ = root(self.ax_)
        return self


def routing(tasks: ArrayLike, route: ArrayLike) -> tuple[NDArray[np.float64], list[Any], list[int]]:
    """Return the share of each task's samples that goes to each model; the tasks; the models.

    >>> routing(["a", "a", "b", "b"], [0, 0, 0, 3])
    (array([[1. , 0. ],
           [0.5, 0.5]]), ['a', 'b'], [0, 3])
    """
    check_consistent_length(tasks, route)
    tasks, route = np.asarray(tasks), np.asarray(route)
    names, models = np.unique(tasks).tolist(), np.unique(route).tolist()
    shares = [[np.mean(route[tasks == name] == model) for model in models] for name in names]
    return np.array(shares), names, models
