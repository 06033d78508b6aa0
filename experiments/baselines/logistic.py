"""Linear baselines: logistic regression with an L1 path or on all features, tuned linear models.

Each is one function, tuned on nothing but its training data. Weights are counted without biases.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from dirad.demo.baselines import Array, Fitted, checked_sizes, linear_model, newton, two_classes


def l1_logistic(
    X: ArrayLike, y: ArrayLike, sizes: Iterable[int], *, ridge: float = 0.1, n_penalties: int = 200
) -> dict[int, Fitted]:
    """Features that an L1 penalty leaves: per size the largest support that fits, refitted.

    The path sees the features divided by their deviations; the refit is that of
    `greedy_logistic`.
    """
    X, t, classes = two_classes(X, y)
    sizes = checked_sizes(sizes)
    supports: dict[int, Array] = {0: np.empty(0, dtype=np.intp)}
    deviation = X.std(axis=0)
    for support in _l1_supports(X / np.where(deviation > 0, deviation, 1), t, n_penalties):
        supports.setdefault(len(support), support)
        if len(support) > sizes[-1]:
            break
    fitted = {}
    for size in sizes:
        kept = supports[max(n for n in supports if n <= size)]
        Z = np.column_stack([np.ones(len(X)), X[:, kept]])
        fitted[size] = linear_model(kept, newton(Z, t, np.zeros(Z.shape[1]), ridge), classes)
    return fitted


def full_logistic(X: ArrayLike, y: ArrayLike) -> Fitted:
    """Logistic regression on all features; its L2 penalty by cross-validation in training."""
    X = np.asarray(X, dtype=np.float64)
    grid = {"C": np.logspace(-2, 2, 5)}
    search = GridSearchCV(LogisticRegression(max_iter=1000), grid, cv=3).fit(X, y)
    return Fitted(search.predict, search.best_estimator_.coef_.size, np.arange(X.shape[1]))


def tuned_linear(task: Literal["classification", "regression"]) -> Pipeline:
    """Standardized inputs, a linear model, its L2 penalty by cross-validation in training."""
    if task == "classification":
        grid = {"C": np.logspace(-4, 4, 9)}
        model = GridSearchCV(LogisticRegression(max_iter=2000), grid, cv=5)
    elif task == "regression":
        model = RidgeCV(alphas=np.logspace(-4, 6, 41))
    else:
        raise ValueError(f"task is 'classification' or 'regression', not {task!r}")
    return make_pipeline(StandardScaler(), model)


def _l1_supports(X: Array, t: Array, n_penalties: int) -> Iterator[Array]:
    """Supports along a falling L1 penalty: proximal Newton by coordinate descent, warm starts.

    Only features whose gradient comes near the penalty are worked on (the strong rule); the
    rest are checked after the fit, so that none is missed.
    """
    Z = np.column_stack([np.ones(len(X)), X])
    beta = np.zeros(Z.shape[1])
    beta[0] = np.log(t.mean() / (1 - t.mean()))
    gradient = np.abs(Z.T @ (t - t.mean()))
    penalties = gradient.max() * np.logspace(0, -4, n_penalties)
    previous = penalties[0]
    for penalty in penalties:
        work = (gradient >= 2 * penalty - previous) | (beta != 0)
        work[0] = True
        while True:
            beta[work] = _l1_fit(Z[:, work], t, beta[work], penalty)
            gradient = np.abs(Z.T @ (t - expit(Z @ beta)))
            missed = (gradient > penalty * (1 + 1e-3)) & ~work
            if not missed.any():
                break
            work |= missed
        previous = penalty
        yield np.flatnonzero(beta[1:])


def _l1_fit(Z: Array, t: Array, beta: Array, penalty: float) -> Array:
    """Minimize the summed log-loss plus penalty · |beta|₁ (first column of Z: bias, free)."""
    thresholds = [0.0] + [penalty] * (len(beta) - 1)
    for _ in range(30):
        p = expit(Z @ beta)
        w = np.maximum(p * (1 - p), 1e-5)
        gram = (w[:, None] * Z).T @ Z
        curvature = np.maximum(gram.diagonal(), 1e-9).tolist()
        slope = Z.T @ (t - p)
        new = beta.copy()
        for _ in range(200):
            largest = 0.0
            for j, (threshold, c) in enumerate(zip(thresholds, curvature, strict=True)):
                old = float(new[j])
                u = float(slope[j]) + c * old
                value = (abs(u) > threshold) * (u - np.copysign(threshold, u)) / c
                if value != old:
                    new[j] = value
                    slope -= gram[j] * (value - old)
                    largest = max(largest, c * (value - old) ** 2)
            if largest < 1e-4:
                break
        change = np.abs(new - beta).max()
        beta = new
        if change < 1e-3 * (1 + np.abs(beta).max()):
            break
    return beta
