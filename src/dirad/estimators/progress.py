"""Progress bars on stderr: over the steps of a fit, and over the compilation of the kernels."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba.core.event import Listener, install_listener
from rich.console import Console
from rich.errors import LiveError
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dirad.engine import current
from dirad.growth.adapt import warm_up
from dirad.growth.state import PHASE, SMOOTHED, State
from dirad.history import PHASE_NAMES
from dirad.params import Params, preset

COMPILING = "Compiling the kernels for this machine, once"
FUNCTIONS = 230  # approximate number of functions that are compiled: the length of the bar
DELAY = 1.0  # seconds of compilation before a bar appears


class ProgressBar:
    """A progress bar over the steps of a fit."""

    def __init__(self, params: Params, verbose: bool) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed}/{task.total} steps"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not verbose,
        )
        self.task = self.progress.add_task("growing", total=params.max_steps)

    def __enter__(self) -> "ProgressBar":
        self.progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.stop()

    def update(self, state: State, place: str = "") -> None:
        """Show the step, the error and the size of a network, and which of several it is."""
        self.progress.update(
            self.task,
            completed=state.step,
            description=(
                f"{place}{PHASE_NAMES[state.clock[PHASE]]}: error {state.meter[SMOOTHED]:.4f}, "
                f"{state.network.n_edges} edges, {state.network.n_hidden} hidden"
            ),
        )


@contextmanager
def compilation_progress(verbose: bool = False) -> Iterator[None]:
    """Show a progress bar if kernels are compiled: on a terminal, in a notebook, if `verbose`."""
    if not (verbose or sys.stderr.isatty() or "ipykernel" in sys.modules):
        yield
        return
    bar = _CompilationBar()
    with install_listener("numba:compile", bar):
        try:
            yield
        finally:
            bar.close()


class _CompilationBar(Listener):
    """A progress bar that counts the functions that Numba compiles."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}:"),
            BarColumn(),
            TextColumn("{task.completed} of about {task.total:.0f} functions"),
            TimeElapsedColumn(),
            console=console,
            transient=console.is_terminal,
        )
        self.task = self.progress.add_task(COMPILING, total=FUNCTIONS)
        self.begun = time.monotonic()
        self.started = False

    def on_start(self, event: Any) -> None:
        """Show the bar, once compilation takes a while."""
        if not self.started and time.monotonic() - self.begun > DELAY:
            self.started = True
            with suppress(LiveError):  # where the caller has a live display of its own
                self.progress.start()

    def on_end(self, event: Any) -> None:
        """Count a function."""
        self.progress.advance(self.task)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self.progress.live.is_started:
            self.progress.stop()


def load_kernels(*presets: str, verbose: bool = False) -> None:
    """Compile the kernels of presets, or load them from the disk cache, with a progress bar.

    Here and on every other machine that takes part. Call this before work is spread over processes:
    with an empty cache each of them would compile.
    """
    with compilation_progress(verbose):
        chosen = [preset(name) for name in presets or ("default",)]
        for precision, ordering in {(params.precision, params.ordering) for params in chosen}:
            warm_up(precision, ordering)
            current().on_every_node(warm_up, precision, ordering)
