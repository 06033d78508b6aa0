"""The command line: arguments -> experiments -> tables, files and pictures. No maths."""

import dataclasses
import json
import math
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from dirad import __version__
from dirad.report.tables import Section, markdown, print_sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dirad.experiments.demo import Problem
    from dirad.experiments.runner import Grown
    from dirad.growth.state import State

FAILURE, USAGE, INTERRUPTED = 1, 2, 130  # exit codes
COMPILING = "compiling kernels, once per version (about a minute)"
COMPILING_AFTER = 4.0  # seconds; loading them from the cache takes less
PICTURE_DOTS = 150  # per inch

app = App(
    name="dirad",
    version=__version__,
    help_format="markdown",
    help="""Networks that start from inputs and outputs alone and grow what the data demands.

Every command runs one experiment with its baselines beside it, prints a table, and writes the
same as Markdown and JSON, with pictures, to a folder of its name in `results`.

```
dirad demo                          # grow three networks and watch
dirad xor                           # the paper's walk through XOR
dirad parity --bits 2-4 --seeds 5   # conflict, the hardest kind
dirad pairs --pairs 5 --edges 15    # MNIST: accuracy at equal size
dirad pairs --help                  # more of a command, with examples
```""",
)


class Usage(Exception):
    """What the user asked for makes no sense; the message says why."""


PositiveInt = Annotated[int, Parameter(validator=Number(gte=1))]
NaturalInt = Annotated[int, Parameter(validator=Number(gte=0))]
Preset = Literal["default", "paper"]


@Parameter(name="*")
@dataclass(frozen=True)
class Common:
    """Options of every command."""

    seed: Annotated[NaturalInt, Parameter(help="First random seed; others count on from it.")] = 0
    workers: Annotated[
        PositiveInt | None,
        Parameter(help="Processes [default: one per core]; results do not depend on it."),
    ] = None
    out: Annotated[
        Path | None, Parameter(help="Folder for the results [default: results/ and the command].")
    ] = None
    json: Annotated[
        bool, Parameter(negative="", help="Print JSON, and nothing else, to standard output.")
    ] = False
    quiet: Annotated[
        bool, Parameter(negative="", help="No progress and no tables: only the folder's name.")
    ] = False


DEFAULTS = Common()


@dataclass(frozen=True)
class Outcome:
    """What a command found out."""

    command: str  # its name
    options: Mapping[str, Any]  # those that the result depends on
    title: str
    sections: Sequence[Section]
    runs: Sequence[Any] = ()  # dataclasses, one per run
    pictures: Mapping[str, "Figure"] = field(default_factory=dict)
    variant: str = ""  # appended to the names of files, so that variants do not overwrite another

    @property
    def stem(self) -> str:
        """The name of the files, without their endings."""
        return f"{self.command}-{self.variant}" if self.variant else self.command


# --- commands ----------------------------------------------------------------------------------


@app.command
def xor(*, preset: Preset = "paper", common: Common = DEFAULTS) -> None:
    """Watch a network grow on XOR, the smallest task that no single edge can begin.

    The stages are those of the paper's figure, caught from a real run.

    ```
    dirad xor
    dirad xor --seed 3 --out results/xor-3
    ```

    Parameters
    ----------
    preset
        The paper's settings, or our own.
    """
    from dirad.experiments.xor import stages
    from dirad.report.story import draw_stages, print_stages

    _warm(common, preset)
    found = stages(common.seed, preset)
    if not (common.quiet or common.json):
        print_stages(_stdout(), found)
    rows = [
        {
            "stage": stage.number,
            "title": stage.title,
            "step": stage.step,
            "edges": stage.network.n_edges,
            "hidden": stage.network.n_hidden,
            "error": f"{stage.error:.4f}",
            "what happens": stage.text,
        }
        for stage in found
    ]
    outcome = Outcome(
        "xor",
        {"preset": preset, "seed": common.seed},
        "XOR, step by step",
        [Section("Stages", rows)],
        pictures={"stages": draw_stages(found)},
    )
    _deliver(outcome, common, show=False)


