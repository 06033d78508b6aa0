"""The command `dirad stream`: streams of tasks that change in different ways."""

from collections.abc import Sequence
from dataclasses import dataclass
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
    Outcome,
    PositiveInt,
    Preset,
    app,
    deliver,
    progress_bar,
    stderr,
    warm_up,
    worker_count,
)
from dirad.report.tables import Section

if TYPE_CHECKING:
    from dirad.experiments.streams.follow import Moment
    from dirad.experiments.streams.kinds import Stream
    from dirad.experiments.streams.scoring import Lived
    from dirad.preval.system import System

Kind = Literal[
    "abrupt", "recurring", "gradual", "early", "short", "mixed", "late", "few", "swapped",
    "all",
]  # fmt: skip
ROWS = 12  # batches that the live view shows
STRIP = 100  # batches that its coloured strips show


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What the streams are made of."""

    data: Literal["mnist", "fashion-mnist", "digits"] = "mnist"
    """MNIST or Fashion-MNIST at 14 × 14, or scikit-learn's 8 × 8 digits. There are so few of these
    that streams are a fifth as long and repeat each digit several times."""
    preset: Preset = "default"
    """The default settings, or those of the paper (at T_CP = 0.05)."""
    tasks: Annotated[int | None, Parameter(validator=Number(gte=2, lte=5))] = None
    """Different tasks in the stream: 2 to 5 [default: 5; recurring: 3]."""
    per_task: PositiveInt | None = None
    """Samples of a task each time it occurs [default: 10,000; short: 2,000; early: at most
    3,000]."""
    seeds: PositiveInt = 1
    """Streams of each kind, with different classes, samples and random choices."""


BY_DEFAULT = Options()


@app.command
def stream(
    kind: Kind = "recurring", *, options: Options = BY_DEFAULT, common: Common = DEFAULTS
) -> None:
    """Show a stream whose tasks change without notice, and how soon the system detects this.

    A task is to tell two classes apart. The system predicts each batch first and learns it
    afterwards; it is not told where a task ends. The kinds of streams:

    - abrupt: one task after the other
    - recurring: tasks that come again: A B A C B
    - gradual: the next task replaces the last one over twenty batches
    - early: tasks that end before a model is stable, and come again
    - short: each task occurs once, and briefly
    - mixed: abrupt tasks, then samples of all tasks at once, without labels
    - late: abrupt tasks whose labels arrive 1,000 samples later
    - few: abrupt tasks in which one sample in ten has a label
    - swapped: another rule for the same inputs, which only labels show; then the first rule again
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
    """
    from dirad.experiments.streams.scoring import source

    source(options.data)  # if data are missing, this is said before anything starts
    warm_up(common, options.preset)
    deliver(_outcome(kind, options, common, _run_streams(kind, options, common)), common)


def _run_streams(kind: Kind, options: Options, common: Common) -> "list[Lived]":
    """Run all streams; a single kind is shown live for the first seed."""
    from dirad.experiments.runner import run_all
    from dirad.experiments.streams.kinds import KINDS
    from dirad.experiments.streams.scoring import live, new_stream, run

    data, preset, tasks, per_task = options.data, options.preset, options.tasks, options.per_task
    kinds = list(KINDS) if kind == "all" else [kind]
    numbers = range(common.seed, common.seed + options.seeds)
    jobs = [(k, preset, number, data, tasks, per_task) for k in kinds for number in numbers]
    lived: list[Lived] = []
    if kind != "all":
        shown = new_stream(kind, data, common.seed, tasks, per_task)
        with View(shown, common) as view:
            lived.append(live(shown, preset, common.seed, data, view.add))
    if len(lived) < len(jobs):
        with progress_bar(common, "stream") as progress:
            workers = worker_count(common)
            lived += run_all(run, jobs[len(lived) :], workers=workers, progress=progress)
    return lived


def _outcome(kind: Kind, options: Options, common: Common, lived: "list[Lived]") -> Outcome:
    """Return the tables and plots of all streams."""
    from dirad.experiments.streams import summary
    from dirad.plot.timeline import draw_timeline

    lives = [one.life for one in lived]
    noticed = summary.table(lives, summary.noticed)
    sections = [
        Section("Changes that were noticed", noticed, summary.NOTICED),
        Section("Answers", summary.table(lives, summary.answered), summary.ANSWERED),
    ]
    subject = "Streams whose tasks change unannounced"
    if kind != "all":
        subject = f"A stream whose tasks change unannounced: {kind}"
        title = f"What happened in the stream of seed {common.seed}"
        sections.append(Section(title, summary.what_happened(lived[0])))
    pictures = {}
    for one in lived:
        if one.life.seed == common.seed:
            name = f"{one.life.kind}-timeline" if kind == "all" else "timeline"
            pictures[name] = draw_timeline(one.moments, one.classes, one.events)
    used: dict[str, Any] = {"kind": kind, "data": options.data, "preset": options.preset}
    used |= {"tasks": options.tasks} if options.tasks else {}
    used |= {"per-task": options.per_task} if options.per_task else {}
    used |= {"seeds": options.seeds, "seed": common.seed}
    variant = [kind]
    variant += [options.data] if options.data != "mnist" else []
    variant += ["paper"] if options.preset == "paper" else []
    return Outcome(
        "stream",
        used,
        subject,
        sections,
        runs=lives,
        pictures=pictures,
        variant="-".join(variant),
    )


class View:
    """The live view of a stream: strips of its tasks and models, and a table of recent batches."""

    def __init__(self, stream: "Stream", common: Common) -> None:
        self.stream = stream
        self.moments: list[Moment] = []
        self.live = Live(console=stderr(common), refresh_per_second=8, transient=True)

    def __enter__(self) -> "View":
        self.live.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self.live.__exit__(*problem)

    def add(self, moment: "Moment", system: "System") -> None:
        """Show one more batch."""
        self.moments.append(moment)
        self.live.update(view_of(self.stream, self.moments))


def view_of(stream: "Stream", moments: Sequence["Moment"]) -> Group:
    """Return what the live view shows after these batches."""
    from dirad.experiments.streams.scoring import prequential_accuracy
    from dirad.plot.colours import VERDICT_COLOURS, task_colour

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
            Text(one.verdict, VERDICT_COLOURS[one.verdict] if one.verdict != "known" else ""),
            f"model {one.model} ({one.phase})" if one.model >= 0 else "none",
            f"{one.accuracy:.2f}",
            f"{prequential_accuracy(moments[: number + 1]):.2f}",
        )
    head = f"{stream.name}: batch {last.batch + 1} of {stream.n_batches}, {last.models} models"
    return Group(Text(head, "bold"), tasks, models, table)
