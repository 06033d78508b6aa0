"""The task timeline: what a stream showed, and what the learner made of it, batch by batch."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike

from dirad.estimators.continual import PREVALClassifier
from dirad.plot.colours import NAVY, QUIET, VERDICT_COLOURS, task_colour
from dirad.plot.figure import Maker, panels_in, root, shown, stacked
from dirad.preval.model import STABLE

MAINLY = 0.75  # share of a task that makes a batch one of it
MANY_CHANGES = 25  # above it, lines at all of them would be a blur
LETTERS = 110  # that fit into the width of a timeline
LANE = 0.5  # height of a model's batches
LEAST_P = 1e-12  # of probabilities below it the size does not matter


def draw_timeline(
    moments: Sequence[Any],
    classes: Sequence[Sequence[Any]] | None,
    events: Sequence[Any],
    title: str = "Tasks arrive unannounced; each batch goes to a model",
    *,
    ax: Axes | None = None,
    make: Maker = Figure,
) -> Figure:
    """What a stream showed and what the learner made of it, batch by batch.

    `moments` are those of `dirad.streams.follow`, `classes` those of each task, None if
    tasks are not known. From the top: shares of the true tasks; the model that took each batch,
    coloured by its main task; what was said of the batch; how probable it was if known; accuracy
    before learning it, where there is one.
    """
    p = np.array([m.p for m in moments], float)
    heights = {"task": 0.5} if classes is not None else {}
    heights |= {"model": 0.5 + 0.28 * (1 + max(m.model for m in moments)), "verdict": 1.0}
    heights |= {"p": 1.0} if np.isfinite(p).any() else {}
    heights |= {"accuracy": 1.3} if any(m.accuracy == m.accuracy for m in moments) else {}
    size = (9.5, 1.1 + 1.05 * sum(heights.values()))
    panels = stacked(list(heights.values()), size, ax, make)
    at = dict(zip(heights, panels, strict=True))
    if classes is not None:
        _draw_tasks(at["task"], moments, classes)
    panels[0].set_title(title, loc="left", fontsize=11, pad=6 if classes is not None else 18)
    _draw_models(at["model"], moments, events)
    _draw_verdicts(at["verdict"], moments)
    if "p" in at:
        colours = [VERDICT_COLOURS[m.verdict] for m in moments]
        at["p"].scatter(range(len(p)), np.maximum(p, LEAST_P), s=12, c=colours, lw=0)
        at["p"].set_yscale("log")
        at["p"].set_ylim(LEAST_P / 3, 3)
        at["p"].set_yticks([1, 1e-4, 1e-8, LEAST_P], ["1", "$10^{-4}$", "$10^{-8}$", "less"])
        at["p"].minorticks_off()
        at["p"].set_ylabel("probability,\nif known")
    if "accuracy" in at:
        _draw_accuracy(at["accuracy"], moments)
    runs = [run for run in _runs(moments) if run[2] >= 0]
    changes = [(a[1] + b[0]) / 2 for a, b in itertools.pairwise(runs) if a[2] != b[2]]
    for name, axes in at.items():
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=2)
        axes.set_xlim(-0.5, len(moments) - 0.5)
        axes.yaxis.label.set_fontsize(9)
        if name != "task" and len(changes) < MANY_CHANGES:
            for change in changes:
                axes.axvline(change, color=QUIET, lw=0.7, ls=(0, (2, 2)), zorder=0)
    root(panels[0]).align_ylabels(panels)
    panels[-1].set_xlabel("batch")
    return root(panels[0])


def _draw_tasks(axes: Axes, moments: Sequence[Any], classes: Sequence[Sequence[Any]]) -> None:
    """Stack the shares of the tasks in each batch, and write their classes where there is room."""
    shares = np.array([m.shares for m in moments]).T  # (tasks, batches)
    edges = np.repeat(np.arange(len(moments) + 1) - 0.5, 2)[1:-1]
    colours = [task_colour(task) for task in range(len(shares))]
    axes.stackplot(edges, np.repeat(shares, 2, axis=1), colors=colours, lw=0)
    for first, last, task in _runs(moments):
        if task >= 0:
            names = [str(c) for c in classes[task]]
            room = (last + 1 - first) / len(moments) * LETTERS - 2
            text = next((t for t in (" and ".join(names), ", ".join(names)) if len(t) < room), "")
            style: dict[str, Any] = {"ha": "center", "va": "center", "fontweight": "bold"}
            axes.text((first + last) / 2, 0.48, text, fontsize=9, color="white", **style)
    axes.set_ylim(0, 1)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylabel("true\ntask", rotation=0, ha="right", va="center")


def _runs(moments: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Return (first batch, last batch, task) of runs mainly of one task; task -1: of several."""
    whose = [m.task if m.shares[m.task] >= MAINLY else -1 for m in moments]
    runs = []
    for task, places in itertools.groupby(range(len(whose)), whose.__getitem__):
        batches = list(places)
        runs.append((batches[0], batches[-1], task))
    return runs


