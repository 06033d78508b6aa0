"""The command that shows everything in a few minutes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.table import Table

from dirad.cli.app import DEFAULTS, Common, Flag, app, spinner, stderr, warm_up
from dirad.cli.outcome import Outcome, deliver
from dirad.report.tables import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dirad.demo.problems import Grown, Problem
    from dirad.demo.story import Story
    from dirad.growth.state import State
    from dirad.preval.choice import ContinualSystem
    from dirad.streams.follow import Moment

BESIDE = (
    "Accuracy: on all patterns; for digits on test samples. Edges: all weights, biases apart. "
    "Beside: a perceptron that solves the task with the same seed (the smaller of n and 2n "
    "hidden units that does), and logistic regression on the pixels that greedy choice finds "
    "best."
)


@app.command
def demo(*, quick: Flag = False, common: Common = DEFAULTS) -> None:
    """Three networks grow before your eyes; then tasks arrive unannounced, and are noticed.

    First XOR, parity of six bits, and the digits 4 and 9. Then a stream of digits: two at a time,
    two others, two others again, and then the first ones once more. Nobody tells the system.

    ```
    dirad demo
    dirad demo --quick --out results/look   # small digits, a few seconds
    ```

    Parameters
    ----------
    quick
        scikit-learn's 8 × 8 digits instead of MNIST.
    """
    from dirad.demo.problems import compare, problems

    warm_up(common)
    posed, remark = problems(quick)
    grown = _grow_live(posed, common)
    with spinner(common, "fitting what they are compared with"):
        rows = [compare(*each, common.seed) for each in zip(posed, grown, strict=True)]
    story = _follow_live(quick, common)
    outcome = Outcome(
        "demo",
        {"quick": quick, "seed": common.seed},
        "Networks grown from nothing, tasks noticed by themselves",
        [
            Section("Three networks, grown from nothing", rows, f"{BESIDE} {remark}"),
            _equations(posed[:2], grown[:2]),
            *_told(story, quick),
        ],
        pictures=_pictures(posed, grown, story),
    )
    deliver(outcome, common)


def _equations(problems: Sequence["Problem"], grown: Sequence["Grown"]) -> Section:
    from dirad.core.describe import equations

    rows = [
        {"problem": problem.name, "equation": line}
        for problem, result in zip(problems, grown, strict=True)
        for line in equations(result.network)
    ]
    return Section("The networks for XOR and parity, written out", rows)


def _told(story: "Story", quick: bool) -> list[Section]:
    """Return the tables of the stream."""
    from dirad.demo.story import against_the_paper, what_happened

    system = story.system
    return [
        Section(
            "A stream of tasks: what the system noticed",
            what_happened(story),
            "p: probability that a model's own task shows so unusual a batch. Where it is too "
            f"small ({system.settings.false_alarms:g}) for all models, a new one is opened.",
        ),
        Section(
            "Accuracy on all digits so far",
            against_the_paper(story),
            f"{len(system.models)} models with {system.n_parameters:,} parameters in all. One "
            "run; the paper's are means of eight (`python -m experiments reproduce` makes them "
            "again)." + (" The paper's digits are MNIST's, these are smaller." if quick else ""),
        ),
    ]


def _pictures(
    problems: Sequence["Problem"], grown: Sequence["Grown"], story: "Story"
) -> dict[str, "Figure"]:
    from dirad.plot.growth import draw_adaptation, draw_growth
    from dirad.plot.network import draw_network
    from dirad.plot.timeline import draw_timeline

    drawn: dict[str, Figure] = {}
    for problem, result in zip(problems, grown, strict=True):
        network = draw_network(result.network, image_shape=problem.image_shape)
        drawn[f"{problem.key}-network"] = network
        drawn[f"{problem.key}-growth"] = draw_growth(result.history, title=problem.name)
    system = story.system
    drawn["stream-timeline"] = draw_timeline(story.moments, story.classes, system.journal.events)
    drawn["stream-model"] = draw_adaptation(system.models[0])
    return drawn


def _follow_live(quick: bool, common: Common) -> "Story":
    """Let a system follow the stream, with one line that says what is going on."""
    from dirad.demo.story import follow_story

    with Live(console=stderr(common), refresh_per_second=10, transient=True) as live:

        def show(moment: "Moment", system: "ContinualSystem") -> None:
            models = ", ".join(f"{m.number}: {m.phase}" for m in system.models)
            live.update(
                f"stream: batch {moment.batch}, taken by model {moment.model} "
                f"({moment.phase})   models {models}   accuracy {moment.accuracy:.2f}"
            )

        return follow_story(common.seed, quick, show)


def _grow_live(problems: Sequence["Problem"], common: Common) -> list["Grown"]:
    """Grow one network after the other, showing error, nodes and edges as they change."""
    from dirad.demo.problems import solve
    from dirad.growth.state import PHASE, SMOOTHED
    from dirad.history import PHASE_NAMES

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

            grown.append(solve(problem, common.seed, show))
    return grown
