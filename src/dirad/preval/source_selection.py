"""Which inputs may predict an input: not its closest neighbours, where there are many inputs.

Neighbours among many inputs, as pixels are, predict one another whatever the task.
"""

import numpy as np
from numpy.typing import NDArray

FEW_INPUTS = 200  # up to so many, all may predict one another


def neighbours(
    covariance: NDArray[np.float64], n_inputs: int, near: float, n_samples: int
) -> NDArray[np.bool_]:
    """Return which inputs are close neighbours of which: (inputs, inputs).

    `covariance` is of the states, inputs first, over `n_samples` samples. Of each input beyond
    FEW_INPUTS, a share `near` of the most correlated ones are neighbours: at most half of those
    whose correlation exceeds the expected maximum of uncorrelated variables.
    """
    result = np.zeros((n_inputs, n_inputs), bool)
    most = int(near * max(n_inputs - FEW_INPUTS, 0))
    if not most:
        return result
    length = np.sqrt(np.diag(covariance)[:n_inputs])
    length = np.where(length > 0, length, 1.0)
    correlation = np.abs(covariance[:n_inputs, :n_inputs] / length[:, None] / length)
    np.fill_diagonal(correlation, -1.0)
    by_chance = np.sqrt(2.0 * np.log(n_inputs) / n_samples)
    count = np.minimum(most, np.count_nonzero(correlation > by_chance, axis=1) // 2)
    closest = np.argsort(-correlation, axis=1, kind="stable")[:, :most]
    rows, ranks = np.nonzero(np.arange(most) < count[:, None])
    result[rows, closest[rows, ranks]] = True
    return result
