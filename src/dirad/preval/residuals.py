"""The test of numeric targets: their residuals are compared with those of held-out samples.

In a batch of the known task, the residuals y − prediction are distributed as those of held-out
samples. Two means of normal scores are tested: that of ln|residual|, which rises when another rule
makes predictions worse, and that of the residual itself, which leaves 0 when targets are shifted.
The held-out residuals also give prediction intervals with a promised coverage (split conformal
prediction).
"""

from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval.calibration import Calibration, calibrate, sidak

MIN_RESIDUAL = 1e-6  # in spreads of the targets: no model claims to know them better
MIN_TESTED_AGAINST = 20  # held-out residuals; with fewer, nothing is unusual


class ResidualCalibration(NamedTuple):
    """The distribution of the residuals of held-out samples."""

    spread: float  # of the targets
    magnitude: Calibration  # of ln|residual / spread|
    signed: Calibration  # of residual / spread
    sizes: NDArray[np.float64]  # (held-out samples,) rising |residual|, for intervals

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        return 1 + self.magnitude.n_stored + self.signed.n_stored + len(self.sizes)

    def for_stream(self, known: Calibration) -> "ResidualCalibration":
        """Return the calibration for a stream whose samples depend on those before them.

        `known` is the calibration of the model, with its autocorrelation times.
        """
        own = known.memory._replace(errors=known.memory.losses)  # tested in place of errors
        of_stream = {
            "memory": own,
            "n_learned": known.n_learned,
            "stretch": known.stretch,
        }
        return self._replace(
            magnitude=self.magnitude._replace(**of_stream), signed=self.signed._replace(**of_stream)
        )

    def log_magnitudes(self, residuals: NDArray) -> NDArray[np.float64]:
        """Return ln|residual| in spreads of the targets."""
        return log_magnitudes(residuals, self.spread)

    def p_value(self, residuals: NDArray) -> float:
        """Return the p-value of a batch of residuals: uniform for samples of the known task.

        Only large residuals are unusual: small ones belong to samples that L0 has learned. The
        mean residual is unusual on either side.
        """
        if len(self.sizes) < MIN_TESTED_AGAINST or not len(residuals):
            return 1.0
        group = np.zeros(len(residuals), np.int64)
        large = self.magnitude.z(self.magnitude.score_sum(self.log_magnitudes(residuals), group))
        shifted = self.signed.p_value(self.signed.score_sum(residuals / self.spread, group))
        return sidak(min(self.magnitude.upper_tail(large), shifted))

    def half_width(self, coverage: float) -> float:
        """Return the half width of a prediction interval for a new sample of the known task.

        The interval holds the target with at least this probability: of n held-out samples, the
        ⌈(n + 1)·coverage⌉-th smallest |residual| is taken. It is infinite if there are too few.
        """
        place = ceil((len(self.sizes) + 1) * coverage)
        return float(self.sizes[place - 1]) if place <= len(self.sizes) else float("inf")


def log_magnitudes(residuals: NDArray, spread: float) -> NDArray[np.float64]:
    """Return ln|residual| in spreads of the targets."""
    return np.log(np.maximum(np.abs(residuals) / spread, MIN_RESIDUAL))


def calibrate_residuals(residuals: NDArray, spread: float) -> ResidualCalibration | None:
    """Return the calibration by the residuals of held-out samples; None without any."""
    if not len(residuals):
        return None
    group = np.zeros(len(residuals), np.int64)
    return ResidualCalibration(
        spread,
        calibrate(log_magnitudes(residuals, spread), group, 1),
        calibrate(residuals / spread, group, 1),
        np.sort(np.abs(residuals)),
    )
