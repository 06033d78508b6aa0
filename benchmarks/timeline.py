"""Where a growing network's time goes: the package's own loop with a stopwatch in its kernels.

The kernels that lie on the way to a timed one are compiled again, from the same code, with the
timed ones replaced by wrappers that start and stop a clock. Nothing of the loop is copied, so
there is nothing to keep in step with it. Sums may round differently, as with any other compilation.
"""

import ctypes
import inspect
import types
from typing import Any, NamedTuple

import numba
import numpy as np
from compiler import compiled
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from dirad.core.compilation import SAFE_FAST_MATH
from dirad.core.network import LOGISTIC, SOFTMAX
from dirad.datasets import load_mnist
from dirad.growth.adapt import adapt, new_data
from dirad.growth.state import State, new_state
from dirad.params import Params, preset

MOST_GROWTH = 0.5  # share of a run that choosing and applying processes may take

PARTS = (
    "drawing batches",
    "forward",
    "backward",
    "potentials",
    "update",
    "choosing",
    "applying",
    "the rest",
)
REST = PARTS.index("the rest")

# Kernels by part. Those of the second table are timed inside those of the first as well.
TIMED = {
    "draw_batch": "drawing batches",
    "draw_growth_batch": "drawing batches",
    "forward": "forward",
    "mean_cost": "forward",
    "backward": "backward",
    "threshold_deltas": "potentials",
    "term_potentials": "potentials",
    "edge_potentials": "potentials",
    "term_gradients": "potentials",
    "edge_gradients": "potentials",
    "perturb_zero_weight_gradients": "update",
    "move_weights_and_biases": "update",
    "schedule_gains": "update",
    "grow_in_v1_order": "choosing",
    "grow_unrestricted": "choosing",
    "structure_round": "choosing",
}
TIMED_WITHIN = {
    "generate_edge": "applying",
    "convert_edge": "applying",
    "rebuild_and_reset_new_parts": "applying",
    "apply_best": "applying",
    "add_other_significant_sources": "applying",
    "prune_zero_edges_and_dead_units": "applying",
}


class Stopwatch:
    """The clock of clock.c, as kernels and as Python know it."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.enter, self.leave, self.read = library.enter, library.leave, library.read_spent
        self.enter.argtypes, self.enter.restype = [ctypes.c_int64], None
        self.leave.argtypes, self.leave.restype = [], None
        self.read.argtypes, self.read.restype = [ctypes.c_int64], ctypes.c_double

    def spent(self) -> dict[str, float]:
        """Return the seconds charged to each part since the last call."""
        return {part: self.read(i) for i, part in enumerate(PARTS)}


def compile_again(function: Any, from_python: bool = False) -> Any:
    """Compile with the project's settings, uncached; quicker where Python need not call it."""
    return numba.njit(
        fastmath=SAFE_FAST_MATH,
        error_model="numpy",
        no_cfunc_wrapper=True,
        no_cpython_wrapper=not from_python,
    )(function)


def with_globals(function: Any, changes: dict[str, Any]) -> Any:
    """Return the same Python function, seeing other things under some global names."""
    result = types.FunctionType(
        function.__code__, {**function.__globals__, **changes}, function.__name__
    )
    result.__kwdefaults__, result.__defaults__ = function.__kwdefaults__, function.__defaults__
    return result


def wrapped(kernel: Any, part: int, watch: Stopwatch, from_python: bool = False) -> Any:
    """Return a kernel that charges the time of `kernel` to a part."""
    names = ", ".join(inspect.signature(kernel.py_func).parameters)
    text = f"def timed({names}):\n enter({part})\n r = kernel({names})\n leave()\n return r\n"
    space = {"kernel": kernel, "enter": watch.enter, "leave": watch.leave}
    exec(text, space)
    return compile_again(space["timed"], from_python)


