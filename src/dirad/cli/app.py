"""What all commands share: options, progress, delivery of results, exit codes."""

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
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from dirad import __version__
from dirad.report.tables import Section, markdown, print_sections

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
dirad stream gradual --data digits  # tasks change unannounced: what is noticed
dirad reproduce --runs 2            # the paper's tables on changing tasks
dirad compare --data digits         # ours beside its peers
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
    file: str = ""  # the name of files, where it is not the command's

    @property
    def stem(self) -> str:
        """The name of the files, without their endings."""
        name = self.file or self.command
        return f"{name}-{self.variant}" if self.variant else name


# --- what all commands share -------------------------------------------------------------------


def stdout() -> Console:
    """The console for results; wide where nobody's window limits it."""
    console = Console()
    return console if console.is_terminal else Console(width=160)


def stderr(common: Common) -> Console:
    return Console(stderr=True, quiet=common.quiet)


def worker_count(common: Common) -> int:
    from dirad.estimators.continual import cores

    return common.workers or cores()


def read_numbers(text: str, option: str, least: int, most: int) -> list[int]:
    """Read numbers such as 2-4,8 and return them rising, each once.

    >>> read_numbers("2-4,8", "--bits", 2, 12)
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
def progress_bar(common: Common, text: str) -> Iterator[Callable[[int, int], None]]:
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
        console=stderr(common),
        disable=common.quiet,
    ) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def spinner(common: Common, text: str) -> Iterator[None]:
    """Show a spinner."""
    with stderr(common).status(text):
        yield


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Usage(f"--out {folder}: {error.strerror}") from None


def warm_up(common: Common, *presets: str) -> None:
    """Load the kernels; if that takes longer than a cache does, say what is going on."""
    from dirad.experiments.runner import warm

    if common.out is not None:
        _check_folder(common.out)
    console = stderr(common)
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


def deliver(outcome: Outcome, common: Common, show: bool = True) -> None:
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
        console = stdout()
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
