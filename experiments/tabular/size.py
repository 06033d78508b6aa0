"""How many numbers a fitted model stores.

Every number without which the model could not predict counts: weights, thresholds and values, and
also the indices that say what belongs together. An edge of a network counts as three numbers (its
weight, source and target), a split of a tree as four (input, threshold, two children). Constants of
encoding and scaling do not count: they can be folded into weights, or are the same for all methods.
"""

from typing import Any

import numpy as np

from experiments.tabular.methods import BOOSTING, DIRAD, EBM, FOREST, LINEAR, MLP, TREE

SPLIT = 4  # input, threshold, left child, right child
CATEGORY_WORDS = 8  # 32-bit words of a set of categories, in place of a threshold


def stored_numbers(method: str, model: Any) -> int:
    """Return how many numbers a fitted model of a method stores."""
    return int(COUNTERS[method](final_step(model)))


def final_step(model: Any) -> Any:
    """Return the estimator without what encodes its inputs and scales its target."""
    step = model[-1] if hasattr(model, "steps") else model
    return getattr(step, "regressor_", step)


def leaf_values(n_classes: int) -> int:
    """Return the numbers of a leaf: a value, or for three classes and more a value for each."""
    return n_classes if n_classes > 2 else 1


def leaves_within(budget: int, n_classes: int) -> int:
    """Return how many leaves a tree may have, at least two, to store no more than `budget`.

    >>> leaves_within(100, 2)  # 20 splits and 21 leaves are 101 numbers
    20
    """
    return max(2, (budget + SPLIT) // (SPLIT + leaf_values(n_classes)))


def _dirad(model: Any) -> int:
    return model.n_parameters_ + 2 * model.n_edges_


def _linear(model: Any) -> int:
    return int(np.count_nonzero(model.coef_)) + np.size(model.intercept_)


def _perceptron(model: Any) -> int:
    return sum(part.size for part in (*model.coefs_, *model.intercepts_))


def _tree(model: Any) -> int:
    n_classes = int(np.max(getattr(model, "n_classes_", 1)))
    leaves = model.tree_.n_leaves
    return SPLIT * (model.tree_.node_count - leaves) + leaf_values(n_classes) * leaves


def _forest(model: Any) -> int:
    return sum(_tree(tree) for tree in model.estimators_)


def _boosting(model: Any) -> int:
    trees = [tree.nodes for trees in model._predictors for tree in trees]
    splits = sum(int((nodes["is_leaf"] == 0).sum()) for nodes in trees)
    leaves = sum(int((nodes["is_leaf"] == 1).sum()) for nodes in trees)
    sets = sum(int(nodes["is_categorical"].sum()) for nodes in trees)
    start = np.size(model._baseline_prediction)
    return SPLIT * splits + (CATEGORY_WORDS - 1) * sets + leaves + start


def _explainable(model: Any) -> int:
    """Count the bounds of bins, the score of every bin or pair of bins, and the intercept."""
    bounds = sum(
        np.size(level)
        for levels in model.bins_
        for level in levels
        if not isinstance(level, dict)  # names of categories
    )
    scores = sum(np.size(term) for term in model.term_scores_)
    return bounds + scores + np.size(model.intercept_)


COUNTERS = {
    DIRAD: _dirad,
    LINEAR: _linear,
    BOOSTING: _boosting,
    FOREST: _forest,
    MLP: _perceptron,
    EBM: _explainable,
    TREE: _tree,
}
