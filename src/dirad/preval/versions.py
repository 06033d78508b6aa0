"""Versions of a finished model: corrections that were good for long, kept for when they return.

The model is version 0, which never changes. When a correction of its answers has erred less for a
long time than the model and all its versions, it is kept as another version, from which the next
corrections start. A batch that the model does not know as it answers now is shown to its other
versions: a rule that returns is recognized at once, and nothing has to be learned again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MIN_BATCHES = 15  # in which a correction must have been better, before it is kept
MIN_GAIN = 0.2  # share of the squared error of numbers by which a correction must be better
MIN_Z = 2.0  # standard errors by which the share of wrong classes must be lower


class Version(NamedTuple):
    """A correction of a model's answers that is kept."""

    number: int  # from 1, never used again
    weights: NDArray[np.float64]  # (features, outputs)


def is_better(loss: float, than: float, n: int, *, numeric: bool) -> bool:
    """Is a loss lower than another one by more than chance? Both are of n samples.

    >>> is_better(0.05, 0.10, 2000, numeric=False), is_better(0.09, 0.10, 2000, numeric=False)
    (True, False)
    """
    if numeric:
        return loss < (1.0 - MIN_GAIN) * than
    return bool((than - loss) * n > MIN_Z * np.sqrt((than + loss) * n))


def with_one_more(
    versions: tuple[Version, ...], weights: NDArray, most: int
) -> tuple[Version, ...]:
    """Return versions with another one; of more than `most`, the oldest is dropped."""
    number = 1 + max((one.number for one in versions), default=0)
    return (*versions, Version(number, weights))[-most:]