@app.command
def parity(
    *,
    bits: str = "2-8",
    seeds: PositiveInt = 20,
    preset: Preset = "default",
    batch_from_stream: Annotated[bool, Parameter(negative="")] = False,
    distractors: NaturalInt = 0,
    common: Common = DEFAULTS,
) -> None:
    """n-bit parity: solved runs and sizes, beside perceptrons of n and 2n hidden units.

    A run is solved if all 2ⁿ patterns are answered right.

    ```
    dirad parity                                   # 2 to 8 bits, 20 seeds
    dirad parity --bits 2-4,8 --seeds 5
    dirad parity --bits 2-10 --batch-from-stream   # random batches of 200
    dirad parity --bits 4 --distractors 4          # and inputs without meaning
    ```

    Parameters
    ----------
    bits
        Numbers of bits: 4, or 2-8, or 2-4,8.
    seeds
        Runs per number of bits and method.
    preset
        Our own settings, or the paper's.
    batch_from_stream
        Show random batches of 200 patterns instead of all patterns at once.
    distractors
        Random inputs beside the bits; implies --batch-from-stream.
    """
    from dirad.experiments import parity as experiment
    from dirad.report.plots import draw_network

    chosen = _numbers(bits, "--bits", 2, 12)
    stream = batch_from_stream or distractors > 0
    _warm(common, preset)
    with _progress(common, "parity") as progress:
        runs = experiment.measure(
            chosen,
            range(common.seed, common.seed + seeds),
            preset=preset,
            stream=stream,
            distractors=distractors,
            workers=_workers(common),
            progress=progress,
        )
    task = f"random batches of {experiment.STREAM_BATCH}" if stream else "all 2ⁿ patterns"
    if distractors:
        task += f", {distractors} distractors"
    note = (
        "Solved: every pattern answered right. Edges: all weights, biases apart. Means (and "
        "maxima) over all runs, solved or not. Distinct networks: 1 means that the seed changes "
        "nothing, so that all these runs are one. neat-python is quoted, not measured in this run."
    )
    if stream:
        note += " The MLP sees all patterns at once and no distractors, which is easier."
    variant = "-".join(
        ["paper"] * (preset == "paper")
        + ["stream"] * stream
        + [f"{distractors}-distractors"] * (distractors > 0)
    )
    model = experiment.grow_parity(max(chosen), common.seed, preset, stream, distractors)
    outcome = Outcome(
        "parity",
        {
            "bits": bits,
            "seeds": seeds,
            "preset": preset,
            "batch-from-stream": batch_from_stream,
            "distractors": distractors,
            "seed": common.seed,
        },
        f"n-bit parity: {task}",
        [Section(f"Parity, {task}, preset {preset}", experiment.summarize(runs), note)],
        runs,
        {f"network-{max(chosen)}-bits": draw_network(model.network_)},
        variant,
    )
    _deliver(outcome, common)


@app.command
def pairs(
    *,
    pairs: Annotated[int, Parameter(validator=Number(gte=1, lte=45))] = 45,
    edges: str = "5,15,50",
    preset: Preset = "default",
    common: Common = DEFAULTS,
) -> None:
    """Two digits of MNIST at 14 × 14: test accuracy at equal size, or the paper's claim.

    Size is the number of edges, biases apart. Beside DIRAD: logistic regression on greedily chosen
    pixels, on pixels chosen by an L1 penalty, on all pixels; and a decision tree (splits).

    ```
    dirad pairs                  # all 45 pairs
    dirad pairs --pairs 5 --edges 15
    dirad pairs --preset paper   # ten outputs, two active, as in the paper
    ```

    Parameters
    ----------
    pairs
        How many of the 45 pairs, spread evenly.
    edges
        Sizes to compare: 5,15,50.
    preset
        default: at equal size. paper: the paper's own protocol, without a limit on edges.
    """
    from dirad.experiments import pairs as experiment
    from dirad.report.plots import draw_network

    sizes = _numbers(edges, "--edges", 1, 196)
    chosen = experiment.choose_pairs(pairs)
    experiment.mnist()
    _warm(common, preset)
    options: dict[str, Any] = {"pairs": pairs, "preset": preset, "seed": common.seed}
    with _progress(common, "pairs") as progress:
        settings: dict[str, Any] = {
            "seed": common.seed,
            "workers": _workers(common),
            "progress": progress,
        }
        if preset == "paper":
            runs = experiment.measure_paper(chosen, **settings)
        else:
            runs = experiment.measure(chosen, sizes, **settings)
    if preset == "paper":
        keys = ("pair", "accuracy", "edges", "hidden", "steps")
        each = [{key: getattr(run, key) for key in keys} for run in runs]
        note = (
            "Test accuracy of the largest of all ten outputs, two of them active. Mean ± standard "
            "deviation over pairs."
        )
        sections = [
            Section("One task as in the paper", experiment.summarize_paper(runs), note),
            Section("Pair by pair", each),
        ]
        network = experiment.grow_paper(chosen[0], common.seed).network
    else:
        options["edges"] = edges
        note = (
            "Mean ± standard error over pairs. Difference: paired, to greedy logistic at the same "
            "size. Edges: weights used, biases apart (tree: splits); size: those allowed."
        )
        title = f"Accuracy at equal size, mean over {pairs} pairs of digits"
        sections = [Section(title, experiment.summarize(runs), note)]
        network = experiment.fit_dirad(chosen[0], sizes[-1], common.seed).network_
    a, b = chosen[0]
    outcome = Outcome(
        "pairs",
        options,
        "MNIST, two digits",
        sections,
        runs,
        {f"network-{a}-{b}": draw_network(network, image_shape=(14, 14))},
        "paper" if preset == "paper" else "",
    )
    _deliver(outcome, common)


