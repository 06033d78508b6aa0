"""The units of the inputs, the same for all models of a system."""

import numpy as np
from numpy.typing import NDArray

from dirad.core.magnitudes import center_and_spread

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
        if self.is_known:
            return
        spread = center_and_spread(X)[1]
        with np.errstate(over="ignore"):
            span = np.where(spread > 0, np.ptp(X, axis=0), 0.0)
        varied = span[span > 0]
        if len(varied) and varied.max() > UNEVEN * np.median(varied):
            usual = float(np.median(spread[spread > 0]))
            self._unit = np.where(spread > 0, spread, usual)
        else:
            # Squared as multiples of a power of two, which is exact, so that nothing overflows.
            exponent = np.frexp(spread.max(initial=0.0))[1]
            mean_square = np.mean(np.ldexp(spread, -exponent) ** 2)
            self._unit = np.full(X.shape[1], float(np.ldexp(np.sqrt(mean_square), exponent)) or 1.0)

    @property
    def is_known(self) -> bool:
        """Have the units been learned?"""
        return self._unit is not None

    @property
    def unit(self) -> NDArray[np.float64]:
        """The units: (inputs,)."""
        assert self._unit is not None
        return self._unit

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        return 0 if self._unit is None else len(np.unique(self._unit))
