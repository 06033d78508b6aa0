"""What continual learning costs: five tasks of Split-MNIST beside random features and QDA.

Times are CPU seconds of one thread, the peers' taken in the same run. Run
`python benchmarks/continual.py`, or `python benchmarks/run.py continual`; it takes a minute.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).parent.parent))  # `experiments` is not installed

from experiments.comparison.methods import METHODS
from experiments.comparison.scenario import standard

OURS, FEATURES, QDA = "ours (default)", "random features + ridge", "QDA: Gaussian per class"
ORDER = 0
TURNS = 3  # of each measurement, in turns; the shortest counts, since noise only adds
ROUTED, ALONE = 2000, 40  # samples that are routed together, and one by one
MOST_LEARNING, MOST_ROUTING = 6.0, 3.0  # times random features and QDA


def learned(name: str, seed: int) -> tuple[Any, float]:
    """Return a method that has learned all tasks, and the CPU seconds that it took."""
    scenario = standard("mnist")
    stream = scenario.stream(ORDER)
    learner = METHODS[name](scenario, stream.X.shape[1], seed)
    start = time.process_time()
    for number in range(stream.n_batches):
        own = stream.batch(number)
        learner.learn(stream.X[own], stream.y[own])
    if hasattr(learner, "end"):
        learner.end()
    return learner, time.process_time() - start


def shortest(functions: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Return the shortest CPU seconds of each function; they are called in turns."""
    best = dict.fromkeys(functions, np.inf)
    for _ in range(TURNS + 1):
        for name, function in functions.items():
            start = time.process_time()
            function()
            best[name] = min(best[name], time.process_time() - start)
    return best


def one_by_one(learner: Any, X: NDArray) -> None:
    """Predict samples one by one."""
    for i in range(len(X)):
        learner.predict(X[i : i + 1])


def continual_table(console: Console) -> bool:
    """Print what learning and routing cost; False where they cost more than they should."""
    with threadpool_limits(1):
        learned(OURS, 1)  # compiles what is not compiled yet
        learners, seconds = {}, {}
        for name in (OURS, FEATURES, QDA):
            found = [learned(name, ORDER) for _ in range(1 if name == OURS else TURNS)]
            learners[name], seconds[name] = found[0][0], min(one[1] for one in found)
        X = standard("mnist").stream(ORDER).X[::27][:ROUTED]
        pair = (OURS, QDA)
        together = shortest({name: lambda own=learners[name]: own.predict(X) for name in pair})
        alone = shortest(
            {name: lambda own=learners[name]: one_by_one(own, X[:ALONE]) for name in pair}
        )
    rows = [
        ("learning 55,000 samples", seconds[OURS], FEATURES, seconds[FEATURES], MOST_LEARNING),
        (f"routing {ROUTED:,} samples", together[OURS], QDA, together[QDA], MOST_ROUTING),
        (f"routing {ALONE} samples one by one", alone[OURS], QDA, alone[QDA], MOST_ROUTING),
    ]
    table = Table("what", "ours", "peer", "its seconds", "ratio", "at most")
    for what, own, peer, other, most in rows:
        ratio = f"{own / other:.1f}"
        table.add_row(what, f"{own:.3f}", peer, f"{other:.3f}", ratio, f"{most:g}")
    console.print("Continual learning, CPU seconds of one thread")
    console.print(table)
    return all(own <= most * other for _, own, _, other, most in rows)


if __name__ == "__main__":
    sys.exit(0 if continual_table(Console()) else 1)
