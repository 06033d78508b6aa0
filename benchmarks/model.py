"""One model of PREVAL, L0 and L1 with about 200 targets: where its time goes, and threads."""

import time
from collections.abc import Callable
from threading import get_ident
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dirad.experiments.protocol import CLASSES, images, learn_task
from dirad.growth import adapt as adaptation
from dirad.preval.settings import PRESETS
from dirad.preval.system import System
from dirad.preval.systems import new_system

MOST_CONTROL = 0.5  # share of one model's time that is not spent in kernels
DIGITS = (6, 7)


class Meter:
    """Counts the seconds spent in the compiled loop, thread by thread."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.spent: dict[int, float] = {}

    def __call__(self, *arguments: Any) -> Any:
        start = time.perf_counter()
        result = self.function(*arguments)
        who = get_ident()
        self.spent[who] = self.spent.get(who, 0.0) + time.perf_counter() - start
        return result


def grow(preset: str, threads: int) -> System:
    """Return a system that learned one task."""
    data, rng = images(14), np.random.default_rng(0)
    system = new_system(data.X_train.shape[1], CLASSES, PRESETS[preset], threads=threads)
    learn_task(system, data, [np.flatnonzero(data.y_train == d) for d in DIGITS], rng)
    return system


def model_table(console: Console) -> bool:
    """Print the shares; return whether control takes at most half."""
    table = Table(title=f"One model, digits {DIGITS[0]} and {DIGITS[1]}: L0, then L1")
    for name in (
        "preset",
        "threads",
        "seconds",
        "in kernels",
        "control",
        "targets",
        "L1 edges",
        "speed-up",
    ):
        table.add_column(name, justify="right")
    kept = True
    plain = adaptation.run
    for preset in ("paper", "default"):
        grow(preset, 1)  # compiles
        alone = 0.0
        for threads in (1, 2):
            meter = Meter(plain)
            adaptation.run = meter
            start = time.perf_counter()
            try:
                system = grow(preset, threads)
            finally:
                adaptation.run = plain
            seconds = time.perf_counter() - start
            kernels = sum(meter.spent.values())
            model = system.models[0]
            assert model.l1 is not None
            if threads == 1:
                alone = seconds
                kept &= 1 - kernels / seconds <= MOST_CONTROL
            table.add_row(
                preset,
                str(threads),
                f"{seconds:.1f}",
                f"{kernels / seconds / threads:.0%}",
                f"{1 - kernels / seconds:.0%}" if threads == 1 else "–",
                str(len(model.l1.histories)),
                f"{int(model.l1.progress()[1][-1]):,}",
                f"{alone / seconds:.2f}×",
            )
    console.print(table)
    console.print(
        f"Required with one thread: control at most {MOST_CONTROL:.0%}. With several threads the "
        "share is of all threads' time.",
        style="dim",
    )
    return kept
