"""Which inputs may predict an input: not its closest neighbours, where there are many inputs.

Neighbours among many inputs, as pixels are, predict one another whatever the task.
"""

import numpy as np
from numpy.typing import NDArray

from dirad.core.sparse_regression import Covariance

TARGETS_AT_ONCE = 256  # whose covariances are held at a time
# Correlation of the typical input with the closest one, below which inputs have no neighbours: of
# pixels it is 0.8, of the features of a network 0.3.
LEAST_CORRELATION = 0.5
FEW_INPUTS = 200  # up to so many, all may predict one another


def forbid_neighbours(
    allowed: NDArray[np.bool_], covariance: Covariance, n_inputs: int, near: float
) -> None:
    """Let no input be predicted by its close neighbours: sets `allowed` (inputs first, states).

    The neighbours are the inputs most correlated with it: a share `near` of the inputs beyond
    FEW_INPUTS, and at most half of those whose correlation exceeds the expected maximum of
    uncorrelated variables. Where most inputs are correlated with no other as neighbours are, all
    may predict one another. The first `n_inputs` states are the inputs.
    """
    most = int(near * max(n_inputs - FEW_INPUTS, 0))
    by_chance = np.sqrt(2.0 * np.log(max(n_inputs, 1)) / covariance.n)
    deviation = np.sqrt(covariance.variance[:n_inputs])
    varied = deviation > 0
    deviation = np.where(varied, deviation, 1.0)
    highest = np.zeros(n_inputs)
    neighbours = []
    for start in range(0, n_inputs if most else 0, TARGETS_AT_ONCE):
        some = np.arange(start, min(start + TARGETS_AT_ONCE, n_inputs))
        shared = np.abs(covariance.rows(some)[:, :n_inputs])
        correlation = shared / deviation[some, None] / deviation
        correlation[np.arange(len(some)), some] = -1.0
        count = np.minimum(most, np.count_nonzero(correlation > by_chance, axis=1) // 2)
        closest = np.argpartition(-correlation, most - 1, axis=1)[:, :most]
        ranked = np.argsort(-np.take_along_axis(correlation, closest, axis=1), axis=1)
        closest = np.take_along_axis(closest, ranked, axis=1)
        rows, ranks = np.nonzero(np.arange(most) < count[:, None])
        neighbours.append((some[rows], closest[rows, ranks]))
        highest[some] = correlation.max(axis=1)
    if varied.any() and np.median(highest[varied]) >= LEAST_CORRELATION:
        for targets, sources in neighbours:
            allowed[targets, sources] = False
