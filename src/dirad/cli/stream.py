"""The command that follows streams whose tasks change in many ways."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dirad.cli.app import (
    DEFAULTS,
    Common,
    PositiveInt,
    Preset,
    app,
    progress_bar,
    stderr,
    warm_up,
    worker_count,
)
from dirad.cli.outcome import Outcome, deliver
from dirad.report.tables import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dirad.preval.choice import ContinualSystem
    from dirad.streams.follow import Moment
    from dirad.streams.kinds import Stream
    from dirad.streams.run import StreamRun

Kind = Literal[
    "abrupt", "recurring", "gradual", "early", "short", "mixed", "late", "few", "swapped",
    "all",
]  # fmt: skip
ROWS = 12  # batches that the live view shows
STRIP = 100  # batches that its coloured strips show


@app.command
def stream(
    kind: Kind = "recurring",
    *,
    data: Literal["mnist", "fashion-mnist", "digits"] = "mnist",
    preset: Preset = "default",
    tasks: Annotated[int | None, Parameter(validator=Number(gte=2, lte=5))] = None,
    per_task: PositiveInt | None = None,
    seeds: PositiveInt = 1,
    common: Common = DEFAULTS,
) -> None:
    """Show a stream whose tasks change unannounced, and how soon the system notices.

    A task is two classes. The system predicts each batch before it learns it, and is not told where
    a task ends. Kinds of streams:

    - abrupt: one task after the other
    - recurring: tasks that come again: A B A C B
    - gradual: the next task replaces the last one over twenty batches
    - early: tasks that end before a model is stable, and come again
    - short: each task is seen once, and briefly
    - mixed: abrupt tasks, then samples of all tasks at once, without labels
    - late: abrupt tasks whose labels arrive 1,000 samples later
    - few: abrupt tasks of which one sample in ten has a label
    - swapped: another rule on the same inputs, which only labels show; then the first rule again
    - all: every kind

    ```
    dirad stream gradual
    dirad stream recurring --data digits     # small digits, a few seconds
    dirad stream early --tasks 3 --seeds 5   # mean and spread
    dirad stream all --data digits           # every kind in one table
    ```

    Parameters
    ----------
    kind
        How tasks change, or all.
    data
        MNIST or Fashion-MNIST at 14 × 14, or scikit-learn's 8 × 8 digits, of which there are so few
        that streams are a fifth as long and show each digit several times.
    preset
        Our own settings, or the paper's (at T_CP = 0.05).
    tasks
        Different tasks in the stream: 2 to 5 [default: 5; recurring: 3].
    per_task
        Samples of a task at each visit [default: 10,000; short: 2,000; early: up to 3,000].
    seeds
        Streams of each kind, each with its own classes, samples and random choices.
    """
    from dirad.streams.kinds import KINDS
    from dirad.streams.run import source

    source(data)  # missing data is reported here, before anything starts
    warm_up(common, preset)
    kinds, numbers = KINDS if kind == "all" else [kind], range(common.seed, common.seed + seeds)
    jobs = [(k, preset, number, data, tasks, per_task) for k in kinds for number in numbers]
    runs = _run_streams(jobs, common, watch_first=kind != "all")
    options = {"kind": kind, "data": data, "preset": preset, "tasks": tasks, "per-task": per_task}
    given = {name: value for name, value in options.items() if value}
    deliver(_outcome(runs, given | {"seeds": seeds, "seed": common.seed}), common)


def _run_streams(
    jobs: Sequence[tuple[Any, ...]], common: Common, watch_first: bool
) -> list["StreamRun"]:
    """Run every stream; the first is shown while it passes, if asked for."""
    from dirad.engine import run_all
    from dirad.streams.run import new_stream, run_kind, run_stream

    runs: list[StreamRun] = []
    if watch_first:
        kind, preset, seed, data, tasks, per_task = jobs[0]
        shown = new_stream(kind, data, seed, tasks, per_task)
        with LiveView(shown, common) as view:
            runs.append(run_stream(shown, preset, seed, data, view.add))
    if len(runs) < len(jobs):
        with progress_bar(common, "stream") as progress:
            workers = worker_count(common)
            runs += run_all(run_kind, jobs[len(runs) :], workers=workers, progress=progress)
    return runs


def _outcome(runs: Sequence["StreamRun"], options: dict[str, Any]) -> Outcome:
    """Return tables and pictures of all runs."""
    kind, data, preset = options["kind"], options["data"], options["preset"]
    seed = options["seed"]
    title = f"A stream whose tasks change unannounced: {kind}"
    return Outcome(
        "stream",
        options,
        "Streams whose tasks change unannounced" if kind == "all" else title,
        _sections(runs, kind, seed),
        runs=[run.scores for run in runs],
        pictures=_timelines(runs, kind, seed),
        variant="-".join([kind] + [data] * (data != "mnist") + [preset] * (preset == "paper")),
    )


def _sections(runs: Sequence["StreamRun"], kind: str, seed: int) -> list[Section]:
    from dirad.streams import summary

    scores = [run.scores for run in runs]
    noticed = summary.table(scores, summary.noticed)
    sections = [
        Section("Changes that were noticed", noticed, summary.NOTICED),
        Section("Answers", summary.table(scores, summary.answered), summary.ANSWERED),
    ]
    if kind != "all":
        title = f"What happened in the stream of seed {seed}"
        sections.append(Section(title, summary.what_happened(runs[0])))
    return sections


def _timelines(runs: Sequence["StreamRun"], kind: str, seed: int) -> dict[str, "Figure"]:
    """Draw the timeline of the first stream of each kind."""
    from dirad.plot.timeline import draw_timeline

    return {
        f"{run.scores.kind}-timeline" if kind == "all" else "timeline": draw_timeline(
            run.moments, run.classes, run.events
        )
        for run in runs
        if run.scores.seed == seed
    }


class LiveView:
    """A stream as it passes: strips of its tasks and models, and the last batches in a table."""

    def __init__(self, stream: "Stream", common: Common) -> None:
        self.stream = stream
        self.moments: list[Moment] = []
        self.live = Live(console=stderr(common), refresh_per_second=8, transient=True)

    def __enter__(self) -> "LiveView":
        self.live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.live.__exit__(*problem)

    def add(self, moment: "Moment", system: "ContinualSystem") -> None:
        """Show one more batch."""
        self.moments.append(moment)
        self.live.update(view_of(self.stream, self.moments))


def view_of(stream: "Stream", moments: Sequence["Moment"]) -> Group:
    """Return what the live view shows after these moments."""
    from dirad.plot.colours import VERDICT_COLOURS, task_colour
    from dirad.plot.reasons import said
    from dirad.streams.detection import prequential_accuracy

    last = moments[-1]
    strip = moments[-STRIP:]
    tasks, models = Text("task   "), Text("model  ")
    for moment in strip:
        tasks.append("█", task_colour(moment.task))
        models.append("·" if moment.model < 0 else str(moment.model % 10))
    table = Table(box=None, padding=(0, 2, 0, 0))
    for name in ("batch", "true task", "verdict", "taken by", "accuracy", "so far"):
        left = name in ("true task", "verdict", "taken by")
        table.add_column(name, justify="left" if left else "right")
    for number in range(max(0, len(moments) - ROWS), len(moments)):
        one = moments[number]
        share = one.shares[one.task]
        names = " and ".join(str(c) for c in stream.classes[one.task])
        table.add_row(
            str(one.batch),
            Text(names if share == 1 else f"{names}, {share:.0%}", task_colour(one.task)),
            Text(said(one), VERDICT_COLOURS[said(one)] if said(one) != "known" else ""),
            f"model {one.model} ({one.phase})" if one.model >= 0 else "none",
            f"{one.accuracy:.2f}",
            f"{prequential_accuracy(moments[: number + 1]):.2f}",
        )
    head = f"{stream.name}: batch {last.batch + 1} of {stream.n_batches}, {last.models} models"
    return Group(Text(head, "bold"), tasks, models, table)
