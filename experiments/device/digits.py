"""Ten digits of MNIST in 1 to 12 kB of flash, beside emlearn's trees and a pruned perceptron."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from dirad.datasets import Dataset
from dirad.engine import Progress
from dirad.estimators import DIRADClassifier
from dirad.export.compact import predict
from dirad.export.compact.budget import STORAGES
from dirad.export.compact.form import Weights
from dirad.export.compact.growing import fit_compact
from dirad.streams.averages import deviation, mean
from experiments.device import rectifiers
from experiments.device.plan import execute
from experiments.device.trees import Parts, best_tree, by_emlearn, emlearn_sizes
from experiments.pairs import hold_out, mnist

METHODS = ("DIRAD", "pruned MLP", "emlearn")
SIZES = (1024, 2048, 4096, 12288)
HELD_OUT = 1 / 6
# Chosen on a sixth of the training samples, seed 0: `python -m experiments device --part choices`.
OUR_STORAGE = {1024: 1, 2048: 0, 4096: 0, 12288: 5}  # of STORAGES
HIDDEN = (16, 32, 64, 100)  # of perceptrons
THEIR_HIDDEN = {1024: 32, 2048: 64, 4096: 100, 12288: 100}
THEIR_WEIGHTS = {
    1024: Weights(5, 3), 2048: Weights(5, 3), 4096: Weights(4, 4), 12288: Weights(4, 4)
}  # fmt: skip


@dataclass(frozen=True)
class Run:
    """One model."""

    method: str
    size: int  # bytes allowed
    seed: int
    accuracy: float
    flash: int
    what: str  # its size in its own terms


def run(method: str, size: int, seed: int, held_out: int = 0, choice: int | None = None) -> Run:
    """Fit one model; `choice` is one of the settings that are chosen by held-out samples."""
    data = hold_out(mnist()) if held_out else mnist()
    X, y = np.asarray(data.X_train), np.asarray(data.y_train)
    if method == "DIRAD":
        which = OUR_STORAGE[size] if choice is None else choice
        model = DIRADClassifier(random_state=seed)
        storages = STORAGES[which : which + 1]
        _, made = fit_compact(model, X, y, size, low=0, high=1, storages=storages, seed=seed)
        right = float(np.mean(predict(made.net, data.X_test) == data.y_test))
        what = f"{made.net.n_edges} edges, {made.net.n_hidden} nodes"
        return Run(method, size, seed, right, made.flash, what)
    if method == "pruned MLP":
        n_hidden = THEIR_HIDDEN[size] if choice is None else choice
        network, flash = rectifiers.grown(X, y, size, THEIR_WEIGHTS[size], n_hidden, seed)
        right = rectifiers.accuracy(network, data.X_test, data.y_test)
        what = f"{rectifiers.without_zeros(network)} edges, {n_hidden} nodes"
        return Run(method, size, seed, right, flash, what)
    parts = tree_parts(data, seed)
    found = best_tree(
        parts, size, emlearn_sizes(size), lambda model: by_emlearn(model, X.shape[1]), seed
    )
    what = f"{found.trees} trees of {found.leaves} leaves"
    return Run(method, size, seed, found.accuracy, found.flash, what)


def tree_parts(data: Dataset, seed: int) -> Parts:
    """Return samples for trees, whose inputs are the bytes of the pixels."""
    x, test = (np.rint(a * 255).astype(np.int16) for a in (data.X_train, data.X_test))
    fit, held = train_test_split(
        np.arange(len(x)), test_size=HELD_OUT, random_state=seed, stratify=data.y_train
    )
    y = data.y_train
    return Parts((x[fit], y[fit]), (x[held], y[held]), (x, y), (test, data.y_test))


def choices(
    sizes: Sequence[int],
    methods: Sequence[str],
    path: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Return the accuracy on held-out samples of every setting to choose from, seed 0."""
    mnist()
    settings = {"DIRAD": range(6), "pruned MLP": HIDDEN}
    jobs = [
        (method, size, 0, 1, setting)
        for size in sizes
        for method in methods
        for setting in settings.get(method, ())
    ]
    made = execute(run, jobs, 0, path, workers=workers, progress=progress)
    return [
        {"bytes": size, "method": method, "setting": setting} | _facts(Run(**one))
        for (method, size, _, _, setting), one in zip(jobs, made, strict=True)
    ]


def _facts(one: Run) -> dict[str, Any]:
    return {"accuracy": one.accuracy, "flash": one.flash, "what": one.what}


def measure(
    sizes: Sequence[int],
    seeds: Sequence[int],
    methods: Sequence[str],
    path: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per size, method and seed: trained on 60,000 samples, scored on 10,000.

    Finished ones are kept in the file.
    """
    mnist()
    jobs = [(method, size, seed) for method in methods for size in sizes for seed in seeds]
    made = execute(run, jobs, 0, path, workers=workers, progress=progress)
    runs = [Run(**one) for one in made]
    return sorted(runs, key=lambda one: (one.size, METHODS.index(one.method), one.seed))


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per size and method: means and deviations over seeds."""
    rows = []
    for size, method in dict.fromkeys((one.size, one.method) for one in runs):
        group = [one for one in runs if (one.size, one.method) == (size, method)]
        scores = [one.accuracy for one in group]
        rows.append(
            {
                "bytes": size,
                "method": method,
                "accuracy": mean(scores),
                "accuracy_sd": deviation(scores),
                "flash": mean(one.flash for one in group),
                "what": group[0].what,
                "runs": len(group),
            }
        )
    return rows
