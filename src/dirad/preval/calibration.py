"""What is usual for a model, learned from samples that it was not fitted to.

A score becomes a *deviate*: the place it would have among the held-out scores of the same group,
on the scale of the normal distribution. Deviates of known samples are standard normal whatever
the scores' own distribution, so that their mean over a batch of any size can be judged.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import betabinom, norm

LEVELS = 101  # quantiles that are kept per group
FEW = 20  # held-out samples of a group below which it is judged with all others
LEAST_DEVIATION = 0.05  # of ln(score): no model is surer of what is usual


class Calibration(NamedTuple):
    """The distribution of ln(score) on held-out samples, by group."""

    quantiles: NDArray[np.float64]  # (groups, LEVELS) rising
    mean: NDArray[np.float64]  # (groups,)
    deviation: NDArray[np.float64]  # (groups,)
    samples: NDArray[np.int64]  # (groups,) held out, behind each row
    wrong: int = 0  # labelled held-out samples that L0 answers wrongly
    labelled: int = 0

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        return self.quantiles.size + 3 * len(self.mean) + 2

    def deviates(self, logs: NDArray, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the place of each ln(score) among the held-out ones, as a normal deviate."""
        result = np.empty(len(logs))
        for group in np.unique(groups):
            chosen = groups == group
            levels = levels_of(int(self.samples[group]))
            result[chosen] = ndtri(np.interp(logs[chosen], self.quantiles[group], levels))
        return result

    def novelty(self, logs: NDArray, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln(score) in deviations from its mean: like a deviate, but without bounds."""
        return (logs - self.mean[groups]) / self.deviation[groups]

    def spread(self, groups: NDArray[np.int64]) -> float:
        """Return the deviation of the mean deviate of known samples of these groups.

        Each group adds its sampling error and that of its own held-out samples.
        """
        numbers, n = np.unique(groups, return_counts=True)
        share = n / len(groups)
        return float(np.sqrt(np.sum(share**2 * (1.0 / n + 1.0 / self.samples[numbers]))))

    def p_labels(self, wrong: int, labelled: int) -> float:
        """Return the chance of at least so many wrong answers among known labelled samples."""
        if not labelled or not self.labelled:
            return 1.0
        right = self.labelled - self.wrong
        return float(betabinom.sf(wrong - 1, labelled, self.wrong + 0.5, right + 0.5))


def levels_of(count: int) -> NDArray[np.float64]:
    """Return the levels of the quantiles that are kept of so many samples."""
    edge = 0.5 / max(int(count), 1)
    return np.linspace(edge, 1.0 - edge, LEVELS)


def calibrated(
    logs: NDArray,
    groups: NDArray[np.int64],
    n_groups: int,
    *,
    wrong: int = 0,
    labelled: int = 0,
) -> Calibration:
    """Return the calibration from ln(score) of held-out samples and their groups."""
    rows = []
    for group in range(n_groups):
        own = logs[groups == group]
        own = logs if len(own) < FEW else own
        quantiles = np.quantile(own, levels_of(len(own)))
        rows.append((quantiles, own.mean(), max(own.std(), LEAST_DEVIATION), len(own)))
    quantiles, mean, deviation, count = zip(*rows, strict=True)
    return Calibration(
        np.array(quantiles),
        np.array(mean),
        np.array(deviation),
        np.array(count, np.int64),
        wrong,
        labelled,
    )


def two_sided(z: float) -> float:
    """Return the chance of a normal deviate so far from 0 on either side.

    >>> round(two_sided(-1.96), 3)
    0.05
    """
    return float(2.0 * norm.sf(abs(z)))


def both(p: float, q: float) -> float:
    """Return the chance that the smaller of two independent chances is as small as here (Šidák)."""
    return float(-np.expm1(2.0 * np.log1p(-min(p, q, 1.0 - 1e-16))))
