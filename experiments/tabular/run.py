"""One method on one fold of one data set: tuned, fitted, tested."""

import json
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import accuracy_score, log_loss, r2_score
from sklearn.model_selection import KFold, StratifiedKFold
from threadpoolctl import threadpool_limits

from dirad.export import c_size
from experiments.tabular.catalogue import BY_NAME
from experiments.tabular.methods import DIRAD, METHODS, Problem, Settings, make
from experiments.tabular.size import final_step, leaves_within, stored_numbers
from experiments.tabular.source import Table, load

OUTER_FOLDS, INNER_FOLDS = 5, 3
FOLD_SEED = 0  # of the outer folds, which are the same in every run
REPEATS = 3  # of a prediction, of which the fastest counts
NAN = float("nan")

Folds = list[tuple[NDArray[np.intp], NDArray[np.intp]]]


@dataclass(frozen=True)
class Run:
    """What came of one method on one fold."""

    data: str
    fold: int
    method: str
    settings: str  # those chosen by the inner folds, as JSON
    score: float  # accuracy, or R²
    log_loss: float  # NaN for regression
    stored: int  # numbers, see `size`
    c_bytes: float  # constants of the exported C; NaN where we have no export
    seconds: dict[str, float]  # of the processor: tuning, fitting, predicting one row


def split(y: NDArray, n_folds: int, seed: int) -> Folds:
    """Return the rows for training and for testing, fold by fold; classes are stratified."""
    kind = StratifiedKFold if y.dtype.kind == "i" else KFold
    return list(kind(n_folds, shuffle=True, random_state=seed).split(y, y))


def outer_folds(table: Table) -> Folds:
    """Return the folds that all methods share."""
    return split(table.y, OUTER_FOLDS, FOLD_SEED)


def run(data: str, fold: int, method: str, seed: int = 0, budget: int = 0) -> Run:
    """Tune a method on the training part of a fold, fit it there, and test it.

    `budget` is the number of stored numbers that a tree of equal size may have.
    """
    table = load(BY_NAME[data])
    train, test = outer_folds(table)[fold]
    return evaluate(table, train, test, method, data=data, fold=fold, seed=seed, budget=budget)


def evaluate(
    table: Table,
    train: NDArray[np.intp],
    test: NDArray[np.intp],
    method: str,
    *,
    data: str,
    fold: int,
    seed: int = 0,
    budget: int = 0,
    settings: Sequence[Settings] | None = None,
) -> Run:
    """Tune, fit and test a method on a table, with one thread."""
    problem = Problem(
        table.n_classes > 0, table.categorical, seed, leaves_within(budget, table.n_classes)
    )
    X, y = table.X[train], table.y[train]
    with threadpool_limits(1), warnings.catch_warnings():
        _ignore_expected_warnings()
        start = time.process_time()
        chosen = tune(method, settings or METHODS[method].settings, problem, X, y)
        tuned = time.process_time()
        model = make(method, chosen, problem).fit(X, y)
        fitted = time.process_time()
        score, loss = scores(model, table.X[test], table.y[test])
        per_row = predicting_seconds(model, table.X[test]) / len(test)
    return Run(
        data,
        fold,
        method,
        json.dumps(chosen),
        score,
        loss,
        stored_numbers(method, model),
        float(c_size(final_step(model)).flash) if method == DIRAD else NAN,
        {"tuning": tuned - start, "fitting": fitted - tuned, "predicting": per_row},
    )


def tune(
    method: str, settings: Sequence[Settings], problem: Problem, X: NDArray, y: NDArray
) -> Settings:
    """Return the settings with the best mean score of the inner folds; log loss decides ties."""
    folds = split(y, INNER_FOLDS, problem.seed)
    best, best_key = settings[0], (-np.inf, -np.inf)
    for one in settings:
        found = []
        for train, test in folds:
            model = make(method, one, problem).fit(X[train], y[train])
            found.append(scores(model, X[test], y[test]))
        score, loss = np.mean(found, axis=0)
        key = (float(score), 0.0 if np.isnan(loss) else -float(loss))
        if key > best_key:
            best, best_key = one, key
    return best


def scores(model: Any, X: NDArray, y: NDArray) -> tuple[float, float]:
    """Return accuracy and log loss, or R² and NaN."""
    if y.dtype.kind != "i":
        return float(r2_score(y, model.predict(X))), NAN
    probabilities = model.predict_proba(X)
    predicted = model.classes_[probabilities.argmax(axis=1)]
    loss = log_loss(y, probabilities.astype(np.float64), labels=model.classes_)
    return float(accuracy_score(y, predicted)), float(loss)


def predicting_seconds(model: Any, X: NDArray) -> float:
    """Return the processor time of one call that predicts all rows: the fastest of several."""
    found = []
    for _ in range(REPEATS):
        start = time.process_time()
        model.predict(X)
        found.append(time.process_time() - start)
    return min(found)


def _ignore_expected_warnings() -> None:
    """Hide warnings of limited iterations, unknown categories, and gaps in pictures."""
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", message="Found unknown categories")
    warnings.filterwarnings("ignore", message="For multiclass we cannot currently visualize")
    warnings.filterwarnings("ignore", message="Missing values detected")
    warnings.filterwarnings("ignore", message="Skipping features without any observed values")
