"""Small tables that come with scikit-learn: never worse than a tuned linear model?

On data this small a linear model is hard to beat, and growth that follows noise would show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.base import BaseEstimator
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold

from dirad.engine import Progress, run_all
from dirad.estimators import DIRADClassifier, DIRADRegressor
from dirad.streams.averages import mean, standard_error
from experiments.baselines.logistic import tuned_linear

FOLDS = 5
LOADERS = {
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "iris": datasets.load_iris,
    "digits 8×8": datasets.load_digits,
    "diabetes": datasets.load_diabetes,
}
REGRESSION = {"diabetes"}
METHODS = ("DIRAD", "tuned linear")

Task = Literal["classification", "regression"]


@dataclass(frozen=True)
class Run:
    """One fit on one fold."""

    data: str
    method: str
    fold: int
    score: float  # accuracy, or R²
    parameters: int
    hidden: int


def load(name: str) -> tuple[NDArray, NDArray, Task]:
    """Return X, y and the task."""
    X, y = LOADERS[name](return_X_y=True)
    return X, y, "regression" if name in REGRESSION else "classification"


def folds(name: str, repeats: int, seed: int) -> list[tuple[NDArray, NDArray]]:
    """Return the rows for training and for testing, fold by fold."""
    X, y, task = load(name)
    kind = RepeatedKFold if task == "regression" else RepeatedStratifiedKFold
    return list(kind(n_splits=FOLDS, n_repeats=repeats, random_state=seed).split(X, y))


def run(name: str, method: str, repeats: int, fold: int, seed: int) -> Run:
    """Fit one method on one fold."""
    X, y, task = load(name)
    train, test = folds(name, repeats, seed)[fold]
    if method == "DIRAD":
        kind = DIRADRegressor if task == "regression" else DIRADClassifier
        model = kind(random_state=seed + fold).fit(X[train], y[train])
        parameters, hidden = model.n_parameters_, model.n_hidden_
    else:
        model = tuned_linear(task).fit(X[train], y[train])
        parameters, hidden = _linear_parameters(model[-1]), 0
    return Run(name, method, fold, float(model.score(X[test], y[test])), parameters, hidden)


def _linear_parameters(model: BaseEstimator) -> int:
    """Return the coefficients that are not 0, and the intercepts."""
    best: Any = getattr(model, "best_estimator_", model)
    return int(np.count_nonzero(best.coef_) + np.size(best.intercept_))


def measure(
    repeats: int = 5,
    *,
    names: Sequence[str] = tuple(LOADERS),
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per data set, method and fold."""
    jobs = [
        (name, method, repeats, fold, seed)
        for name in sorted(names, key=lambda name: -load(name)[0].size)
        for method in METHODS
        for fold in range(repeats * FOLDS)
    ]
    runs = run_all(run, jobs, workers=workers, progress=progress)
    order = list(LOADERS)
    return sorted(
        runs, key=lambda one: (order.index(one.data), METHODS.index(one.method), one.fold)
    )


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per data set: both scores, their paired difference, both sizes, a verdict."""
    rows = []
    for name in dict.fromkeys(one.data for one in runs):
        ours, theirs = (
            [one for one in runs if one.data == name and one.method == method] for method in METHODS
        )
        gaps = [a.score - b.score for a, b in zip(ours, theirs, strict=True)]
        gap, error = mean(gaps), standard_error(gaps)
        rows.append(
            {
                "data": name,
                "measure": "R²" if name in REGRESSION else "accuracy",
                "dirad": mean(one.score for one in ours),
                "dirad_se": standard_error(one.score for one in ours),
                "linear": mean(one.score for one in theirs),
                "linear_se": standard_error(one.score for one in theirs),
                "difference": gap,
                "difference_se": error,
                "within_one_se": bool(gap >= -error),
                "parameters": mean(one.parameters for one in ours),
                "linear_parameters": mean(one.parameters for one in theirs),
                "hidden": mean(one.hidden for one in ours),
                "folds": len(gaps),
            }
        )
    return rows
