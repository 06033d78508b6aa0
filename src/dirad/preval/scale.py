"""The units of the inputs, the same for all models of a system."""

import numpy as np
from numpy.typing import NDArray

UNEVEN = 10.0  # times the usual range: an input of that much more is of another kind


class Scale:
    """Learned once, from the first samples of all, and then fixed: scores of models compare."""

    def __init__(self) -> None:
        self._unit: NDArray[np.float64] | None = None

    def learn(self, X: NDArray) -> None:
        """Take the units from these samples, if there are none yet.

        Inputs of one kind, such as pixels, keep their proportions and share a unit; where the
        range of some is ten times the usual, each has its own. An input that does not vary has the
        usual one.
        """
        if self._unit is not None:
            return
        spread, span = X.std(axis=0, dtype=np.float64), np.ptp(X, axis=0)
        varied = span[span > 0]
        if len(varied) and varied.max() > UNEVEN * np.median(varied):
            usual = float(np.median(spread[spread > 0]))
            self._unit = np.where(spread > 0, spread, usual)
        else:
            self._unit = np.full(X.shape[1], float(np.sqrt(np.mean(spread**2))) or 1.0)

    @property
    def unit(self) -> NDArray[np.float64]:
        """The units: (inputs,)."""
        assert self._unit is not None
        return self._unit

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        return 0 if self._unit is None else len(np.unique(self._unit))
