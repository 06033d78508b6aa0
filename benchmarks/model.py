"""Whole runs of PREVAL: what threads are worth to one model, and where the time of a run goes."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

from dirad import inference
from dirad.growth import adapt
from dirad.preval import exact_l1, l1, learner, paper_model, predictor, system
from dirad.preval.choice import ContinualSystem, new_system
from dirad.preval.learner import Learner
from dirad.preval.paper import PaperSystem
from dirad.preval.paper_model import PaperLearner
from dirad.preval.settings import PRESETS
from dirad.preval.system import System

sys.path.append(str(Path(__file__).parent.parent))  # `experiments` is not installed

from experiments.reproduction import protocol

PRESET_NAMES = ("paper", "default")
DIGITS = (6, 7)
TURNS = 3  # of each number of threads, in turns; the quickest counts
LEAST_IN_KERNELS = 0.7  # share of a whole run
LEAST_SPEED_UP = 1.7  # of two threads: L0 and some 200 targets, as the paper has them

# What is timed: where it is looked up, and its name there; kernels first.
KERNELS = {
    "steps (kernel)": [(adapt, "run")],
    "answers (sparse products)": [(inference, "evaluate")],
}
PYTHON = {
    "pathways: handed to kernels": [(l1, "advance_pathways")],
    "pathways: opened": [(paper_model, "new_l1")],
    "L1 in closed form": [(learner, "fit_exact_l1")],
    "pathways: composed": [(l1.L1Training, "finished")],
    "states of L0 for L1": [(predictor.L0States, "of")],
    "L0: handed to kernels": [(PaperLearner, "_advance_l0"), (Learner, "_advance_l0")],
    "clusters (k-means)": [(exact_l1, "find_clusters")],
    "calibration": [(Learner, "_expert"), (Learner, "_evidence_weights")],
    "judging": [(system, "judge"), (System, "judge"), (PaperSystem, "judge")],
    "answers": [(System, "answer"), (PaperSystem, "answer")],
    "drawing batches": [(protocol, "draw")],
}
REST = "all else"


class Stopwatch:
    """Charges time to the innermost of the timed functions that run; of one thread."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.running = [REST]
        self.since = time.perf_counter()

    def switch(self) -> None:
        """Charge what passed since the last switch."""
        now = time.perf_counter()
        name = self.running[-1]
        self.spent[name] = self.spent.get(name, 0.0) + now - self.since
        self.since = now

    def timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        """Return the function with the clock running for it."""

        @wraps(function)
        def timed(*arguments: Any, **options: Any) -> Any:
            self.switch()
            self.running.append(name)
            try:
                return function(*arguments, **options)
            finally:
                self.switch()
                self.running.pop()

        return timed


@contextmanager
def watched() -> Iterator[Stopwatch]:
    """Time all that has a name, in this block."""
    watch = Stopwatch()
    places = [
        (owner, attribute, name)
        for name, found in (KERNELS | PYTHON).items()
        for owner, attribute in found
    ]
    plain = [vars(owner)[attribute] for owner, attribute, _ in places]
    for (owner, attribute, name), function in zip(places, plain, strict=True):
        setattr(owner, attribute, watch.timed(function, name))
    try:
        yield watch
    finally:
        watch.switch()
        for (owner, attribute, _), function in zip(places, plain, strict=True):
            setattr(owner, attribute, function)


def grow(preset: str, threads: int) -> ContinualSystem:
    """Return a system that learned one task."""
    data, rng = protocol.images(14), np.random.default_rng(0)
    grown = new_system(data.X_train.shape[1], protocol.CLASSES, PRESETS[preset], threads=threads)
    protocol.learn_task(grown, data, [np.flatnonzero(data.y_train == d) for d in DIGITS], rng)
    return grown


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """Return how long a call takes."""
    start = time.perf_counter()
    function(*arguments)
    return time.perf_counter() - start


def threads_table(console: Console) -> bool:
    """Print what a second thread is worth; return whether it is enough."""
    table = Table(title=f"One model, digits {DIGITS[0]} and {DIGITS[1]}, 14 × 14: L0, then L1")
    for name in ("preset", "targets", "pathways", "1 thread", "2 threads", "speed-up"):
        table.add_column(name, justify="right")
    speed_up = {}
    for preset in PRESET_NAMES:
        (model,) = grow(preset, 1).experts  # compiles
        assert model.l1 is not None
        turns = [[seconds(grow, preset, threads) for threads in (1, 2)] for _ in range(TURNS)]
        one, two = np.min(turns, axis=0)
        speed_up[preset] = one / two
        pathways = len(model.l1.steps_taken)
        clusters = model.l1.n_clusters
        table.add_row(
            preset,
            f"{pathways // clusters:,}",
            f"{pathways:,}",
            f"{one:.1f} s",
            f"{two:.1f} s",
            f"{one / two:.2f}×",
        )
    console.print(table)
    console.print(
        f"The quickest of {TURNS} runs each, in turns. L0 is one network, whose steps follow one "
        f"another on one thread; pathways of L1 share the threads. Required of the paper's model: "
        f"{LEAST_SPEED_UP}×.",
        style="dim",
    )
    return speed_up["paper"] >= LEAST_SPEED_UP


def shares_table(console: Console) -> bool:
    """Print where the time of whole runs goes; return whether enough of it in kernels."""
    table = Table(title="Whole runs: three tasks learned, judged, routed and tested; one thread")
    table.add_column("part")
    shares: dict[str, dict[str, float]] = {}
    for preset in PRESET_NAMES:
        with watched() as watch, threadpool_limits(1):
            run = protocol.run(protocol.Setting(preset, T_CP=0.05), 0)
        shares[preset] = {name: spent / run.seconds for name, spent in watch.spent.items()}
        table.add_column(f"{preset}\n{run.seconds:.0f} s", justify="right")
    for name in (*KERNELS, *PYTHON, REST):
        row = [f"{shares[preset].get(name, 0.0):.1%}" for preset in PRESET_NAMES]
        table.add_row(name, *row, end_section=name in (list(KERNELS)[-1], REST))
    in_kernels = [sum(shares[preset].get(name, 0.0) for name in KERNELS) for preset in PRESET_NAMES]
    table.add_row("kernels", *(f"{share:.1%}" for share in in_kernels))
    console.print(table)
    console.print(
        f"Time within a part that has a line of its own is not counted again. Required: kernels at "
        f"least {LEAST_IN_KERNELS:.0%}.",
        style="dim",
    )
    return min(in_kernels) >= LEAST_IN_KERNELS


def model_table(console: Console) -> bool:
    """Print both tables; return whether all that is required was measured."""
    with threadpool_limits(1):
        enough = threads_table(console)
    return shares_table(console) and enough
