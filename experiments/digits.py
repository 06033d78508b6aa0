"""All ten digits of MNIST at 14 × 14: accuracy at a given number of edges.

Beside the strongest known way to so few weights, a perceptron pruned while it trains, and
beside the best that no hidden node at all can do: logistic regression on all pixels.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dirad.engine import Progress, run_all
from dirad.estimators import DIRADClassifier
from dirad.estimators.progress import load_kernels
from dirad.streams.averages import deviation, mean
from experiments.baselines.logistic import full_logistic
from experiments.baselines.pruned_mlp import pruned_mlp
from experiments.pairs import hold_out, mnist

METHODS = ("DIRAD", "pruned MLP", "full logistic")


@dataclass(frozen=True)
class Run:
    """One fit."""

    method: str
    size: int | None  # edges allowed; None: no limit
    seed: int | None
    accuracy: float
    edges: int  # used
    hidden: int
    seconds: float  # of one core in training, choice of hidden size included
    steps: int | None = None


def run(
    method: str,
    size: int | None,
    seed: int | None,
    changes: dict[str, Any] | None = None,
    held_out: bool = False,
) -> Run:
    """Fit one method. `held_out`: score on a part of the training set instead of the test set."""
    data = hold_out(mnist()) if held_out else mnist()
    X, y = data.X_train, data.y_train

    def score(answers: ArrayLike) -> float:
        return float(np.mean(np.asarray(answers) == data.y_test))

    if method == "DIRAD":
        load_kernels()  # a new process loads the kernels, which is not the network's doing
    start = time.process_time()  # of this process: other work on the machine does not count
    if method == "DIRAD":
        model = DIRADClassifier(random_state=seed, **{"max_edges": size, **(changes or {})})
        model.fit(X, y)
        seconds = time.process_time() - start
        accuracy = score(model.predict(data.X_test))
        edges, hidden, steps = model.n_edges_, model.n_hidden_, model.n_steps_
        return Run(method, size, seed, accuracy, edges, hidden, seconds, steps)
    if method == "pruned MLP" and size is not None and seed is not None:
        pruned = pruned_mlp(X, y, data.X_test, [size], seed)[size]
        seconds = time.process_time() - start
        alive = np.count_nonzero(np.any(pruned.network.output_weights != 0, axis=1))
        accuracy = score(pruned.labels)
        return Run(method, size, seed, accuracy, pruned.n_weights, int(alive), seconds)
    linear = full_logistic(X, y)
    seconds = time.process_time() - start
    return Run(method, None, None, score(linear.predict(data.X_test)), linear.n_weights, 0, seconds)


def measure(
    sizes: Sequence[int],
    seeds: Sequence[int],
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per method, size and seed: trained on 60,000 samples, scored on 10,000."""
    mnist()  # a missing data set shows here, before any process starts
    jobs: list[tuple[str, int | None, int | None]] = [("full logistic", None, None)]
    for method in ("pruned MLP", "DIRAD"):
        jobs += [(method, size, seed) for size in sorted(sizes, reverse=True) for seed in seeds]
    runs = run_all(run, jobs, workers=workers, progress=progress)
    return sorted(
        runs, key=lambda one: (one.size or 1 << 30, METHODS.index(one.method), one.seed or 0)
    )


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per size and method: means and deviations over seeds."""
    rows = []
    for size, method in dict.fromkeys((one.size, one.method) for one in runs):
        group = [one for one in runs if (one.size, one.method) == (size, method)]
        scores = [one.accuracy for one in group]
        rows.append(
            {
                "size": size if size is not None else "all",
                "method": method,
                "accuracy": mean(scores),
                "accuracy_sd": deviation(scores),
                "edges": mean(one.edges for one in group),
                "hidden": mean(one.hidden for one in group),
                "seconds": mean(one.seconds for one in group),
                "runs": len(group),
            }
        )
    return rows
