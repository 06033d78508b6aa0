"""One adaptation step against the same step in C and in NumPy, and against a perceptron's."""

import time
from collections.abc import Callable

import numpy as np
from cases import BATCH, INPUTS, OUTPUTS, Case, hidden_for, new_case
from kernels import dirad_steps
from numpy.typing import NDArray
from perceptron import HIDDEN, torch_steps
from reference import c_steps, numpy_steps
from rich.console import Console
from rich.table import Table

from dirad.growth.paper_step import take_paper_step

SIZES = (500, 2_000, 5_000, 20_000)
CHUNK = 20  # steps per measurement
ROUNDS = 60  # measurements of each, taken in turns; the shortest counts, since noise only adds
REQUIRED = {"C": (2_000, 1.6), "PyTorch": (2_000, 1 / 3)}  # at how many edges: most

Steps = Callable[[NDArray], None]


def same_steps(ours: Case, theirs: Case, take: Steps, rtol: float = 1e-3) -> None:
    """Take a few steps both ways; raise where the results differ."""
    error, other = np.zeros(3), np.zeros(3)
    dirad_steps(ours.state, ours.scratch, ours.params.constants(), error)
    take(other)
    compared = {"cost": (error, other)}
    for name in ("gradient", "net", "total"):
        a, b = ours.scratch.potential, theirs.scratch.potential
        compared[f"{name} of edges"] = a.edges[name], b.edges[name]
        compared[f"{name} of terms"] = a.terms[name], b.terms[name]
    a, b = ours.state.network, theirs.state.network
    compared["weights"] = a.edges["weight"], b.edges["weight"]
    compared["biases"] = a.bias, b.bias
    for name, (x, y) in compared.items():
        if not np.allclose(x, y, rtol=rtol, atol=rtol * np.abs(y).max()):
            raise AssertionError(f"{name} differ by {np.abs(x - y).max():.2g}")


def in_turns(contestants: dict[str, list[Steps]]) -> dict[str, float]:
    """Return the shortest time per step of each; of several builds the fastest counts."""
    best = dict.fromkeys(contestants, np.inf)
    for i in range(ROUNDS):
        for name, builds in contestants.items():
            for take in builds:
                # NumPy takes a hundred times as long: fewer steps, and not in every round.
                slow = name == "NumPy"
                if slow and i % 10:
                    continue
                error = np.zeros(1 if slow else CHUNK)
                start = time.perf_counter()
                take(error)
                best[name] = min(best[name], (time.perf_counter() - start) / len(error))
    return best


def contestants_for(n_edges: int, perceptron: Steps | None) -> dict[str, list[Steps]]:
    """Return everyone who takes part at this size, checked to do the same work."""
    case = new_case(n_edges)
    constants = case.params.constants()
    result: dict[str, list[Steps]] = {
        "dirad": [lambda error: dirad_steps(case.state, case.scratch, constants, error)],
        "C": [],
        "NumPy": [],
    }
    for i in range(len(c_steps(new_case(n_edges)))):
        other = new_case(n_edges)
        take = c_steps(other)[i]
        same_steps(new_case(n_edges), other, take)
        result["C"].append(take)
    other = new_case(n_edges)
    take = numpy_steps(other)
    same_steps(new_case(n_edges), other, take)
    result["NumPy"].append(take)
    if perceptron is not None:
        result["PyTorch"] = [perceptron]

    called = new_case(n_edges)

    def from_python(error: NDArray) -> None:
        for i in range(len(error)):
            error[i] = take_paper_step(called.state, called.scratch, constants)

    from_python(np.zeros(1))
    result["one call"] = [from_python]
    return result


def speed_table(console: Console) -> bool:
    """Print the ratios; return whether the required ones hold."""
    perceptron = torch_steps()
    table = Table(title=f"One adaptation step: dirad's time as a multiple (batch {BATCH}, float32)")
    for column in ("edges", "nodes", "of C", "of NumPy per node", "of a PyTorch MLP step"):
        table.add_column(column, justify="right")
    table.add_column("take_paper_step from Python", justify="right")
    table.add_column("µs per step", justify="right")
    kept = True
    for n_edges in SIZES:
        spent = in_turns(contestants_for(n_edges, perceptron))
        ours = spent.pop("dirad")
        ratio = {name: ours / spent[name] if name in spent else np.nan for name in spent}
        kept &= all(
            name not in ratio or n_edges != size or not ratio[name] > most
            for name, (size, most) in REQUIRED.items()
        )
        table.add_row(
            f"{n_edges:,}",
            str(INPUTS + OUTPUTS + hidden_for(n_edges)),
            _ratio(ratio.get("C")),
            _ratio(ratio.get("NumPy")),
            _ratio(ratio.get("PyTorch")),
            f"{1 / ratio['one call']:.2f}×",
            f"{1e6 * ours:.0f}",
        )
    console.print(table)
    console.print(
        "A step: forward, cost, backward; gradient, net and total potential of every edge and "
        "term; update of all weights and biases. The C does the same on the same arrays and was "
        f"checked to agree. The MLP has 196-{HIDDEN}-10 nodes ({(INPUTS + OUTPUTS) * HIDDEN:,} "
        "weights), SGD, one thread. `take_paper_step` called from Python, a multiple of our step, "
        "also asks whether to grow or remove anything. Shortest of many measurements, in turns.",
        style="dim",
    )
    if perceptron is None:
        console.print("PyTorch is not installed: its column is left out.", style="yellow")
    for name, (size, most) in REQUIRED.items():
        console.print(f"Required at {size:,} edges: at most {most:.2f} of {name}.", style="dim")
    return kept


def _ratio(value: float | None) -> str:
    return "–" if value is None or not np.isfinite(value) else f"{value:.3g}×"