@app.command
def digits(
    *, edges: str = "500,1000,2000", seeds: PositiveInt = 1, common: Common = DEFAULTS
) -> None:
    """Ten digits of MNIST at 14 × 14, beside a perceptron pruned to the same size.

    ```
    dirad digits                       # 500, 1,000 and 2,000 edges, one seed
    dirad digits --edges 500 --seeds 3
    ```

    Parameters
    ----------
    edges
        Sizes to compare: 500,1000,2000.
    seeds
        Runs per size and method.
    """
    from dirad.experiments import digits as experiment

    sizes = _numbers(edges, "--edges", 10, 20_000)
    experiment.mnist()
    _warm(common)
    with _progress(common, "digits") as progress:
        runs = experiment.measure(
            sizes,
            range(common.seed, common.seed + seeds),
            workers=_workers(common),
            progress=progress,
        )
    note = (
        "Test accuracy over 10,000 samples (whose own sampling error is about 0.003 at 0.90 and "
        "0.002 at 0.96); ± standard deviation over seeds, where there are several. Full logistic "
        "regression is the ceiling of networks without hidden nodes. Seconds: of one core, kernels "
        "compiled; the pruned MLP's include the choice of its hidden size, full logistic "
        "regression's that of its penalty."
    )
    outcome = Outcome(
        "digits",
        {"edges": edges, "seeds": seeds, "seed": common.seed},
        "MNIST, ten digits",
        [Section("Ten digits at a given size", experiment.summarize(runs), note)],
        runs,
    )
    _deliver(outcome, common)


@app.command
def tabular(*, repeats: PositiveInt = 5, common: Common = DEFAULTS) -> None:
    """Small tables of scikit-learn, by repeated 5-fold cross-validation, beside a linear model.

    The linear model is standardized and its penalty tuned within each training part.

    ```
    dirad tabular
    dirad tabular --repeats 1 --workers 1
    ```

    Parameters
    ----------
    repeats
        Times that the five folds are drawn anew.
    """
    from dirad.experiments import tabular as experiment

    _warm(common)
    with _progress(common, "tabular") as progress:
        runs = experiment.measure(
            repeats, seed=common.seed, workers=_workers(common), progress=progress
        )
    note = (
        "Accuracy, or R² for diabetes; ± standard error of the mean over folds. Folds of different "
        "repeats share samples, so that the true spread is larger. Difference: paired by fold. "
        "Parameters: of DIRAD edges, biases and Ks; of the linear model coefficients that are not "
        "0, and intercepts."
    )
    outcome = Outcome(
        "tabular",
        {"repeats": repeats, "seed": common.seed},
        "Small tables",
        [Section("DIRAD and a tuned linear model", experiment.summarize(runs), note)],
        runs,
    )
    _deliver(outcome, common)


PARTS = ("ladder", "pieces", "sweep")


