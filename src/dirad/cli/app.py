"""What all commands share: options, progress, delivery of results, exit codes."""

import json
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal, cast

from cyclopts import App, CycloptsError, Parameter
from cyclopts.validators import Number
from rich.console import Console
from rich.text import Text

from dirad import __version__
from dirad.atomic import FULL
from dirad.names import CONTROL, visible

FAILURE, USAGE, INTERRUPTED = 1, 2, 130  # exit codes

app = App(
    name="dirad",
    version=__version__,
    help_format="markdown",
    help="""Networks that start from inputs and outputs alone and grow what the data call for.

Your own data, model files and what to do with them:

```
dirad fit flowers.csv --target species      # grows a network: model.dirad
dirad predict model.dirad new.csv -o out.csv
dirad inspect model.dirad                   # size, accuracy, inputs that count, the formula
dirad export model.dirad --to c -o model.h  # or onnx, python, formula, dot, svg
dirad report model.dirad -o report.html     # one page to look at
dirad fit day1.csv --target fault --continual
dirad learn model.dirad day2.csv            # what was recognized, what was new
dirad features pets --encoder net.onnx      # pictures become rows of features: features.npz
```

See it work. Tables are printed, and written with pictures to a folder in `results`:

```
dirad demo                          # grow three networks and watch
dirad stream gradual --data digits  # tasks change unannounced: what is noticed
```

The experiments (the paper's tables, comparisons with other methods) are in the repository:
`python -m experiments --help`, run from a checkout of it.

`dirad COMMAND --help` explains a command, `dirad --install-completion` lets your shell complete
them. Exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted.""",
)
app.register_install_completion_command()


EXPERIMENTS = (  # commands of earlier versions that are now in the repository's `experiments`
    "xor", "parity", "pairs", "digits", "tabular", "ablate", "alarms", "reproduce", "compare",
    "scale",
)  # fmt: skip


class Usage(Exception):
    """What the user asked for makes no sense; the message says why."""


class Stopped(Exception):
    """The user stopped the command; the message says what there is."""


PositiveInt = Annotated[int, Parameter(validator=Number(gte=1))]
NaturalInt = Annotated[int, Parameter(validator=Number(gte=0))]
Flag = Annotated[bool, Parameter(negative="")]
Preset = Literal["default", "paper"]


@Parameter(name="*")
@dataclass(frozen=True)
class Output:
    """How every command talks."""

    json: Annotated[
        bool, Parameter(negative="", help="Print JSON, and nothing else, to standard output.")
    ] = False
    quiet: Annotated[bool, Parameter(negative="", help="Print only results and errors.")] = False


@Parameter(name="*")
@dataclass(frozen=True)
class Common(Output):
    """Options of commands that make many runs."""

    seed: Annotated[NaturalInt, Parameter(help="First random seed; others count on from it.")] = 0
    workers: Annotated[
        PositiveInt | None,
        Parameter(help="Processes [default: one per core]; results do not depend on it."),
    ] = None
    engine: Annotated[
        Literal["local", "ray"],
        Parameter(help="Where runs are made: here, or by Ray; results do not depend on it."),
    ] = "local"
    address: Annotated[
        str | None,
        Parameter(
            help="A Ray cluster, as host:port [default: one is started on this machine]. Anyone "
            "who can reach a port of a cluster can run code on it: use trusted networks only."
        ),
    ] = None
    time_limit: Annotated[
        float | None,
        Parameter(
            validator=Number(gt=0), help="Seconds that a run on Ray may take [default: a day]."
        ),
    ] = None
    out: Annotated[
        Path | None, Parameter(help="Folder for the results [default: results/ and the command].")
    ] = None


DEFAULTS = Common()
TALKATIVE = Output()


# --- what all commands share -------------------------------------------------------------------


class Screen(Console):
    """A console on which texts from files, such as names, have no effects: they are only shown."""

    def render_str(self, text: str, **options: Any) -> Text:
        options["emoji"] = False
        return super().render_str(visible(text), **options)


