"""The methods of the comparison, each with the settings among which it is tuned.

There are four settings of each method, but two of DIRAD and of EBM, whose fits take longest.

No setting was chosen by its results; `docs/results/tabular-protocol.md` says which results had been
seen when they were fixed. What a method cannot take is encoded for it: the linear models and the
perceptron get categories as indicators and medians in place of missing numbers, with an indicator
of what was missing. Trees and forests get categories as numbers in alphabetical order. DIRAD and
both kinds of boosting take categories as such, and all but the linear models and the perceptron
take missing values.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from dirad.estimators import DIRADClassifier, DIRADRegressor
from experiments.tabular import our_settings

DIRAD = "DIRAD"
LINEAR = "logistic/ridge"
BOOSTING = "boosting"
FOREST = "forest"
MLP = "MLP"
EBM = "EBM"  # explainable boosting
TREE = "tree"  # of equal size: it stores no more numbers than DIRAD

RARE = 10  # rows below which categories share one indicator
TREES = 300  # in a forest
ROUNDS = 500  # of boosting at most; it stops earlier by held-out rows
# Of explainable boosting. By default it averages 14 models, with a rate of 0.015; a run on the
# largest data set (26 classes) would then take a day.
BAGS, RATE = 4, 0.05

Settings = Mapping[str, Any]


class Problem(NamedTuple):
    """What a method has to know before it sees data."""

    classification: bool
    categorical: NDArray[np.bool_]  # (inputs,)
    seed: int
    max_leaves: int = 0  # of the tree of equal size


def make(method: str, settings: Settings, problem: Problem) -> Any:
    """Return an estimator that is not fitted yet."""
    return METHODS[method].make(settings, problem)


def check_installed(methods: Sequence[str]) -> None:
    """Raise an error if a method needs a package that is not installed."""
    if EBM in methods and find_spec("interpret") is None:
        raise ValueError("the method EBM needs interpret-core: pip install 'dirad[bench]'")


def encoder(categorical: NDArray[np.bool_]) -> ColumnTransformer:
    """Return a transformer to scaled numbers without gaps: medians and indicators."""
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    numbers = make_pipeline(imputer, StandardScaler())
    categories = OneHotEncoder(
        handle_unknown="infrequent_if_exist", min_frequency=RARE, sparse_output=False
    )
    return ColumnTransformer(
        [
            ("numbers", numbers, np.flatnonzero(~categorical)),
            ("categories", categories, np.flatnonzero(categorical)),
        ]
    )


def _dirad(settings: Settings, problem: Problem) -> Any:
    kind: Any = DIRADClassifier if problem.classification else DIRADRegressor
    return kind(categorical_features=problem.categorical, random_state=problem.seed, **settings)


def _linear(settings: Settings, problem: Problem) -> Pipeline:
    penalty = settings["penalty"]
    if problem.classification:
        model = LogisticRegression(C=1 / penalty, max_iter=1000)
    else:
        model = Ridge(alpha=penalty)
    return make_pipeline(encoder(problem.categorical), model)


def _boosting(settings: Settings, problem: Problem) -> Any:
    classifier, regressor = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    kind: Any = classifier if problem.classification else regressor
    return kind(
        max_iter=ROUNDS,
        early_stopping=True,
        n_iter_no_change=20,
        categorical_features=problem.categorical,
        random_state=problem.seed,
        **settings,
    )


def _forest(settings: Settings, problem: Problem) -> Any:
    kind: Any = RandomForestClassifier if problem.classification else RandomForestRegressor
    return kind(n_estimators=TREES, random_state=problem.seed, n_jobs=1, **settings)


def _perceptron(settings: Settings, problem: Problem) -> Pipeline:
    if problem.classification:
        model: Any = MLPClassifier(random_state=problem.seed, **settings)
    else:
        regressor: Any = MLPRegressor(random_state=problem.seed, **settings)
        model = TransformedTargetRegressor(regressor, transformer=StandardScaler())
    return make_pipeline(encoder(problem.categorical), model)


def _explainable(settings: Settings, problem: Problem) -> Any:
    glassbox = import_module("interpret.glassbox")
    kind = f"ExplainableBoosting{'Classifier' if problem.classification else 'Regressor'}"
    return getattr(glassbox, kind)(
        feature_types=["nominal" if one else "continuous" for one in problem.categorical],
        outer_bags=BAGS,
        learning_rate=RATE,
        n_jobs=1,
        random_state=problem.seed,
        **settings,
    )


def _tree(settings: Settings, problem: Problem) -> Any:
    kind: Any = DecisionTreeClassifier if problem.classification else DecisionTreeRegressor
    return kind(max_leaf_nodes=problem.max_leaves, random_state=problem.seed, **settings)


class Method(NamedTuple):
    """How a method is made, and the settings among which it is tuned."""

    make: Callable[[Settings, Problem], Any]
    settings: tuple[Settings, ...]


METHODS: dict[str, Method] = {
    DIRAD: Method(_dirad, our_settings.SETTINGS),
    LINEAR: Method(_linear, tuple({"penalty": penalty} for penalty in (0.1, 1.0, 10.0, 100.0))),
    BOOSTING: Method(
        _boosting,
        tuple(
            {"learning_rate": rate, "max_leaf_nodes": leaves}
            for rate in (0.1, 0.05)
            for leaves in (31, 8)
        ),
    ),
    FOREST: Method(
        _forest,
        tuple(
            {"max_features": share, "min_samples_leaf": least}
            for share in ("sqrt", 0.5)
            for least in (1, 5)
        ),
    ),
    MLP: Method(
        _perceptron,
        tuple(
            {"hidden_layer_sizes": hidden, "alpha": alpha}
            for hidden in ((100,), (100, 100))
            for alpha in (1e-4, 0.1)
        ),
    ),
    EBM: Method(_explainable, tuple({"interactions": pairs} for pairs in (0, 10))),
    TREE: Method(_tree, tuple({"min_samples_leaf": least} for least in (1, 5, 10, 20))),
}