@app.command
def ablate(
    *,
    parts: str = ",".join(PARTS),
    pairs: Annotated[int, Parameter(validator=Number(gte=1, lte=45))] = 6,
    seeds: PositiveInt = 3,
    full: Annotated[bool, Parameter(negative="")] = False,
    common: Common = DEFAULTS,
) -> None:
    """What each piece is worth: the paper step by step, our default without each of its parts.

    Digits are scored on a held-out sixth of the training set; the test set is not touched.

    ```
    dirad ablate
    dirad ablate --parts sweep --pairs 2 --seeds 1   # δ_min, R₁, R₂, roughly
    dirad ablate --parts pieces --full               # ten digits as well
    ```

    Parameters
    ----------
    parts
        Which parts: ladder (from edge generation to the paper, and other readings of it), pieces
        (our default without each piece), sweep (δ_min, R₁, R₂).
    pairs
        Pairs of digits, spread evenly over the 45.
    seeds
        Runs per variant and task.
    full
        All ten digits at 500 edges as well.
    """
    from dirad.experiments import ablation as experiment
    from dirad.experiments.pairs import choose_pairs

    wanted = [part.strip() for part in parts.split(",")]
    for part in wanted:
        if part not in PARTS:
            raise Usage(f"--parts knows {', '.join(PARTS)}, not {part!r}")
    chosen, many = choose_pairs(pairs), range(common.seed, common.seed + seeds)
    jobs: list[Any] = []
    if "ladder" in wanted:
        jobs += experiment.ladder_jobs(chosen, many)
    if "pieces" in wanted:
        jobs += experiment.piece_jobs(chosen, many, full)
    if "sweep" in wanted:
        jobs += experiment.sweep_jobs(chosen, many)
    experiment.mnist()
    _warm(common, *(["default"] if "pieces" in wanted else []), "paper")
    with _progress(common, "ablate") as progress:
        runs = experiment.measure(jobs, workers=_workers(common), progress=progress)
    note = (
        f"{pairs} pairs × {seeds} seeds; parity and ten digits: {seeds} seeds. Held-out accuracy "
        "± standard error; difference: paired, to the row without one. Means (and maxima) of "
        "edges, hidden nodes and steps. Without settling, edges on their way out are still there, "
        "so that a network may be larger than its limit."
    )
    outcome = Outcome(
        "ablate",
        {"parts": parts, "pairs": pairs, "seeds": seeds, "full": full, "seed": common.seed},
        "What each piece is worth",
        [Section(title, rows, note) for title, rows in experiment.tables(runs)],
        runs,
    )
    _deliver(outcome, common)


@app.command
def demo(
    *, quick: Annotated[bool, Parameter(negative="")] = False, common: Common = DEFAULTS
) -> None:
    """Grow three networks and watch: XOR, parity of six bits, and the digits 4 and 9.

    ```
    dirad demo
    dirad demo --quick --out results/look   # small digits, a few seconds
    ```

    Parameters
    ----------
    quick
        scikit-learn's 8 × 8 digits instead of MNIST.
    """
    from dirad.core.describe import equations
    from dirad.experiments import demo as experiment
    from dirad.report.plots import draw_growth, draw_network

    _warm(common)
    problems, remark = experiment.problems(quick)
    grown = _grow_live(problems, common)
    with _status(common, "fitting what they are compared with"):
        rows = [
            experiment.compare(*each, common.seed) for each in zip(problems, grown, strict=True)
        ]
    note = (
        "Accuracy: on all patterns; for digits on test samples. Edges: all weights, biases apart. "
        "Beside: a perceptron that solves the task with the same seed (the smaller of n and 2n "
        "hidden units that does), and logistic regression on the pixels that greedy choice finds "
        f"best. {remark}"
    )
    pictures: dict[str, Figure] = {}
    for problem, result in zip(problems, grown, strict=True):
        pictures[f"{problem.key}-network"] = draw_network(
            result.network, image_shape=problem.image_shape
        )
        pictures[f"{problem.key}-growth"] = draw_growth(result.history, title=problem.name)
    outcome = Outcome(
        "demo",
        {"quick": quick, "seed": common.seed},
        "Three networks, grown from nothing",
        [
            Section("Three networks, grown from nothing", rows, note.strip()),
            Section(
                "The networks for XOR and parity, written out",
                [
                    {"problem": problem.name, "equation": line}
                    for problem, result in zip(problems[:2], grown[:2], strict=True)
                    for line in equations(result.network)
                ],
            ),
        ],
        pictures=pictures,
    )
    _deliver(outcome, common)


def _grow_live(problems: Sequence["Problem"], common: Common) -> list["Grown"]:
    """Grow one network after the other, showing error, nodes and edges as they change."""
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
        Group(table()), console=_stderr(common), refresh_per_second=20, transient=True
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


# --- what all commands share -------------------------------------------------------------------


