"""Well-known small problems: moons, spirals, a checkerboard, sines, conditions, products.

Each is drawn again for every seed, 70 % for training; variants rotate the inputs, add inputs
without meaning, or have fewer samples. Boosting and a perceptron have scikit-learn's defaults, as
DIRAD has its own.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import (
    make_circles,
    make_friedman1,
    make_friedman2,
    make_friedman3,
    make_moons,
)
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dirad.engine import Progress, run_all
from dirad.estimators import DIRADClassifier, DIRADRegressor
from dirad.streams.averages import deviation, mean

METHODS = ("DIRAD", "boosting", "MLP")
REGRESSION = ("sine", "sine times cosine", "Friedman 1", "Friedman 2", "Friedman 3")
PROBLEMS = (
    "moons",
    "circles",
    "spirals",
    "checkerboard",
    "condition",
    "two products",
    *REGRESSION,
)
VARIANTS = ("plain", "rotated", "noise inputs", "few samples")
N_SAMPLES, FEW_SAMPLES, NOISE_INPUTS = 2000, 500, 3


@dataclass(frozen=True)
class Run:
    """One fit."""

    problem: str
    variant: str
    method: str
    seed: int
    score: float  # accuracy, or R²
    edges: int  # 0 but for DIRAD
    hidden: int


def draw(problem: str, n: int, seed: int) -> Any:
    """Return samples of a problem: X and y."""
    rng = np.random.default_rng(seed)
    match problem:
        case "moons":
            return make_moons(n, noise=0.2, random_state=seed)
        case "circles":
            return make_circles(n, noise=0.08, factor=0.5, random_state=seed)
        case "spirals":
            radius, arm = np.sqrt(rng.uniform(size=n)), rng.integers(0, 2, n)
            angle = 3 * np.pi * radius + np.pi * arm  # one and a half turns
            radius = radius + rng.normal(0, 0.02, n)
            return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1), arm
        case "checkerboard":
            X = rng.uniform(0, 4, (n, 2))
            return X, np.floor(X).sum(axis=1).astype(int) % 2
        case "condition":
            X = rng.normal(size=(n, 5))
            return X, np.where(X[:, 0] > 0, X[:, 1] > 0.5, X[:, 2] > -0.5).astype(int)
        case "two products":
            X = rng.normal(size=(n, 10))
            return X, (X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] > 0).astype(int)
        case "sine":
            X = rng.uniform(-3, 3, (n, 1))
            return X, np.sin(2 * X[:, 0]) + rng.normal(0, 0.1, n)
        case "sine times cosine":
            X = rng.uniform(-1, 1, (n, 2))
            return X, np.sin(4 * X[:, 0]) * np.cos(4 * X[:, 1]) + rng.normal(0, 0.05, n)
        case "Friedman 1":
            return make_friedman1(n, noise=1.0, random_state=seed)
        case "Friedman 2":
            return make_friedman2(n, noise=50.0, random_state=seed)
        case "Friedman 3":
            return make_friedman3(n, noise=0.1, random_state=seed)
    raise ValueError(f"there is no problem {problem!r}; known: {', '.join(PROBLEMS)}")


def varied(problem: str, variant: str, seed: int) -> tuple[NDArray, NDArray]:
    """Return samples of a variant of a problem."""
    X, y = draw(problem, FEW_SAMPLES if variant == "few samples" else N_SAMPLES, seed)
    rng = np.random.default_rng(seed + 10_000)
    if variant == "rotated" and X.shape[1] > 1:
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        X = X @ np.linalg.qr(rng.normal(size=(X.shape[1], X.shape[1])))[0]
    if variant == "noise inputs":
        X = np.hstack([X, rng.normal(size=(len(X), NOISE_INPUTS))])
    return X, y


def estimator(method: str, regression: bool, seed: int) -> Any:
    """Return an estimator with its defaults."""
    if method == "DIRAD":
        return (DIRADRegressor if regression else DIRADClassifier)(random_state=seed)
    if method == "boosting":
        kind = HistGradientBoostingRegressor if regression else HistGradientBoostingClassifier
        return kind(random_state=seed)
    kind = MLPRegressor if regression else MLPClassifier
    mlp = kind(hidden_layer_sizes=(32,), max_iter=1000, random_state=seed)
    return make_pipeline(StandardScaler(), mlp)


def run(problem: str, variant: str, method: str, seed: int) -> Run:
    """Fit a method to 70 % of the samples, and test it on the others."""
    X, y = varied(problem, variant, seed)
    train, test = train_test_split(np.arange(len(y)), test_size=0.3, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of a perceptron after 1,000 epochs
        model = estimator(method, problem in REGRESSION, seed).fit(X[train], y[train])
    score = float(model.score(X[test], y[test]))
    edges, hidden = (model.n_edges_, model.n_hidden_) if method == "DIRAD" else (0, 0)
    return Run(problem, variant, method, seed, score, edges, hidden)


def measure(
    seeds: Sequence[int],
    *,
    problems: Sequence[str] = PROBLEMS,
    variants: Sequence[str] = VARIANTS,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per problem, variant, method and seed."""
    jobs = [
        (problem, variant, method, seed)
        for problem in problems
        for variant in variants
        for method in METHODS
        for seed in seeds
    ]
    return run_all(run, jobs, workers=workers, progress=progress)


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per problem and variant: all scores, and the size of DIRAD's networks."""
    rows = []
    for problem, variant in dict.fromkeys((one.problem, one.variant) for one in runs):
        of = {
            method: [
                one
                for one in runs
                if (one.problem, one.variant, one.method) == (problem, variant, method)
            ]
            for method in METHODS
        }
        scores = {method: mean(one.score for one in found) for method, found in of.items()}
        row: dict[str, Any] = {
            "problem": problem,
            "variant": variant,
            "measure": "R²" if problem in REGRESSION else "accuracy",
        }
        for method, found in of.items():
            row[method] = round(scores[method], 4)
            row[f"{method} sd"] = round(deviation([one.score for one in found]), 4)
        others = max(score for method, score in scores.items() if method != "DIRAD")
        row["less the best other"] = round(scores["DIRAD"] - others, 4)
        row["edges"] = mean(one.edges for one in of["DIRAD"])
        row["most edges"] = max(one.edges for one in of["DIRAD"])
        row["hidden"] = mean(one.hidden for one in of["DIRAD"])
        rows.append(row)
    return rows
