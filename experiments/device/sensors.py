"""Five tables of sensors in 512 bytes and 2 kB of flash, beside emlearn's and m2cgen's trees.

The data sets are those of the catalogue of `tabular` that are recordings of a sensor in numbers: a
telescope (magic), a pen tablet (penbased), a microphone (phoneme), a satellite (satimage) and a
camera (segment). They were chosen before any method ran in so few bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from dirad.engine import Progress
from dirad.estimators import DIRADClassifier
from dirad.export.compact import predict
from dirad.export.compact.growing import fit_compact
from dirad.streams.averages import mean
from experiments.device.plan import execute
from experiments.device.trees import (
    Parts,
    as_integers,
    best_tree,
    by_emlearn,
    by_m2cgen,
    emlearn_sizes,
    m2cgen_sizes,
)
from experiments.tabular.catalogue import BY_NAME
from experiments.tabular.source import load

DATA = ("magic", "penbased", "phoneme", "satimage", "segment")
SIZES = (512, 2048)
METHODS = ("DIRAD", "emlearn", "m2cgen")
TEST, HELD_OUT = 0.25, 0.2


@dataclass(frozen=True)
class Run:
    """One model of one data set."""

    data: str
    size: int  # bytes allowed
    method: str
    seed: int
    accuracy: float
    flash: int  # 0: nothing fits, and the most frequent class is answered
    what: str


def run(data: str, size: int, method: str, seed: int) -> Run:
    """Fit one model to three quarters of the rows, and test it on the others."""
    table = load(BY_NAME[data])
    parts_of: Any = train_test_split(
        table.X, table.y, test_size=TEST, random_state=seed, stratify=table.y
    )
    X, X_test, y, y_test = parts_of
    if method == "DIRAD":
        _, made = fit_compact(DIRADClassifier(random_state=seed), X, y, size, seed=seed)
        right = float(np.mean(predict(made.net, X_test) == y_test))
        what = (
            f"{made.net.n_edges} edges, {made.net.n_hidden} nodes, {made.net.formats[0].bits} bits"
        )
        return Run(data, size, method, seed, right, made.flash, what)
    fit, held = train_test_split(
        np.arange(len(X)), test_size=HELD_OUT, random_state=seed, stratify=y
    )
    if method == "emlearn":
        low, high = X.min(axis=0), X.max(axis=0)
        X, X_test = as_integers(X, low, high), as_integers(X_test, low, high)
    parts = Parts((X[fit], y[fit]), (X[held], y[held]), (X, y), (X_test, y_test))
    if method == "emlearn":
        n_inputs = X.shape[1]
        sizes = emlearn_sizes(size)
        found = best_tree(parts, size, sizes, lambda model: by_emlearn(model, n_inputs), seed)
    else:
        n = table.n_classes
        found = best_tree(parts, size, m2cgen_sizes(size), lambda model: by_m2cgen(model, n), seed)
    what = f"{found.trees} trees of {found.leaves} leaves"
    return Run(data, size, method, seed, found.accuracy, found.flash, what)


def measure(
    sizes: Sequence[int],
    seeds: Sequence[int],
    methods: Sequence[str],
    path: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per data set, size, method and seed; finished ones are kept in the file."""
    jobs = [(d, size, m, seed) for d in DATA for size in sizes for m in methods for seed in seeds]
    made = execute(run, jobs, 2, path, workers=workers, progress=progress)
    runs = [Run(**one) for one in made]
    return sorted(runs, key=lambda one: (one.size, one.data, METHODS.index(one.method), one.seed))


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per size and data set: the mean accuracy of each method; then mean ranks."""
    rows = []
    methods = [method for method in METHODS if any(one.method == method for one in runs)]
    for size in dict.fromkeys(one.size for one in runs):
        of_size = [one for one in runs if one.size == size]
        ranks: dict[str, list[float]] = {method: [] for method in methods}
        for data in dict.fromkeys(one.data for one in of_size):
            scores = {
                method: mean(
                    one.accuracy for one in of_size if (one.data, one.method) == (data, method)
                )
                for method in methods
            }
            for method, own in scores.items():
                ranks[method].append(1.0 + sum(other > own for other in scores.values()))
            rows.append({"bytes": size, "data": data} | scores)
        rows.append({"bytes": size, "data": "mean rank"} | {m: mean(r) for m, r in ranks.items()})
    return rows
