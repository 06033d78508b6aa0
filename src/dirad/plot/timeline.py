"""The timeline of a stream: its tasks, and what the classifier decided about each batch."""

import itertools
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from dirad.plot.colours import NAVY, QUIET, VERDICT_COLOURS, task_colour
from dirad.plot.data import moments_of
from dirad.plot.figure import Maker, panels_in, root, shown, stacked, width_within
from dirad.plot.reasons import WIDTH, draw_reasons, height_of, placed_reasons, said

if TYPE_CHECKING:
    from dirad.estimators import PREVALClassifier

MAINLY = 0.75  # a batch with this share of one task counts as a batch of that task
MANY_CHANGES = 25  # with more changes of task, a line at each would be a blur
LETTERS = 110  # that fit into the width of a timeline
LANE = 0.5  # height of a model's batches
LEAST_P = 1e-12  # smaller p-values are drawn here


def draw_timeline(
    moments: Sequence[Any],
    classes: Sequence[Sequence[Any]] | None,
    events: Sequence[Any],
    title: str = "The model that learns each batch of a stream of unannounced tasks",
    *,
    ax: Axes | None = None,
    make: Maker = Figure,
) -> Figure:
    """Draw the tasks of a stream, and what the classifier decided about each batch.

    `moments` has one entry per batch, with the attributes of `data.Moment`; `classes` lists the
    classes of each task, None if tasks are not known. Panels from the top: shares of the true
    tasks; the model that learned each batch, coloured by its main task; the verdict, and at its
    changes the input that contradicts most; the p-value of the hypothesis that the task is known;
    the accuracy before learning, if there is one.
    """
    p = np.array([m.p for m in moments], float)
    heights = {"task": 0.5} if classes is not None else {}
    lanes = [name for name in VERDICT_COLOURS if name in {said(m) for m in moments}]
    reasons, left_out = placed_reasons(moments, WIDTH if ax is None else width_within(ax))
    heights |= {"model": 0.5 + 0.28 * (1 + max(m.model for m in moments))}
    heights |= {"verdict": 0.2 + 0.2 * max(len(lanes), 3)}
    heights |= {"why": height_of(reasons)} if reasons else {}
    heights |= {"p": 1.0} if np.isfinite(p).any() else {}
    heights |= {"accuracy": 1.3} if any(m.accuracy == m.accuracy for m in moments) else {}
    size = (9.5, 1.1 + 1.05 * sum(heights.values()))
    panels = stacked(list(heights.values()), size, ax, make)
    at = dict(zip(heights, panels, strict=True))
    if classes is not None:
        _draw_tasks(at["task"], moments, classes)
    panels[0].set_title(title, loc="left", fontsize=11, pad=6 if classes is not None else 18)
    _draw_models(at["model"], moments, events)
    _draw_verdicts(at["verdict"], moments, lanes)
    if reasons:
        draw_reasons(at["why"], reasons, left_out)
    if "p" in at:
        _draw_p_values(at["p"], p, [VERDICT_COLOURS[said(m)] for m in moments])
    if "accuracy" in at:
        _draw_accuracy(at["accuracy"], moments)
    runs = [run for run in _runs(moments) if run[2] >= 0]
    changes = [(a[1] + b[0]) / 2 for a, b in itertools.pairwise(runs) if a[2] != b[2]]
    for name, axes in at.items():
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=2)
        axes.set_xlim(-0.5, len(moments) - 0.5)
        axes.yaxis.label.set_fontsize(9)
        if name not in ("task", "why") and len(changes) < MANY_CHANGES:
            for change in changes:
                axes.axvline(change, color=QUIET, lw=0.7, ls=(0, (2, 2)), zorder=0)
    root(panels[0]).align_ylabels(panels)
    panels[-1].set_xlabel("batch")
    return root(panels[0])


def _draw_tasks(axes: Axes, moments: Sequence[Any], classes: Sequence[Sequence[Any]]) -> None:
    """Stack the shares of the tasks in each batch; write their classes where they fit."""
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
    """Return (first batch, last batch, task) of runs mainly of one task; -1 if of several."""
    tasks = [m.task if m.shares[m.task] >= MAINLY else -1 for m in moments]
    runs = []
    for task, run in itertools.groupby(range(len(tasks)), tasks.__getitem__):
        batches = list(run)
        runs.append((batches[0], batches[-1], task))
    return runs


def _draw_models(axes: Axes, moments: Sequence[Any], events: Sequence[Any]) -> None:
    """Draw a lane per model: the tasks in its batches, pale while it adapts, and its events."""
    taken = [(i, m) for i, m in enumerate(moments) if m.model >= 0]
    batches, models = [i for i, _ in taken], np.array([m.model for _, m in taken])
    alphas = [1.0 if m.phase in ("stable", "") else 0.4 for _, m in taken]
    bottom = models + LANE / 2
    for task, shares in enumerate(np.array([m.shares for _, m in taken]).T):
        colours = [(task_colour(task), alpha) for alpha in alphas]
        axes.bar(batches, -LANE * shares, 1.0, bottom, color=colours, lw=0)
        bottom = bottom - LANE * shares
    lanes = max(m.model for m in moments) + 1
    marks = {("opened",): "^", ("stable",): "o", ("removed", "merged"): "X"}
    marks |= {("refined", "returned"): "D"}
    for kinds, marker in marks.items():
        some = [e for e in events if e.kind in kinds and _lane_of(e) < lanes]
        if some:
            # Events after the last batch are drawn at its end.
            x = [min(e.batch, len(moments) - 0.5) for e in some]
            y = [_lane_of(e) + 0.42 for e in some]
            label = " or ".join(dict.fromkeys(e.kind for e in some))
            axes.scatter(x, y, s=20, marker=marker, color=NAVY, lw=0, label=label, clip_on=False)
    axes.set_yticks(range(lanes), [str(i) for i in range(lanes)])
    axes.set_ylim(lanes - 0.4, -0.6)
    axes.set_ylabel("model")
    adapting = Patch(fc=QUIET, alpha=0.4, label="adapting")
    axes.legend(
        handles=[*axes.get_legend_handles_labels()[0], adapting],
        loc="lower right", bbox_to_anchor=(1.0, 0.97), ncols=5, frameon=False, fontsize=8,
        borderpad=0, handletextpad=0.3, columnspacing=1.2, handlelength=1.0,
    )  # fmt: skip


