"""Pictures of models that validate: how one adapts, and how batches and samples find theirs."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from dirad.preval.model import STABLE, Model
from dirad.preval.system import System

INK, QUIET, ACCENT, ALERT = "#1b3a4b", "#8fa3ad", "#1f77b4", "#d1495b"
TASK_COLOURS = ("#1f77b4", "#e07b00", "#2a9d55", "#8e44ad", "#b5762a")
PIXELS = colormaps["gray_r"].with_extremes(bad="#d5e3ea")
VERDICT_COLOURS = {"learning": QUIET, "known": INK, "new": ALERT, "mixed": "#e9a23b"}
MOST_MODELS = 6  # rows of a flow picture
MAINLY = 0.75  # share of a task that makes a batch one of it
MANY_CHANGES = 25  # above it, lines at all of them would be a blur
LETTERS = 110  # that fit into the width of a timeline
LANE = 0.5  # height of a model's batches
LEAST_P = 1e-12  # of probabilities below it the size does not matter


def draw_adaptation(model: Model) -> Figure:
    """Error, edges and hidden nodes of L0 and then of L1, with the transition marked."""
    assert model.l1 is not None
    l0 = model.history
    error, edges, hidden = model.l1.progress()
    first, last = len(l0.error), len(l0.error) + len(error)
    n_outputs = max(model.network.n_outputs, 1)
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True)
    squared = model.settings.l0.cost == "squared"
    l0_error = 2 * l0.error / n_outputs if squared else l0.error
    top.plot(range(first), l0_error, color=ACCENT, lw=0.8, label="L0: outputs")
    top.plot(range(first, last), error, color=ALERT, lw=0.8, label="L1: states of L0's nodes")
    top.set_ylabel("mean squared error\nper target" if squared else "error")
    top.set_ylim(bottom=0)
    top.legend(frameon=False, loc="upper right")
    for values, l1_values, colour, label in (
        (l0.edges, edges, INK, "edges"),
        (l0.hidden, hidden, QUIET, "hidden nodes"),
    ):
        bottom.plot(range(first), values, color=colour, label=label)
        bottom.plot(range(first, last), l1_values, color=colour)
    bottom.set_yscale("symlog", linthresh=10)
    bottom.set_ylim(bottom=0)
    bottom.set_ylabel("size of the network\nthat adapts")
    bottom.set_xlabel("step (one batch each)" if not model.settings.buffer_size else "step")
    bottom.legend(frameon=False, loc="lower right")
    for axes in (top, bottom):
        axes.axvline(first, color=INK, lw=1, ls=":")
        axes.spines[["top", "right"]].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    top.annotate(
        " L0 stable: L1 begins", (first, top.get_ylim()[1]), va="top", color=INK, fontsize=9
    )
    figure.suptitle(f"Adaptation of one model: {first:,} steps of L0, then {len(error):,} of L1")
    return figure


def draw_flow(system: System, batch: NDArray, sample: NDArray) -> Figure:
    """One batch and one sample, as every stable model sees them.

    Left: the sample, L1's prediction of it and what contradicts; the model with the least score
    answers. Right: the batch's value against the limit up to which each model calls it known.
    """
    models = system.stable[:MOST_MODELS]
    side = round(np.sqrt(system.n_inputs))
    route = int(system.route(sample[None])[0])
    scores = system.scores(sample[None])[0]
    verdicts = system.judge(batch)[:MOST_MODELS]
    known = [v for v in verdicts if v.validated]
    chosen = min(known, key=lambda v: v.value).model if known else None
    figure = Figure(figsize=(9.5, 1.9 * len(models) + 1.1), layout="constrained")
    halves: Any = figure.subfigures(1, 2, width_ratios=(1.5, 1))
    left, right = halves
    axes: Any = left.subplots(len(models), 3, squeeze=False)
    for row, model in enumerate(models):
        picture = seen_by(system, model, sample)
        blank = " (blue: not predicted)" if row == 0 and np.isnan(picture[1]).any() else ""
        predicted_title = f"predicted by L1{blank}"
        ratio = scores[row]
        mark = "  ← answers" if model.number == route else ""
        for column, (image, title) in enumerate(
            zip(picture, ("the sample", predicted_title, "conflicted"), strict=True)
        ):
            ax = axes[row, column]
            if column < 2:
                ax.imshow(image.reshape(side, side), cmap=PIXELS, vmin=0, vmax=1)
            else:
                ax.imshow(picture[0].reshape(side, side), cmap="gray_r", vmin=0, vmax=3)
                y, x = np.nonzero(image.reshape(side, side))
                ax.scatter(x, y, s=2200 / side**2, marker="s", color=ALERT, linewidths=0)
            ax.set_xticks([])
            ax.set_yticks([])
            if row == 0:
                ax.set_title(title, fontsize=9)
        axes[row, 0].set_ylabel(f"model {model.number}", fontsize=10)
        axes[row, 2].set_xlabel(
            f"score {ratio:.3f}{mark}",
            fontsize=9,
            color=INK if mark else QUIET,
            fontweight="bold" if mark else "normal",
        )
    left.suptitle("One sample goes to the model with the least score")
    ax = right.subplots()
    places = np.arange(len(verdicts))[::-1]
    colours = [ACCENT if v.validated else ALERT for v in verdicts]
    ax.barh(places, [v.value for v in verdicts], color=colours, height=0.5)
    ax.plot([v.limit for v in verdicts], places, "k|", ms=26, mew=2)
    ax.annotate("limit", (verdicts[0].limit, places[0] + 0.3), ha="center", va="bottom", fontsize=9)
    names = [f"model {v.model}" + ("\ntakes it" if v.model == chosen else "") for v in verdicts]
    ax.set_yticks(places, names)
    ax.set_xlabel(
        "how improbable the batch is: 1 − p"
        if system.settings.buffer_size
        else "share of invalid samples"
    )
    ax.spines[["top", "right"]].set_visible(False)
    verdict = f"model {chosen} knows it" if chosen is not None else "new to all: a model is opened"
    right.suptitle(f"One batch: {verdict}")
    return figure


def draw_timeline(
    moments: Sequence[Any],
    classes: Sequence[Sequence[int]],
    events: Sequence[Any],
    title: str = "Tasks arrive unannounced; each batch goes to a model",
) -> Figure:
    """What a stream showed and what the learner made of it, batch by batch.

    `moments` are those of `experiments.streams.follow`, `classes` those of each task. From the
    top: shares of the true tasks; the model that took each batch, coloured by its main task; what
    was said of the batch; how probable it was if known; accuracy before learning it.
    """
    p = np.array([m.p for m in moments], float)
    heights = {"task": 0.5, "model": 0.5 + 0.28 * (1 + max(m.model for m in moments))}
    heights |= {"verdict": 1.0} | ({"p": 1.0} if np.isfinite(p).any() else {}) | {"accuracy": 1.3}
    figure = Figure(figsize=(9.5, 1.1 + 1.05 * sum(heights.values())), layout="constrained")
    panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=list(heights.values()))
    at = dict(zip(heights, panels, strict=True))
    at["task"].set_title(title, loc="left", fontsize=11)
    _draw_tasks(at["task"], moments, classes)
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
    figure.align_ylabels(panels)
    at["accuracy"].set_xlabel("batch")
    return figure


def _draw_tasks(axes: Axes, moments: Sequence[Any], classes: Sequence[Sequence[int]]) -> None:
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
            x, y = [e.batch for e in some], [_whose(e) + 0.42 for e in some]
            label = " or ".join(dict.fromkeys(e.kind for e in some))
            axes.scatter(x, y, s=20, marker=marker, color=INK, lw=0, label=label, clip_on=False)
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
    axes.plot(batches, so_far, color=INK, lw=1.8, label="so far")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("accuracy before\nlearning")
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower right")


def task_colour(task: int) -> str:
    """Return the colour of a task; they come again after the last."""
    return TASK_COLOURS[task % len(TASK_COLOURS)]


def seen_by(system: System, model: Model, sample: NDArray) -> tuple[NDArray, NDArray, NDArray]:
    """Return a sample, its inputs as L1 predicts them, and which of them are conflicted."""
    inputs, predicted = model.predicted_inputs(sample[None])
    image = np.full(system.n_inputs, np.nan)  # what L1 does not predict stays blank
    image[inputs] = predicted[0]
    bad = model.conflicted(sample[None])[0, : system.n_inputs]
    return sample, np.clip(image, 0, 1), bad