class Printer(Screen):
    """A console that leaves a closed pipe to the command."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def stdout() -> Console:
    """The console for results; wide if it is not a terminal."""
    console = Printer()
    return console if console.is_terminal else Printer(width=160)


def stderr(output: Output) -> Console:
    """The console for progress and notices."""
    return Screen(stderr=True, quiet=output.quiet)


def raw_stdout() -> BinaryIO:
    """Standard output as bytes; a terminal gets texts as people may see them."""
    return cast(BinaryIO, Terminal()) if sys.stdout.isatty() else sys.stdout.buffer


class Terminal:
    """Standard output, where it is a terminal: takes text in UTF-8."""

    name = "the terminal"

    def write(self, raw: bytes) -> int:
        """Write a text, whose control characters are written out."""
        sys.stdout.buffer.write(visible(raw.decode()).encode())
        return len(raw)


def as_json(record: Any) -> str:
    """Return a record as JSON in which control characters are escaped."""
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False)
    # JSON escapes the first of them by itself, and has line breaks of its own.
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def worker_count(common: Common) -> int:
    from dirad.engine import cores

    return common.workers or cores()


@contextmanager
def chosen_engine(common: Common) -> Iterator[None]:
    """Let the engine that was asked for do the runs of this block."""
    from dirad.engine import Local, on_ray, using
    from dirad.engine.rays import ANSWER_WITHIN

    if common.engine == "local":
        if common.address is not None:
            raise Usage("--address is that of a Ray cluster: it needs --engine ray")
        if common.time_limit is not None:
            raise Usage("--time-limit is of runs on a Ray cluster: it needs --engine ray")
        with using(Local()):
            yield
        return
    limit = common.time_limit or ANSWER_WITHIN
    with on_ray(common.address, worker_count(common), answer_within=limit):
        yield


@contextmanager
def progress_bar(common: Common, text: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar with the time left; yield the function that moves it."""
    from rich import progress as rich

    with rich.Progress(
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.MofNCompleteColumn(),
        rich.TextColumn("runs,"),
        rich.TimeElapsedColumn(),
        rich.TextColumn("elapsed,"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("left"),
        console=stderr(common),
        disable=common.quiet,
    ) as bar:
        task = bar.add_task(text, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def spinner(output: Output, text: str) -> Iterator[None]:
    """Show a spinner."""
    with stderr(output).status(text):
        yield


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written, or made, before anything is computed."""
    try:
        there = next(place for place in (folder, *folder.parents) if place.exists())
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise Usage(f"--out {folder}: cannot be written: {error.strerror}") from None


def warm_up(output: Output, *presets: str) -> None:
    """Load the kernels of presets, with a progress bar where they must be compiled first."""
    from dirad.estimators.progress import load_kernels

    load_kernels(*presets, verbose=not output.quiet)


def run(arguments: Sequence[str] | None = None, program: App = app) -> int:
    """Run a command of a program and return its exit code; an error becomes one line on stderr."""
    code = _performed(arguments, program)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _stop_printing()
    except OSError as error:
        _stop_printing()
        code = code or _fail(_reason(error), FAILURE)
    return code


def _performed(arguments: Sequence[str] | None, program: App) -> int:
    """Run a command; return its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if program is app and given and given[0] in EXPERIMENTS:
        moved = f"`dirad {given[0]}` is now `python -m experiments {given[0]}`"
        return _fail(f"{moved}, run from a checkout of the repository", USAGE)
    try:
        command, bound, *_ = program.parse_args(given, exit_on_error=False, print_error=False)
        outputs = [value for value in bound.arguments.values() if isinstance(value, Output)]
        common = bound.arguments.get("common", DEFAULTS)
        engine = nullcontext()  # only experiments choose one: the others start sooner without
        if "common" in signature(command).parameters:
            _check_folder(common.out or Path("results") / command.__name__)
            engine = chosen_engine(common)
        with quiet_warnings(*outputs), engine:
            command(*bound.args, **bound.kwargs)
    except (CycloptsError, Usage) as error:
        return _fail(f"{_line(error)} (see {_called(given, program)} --help)", USAGE)
    except BrokenPipeError:
        _stop_printing()
    except Stopped as error:
        return _fail(_line(error), INTERRUPTED)
    except KeyboardInterrupt:
        return _fail("stopped", INTERRUPTED)
    except _refusals() as error:
        return _fail(_line(error), FAILURE)
    except OSError as error:
        return _fail(_reason(error), FAILURE)
    except ValueError as error:
        return _fail(f"{type(error).__name__}: {_line(error)}", FAILURE)
    return 0


@contextmanager
def quiet_warnings(output: Output = TALKATIVE) -> Iterator[None]:
    """Print our own warnings in one line each; hide all others, also those of other processes.

    If warnings are asked for (`python -W`, PYTHONWARNINGS), Python prints them as usual.
    """
    if sys.warnoptions:
        yield
        return

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"dirad: {visible(_line(message))}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not output.quiet:
            warnings.filterwarnings("default", category=UserWarning, module=r"dirad\b")
        warnings.showwarning = tell
        os.environ["PYTHONWARNINGS"] = "ignore"
        try:
            yield
        finally:
            del os.environ["PYTHONWARNINGS"]


def _reason(error: OSError) -> str:
    """Return what the system says, and of which file."""
    if error.errno in FULL and not error.filename:  # every other file is named
        return f"standard output: {error.strerror}"
    return f"{error.filename}: {error.strerror}" if error.filename else _line(error)


def _refusals() -> tuple[type[Exception], ...]:
    """Return the errors whose words are meant for users; asked for only where there is an error."""
    from dirad.client import ClientError
    from dirad.datasets import DatasetMissing
    from dirad.engine import ClusterError
    from dirad.images import ImageError
    from dirad.sources.errors import SourceError
    from dirad.storage import ModelError
    from dirad.tables import TableError

    files = DatasetMissing, TableError, ImageError, ModelError
    return *files, ClusterError, ClientError, SourceError, ImportError


def _stop_printing() -> None:
    """Discard the rest of the output: nobody reads it any more, or it cannot be written."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def _line(error: object) -> str:
    return " ".join(str(error).split())


def _called(arguments: Sequence[str], program: App) -> str:
    """Return the program, with the command that was asked for if there is such a command."""
    name = program.name[0]
    return f"{name} {arguments[0]}" if arguments and arguments[0] in program else name


def _fail(message: str, code: int) -> int:
    print(f"dirad: {visible(message)}", file=sys.stderr)
    return code


def main(program: App = app) -> None:
    """Run the command line and leave with its exit code.

    Told to end, it does so as after Ctrl-C: with a checkpoint, and its workers end with it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(program=program))


if __name__ == "__main__":
    main()
