"""Decision trees of a given number of splits."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike
from sklearn.tree import DecisionTreeClassifier

from dirad.demo.baselines import Fitted, checked_sizes


def decision_tree(X: ArrayLike, y: ArrayLike, sizes: Iterable[int]) -> dict[int, Fitted]:
    """Trees grown best split first; a size is a number of splits."""
    fitted = {}
    for size in checked_sizes(sizes):
        model = DecisionTreeClassifier(max_leaf_nodes=size + 1, random_state=0).fit(X, y)
        used = model.tree_.feature[model.tree_.children_left >= 0]
        fitted[size] = Fitted(model.predict, len(used), np.unique(used))
    return fitted
