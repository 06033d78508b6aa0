"""The command `dirad demo`: everything in a few minutes."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.live import Live
from rich.table import Table

from dirad.cli.app import DEFAULTS, Common, Flag, Outcome, app, deliver, spinner, stderr, warm_up
from dirad.report.tables import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dirad.experiments.demo import Problem, Story
    from dirad.experiments.runner import Grown
    from dirad.experiments.streams.follow import Moment
    from dirad.growth.state import State
    from dirad.preval.system import System


@app.command
def demo(*, quick: Flag = False, common: Common = DEFAULTS) -> None:
    """Watch three networks grow, and a system that detects new tasks by itself.

    The networks learn XOR, the parity of six bits, and to tell the digits 4 and 9 apart. Then comes
    a stream of digits: two classes, two others, two others again, and finally the first two once
    more. The system is not told when the task changes.

    ```
    dirad demo
    dirad demo --quick --out results/look   # small digits, a few seconds
    ```

    Parameters
    ----------
    quick
        Use scikit-learn's 8 × 8 digits instead of MNIST.
    """
    from dirad.experiments import demo as experiment

    warm_up(common)
    problems, remark = experiment.problems(quick)
    grown = _grow_live(problems, common)
    with spinner(common, "fitting the baselines"):
        rows = [
            experiment.compare(*each, common.seed) for each in zip(problems, grown, strict=True)
        ]
    story = _live_through(quick, common)
    outcome = Outcome(
        "demo",
        {"quick": quick, "seed": common.seed},
        "Networks grown from nothing, tasks noticed by themselves",
        [*_network_sections(problems, grown, rows, remark), *_stream_sections(story, quick)],
        pictures=_pictures(problems, grown, story),
    )
    deliver(outcome, common)


def _network_sections(
    problems: Sequence["Problem"],
    grown: Sequence["Grown"],
    rows: Sequence[Mapping[str, Any]],
    remark: str,
) -> list[Section]:
    """Return the tables about the three networks."""
    from dirad.core.describe import equations

    note = (
        "Accuracy: on all patterns; for digits on test samples. Edges: all weights without biases. "
        "Baselines: a perceptron that solves the task with the same seed (the smaller of n and 2n "
        "hidden units that does), and logistic regression on the pixels that greedy selection "
        f"finds best. {remark}"
    )
    written = [
        {"problem": problem.name, "equation": line}
        for problem, result in zip(problems[:2], grown[:2], strict=True)
        for line in equations(result.network)
    ]
    return [
        Section("Three networks, grown from nothing", rows, note.strip()),
        Section("The networks for XOR and parity, written out", written),
    ]


def _stream_sections(story: "Story", quick: bool) -> list[Section]:
    """Return the tables about the stream of tasks."""
    from dirad.experiments import demo as experiment

    system = story.system
    noticed = (
        "p: probability that a batch of a model's own task is this unusual. If it is below "
        f"{system.settings.false_alarms:g} for all models, a new model is opened."
    )
    accuracy = (
        f"{len(system.models)} models with {system.n_parameters:,} parameters in all. One run; the "
        "paper's values are means of eight (dirad reproduce computes them again)."
    )
    if quick:
        accuracy += " The paper uses the digits of MNIST; these are smaller."
    return [
        Section(
            "A stream of tasks: what the system noticed", experiment.what_happened(story), noticed
        ),
        Section("Accuracy on all digits so far", experiment.against_the_paper(story), accuracy),
    ]


def _pictures(
    problems: Sequence["Problem"], grown: Sequence["Grown"], story: "Story"
) -> dict[str, "Figure"]:
    """Return plots of the networks and of the stream."""
    from dirad.plot.growth import draw_adaptation, draw_growth
    from dirad.plot.network import draw_network
    from dirad.plot.timeline import draw_timeline

    pictures: dict[str, Figure] = {}
    for problem, result in zip(problems, grown, strict=True):
        shape = problem.image_shape
        pictures[f"{problem.key}-network"] = draw_network(result.network, image_shape=shape)
        pictures[f"{problem.key}-growth"] = draw_growth(result.history, title=problem.name)
    system = story.system
    pictures["stream-timeline"] = draw_timeline(story.moments, story.classes, system.journal.events)
    pictures["stream-model"] = draw_adaptation(system.models[0])
    return pictures


def _live_through(quick: bool, common: Common) -> "Story":
    """Run the stream, and show its state in one line."""
    from dirad.experiments.demo import live_through

    with Live(console=stderr(common), refresh_per_second=10, transient=True) as live:

        def show(moment: "Moment", system: "System") -> None:
            models = ", ".join(f"{m.number}: {m.phase}" for m in system.models)
            live.update(
                f"stream: batch {moment.batch}, taken by model {moment.model} "
                f"({moment.phase})   models {models}   accuracy {moment.accuracy:.2f}"
            )

        return live_through(common.seed, quick, show)


def _grow_live(problems: Sequence["Problem"], common: Common) -> list["Grown"]:
    """Grow one network after the other, and show error, nodes and edges as they change."""
    from dirad.experiments.pairs import standardize
    from dirad.experiments.runner import grow
    from dirad.growth.state import PHASE, SMOOTHED
    from dirad.history import PHASE_NAMES
    from dirad.params import preset

    lines: dict[str, tuple[str, ...]] = {p.name: ("waiting", *[""] * 4) for p in problems}

    def table() -> Table:
        view = Table(box=None, padding=(0, 2, 0, 0))
        for name in ("problem", "", "step", "error", "hidden nodes", "edges"):
            view.add_column(name, justify="left" if name in ("problem", "") else "right")
        for name, cells in lines.items():
            view.add_row(name, *cells)
        return view

    grown = []
    with Live(
        Group(table()), console=stderr(common), refresh_per_second=20, transient=True
    ) as live:
        for problem in problems:

            def show(state: "State", name: str = problem.name) -> None:
                lines[name] = (
                    PHASE_NAMES[state.clock[PHASE]],
                    f"{state.step:,}",
                    f"{state.meter[SMOOTHED]:.4f}",
                    str(state.network.n_hidden),
                    str(state.network.n_edges),
                )
                live.update(table())

            X, usable = standardize(problem.X)
            params = preset("default", max_edges=problem.max_edges)
            targets = problem.y[:, None].astype(float)
            grown.append(
                grow(X, targets, params, common.seed, usable=usable, report=show, chunk=25)
            )
    return grown
