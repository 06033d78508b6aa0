"""Trees and forests in C by emlearn and m2cgen, the largest and best that fit into some bytes."""

import warnings
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

from dirad.export.compact.flash import linked_flash

LEAVES = tuple(sorted({round(2 ** (k / 5)) for k in range(5, 51)}, reverse=True))
TREES = (1, 3, 5, 9, 15)
LEAST_BYTES = {"emlearn": 11, "m2cgen": 20}  # of a leaf: larger trees are not tried
INTEGERS = 4000  # inputs of emlearn's trees are integers from 0 to this: 12 bits, as of a converter

_EMLEARN_CALL = """
int32_t answer(const int16_t *x, int32_t *out);
int32_t answer(const int16_t *x, int32_t *out) {{ (void)out; return tree_predict(x, {n}); }}
"""
_M2CGEN_CALL = """
#include <stdint.h>
int32_t answer(double *x, int32_t *out);
int32_t answer(double *x, int32_t *out)
{{
    double p[{n}];
    int best = 0;
    (void)out;
    score(x, p);
    for (int i = 1; i < {n}; i++)
        if (p[i] > p[best])
            best = i;
    return best;
}}
"""


@dataclass(frozen=True)
class Best:
    """The tree or forest that is most accurate on held-out samples among those that fit."""

    accuracy: float  # on the test samples
    flash: int  # 0: none fits, and the most frequent class is answered
    trees: int
    leaves: int


def as_integers(X: NDArray, low: NDArray, high: NDArray) -> NDArray[np.int16]:
    """Return inputs as integers over their range in the training samples."""
    width = np.where(high > low, high - low, 1.0)
    return np.rint(np.clip((X - low) / width, 0, 1) * INTEGERS).astype(np.int16)


def by_emlearn(model: Any, n_inputs: int) -> str:
    """Return a tree or forest in C by emlearn, with integers, as code."""
    emlearn, model = _emlearn(), with_whole_thresholds(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        made = emlearn.convert(model, method="inline", dtype="int16_t")
        source = made.save(name="tree", format="c", inference=["inline"], include_proba=False)
    return source + _EMLEARN_CALL.format(n=n_inputs)


def with_whole_thresholds(model: Any) -> Any:
    """Return a tree or forest with the thresholds that emlearn needs for whole numbers.

    emlearn rounds a threshold t and writes x < t for x <= t. For whole numbers, the same is
    x < floor(t) + 1; without that it would lose up to a hundredth of accuracy.
    """
    model = deepcopy(model)
    for one in getattr(model, "estimators_", [model]):
        inner = one.tree_.feature >= 0
        one.tree_.threshold[inner] = np.floor(one.tree_.threshold[inner]) + 1.0
    return model


@cache
def _emlearn() -> Any:
    with np.errstate():  # its import makes errors of NumPy's warnings, for everyone
        import emlearn  # pyright: ignore[reportMissingImports]
    return emlearn


def by_m2cgen(model: Any, n_classes: int) -> str:
    """Return a tree in C by m2cgen, whose numbers are double."""
    import m2cgen  # pyright: ignore[reportMissingImports]

    return m2cgen.export_to_c(model) + _M2CGEN_CALL.format(n=n_classes)


def votes(model: Any, X: NDArray, n_classes: int) -> NDArray[np.int64]:
    """Return what emlearn's C answers: each tree of a forest votes for one class."""
    if isinstance(model, DecisionTreeClassifier):
        return model.predict(X).astype(np.int64)
    counts = np.zeros((len(X), n_classes), np.int64)
    for tree in model.estimators_:
        counts[np.arange(len(X)), tree.predict(X).astype(np.int64)] += 1
    return counts.argmax(axis=1)


def forest(trees: int, leaves: int, seed: int) -> Any:
    """Return an unfitted tree, or a forest of several."""
    if trees == 1:
        return DecisionTreeClassifier(max_leaf_nodes=leaves, random_state=seed)
    return RandomForestClassifier(trees, max_leaf_nodes=leaves, random_state=seed)


@dataclass(frozen=True)
class Parts:
    """Samples: to fit, to choose by, and to test; all training samples are the first two."""

    fit: tuple[NDArray, NDArray]
    held: tuple[NDArray, NDArray]
    train: tuple[NDArray, NDArray]
    test: tuple[NDArray, NDArray]


def best_tree(
    parts: Parts, most: int, sizes: Iterable[tuple[int, int]], source: Callable[[Any], str],
    seed: int,
) -> Best:  # fmt: skip
    """Return the best of trees of some sizes (trees, leaves) that fit into `most` bytes.

    The number of trees is chosen on held-out samples, each with as many leaves as fit; the model is
    then fitted to all training samples, and the next best one taken where it has become too large.
    """
    n_classes = int(parts.train[1].max()) + 1
    scored = []
    found: set[int] = set()
    for trees, leaves in sizes:  # of each number of trees, the largest that fit
        if trees in found:
            continue
        model = forest(trees, leaves, seed).fit(*parts.fit)
        if linked_flash(source(model), libraries=_include()) > most:
            continue
        found.add(trees)
        right = np.mean(votes(model, parts.held[0], n_classes) == parts.held[1])
        scored.append((float(right), trees, leaves))
    smaller = [(right, t, n * 9 // 10) for right, t, n in scored if n > 2]
    for _, trees, leaves in sorted([*scored, *smaller], key=lambda one: -one[0]):
        model = forest(trees, leaves, seed).fit(*parts.train)
        flash = linked_flash(source(model), libraries=_include())
        if flash <= most:
            right = np.mean(votes(model, parts.test[0], n_classes) == parts.test[1])
            return Best(float(right), flash, trees, leaves)
    usual = np.bincount(parts.train[1]).argmax()
    return Best(float(np.mean(parts.test[1] == usual)), 0, 0, 0)


def _include() -> tuple[str, ...]:
    return (f"-I{_emlearn().includedir}",)


def emlearn_sizes(most: int) -> list[tuple[int, int]]:
    """Return trees and leaves that may fit."""
    least = LEAST_BYTES["emlearn"]
    return [(t, n) for t in TREES for n in LEAVES if t * n * least < most]


def m2cgen_sizes(most: int) -> list[tuple[int, int]]:
    """Return numbers of leaves that may fit."""
    return [(1, n) for n in LEAVES if n * LEAST_BYTES["m2cgen"] < most]
