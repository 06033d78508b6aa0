"""How unusual prediction errors and wrong answers are, by samples a model was not fitted to.

The score of a sample becomes a *normal score*: its quantile among the held-out scores of the same
group, on the scale of the standard normal distribution. Normal scores of known samples are standard
normal whatever the distribution of the scores (less spread out where scores are equal), so that
their mean over a batch of any size can be tested.

Samples that depend on those before them tell less: n of them are worth n/τ independent ones
(`dependence`). The tests count them as that many.
"""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Optional

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr

from dirad.preval.buffer import UNLABELLED
from dirad.preval.dependence import Memory

if TYPE_CHECKING:
    from dirad.preval.residuals import ResidualCalibration

N_QUANTILES = 101  # kept per row
# Held out. Groups differ, so that a group judged by all samples would raise false alarms; ranks
# among fewer than five tell next to nothing.
MIN_GROUP_SAMPLES = 5
MIN_TAIL_SAMPLES = 5  # held-out samples beyond a threshold on single samples
MIN_LOG_SCORE_STD = 0.05  # of ln(score): no model claims to know it better
TIE_TOLERANCE = 1e-9  # relative difference up to which two scores are tied
RARE_CLASS_KEY = -1  # key, in place of a class, for all classes that are not frequent
MIN_DEGREES_OF_FREEDOM = 3.0  # with fewer, a model of dependent samples does not judge
MIN_CLASS_SHARE = 0.1  # of the samples of the largest class that a frequent class has


class ScoreSum(NamedTuple):
    """The sum of normal scores: enough to test samples together with others."""

    total: float
    rows: NDArray[np.int64]  # (rows,) samples by row of the calibration

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.rows.sum())

    def plus(self, other: "ScoreSum") -> "ScoreSum":
        """Return the sum over the samples of both."""
        return ScoreSum(self.total + other.total, self.rows + other.rows)