def instrumented(kernel: Any, timed: dict[str, str], watch: Stopwatch, known: dict) -> Any:
    """Return `kernel` with clocks in it, or itself where nothing that it calls is timed."""
    python = kernel.py_func
    key = (kernel, len(timed))
    if key in known:
        return known[key]
    part = timed.get(python.__name__)
    inner = timed if part is None else TIMED_WITHIN if part == "choosing" else {}
    changes = {}
    for name in python.__code__.co_names:
        callee = python.__globals__.get(name)
        if isinstance(callee, Dispatcher):
            changed = instrumented(callee, inner, watch, known)
            if changed is not callee:
                changes[name] = changed
    result = compile_again(with_globals(python, changes)) if changes else kernel
    if part is not None:
        result = wrapped(result, PARTS.index(part), watch)
    known[key] = result
    return result


def timed_adapt() -> tuple[Any, Stopwatch] | None:
    """Return `adapt` with clocks in it and the stopwatch, or None where C cannot be compiled."""
    library = compiled("clock.c")
    if library is None:
        return None
    watch = Stopwatch(library)
    run = instrumented(adapt.__globals__["run"], {**TIMED, **TIMED_WITHIN}, watch, {})
    return with_globals(adapt, {"run": wrapped(run, REST, watch, from_python=True)}), watch


class Run(NamedTuple):
    """Something to grow a network on."""

    title: str
    params: Params
    transfer: int
    digits: int  # the first so many of ten


RUNS = (
    Run(
        "ten digits, 'default', 500 edges",
        preset("default", max_edges=500),
        SOFTMAX,
        10,
    ),
    Run("two digits of ten outputs, 'paper'", preset("paper"), LOGISTIC, 2),
)


def digits(count: int) -> tuple[NDArray, NDArray]:
    """Return MNIST's training images of the first digits, standardized, and ten targets."""
    data = load_mnist()
    mean, deviation = data.X_train.mean(axis=0), data.X_train.std(axis=0)
    deviation[deviation < 1e-3] = 1
    chosen = data.y_train < count
    return ((data.X_train - mean) / deviation)[chosen], np.eye(10)[data.y_train[chosen]]


def shares(run: Run, timed: Any, watch: Stopwatch) -> tuple[dict[str, float], State]:
    """Grow a network with clocks; return the shares of time, and the network."""
    X, y = digits(run.digits)

    def grow(until: int | None) -> State:
        state = new_state(X.shape[1], y.shape[1], transfer=run.transfer, seed=0, n_samples=len(X))
        return timed(state, new_data(X, y, run.params), run.params, until=until)[0]

    grow(1)  # compiles
    watch.spent()
    state = grow(None)
    spent = watch.spent()
    total = sum(spent.values())
    return {part: seconds / total for part, seconds in spent.items()}, state


def timeline_table(console: Console) -> bool:
    """Print where the time goes; return whether growth takes at most half of it."""
    made = timed_adapt()
    if made is None:
        console.print("No C compiler: where the time goes is left out.", style="yellow")
        return True
    table = Table(title="Where a growing network's time goes (share of the run)")
    table.add_column("part")
    columns, kept = [], True
    for run in RUNS:
        share, state = shares(run, *made)
        growth = share["choosing"] + share["applying"]
        kept &= growth <= MOST_GROWTH
        table.add_column(f"{run.title}\n{state.step:,} steps", justify="right")
        columns.append(
            [f"{share[part]:.1%}" for part in PARTS]
            + [f"{growth:.1%}", f"{state.network.n_edges} + {state.network.n_hidden}"]
        )
    names = [*PARTS, "choosing + applying", "edges + hidden nodes grown"]
    for i, row in enumerate(zip(names, *columns, strict=True)):
        table.add_row(*row, end_section=i == len(PARTS) - 1)
    console.print(table)
    console.print(
        "'choosing' holds the passes over the larger batch on which candidates are compared. "
        f"Required: choosing + applying at most {MOST_GROWTH:.0%}.",
        style="dim",
    )
    return kept
