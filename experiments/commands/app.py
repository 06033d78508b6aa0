"""What the commands of the experiments share, beside what they share with `dirad`."""

import dataclasses
from collections.abc import Sequence

from cyclopts import App

from dirad import __version__
from dirad.cli.app import Common, Output, Usage, stderr
from dirad.cli.app import main as main_of
from dirad.cli.app import run as run_of
from dirad.cli.outcome import Outcome
from dirad.cli.outcome import deliver as deliver_as

PROGRAM = "python -m experiments"

app = App(
    name=PROGRAM,
    version=__version__,
    help_format="markdown",
    help="""Experiments with dirad, each with its baselines beside it.

Tables are printed, and written with pictures to a folder in `results`. One network:

```
python -m experiments xor                          # the paper's first figure
python -m experiments parity --bits 2-4 --seeds 5  # conflict, the hardest
python -m experiments pairs --pairs 5 --edges 15   # MNIST, at equal size
```

Streams whose tasks change unannounced:

```
python -m experiments reproduce --runs 2     # the paper's tables
python -m experiments compare --data digits  # ours beside its peers
python -m experiments alarms --seeds 2       # false alarms
python -m experiments streams --help         # real ones, in time order
```

Data of some experiments, from packages:

```
python -m experiments embed --help           # CIFAR-10 and Quick Draw
```

Every command that makes runs takes `--help`, `--seed`, `--workers`, `--engine`, `--json` and
`--out`. Exit codes: 0 done, 1 failed, 2 usage error, 130 interrupted.""",
)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    return run_of(arguments, app)


def main() -> None:
    """Run the command line and leave with its exit code."""
    main_of(app)


def deliver(outcome: Outcome, common: Common, show: bool = True) -> None:
    """Print the outcome, write it as Markdown, JSON and pictures, and name the folder."""
    deliver_as(dataclasses.replace(outcome, program=PROGRAM), common, show)


def report_changes(output: Output, kinds: Sequence[str]) -> None:
    """Say for which kinds of runs the recheck gave another result, so that all are run again."""
    console = stderr(output)
    for kind in kinds:
        console.print(f"The result has changed, all such runs are repeated: {kind}", markup=False)
    if not kinds:
        console.print("No result has changed.")


def read_names(text: str, known: Sequence[str], option: str, separator: str = ",") -> list[str]:
    """Return the names in a text with separators; an unknown one is an error."""
    names = [name.strip() for name in text.split(separator) if name.strip()]
    for name in names:
        if name not in known:
            raise Usage(f"{option} takes {', '.join(known)}, not {name!r}")
    return names


def read_numbers(text: str, option: str, least: int, most: int) -> list[int]:
    """Read numbers such as 2-4,8 and return them in ascending order, each once.

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