def _draw_models(axes: Axes, moments: Sequence[Any], events: Sequence[Any]) -> None:
    """Draw a lane per model: tasks in the batches it took, pale while it adapts; and events."""
    taken = [(i, m) for i, m in enumerate(moments) if m.model >= 0]
    batches, models = [i for i, _ in taken], np.array([m.model for _, m in taken])
    alphas = [1.0 if m.phase in (STABLE, "") else 0.4 for _, m in taken]
    bottom = models + LANE / 2
    for task, shares in enumerate(np.array([m.shares for _, m in taken]).T):
        colours = [(task_colour(task), alpha) for alpha in alphas]
        axes.bar(batches, -LANE * shares, 1.0, bottom, color=colours, lw=0)
        bottom = bottom - LANE * shares
    lanes = max(m.model for m in moments) + 1
    for kinds, marker in ((("opened",), "^"), (("stable",), "o"), (("removed", "merged"), "X")):
        some = [e for e in events if e.kind in kinds and _whose(e) < lanes]
        if some:
            # What happens after the last batch stands at its end.
            x = [min(e.batch, len(moments) - 0.5) for e in some]
            y = [_whose(e) + 0.42 for e in some]
            label = " or ".join(dict.fromkeys(e.kind for e in some))
            axes.scatter(x, y, s=20, marker=marker, color=NAVY, lw=0, label=label, clip_on=False)
    axes.set_yticks(range(lanes), [str(i) for i in range(lanes)])
    axes.set_ylim(lanes - 0.4, -0.6)
    axes.set_ylabel("model")
    adapting = Patch(fc=QUIET, alpha=0.4, label="adapting")
    axes.legend(
        handles=[*axes.get_legend_handles_labels()[0], adapting],
        loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=4, frameon=False, fontsize=8,
        borderpad=0, handletextpad=0.3, columnspacing=1.2, handlelength=1.0,
    )  # fmt: skip


def _whose(event: Any) -> int:
    """Return the model in whose lane an event is drawn: of two that were merged, the one gone."""
    return event.evidence["model"] if event.kind == "merged" else event.model


