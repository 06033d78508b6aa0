"""How near a step comes to what the core can do: multiply-adds, and bytes from the second cache.

What a step does at least, per edge and sample: a multiply-add forward, one backward, one for the
gradient, and an addition for the total potential: 7 operations. It reads the source's state twice
and the term's delta twice, 4 bytes each: 16 bytes. What nodes do comes on top and is not counted,
so that the shares below are lower bounds.
"""

import ctypes
import time
from collections.abc import Callable

import numpy as np
from cases import BATCH, new_case
from compiler import compiled
from kernels import dirad_steps
from reference import c_steps
from rich.console import Console
from rich.table import Table

SIZES = (2_000, 20_000)
OPERATIONS, BYTES = 7, 16  # per edge and sample
IN_SECOND_CACHE = 64 * 1024  # floats: 256 KiB, more than the first cache and less than the second
ROUNDS = 30  # measurements, taken in turns; the shortest counts


def shortest(take: Callable[[], object]) -> float:
    """Return the shortest time of one call."""
    best = np.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        take()
        best = min(best, time.perf_counter() - start)
    return best


def peaks() -> tuple[float, float] | None:
    """Return the core's operations and bytes per second, or None without a compiler."""
    library = compiled("roofline.c", "-march=native", "-ffast-math")
    if library is None:
        return None
    library.multiply_add.argtypes = [ctypes.c_int64, ctypes.c_float]
    library.multiply_add.restype = ctypes.c_float
    library.read_all.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    library.read_all.restype = ctypes.c_float
    turns = 200_000
    operations = 2 * 16 * 12 * turns / shortest(lambda: library.multiply_add(turns, 0.5))
    values = np.ones(IN_SECOND_CACHE, np.float32)
    read = shortest(lambda: library.read_all(values.ctypes.data, values.size, 200))
    return operations, values.nbytes * 200 / read


def roofline_table(console: Console) -> bool:
    """Print the shares of the core's limits that a step reaches, ours and the reference's."""
    found = peaks()
    if found is None:
        console.print("No C compiler: the roofline is left out.", style="yellow")
        return True
    operations, read = found
    table = Table(title=f"One step beside the core's limits (batch {BATCH}, float32, one thread)")
    for name in ("edges", "who", "GFlop/s", "of the peak", "GB/s", "of the second cache"):
        table.add_column(name, justify="right")
    error = np.zeros(20)  # of that many steps
    for n_edges in SIZES:
        case = new_case(n_edges)
        constants = case.params.constants()
        who = {"dirad": lambda c=case, k=constants: dirad_steps(c.state, c.scratch, k, error)}
        for i, take in enumerate(c_steps(new_case(n_edges))):
            who[f"C, build {i + 1}"] = lambda take=take: take(error)
        for name, take in who.items():
            take()
            seconds = shortest(take) / len(error)
            per_second = n_edges * BATCH / seconds
            table.add_row(
                f"{n_edges:,}",
                name,
                f"{OPERATIONS * per_second / 1e9:.1f}",
                f"{OPERATIONS * per_second / operations:.0%}",
                f"{BYTES * per_second / 1e9:.0f}",
                f"{BYTES * per_second / read:.0%}",
            )
    console.print(table)
    console.print(
        f"This core: {operations / 1e9:.0f} GFlop/s of multiply-adds, {read / 1e9:.0f} GB/s from "
        f"its second cache, both measured here. Counted per edge and sample: {OPERATIONS} "
        f"operations and {BYTES} bytes, the least that a step needs; nodes come on top.",
        style="dim",
    )
    return True