def _stdout() -> Console:
    """The console for results; wide where nobody's window limits it."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def _stderr(common: Common) -> Console:
    return Console(stderr=True, quiet=common.quiet)


def _workers(common: Common) -> int:
    from dirad.preval.system import cores

    return common.workers or cores()


def _numbers(text: str, option: str, least: int, most: int) -> list[int]:
    """Read numbers such as 2-4,8 and return them rising, each once.

    >>> _numbers("2-4,8", "--bits", 2, 12)
    [2, 3, 4, 8]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        try:
            low, high = int(first), int(last or first)
        except ValueError:
            raise Usage(f"{option} takes numbers such as 4 or 2-4,8, not {text!r}") from None
        if low > high or low < least or high > most:
            raise Usage(f"{option} takes numbers from {least} to {most}, not {part.strip()!r}")
        found.update(range(low, high + 1))
    return sorted(found)


@contextmanager
def _progress(common: Common, text: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the time left; yield the function that moves it."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs,"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("left"),
        console=_stderr(common),
        disable=common.quiet,
    ) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def _status(common: Common, text: str) -> Iterator[None]:
    """Show a spinner."""
    with _stderr(common).status(text):
        yield


def _warm(common: Common, *presets: str) -> None:
    """Load the kernels; if that takes longer than a cache does, say what is going on."""
    from dirad.experiments.runner import warm

    console = _stderr(common)
    with console.status("loading kernels") as status:

        def tell() -> None:
            console.print(COMPILING)
            status.update(COMPILING)

        timer = threading.Timer(COMPILING_AFTER, tell)
        timer.daemon = True
        timer.start()
        try:
            for preset in presets or ("default",):
                warm(preset)
        finally:
            timer.cancel()


def _deliver(outcome: Outcome, common: Common, show: bool = True) -> None:
    """Print the outcome, write it as Markdown, JSON and pictures, and name the folder."""
    folder = common.out or Path("results") / outcome.command
    folder.mkdir(parents=True, exist_ok=True)
    record = _record(outcome)
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / f"{outcome.stem}.json").write_text(text + "\n", encoding="utf-8")
    intro = f"Made by `{record['command']}`, dirad {__version__}."
    document = markdown(outcome.title, intro, outcome.sections)
    for name in outcome.pictures:
        document += f"\n![{name}]({outcome.stem}-{name}.png)\n"
    (folder / f"{outcome.stem}.md").write_text(document, encoding="utf-8")
    for name, figure in outcome.pictures.items():
        figure.savefig(folder / f"{outcome.stem}-{name}.png", dpi=PICTURE_DOTS)
    if common.json:
        print(text)
    elif common.quiet:
        print(folder)
    else:
        console = _stdout()
        if show:
            print_sections(console, outcome.sections)
        console.print(f"Results are in {folder}")


def _record(outcome: Outcome) -> dict[str, Any]:
    """Return all of an outcome as JSON takes it."""
    import numba
    import numpy
    import sklearn

    flags = []
    for name, value in outcome.options.items():
        if value is True:
            flags.append(f"--{name}")
        elif value is not False:
            flags.append(f"--{name} {value}")
    return {
        "command": " ".join(["dirad", outcome.command, *flags]),
        "title": outcome.title,
        "options": dict(outcome.options),
        "versions": {
            "dirad": __version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "numpy": numpy.__version__,
            "numba": numba.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "sections": [
            {"title": section.title, "note": section.note, "rows": _plain(section.rows)}
            for section in outcome.sections
        ],
        "runs": _plain([dataclasses.asdict(run) for run in outcome.runs]),
    }


def _plain(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows in which what is not a number is null."""
    return [
        {
            key: None if isinstance(value, float) and math.isnan(value) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code; errors become one line on standard error."""
    from dirad.datasets import DatasetMissing

    try:
        command, bound, *_ = app.parse_args(arguments, exit_on_error=False, print_error=False)
        command(*bound.args, **bound.kwargs)
    except (CycloptsError, Usage) as error:
        return _fail(f"{' '.join(str(error).split())} (see dirad --help)", USAGE)
    except DatasetMissing as error:
        return _fail(str(error), FAILURE)
    except (OSError, ValueError) as error:
        return _fail(f"{type(error).__name__}: {' '.join(str(error).split())}", FAILURE)
    except KeyboardInterrupt:
        return _fail("stopped", INTERRUPTED)
    return 0


def _fail(message: str, code: int) -> int:
    print(f"dirad: {message}", file=sys.stderr)
    return code


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run())


if __name__ == "__main__":
    main()