class Calibration(NamedTuple):
    """The distribution of ln(score) on held-out samples, by group; L0's errors, by class.

    Groups of few samples share a row: theirs together, or that of all samples if they are too few.
    """

    row: NDArray[np.int64]  # (groups,) the row that holds the distribution of each group
    quantiles: NDArray[np.float64]  # (rows, N_QUANTILES) rising
    mean: NDArray[np.float64]  # (rows,)
    deviation: NDArray[np.float64]  # (rows,)
    samples: NDArray[np.int64]  # (rows,) held-out samples in each row
    # By class: wrong answers and held-out samples of the class. By RARE_CLASS_KEY: samples of
    # classes that are not frequent, and all samples that were learned from.
    label_errors: Mapping[int, tuple[float, float]]
    fitted: float = 0.0  # mean normal score of samples that the model was fitted to: 0 or lower
    memory: Memory = Memory()  # of the stream
    n_learned: int = 0  # samples that the model has seen
    residuals: Optional["ResidualCalibration"] = None  # of numbers, in place of wrong labels
    stretch: float = 1.0  # samples in a row that were held out, which depend on each other

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        rows = 3 * len(self.mean) + self.quantiles.size
        residuals = 0 if self.residuals is None else self.residuals.n_stored
        return self.row.size + rows + 3 * len(self.label_errors) + 5 + residuals

    def normal_scores(self, logs: NDArray, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the quantile of each ln(score) among the held-out ones, as a normal score."""
        result = np.empty(len(logs))
        rows = self.row[groups]
        for row in np.unique(rows):
            chosen = rows == row
            count = int(self.samples[row])
            result[chosen] = normal_score(logs[chosen], self.quantiles[row], count)
        return result

    def z_scores(self, logs: NDArray, groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return ln(score) in standard deviations from its mean, without the bounds of ranks."""
        rows = self.row[groups]
        return (logs - self.mean[rows]) / self.deviation[rows]

    def known(
        self, logs: NDArray, groups: NDArray[np.int64], false_alarms: float
    ) -> NDArray[np.bool_]:
        """Test each sample, at this rate of false alarms.

        Where too few held-out samples lie in the tail to estimate the threshold, ln(score) is
        assumed to be normal.
        """
        limit = float(ndtri(1.0 - false_alarms))
        rows = self.row[groups]
        deviation = np.array([score_deviation(n) for n in self.samples])[rows]
        level = self.normal_scores(logs, groups) * deviation
        enough = false_alarms * self.samples[rows] >= MIN_TAIL_SAMPLES
        return np.where(enough, level, self.z_scores(logs, groups)) <= limit

    def score_sum(self, logs: NDArray, groups: NDArray[np.int64]) -> ScoreSum:
        """Return the sum of the normal scores of some samples."""
        rows = np.bincount(self.row[groups], minlength=len(self.mean))
        return ScoreSum(float(self.normal_scores(logs, groups).sum()), rows)

    def standard_error_of_mean(self, rows: NDArray[np.int64]) -> float:
        """Return the standard deviation of the mean normal score of known samples, by row.

        Each row adds the sampling error of its samples and that of its held-out samples.
        """
        here = rows > 0
        n = rows.sum()
        share = rows[here] / n
        variance = np.sum(share**2 * (1.0 / rows[here] + 1.0 / self.samples[here]))
        if not self.memory.independent:
            variance = max(variance, min(self.memory.errors / n, 1.0) + 1.0 / self.n_calibrating)
        return float(np.sqrt(variance))

    @property
    def n_independent(self) -> float:
        """How many independent samples those that the model has seen are worth."""
        return self.n_learned / self.memory.inputs

    @property
    def n_calibrating(self) -> float:
        """How many independent samples the distribution of scores is worth.

        A stretch that was held out is worth at least one.
        """
        held_out = float(self.samples.sum()) / min(self.memory.errors, self.stretch)
        return min(self.n_independent, held_out)

    def z(self, scores: ScoreSum) -> float:
        """Return the z statistic of the mean normal score: standard normal for new samples."""
        return scores.total / scores.n / self.standard_error_of_mean(scores.rows)

    def upper_tail(self, z: float) -> float:
        """Return the probability that a z statistic of new samples is higher.

        Student's distribution accounts for how few independent samples a dependent stream is worth.
        """
        if self.memory.independent:
            return float(ndtr(-z))
        freedom = self.n_calibrating - 1.0
        return float(stdtr(freedom, -z)) if freedom >= MIN_DEGREES_OF_FREEDOM else 1.0

    def p_value(self, scores: ScoreSum) -> float:
        """Return the p-value of a mean normal score: uniform for new samples of the known task.

        Samples that the model was fitted to have lower errors, and may come again. So a mean is
        unusual by as much as it lies above that of new samples, or below that of fitted ones; the
        p-value is the probability that the mean of new samples is at least as unusual.
        """
        z, fitted = self.z(scores), self.fitted / self.standard_error_of_mean(scores.rows)
        unusual = max(z, fitted - z)
        return min(self.upper_tail(unusual) + self.upper_tail(unusual - fitted), 1.0)

    @property
    def n_labelled(self) -> float:
        """How many held-out samples had labels."""
        return sum(n for label, (_, n) in self.label_errors.items() if label != RARE_CLASS_KEY)

    @property
    def frequent(self) -> list[int]:
        """The classes of which many samples were held out."""
        return frequent_classes(self.label_errors)

    def p_labels(self, y: NDArray[np.int64], wrong: NDArray[np.bool_]) -> float:
        """Return the p-value of so many wrong answers to samples of the known task.

        Each frequent class is compared with its own held-out samples, so that a batch of difficult
        classes is not unusual. Classes that are not frequent may be rare rather than new: what
        counts is their share of the batch. The result is the smallest of these p-values, with
        Šidák's correction for their number.
        """
        total = sum(n for _, n in self.label_errors.values())
        rare = self.label_errors.get(RARE_CLASS_KEY, (0.0, total))
        if not rare[1]:
            return 1.0  # no label was learned
        is_rare = ~np.isin(y, self.frequent)
        p_values = [self._p_count(int((wrong & is_rare).sum()), len(y), *rare)]
        for label in np.unique(y[~is_rare]).tolist():
            here = y == label
            counts = self.label_errors[label]
            p_values.append(self._p_count(int((wrong & here).sum()), int(here.sum()), *counts))
        return sidak(min(p_values), len(p_values))

    def _p_count(self, count: int, of: int, known_count: float, known_of: float) -> float:
        """Return the p-value of Fisher's exact test, by the numbers of independent samples."""
        if self.memory.independent:
            return fisher_p_value(count, of, known_count, known_of)
        if self.n_independent < MIN_DEGREES_OF_FREEDOM + 1.0:
            return 1.0
        size = max(of / self.memory.losses, 1.0)
        worth = min(known_of, known_of / self.n_labelled * self.n_independent)
        worth = min(worth, max(known_of / min(self.memory.losses, self.stretch), 1.0))
        share, known_share = count / max(of, 1), known_count / max(known_of, 1.0)
        return fisher_p_value(
            int(share * size), math.ceil(size), math.ceil(known_share * worth), math.ceil(worth)
        )


def frequent_classes(label_errors: Mapping[int, tuple[float, float]]) -> list[int]:
    """Return the classes of which many samples were held out.

    >>> frequent_classes({3: (0, 20), 5: (1, 1), 7: (2, 9)})
    [3, 7]
    """
    counts = {label: n for label, (_, n) in label_errors.items() if label != RARE_CLASS_KEY}
    most = max(counts.values(), default=0.0)
    return [label for label, n in counts.items() if n >= MIN_CLASS_SHARE * most]


def label_errors_by_class(
    wrong: NDArray[np.bool_], y: NDArray[np.int64], taught: NDArray[np.int64]
) -> dict[int, tuple[float, float]]:
    """Return the wrong answers on held-out samples by class, and how frequent rare classes are.

    Held-out samples, labelled y, decide which classes are frequent; the labels that L0 was taught
    give the share of the others. If the same samples gave both, a class that is missing from them
    by chance would be taken for new.
    """
    counts = {
        label: (float(wrong[y == label].sum()), float(np.count_nonzero(y == label)))
        for label in np.unique(y[y != UNLABELLED]).tolist()
    }
    rare = np.count_nonzero(~np.isin(taught, frequent_classes(counts)))
    return counts | {RARE_CLASS_KEY: (float(rare), float(len(taught)))}


def fisher_p_value(count: int, of: int, known_count: float, known_of: float) -> float:
    """Return the one-sided p-value of Fisher's exact test: are there more of a kind in the batch?

    `count` of the batch's `of` samples are of the kind, and `known_count` of `known_of` known
    samples. The test is exact whatever the share of the kind, and however few samples there are.

    >>> round(fisher_p_value(3, 3, 0, 1), 9), round(fisher_p_value(2, 2, 1, 4), 9)
    (0.25, 0.2)
    """
    from scipy.stats import hypergeom  # imported late: it takes half a second

    kind, both = round(count + known_count), round(of + known_of)
    return float(hypergeom.sf(count - 1, both, kind, of))


def normal_score(values: NDArray, quantiles: NDArray, count: int) -> NDArray[np.float64]:
    """Return the normal score of each value among the quantiles of `count` samples.

    A value equal to several quantiles gets the mean of their levels.
    """
    slack = TIE_TOLERANCE * (1.0 + np.abs(values))
    low = np.searchsorted(quantiles, values - slack, side="left")
    high = np.searchsorted(quantiles, values + slack, side="right")
    between = np.interp(values, quantiles, quantile_scores(count))
    levels, last = quantile_levels(count), N_QUANTILES - 1
    tied = 0.5 * (levels[np.minimum(low, last)] + levels[np.clip(high - 1, 0, last)])
    return np.where(high - low > 1, ndtri(tied), between)


def quantile_levels(count: int) -> NDArray[np.float64]:
    """Return the levels of the quantiles that are kept of `count` samples.

    They are evenly spaced as normal scores, and so closer in the tails. The smallest of n samples
    has the level 1/(n + 1): the probability that a new sample is smaller.
    """
    end = float(ndtri(count / (count + 1.0)))
    return ndtr(np.linspace(-end, end, N_QUANTILES))


def score_deviation(count: int) -> float:
    """Return the standard deviation of ndtri(level) of new samples, among `count` others.

    A sample beyond all others has the level of the last one, so that the deviation is less than 1.
    """
    end, beyond = float(ndtri(count / (count + 1.0))), 1.0 / (count + 1.0)
    if end <= 0.0:
        return 1.0  # a single sample
    density = np.exp(-(end**2) / 2.0) / np.sqrt(2.0 * np.pi)
    return float(np.sqrt(1.0 - 2.0 * beyond - 2.0 * end * density + 2.0 * end**2 * beyond))


def quantile_scores(count: int) -> NDArray[np.float64]:
    """Return the normal scores of the quantiles that are kept, with deviation 1 for new samples."""
    end = float(ndtri(count / (count + 1.0)))
    return np.linspace(-end, end, N_QUANTILES) / score_deviation(count)


def calibrate(
    logs: NDArray,
    groups: NDArray[np.int64],
    n_groups: int,
    label_errors: Mapping[int, tuple[float, float]] | None = None,
) -> Calibration:
    """Return the calibration by ln(score) of held-out samples and their groups."""
    large = np.bincount(groups, minlength=n_groups) >= MIN_GROUP_SAMPLES
    parts = [logs[groups == group] for group in np.flatnonzero(large)]
    row = np.where(large, np.cumsum(large) - 1, len(parts))
    if len(parts) < n_groups:
        rest = logs[~large[groups]]
        parts.append(rest if len(rest) >= MIN_GROUP_SAMPLES else logs)
    return Calibration(
        row,
        np.array([np.quantile(p, quantile_levels(len(p)), method="weibull") for p in parts]),
        np.array([part.mean() for part in parts]),
        np.array([max(part.std(), MIN_LOG_SCORE_STD) for part in parts]),
        np.array([len(part) for part in parts], np.int64),
        dict(label_errors or {}),
    )


def sidak(p: float, n: int = 2) -> float:
    """Return the Šidák-corrected p-value of the smallest of n tests.

    >>> sidak(0.5)
    0.75
    """
    return float(-np.expm1(n * np.log1p(-min(p, 1.0 - 1e-16))))