def _draw_verdicts(axes: Axes, moments: Sequence[Any]) -> None:
    """Draw a lane per verdict."""
    lanes = list(VERDICT_COLOURS)
    for lane, (verdict, colour) in enumerate(VERDICT_COLOURS.items()):
        batches = [i for i, m in enumerate(moments) if m.verdict == verdict]
        width = max(1.0, len(moments) / 300)  # a single batch must show
        axes.broken_barh(
            [(i - width / 2, width) for i in batches], (lane - 0.36, 0.72), color=colour, lw=0
        )
    axes.set_yticks(range(len(lanes)), lanes, fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_ylabel("verdict")


def _draw_accuracy(axes: Axes, moments: Sequence[Any]) -> None:
    """Draw the accuracy of each batch before it was learned, and of all so far."""
    accuracy = np.array([m.accuracy for m in moments], float)
    asked = np.isfinite(accuracy)
    so_far = np.cumsum(np.where(asked, accuracy, 0)) / np.maximum(np.cumsum(asked), 1)
    so_far[np.cumsum(asked) == 0] = np.nan
    batches = np.arange(len(moments))
    axes.plot(batches, accuracy, color=QUIET, lw=0.9, label="of a batch")
    axes.plot(batches, so_far, color=NAVY, lw=1.8, label="so far")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("accuracy before\nlearning")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")


class Moment(NamedTuple):
    """One batch as a learner reports it: what `draw_timeline` reads, without the stream."""

    shares: tuple[float, ...]  # of each task, or of each model where tasks are not known
    verdict: str
    model: int
    phase: str
    p: float
    accuracy: float = float("nan")

    @property
    def task(self) -> int:
        """The main task."""
        return int(np.argmax(self.shares))


class TimelineDisplay:
    """What a PREVALClassifier made of its stream: models over batches, events and verdicts.

    Parameters
    ----------
    moments : sequence of Moment, one per batch
    events : the classifier's `events_`
    task_names : sequence of str, optional
        Names of the true tasks, if the moments have their shares.

    Attributes
    ----------
    axes_ : list of matplotlib Axes, the panels from the top
    ax_ : matplotlib Axes, the axes given, or the first panel
    figure_ : matplotlib Figure
    """

    axes_: list[Axes]
    ax_: Axes
    figure_: Figure

    def __init__(
        self,
        moments: Sequence[Any],
        events: Sequence[Any],
        *,
        task_names: Sequence[str] | None = None,
    ) -> None:
        self.moments = moments
        self.events = events
        self.task_names = task_names

    @classmethod
    def from_estimator(
        cls, estimator: PREVALClassifier, *, tasks: ArrayLike | None = None, ax: Axes | None = None
    ) -> "TimelineDisplay":
        """Draw the life of a classifier.

        `tasks`: the true task of every sample it was given, in order, which it never knew.
        """
        if not estimator.reports_:
            raise ValueError("there is no batch yet: nothing to draw")
        if tasks is None:
            return cls(moments_of(estimator), estimator.events_).plot(ax)
        names, codes = np.unique(np.asarray(tasks), return_inverse=True)
        n = estimator.n_samples_seen_
        if len(codes) != n:
            raise ValueError(f"tasks has {len(codes)} entries, but {n} samples were seen")
        size = estimator._settings.l0.batch_size
        shares = [
            tuple(np.bincount(codes[i : i + size], minlength=len(names)) / len(codes[i : i + size]))
            for i in range(0, n, size)
        ]
        reports = estimator.reports_  # of a long life, the last
        if reports[-1].batch >= len(shares):
            raise ValueError(
                "tasks cannot be assigned to batches: finish() was called within the stream, and "
                "made batches of fewer samples"
            )
        moments = [
            moment._replace(shares=shares[report.batch])
            for moment, report in zip(moments_of(estimator), reports, strict=True)
        ]
        return cls(moments, estimator.events_, task_names=[str(name) for name in names]).plot(ax)

    def plot(self, ax: Axes | None = None) -> "TimelineDisplay":
        """Draw; without axes on a new figure."""
        classes = None if self.task_names is None else [[name] for name in self.task_names]
        title = "Each batch goes to a model"
        self.figure_ = draw_timeline(self.moments, classes, self.events, title, ax=ax, make=shown)
        self.axes_ = panels_in(self.figure_, ax)
        self.ax_ = self.axes_[0] if ax is None else ax
        return self


def moments_of(estimator: PREVALClassifier) -> list[Moment]:
    """Return what was said of each batch; shares are those of models."""
    reports = estimator.reports_
    stable = {one.number: 0 for one in estimator.models_ if one.phase == STABLE}
    stable |= {event.model: event.batch for event in estimator.events_ if event.kind == "stable"}
    n_models = 1 + max(report.model for report in reports)
    return [
        Moment(
            tuple(float(number == report.model) for number in range(n_models)),
            report.kind,
            report.model,
            STABLE if report.batch >= stable.get(report.model, math.inf) else "adapting",
            report.p,
        )
        for report in reports
    ]