def _lane_of(event: Any) -> int:
    """Return the model in whose lane an event is drawn: if two merged, the one that is gone."""
    return event.evidence["model"] if event.kind == "merged" else event.model


def _draw_verdicts(axes: Axes, moments: Sequence[Any], lanes: Sequence[str]) -> None:
    """Draw a lane per verdict that there is."""
    for lane, verdict in enumerate(lanes):
        batches = [i for i, m in enumerate(moments) if said(m) == verdict]
        width = max(1.0, len(moments) / 300)  # a single batch must be visible
        colour = VERDICT_COLOURS[verdict]
        axes.broken_barh(
            [(i - width / 2, width) for i in batches], (lane - 0.36, 0.72), color=colour, lw=0
        )
    axes.set_yticks(range(len(lanes)), lanes, fontsize=8)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_ylabel("verdict")


def _draw_p_values(axes: Axes, p: NDArray[np.float64], colours: Sequence[str]) -> None:
    """Draw the p-value of each batch on a logarithmic scale."""
    axes.scatter(range(len(p)), np.maximum(p, LEAST_P), s=12, c=colours, lw=0)
    axes.set_yscale("log")
    axes.set_ylim(LEAST_P / 3, 3)
    ticks = ["1", "$10^{-4}$", "$10^{-8}$", "$\\leq10^{-12}$"]
    axes.set_yticks([1, 1e-4, 1e-8, LEAST_P], ticks)
    axes.minorticks_off()
    axes.set_ylabel("p-value of\n“known”")


def _draw_accuracy(axes: Axes, moments: Sequence[Any]) -> None:
    """Draw the accuracy on each batch before learning it, and its running mean."""
    accuracy = np.array([m.accuracy for m in moments], float)
    measured = np.isfinite(accuracy)
    so_far = np.cumsum(np.where(measured, accuracy, 0)) / np.maximum(np.cumsum(measured), 1)
    so_far[np.cumsum(measured) == 0] = np.nan
    batches = np.arange(len(moments))
    axes.plot(batches, accuracy, color=QUIET, lw=0.9, label="each batch")
    axes.plot(batches, so_far, color=NAVY, lw=1.8, label="all batches so far")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("accuracy before\nlearning")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")


@dataclass(eq=False, repr=False)
class TimelineDisplay:
    """What a PREVALClassifier decided along its stream: models, events and verdicts by batch.

    Parameters
    ----------
    moments : sequence of data.Moment, one per batch
    events : the classifier's `events_`
    task_names : sequence of str, optional
        Names of the true tasks, if the moments have their shares.
    """

    moments: Sequence[Any]
    events: Sequence[Any]
    _: KW_ONLY
    task_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: "PREVALClassifier",
        *,
        tasks: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> "TimelineDisplay":
        """Draw the timeline of a classifier.

        `tasks` holds the true task, which it never saw, of every sample in the order of learning.
        """
        if not estimator.reports_:
            raise ValueError("there is no batch yet: nothing to draw")
        if tasks is None:
            return cls(moments_of(estimator), estimator.events_).plot(ax)
        names, codes = np.unique(np.asarray(tasks), return_inverse=True)
        n = estimator.n_samples_seen_
        if len(codes) != n:
            raise ValueError(f"tasks has {len(codes)} entries, but {n} samples were seen")
        size = estimator._state.system.settings.l0.batch_size
        shares = [
            tuple(np.bincount(codes[i : i + size], minlength=len(names)) / len(codes[i : i + size]))
            for i in range(0, n, size)
        ]
        reports = estimator.reports_  # of a long stream, the last ones
        if reports[-1].batch >= len(shares):
            raise ValueError(
                "tasks cannot be assigned to batches: finish() was called within the stream and "
                "made smaller batches"
            )
        moments = [
            moment._replace(shares=shares[report.batch])
            for moment, report in zip(moments_of(estimator), reports, strict=True)
        ]
        return cls(moments, estimator.events_, task_names=[str(name) for name in names]).plot(ax)

    def plot(self, ax: Axes | None = None) -> "TimelineDisplay":
        """Draw on `ax`, or on a new figure."""
        classes = None if self.task_names is None else [[name] for name in self.task_names]
        title = "The model that learns each batch"
        self.figure_ = draw_timeline(self.moments, classes, self.events, title, ax=ax, make=shown)
        self.axes_ = panels_in(self.figure_, ax)
        self.ax_ = self.axes_[0] if ax is None else ax
        return self
