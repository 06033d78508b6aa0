"""The targets of a stream: class codes or numbers, some of which may be missing.

Class codes are int64, and a missing one is `UNLABELLED`. Numbers are float64, and a missing one is
NaN. A network that predicts numbers has one output; where classes are asked for, all numbers are
of one class, `NUMBER_CLASS`.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import mean_and_std

CLASSES, NUMBERS = "classes", "numbers"  # kinds of targets
UNLABELLED = -1  # in place of a class code
NUMBER_CLASS = 0  # the class code of every number
MAX_TARGET_SPREADS = 1e6  # L0 learns targets clipped to this many spreads from their mean


class TargetScaling(NamedTuple):
    """Numbers are standardized by the mean and spread of a task's first samples."""

    offset: float
    spread: float

    def standardize_and_clip(self, y: NDArray) -> NDArray[np.float64]:
        """Return standardized targets, clipped so that float32 holds their squares."""
        scaled = (y - self.offset) / self.spread
        return np.clip(scaled, -MAX_TARGET_SPREADS, MAX_TARGET_SPREADS)

    def restore(self, outputs: NDArray) -> NDArray[np.float64]:
        """Return outputs of L0 in the units of the targets."""
        return outputs * self.spread + self.offset


def fit_target_scaling(y: NDArray) -> TargetScaling:
    """Return the scaling by the mean and spread of targets; constant ones are only shifted.

    >>> fit_target_scaling(np.array([1.0, 3.0]))
    TargetScaling(offset=2.0, spread=1.0)
    """
    offset, spread = mean_and_std(y[:, None])
    return TargetScaling(float(offset[0]), float(spread[0]) or 1.0)


def missing_targets(n: int, kind: str) -> NDArray:
    """Return n targets of a kind, all of them missing."""
    return np.full(n, np.nan) if kind == NUMBERS else np.full(n, UNLABELLED)


def is_labelled(y: NDArray) -> NDArray[np.bool_]:
    """Return which targets are not missing."""
    return ~np.isnan(y) if y.dtype.kind == "f" else y != UNLABELLED


def class_codes(y: NDArray) -> NDArray[np.int64]:
    """Return the class code of each target; all numbers are of one class.

    >>> class_codes(np.array([2, -1, 0])).tolist()
    [2, -1, 0]
    >>> class_codes(np.array([2.5, np.nan, 0.0])).tolist()
    [0, -1, 0]
    """
    return np.where(np.isnan(y), UNLABELLED, NUMBER_CLASS) if y.dtype.kind == "f" else y
