"""Small fitted models of every kind that can be exported, and random inputs for them."""

from functools import cache

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes, load_iris

from dirad import DIRADClassifier, DIRADRegressor, PREVALClassifier

NETWORKS = ("softmax", "binary", "paper", "regressor", "columns", "paper regressor")
ALONE = ("alone",)
SYSTEMS = ("system", "shared", "rivals", "paper system")
N = 10_000


def task(low: float, seed: int, n: int = 1500) -> tuple[NDArray, NDArray]:
    """Two classes, one beside the other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(low + 2 * y[:, None], 1.0, (n, 3)), y


def xor() -> tuple[NDArray, NDArray]:
    X = np.random.default_rng(0).uniform(0, 1, (300, 3))
    return X, (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)


@cache
def model(kind: str):
    """The fitted model of a kind."""
    if kind in SYSTEMS + ALONE:
        return system(kind)
    if kind == "softmax":
        return DIRADClassifier(random_state=0, max_edges=20).fit(*load_iris(return_X_y=True))
    X, y = xor()
    if kind == "binary":
        return DIRADClassifier(random_state=0, n_init=1).fit(X, np.where(y, "odd", "even"))
    if kind == "paper":
        return DIRADClassifier(preset="paper", random_state=0, max_steps=1500).fit(X, y)
    X, y = load_diabetes(return_X_y=True)
    y = y / 100
    if kind == "regressor":
        return DIRADRegressor(random_state=0, max_edges=20).fit(X, y)
    if kind == "columns":
        return DIRADRegressor(random_state=0, max_edges=20).fit(X, np.c_[y, X[:, 0] - y])
    assert kind == "paper regressor"
    return DIRADRegressor(preset="paper", random_state=0, max_steps=1500).fit(X, y)


def system(kind: str) -> PREVALClassifier:
    """Two tasks one after the other; rivals: the same inputs with other answers; alone: one."""
    if kind == "paper system":
        clf = PREVALClassifier(preset="paper", random_state=0)
        X, y = xor()
        other = np.c_[X[:, 0], 0.1 * X[:, 0], X[:, 2]]
        clf.partial_fit(X, X[:, 0] > 0.5, classes=[False, True]).finish()
        return clf.partial_fit(other, X[:, 0] > 0.5).finish()
    clf = PREVALClassifier(random_state=0, models="shared" if kind == "shared" else "separate")
    X, y = task(0, 0)
    clf.partial_fit(X, y, classes=[0, 1, 2] if kind == "alone" else None).finish()
    if kind == "alone":
        return clf
    if kind == "rivals":
        return clf.partial_fit(X, 1 - y).finish()
    X, y = task(8, 1)
    return clf.partial_fit(X, y + 10).finish()


def line_with_name(name: str) -> DIRADRegressor:
    """A regressor of one input, of this name."""
    regressor = DIRADRegressor(random_state=0)
    regressor.fit([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]], [1, 3, 5, 7, 9, 11])
    regressor.feature_names_in_ = np.array([name], dtype=object)
    return regressor


def inputs(kind: str) -> NDArray[np.float32]:
    """Random inputs from all over the place, exact in float."""
    rng = np.random.default_rng(7)
    if kind in ("system", "shared", "rivals", "alone"):
        X = np.concatenate([task(low, 5, N // 2)[0] for low in (0, 8)])
        return (X + rng.normal(0, 1, X.shape)).astype(np.float32)
    if kind == "softmax":
        X = load_iris(return_X_y=True)[0]
    elif kind in ("binary", "paper", "paper system"):
        X = xor()[0]
    else:
        X = load_diabetes(return_X_y=True)[0]
    return rng.uniform(X.min(axis=0), X.max(axis=0), (N, X.shape[1])).astype(np.float32)


@cache
def answers(kind: str) -> NDArray[np.float64]:
    """What the model itself says: (samples, outputs)."""
    own, X = model(kind), inputs(kind)
    found = own.predict_proba(X) if hasattr(own, "predict_proba") else own.predict(X)
    return found.reshape(len(X), -1)
