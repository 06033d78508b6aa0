"""What is usual for a model, learned from samples that it was not fitted to.

A score becomes a *deviate*: the place it would have among the held-out scores of the same group,
on the scale of the normal distribution. Deviates of known samples are standard normal whatever
the scores' own distribution (less spread out where scores are equal), so that their mean over a
batch of any size can be judged.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import hypergeom, norm

LEVELS = 101  # quantiles that are kept per row
FEW = 20  # held-out samples of a group below which it is judged with all others
IN_TAIL = 5  # held-out samples that a limit on single samples must lie below
LEAST_DEVIATION = 0.05  # of ln(score): no model is surer of what is usual
EQUAL = 1e-9  # relative difference up to which two scores are one
RARE_CLASSES = -1  # key, in place of a class, for all classes that are not frequent
MIN_CLASS_SHARE = 0.1  # of the samples of the largest class that a frequent class has


class Tally(NamedTuple):
    """What was seen of some samples: enough to judge them together with others."""

    deviates: float  # their sum
    rows: NDArray[np.int64]  # (rows,) samples judged by each row of the calibration

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.rows.sum())

    def with_more(self, other: "Tally") -> "Tally":
        """Return both together."""
        return Tally(self.deviates + other.deviates, self.rows + other.rows)


class Calibration(NamedTuple):
    """The distribution of ln(score) on held-out samples, by group; L0's mistakes, by class.

    Groups of few samples share a row, that of all samples.
    """

    row: NDArray[np.int64]  # (groups,) by which each group is judged
    quantiles: NDArray[np.float64]  # (rows, LEVELS) rising
    mean: NDArray[np.float64]  # (rows,)
    deviation: NDArray[np.float64]  # (rows,)
    samples: NDArray[np.int64]  # (rows,) held out, behind each row
    # By class: wrong answers, of so many held-out samples of the class. By RARE_CLASSES: samples of
    # classes that are not `own`, of so many that were learned from.
    mistakes: Mapping[int, tuple[float, float]]

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        return self.row.size + self.quantiles.size + 3 * len(self.mean) + 3 * len(self.mistakes)

    def deviates(self, logs: NDArray, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the place of each ln(score) among the held-out ones, as a normal deviate."""
        result = np.empty(len(logs))
        rows = self.row[groups]
        for row in np.unique(rows):
            chosen = rows == row
            count = int(self.samples[row])
            result[chosen] = placed(logs[chosen], self.quantiles[row], count)
        return result

    def novelty(self, logs: NDArray, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln(score) in deviations from its mean: like a deviate, but without bounds."""
        rows = self.row[groups]
        return (logs - self.mean[rows]) / self.deviation[rows]

    def known(
        self, logs: NDArray, groups: NDArray[np.int64], false_alarms: float
    ) -> NDArray[np.bool_]:
        """Return which samples are usual, if so many known ones may be called unusual.

        Where few of the held-out samples are so unusual, where they end says little: then ln(score)
        is taken to be normal.
        """
        limit = float(ndtri(1.0 - false_alarms))
        rows = self.row[groups]
        level = self.deviates(logs, groups) * np.array([spread_of(n) for n in self.samples])[rows]
        enough = false_alarms * self.samples[rows] >= IN_TAIL
        return np.where(enough, level, self.novelty(logs, groups)) <= limit

    def tally(self, logs: NDArray, groups: NDArray[np.int64]) -> Tally:
        """Return what some samples add up to."""
        rows = np.bincount(self.row[groups], minlength=len(self.mean))
        return Tally(float(self.deviates(logs, groups).sum()), rows)

    def spread(self, rows: NDArray[np.int64]) -> float:
        """Return the deviation of the mean deviate of so many known samples of each row.

        Each row adds the sampling error of its samples and that of its own held-out ones.
        """
        here = rows > 0
        share = rows[here] / rows.sum()
        return float(np.sqrt(np.sum(share**2 * (1.0 / rows[here] + 1.0 / self.samples[here]))))

    def z(self, seen: Tally) -> float:
        """Return the mean deviate of some samples, standard normal if they are known."""
        return seen.deviates / seen.n / self.spread(seen.rows)

    @property
    def frequent(self) -> list[int]:
        """The classes of which many samples were held out."""
        return frequent_classes(self.mistakes)

    def p_labels(self, y: NDArray[np.int64], wrong: NDArray[np.bool_]) -> float:
        """Return the p-value of so many wrong answers to samples of the known task.

        Each frequent class is compared with its own held-out samples, so that a batch of the harder
        classes is no news. Classes that are not frequent may be rare rather than new: what counts
        is their share of the batch, since there are no more wrong answers than samples. The result
        is the smallest of these p-values, with Šidák's correction for their number.
        """
        rare = self.mistakes.get(RARE_CLASSES, (0.0, sum(n for _, n in self.mistakes.values())))
        if not rare[1]:
            return 1.0  # no label was learned
        is_rare = ~np.isin(y, self.frequent)
        p_values = [fisher_p_value(int((wrong & is_rare).sum()), len(y), *rare)]
        for label in np.unique(y[~is_rare]).tolist():
            here = y == label
            counts = self.mistakes[label]
            p_values.append(fisher_p_value(int((wrong & here).sum()), int(here.sum()), *counts))
        return least_of(min(p_values), len(p_values))


def frequent_classes(mistakes: Mapping[int, tuple[float, float]]) -> list[int]:
    """Return the classes of which many samples were held out.

    >>> frequent_classes({3: (0, 20), 5: (1, 1), 7: (2, 9)})
    [3, 7]
    """
    counts = {label: n for label, (_, n) in mistakes.items() if label != RARE_CLASSES}
    most = max(counts.values(), default=0.0)
    return [label for label, n in counts.items() if n >= MIN_CLASS_SHARE * most]


def fisher_p_value(count: int, of: int, known_count: float, known_of: float) -> float:
    """Return the one-sided p-value of Fisher's exact test: are there more of a kind in the batch?

    `count` of the batch's `of` samples are of the kind, and `known_count` of `known_of` known
    samples. The test is exact whatever the share of the kind, and however few samples there are.

    >>> round(fisher_p_value(3, 3, 0, 1), 9), round(fisher_p_value(2, 2, 1, 4), 9)
    (0.25, 0.2)
    """
    kind, both = round(count + known_count), round(of + known_of)
    return float(hypergeom.sf(count - 1, both, kind, of))


def placed(values: NDArray, quantiles: NDArray, count: int) -> NDArray[np.float64]:
    """Return the deviate of each value among quantiles of so many samples.

    Values equal to several quantiles take the middle of their levels.
    """
    slack = EQUAL * (1.0 + np.abs(values))
    low = np.searchsorted(quantiles, values - slack, side="left")
    high = np.searchsorted(quantiles, values + slack, side="right")
    between = np.interp(values, quantiles, deviates_of(count))
    levels, last = levels_of(count), LEVELS - 1
    tied = 0.5 * (levels[np.minimum(low, last)] + levels[np.clip(high - 1, 0, last)])
    return np.where(high - low > 1, ndtri(tied), between)


def levels_of(count: int) -> NDArray[np.float64]:
    """Return the levels of the quantiles that are kept of so many samples.

    They are evenly spaced as deviates, and so closer in the tails. The least of n samples is at
    the level 1/(n + 1), where a new one falls below it with just that chance.
    """
    end = float(ndtri(count / (count + 1.0)))
    return ndtr(np.linspace(-end, end, LEVELS))


def spread_of(count: int) -> float:
    """Return the deviation of ndtri(level), for new samples and the levels of so many others.

    What lies beyond all of them has the level of the last, so that it is less than 1.
    """
    end, beyond = float(ndtri(count / (count + 1.0))), 1.0 / (count + 1.0)
    if end <= 0.0:
        return 1.0  # of a single sample
    return float(np.sqrt(1.0 - 2.0 * beyond - 2.0 * end * norm.pdf(end) + 2.0 * end**2 * beyond))


def deviates_of(count: int) -> NDArray[np.float64]:
    """Return the deviates of the quantiles that are kept: those of known samples have spread 1."""
    end = float(ndtri(count / (count + 1.0)))
    return np.linspace(-end, end, LEVELS) / spread_of(count)


def calibrated(
    logs: NDArray,
    groups: NDArray[np.int64],
    n_groups: int,
    mistakes: Mapping[int, tuple[float, float]] | None = None,
) -> Calibration:
    """Return the calibration from ln(score) of held-out samples and their groups."""
    counts = np.bincount(groups, minlength=n_groups)
    parts = [logs[groups == group] for group in range(n_groups) if counts[group] >= FEW]
    row = np.where(counts >= FEW, np.cumsum(counts >= FEW) - 1, len(parts))
    if len(parts) < n_groups:
        parts.append(logs)
    return Calibration(
        row,
        np.array([np.quantile(part, levels_of(len(part)), method="weibull") for part in parts]),
        np.array([part.mean() for part in parts]),
        np.array([max(part.std(), LEAST_DEVIATION) for part in parts]),
        np.array([len(part) for part in parts], np.int64),
        dict(mistakes or {}),
    )


def two_sided(z: float) -> float:
    """Return the chance of a normal deviate so far from 0 on either side.

    >>> round(two_sided(-1.96), 3)
    0.05
    """
    return float(2.0 * norm.sf(abs(z)))


def least_of(p: float, n: int = 2) -> float:
    """Return the chance that the least of n independent chances is as small as p (Šidák).

    >>> least_of(0.5)
    0.75
    """
    return float(-np.expm1(n * np.log1p(-min(p, 1.0 - 1e-16))))
