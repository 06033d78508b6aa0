"""Regions of a regression tree, as rules that networks may grow."""

from numpy.typing import NDArray
from sklearn.tree import DecisionTreeRegressor

from dirad.growth.wide.rules import Rule

LEAVES = 16
LEAST_SAMPLES = 5  # of a leaf


def tree_rules(X: NDArray, targets: NDArray, weight: NDArray, seed: int) -> list[Rule]:
    """Return the conditions of every region of a tree, from the root to the leaves."""
    model = DecisionTreeRegressor(
        max_leaf_nodes=LEAVES, min_samples_leaf=LEAST_SAMPLES, random_state=seed
    )
    tree = model.fit(X, targets, sample_weight=weight).tree_
    found: list[Rule] = []
    stack: list[tuple[int, dict[tuple[int, int], float]]] = [(0, {})]
    while stack:
        node, bounds = stack.pop()
        if bounds:
            found.append(tuple((j, sign, at) for (j, sign), at in bounds.items()))
        if tree.children_left[node] < 0:
            continue
        split, at = int(tree.feature[node]), float(tree.threshold[node])
        stack.append((int(tree.children_left[node]), {**bounds, (split, -1): at}))
        stack.append((int(tree.children_right[node]), {**bounds, (split, 1): at}))
    return found
