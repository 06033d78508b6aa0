"""Which nodes a pathway of L1 may choose its sources from: the most correlated ones."""

import numpy as np
from numpy.typing import NDArray

CHUNK = 1024  # targets whose correlations with all nodes are held at a time


def most_correlated(
    states: NDArray, targets: NDArray[np.int64], most: int, *, skip: int = 0, n_inputs: int = 0
) -> NDArray[np.bool_]:
    """Return which nodes are the most correlated with each target: (targets, nodes).

    A target is not among its own. For an input, up to `skip` of the other inputs (the first
    `n_inputs` nodes) are left out, the most correlated ones: at most half of those that are
    correlated with it at all.
    """
    n = states.shape[1]
    if n - 1 <= most:
        return np.ones((len(targets), n), bool)
    centered = states - states.mean(axis=0)
    length = np.sqrt((centered**2).sum(axis=0))
    centered /= np.where(length > 0, length, 1.0)
    result = np.zeros((len(targets), n), bool)
    for start in range(0, len(targets), CHUNK):
        some = targets[start : start + CHUNK]
        correlation = np.abs(centered[:, some].T @ centered)
        correlation[np.arange(len(some)), some] = -1.0
        if skip:
            rows = np.flatnonzero(some < n_inputs)
            close, columns = top_correlations(correlation[rows, :n_inputs], skip, len(states))
            correlation[rows[close], columns] = -1.0
        chosen = np.argpartition(-correlation, most - 1, axis=1)[:, :most]
        part = result[start : start + CHUNK]
        np.put_along_axis(part, chosen, True, axis=1)
        part &= correlation >= 0.0
    return result


def top_correlations(
    correlation: NDArray, most: int, n_samples: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows and columns of the largest correlations: up to `most` in a row.

    `correlation` holds absolute values from `n_samples` samples. At most half of those in a row
    that exceed the expected maximum of uncorrelated variables are returned.
    """
    by_chance = np.sqrt(2.0 * np.log(correlation.shape[1]) / n_samples)
    count = np.minimum(most, np.count_nonzero(correlation > by_chance, axis=1) // 2)
    columns = np.argpartition(-correlation, most - 1, axis=1)[:, :most]
    order = np.argsort(-np.take_along_axis(correlation, columns, axis=1), axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, axis=1)
    rows, ranks = np.nonzero(np.arange(most) < count[:, None])
    return rows, columns[rows, ranks]
