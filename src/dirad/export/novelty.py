"""By what an exported PREVAL model tells the unusual: its calibration, as tables per row.

A row holds the errors that are usual for one group of samples, those of one predicted class as a
rule. `limit` is the largest ln(error) that still counts as known at the promised rate of false
alarms: the test of `Calibration.known`, solved for ln(error).
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dirad.preval.calibration import (
    MIN_DEGREES_OF_FREEDOM,
    MIN_LOG_SCORE_STD,
    MIN_TAIL_SAMPLES,
    TIE_TOLERANCE,
    Calibration,
    calibrate,
    quantile_levels,
    quantile_scores,
)

FALSE_ALARMS = 0.05  # share of known samples that are called unknown, as in `is_known`
REACH = 1e3  # deviations from the mean within which a limit is searched for


class NoveltyScale(NamedTuple):
    """What is usual for one model, by row of its calibration."""

    row_of: tuple[int, ...]  # (outputs,) the row of samples for which this output is the highest
    mean: NDArray[np.float64]  # (rows,) of ln(error)
    deviation: NDArray[np.float64]  # (rows,)
    limit: NDArray[np.float64]  # (rows,) largest ln(error) of a known sample
    quantiles: NDArray[np.float64]  # (rows, N_QUANTILES) of ln(error), rising
    end: NDArray[np.float64]  # (rows,) normal score of the last quantile; of the first: minus it
    tied: NDArray[np.float64]  # (rows, N_QUANTILES) normal score where quantiles are equal, or NaN
    samples: NDArray[np.int64]  # (rows,) held-out samples
    fitted: float  # mean normal score of samples that the model was fitted to
    error_time: float  # autocorrelation time of the errors; 1 for independent samples
    freedom: float | None  # degrees of freedom of the batch test; None for independent samples
    n_independent: float  # how many independent samples the calibration is worth

    @property
    def ties(self) -> bool:
        """Whether some quantiles are equal, so that normal scores there are means of several."""
        return not bool(np.isnan(self.tied).all())


class Promise(NamedTuple):
    """Rates of false alarms: of single samples, and of batches."""

    sample: float
    batch: float
    per_stream: bool  # is `batch` the rate of a whole stream?
    batches_before: int  # batches of the stream before the export


def novelty_scale(
    calibration: Calibration, n_outputs: int, false_alarms: float, *, by_class: bool
) -> NoveltyScale:
    """Return a calibration as tables; `n_outputs` is the number of the model's classes."""
    groups = np.arange(n_outputs) if by_class else np.zeros(n_outputs, np.int64)
    dependent = not calibration.memory.independent
    return NoveltyScale(
        row_of=tuple(calibration.row[groups].tolist()),
        mean=calibration.mean,
        deviation=calibration.deviation,
        limit=limits(calibration, false_alarms),
        quantiles=calibration.quantiles,
        end=np.array([quantile_scores(int(n))[-1] for n in calibration.samples]),
        tied=np.stack(
            [
                tied_scores(own, int(n))
                for own, n in zip(calibration.quantiles, calibration.samples, strict=True)
            ]
        ),
        samples=calibration.samples,
        fitted=float(calibration.fitted),
        error_time=float(calibration.memory.errors),
        freedom=calibration.n_calibrating - 1.0 if dependent else None,
        n_independent=float(calibration.n_calibrating) if dependent else np.inf,
    )


def judges(scale: NoveltyScale) -> bool:
    """Return whether the batch test of a model can raise an alarm at all."""
    return scale.freedom is None or scale.freedom >= MIN_DEGREES_OF_FREEDOM


def limits(calibration: Calibration, false_alarms: float) -> NDArray[np.float64]:
    """Return the largest ln(error) of each row that the calibration calls known, by bisection."""
    rows = np.arange(len(calibration.mean))
    by_row = calibration._replace(row=rows)
    low = calibration.mean - REACH * calibration.deviation
    high = calibration.mean + REACH * calibration.deviation
    while True:
        middle = 0.5 * (low + high)
        if ((middle <= low) | (middle >= high)).all():
            return low
        known = by_row.known(middle, rows, false_alarms)
        low, high = np.where(known, middle, low), np.where(known, high, middle)


def recalibrated(
    calibration: Calibration, logs: NDArray[np.float64], groups: NDArray[np.int64]
) -> Calibration:
    """Return the calibration by other held-out samples; rows without enough of them stay.

    `logs` are their ln(error) as the exported model computes them.
    """
    if not len(logs):
        return calibration
    made = calibrate(logs, groups, len(calibration.row))
    enough = np.bincount(made.row[groups], minlength=len(made.mean)) > 0
    n_old = len(calibration.mean)
    row = np.where(enough[made.row], n_old + made.row, calibration.row)
    used, row = np.unique(row, return_inverse=True)

    def rows_of(old: NDArray, new: NDArray) -> NDArray:
        return np.concatenate([old, new])[used]

    return calibration._replace(
        row=row,
        quantiles=rows_of(calibration.quantiles, made.quantiles),
        mean=rows_of(calibration.mean, made.mean),
        deviation=rows_of(calibration.deviation, made.deviation),
        samples=rows_of(calibration.samples, made.samples),
    )


def pooled_limits(
    calibration: Calibration,
    logs: NDArray[np.float64],
    rows: NDArray[np.int64],
    false_alarms: float,
) -> NDArray[np.float64]:
    """Return limits of ln(error) that do not assume a distribution, where rows are small.

    Rows with enough samples beyond the limit have one by their own ranks. Errors in smaller rows,
    each standardized by the other samples of its row, are ranked together: of new samples, a share
    of at most `false_alarms` lies beyond.
    """
    result = limits(calibration, false_alarms)
    z = _standardized_by_others(logs, rows)
    rank = math.ceil((len(z) + 1) * (1.0 - false_alarms))
    if rank > len(z) or false_alarms * len(z) < MIN_TAIL_SAMPLES:
        return result
    pooled = calibration.mean + float(np.sort(z)[rank - 1]) * calibration.deviation
    small = false_alarms * calibration.samples < MIN_TAIL_SAMPLES
    small &= np.bincount(rows, minlength=len(result)) > 0
    return np.where(small, pooled, result)


def _standardized_by_others(
    logs: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return each value in deviations from the mean of the other values of its row."""
    n = np.maximum(np.bincount(rows)[rows] - 1, 1)
    centered = logs - (np.bincount(rows, logs) / np.maximum(np.bincount(rows), 1))[rows]
    total, squares = np.bincount(rows, centered)[rows], np.bincount(rows, centered**2)[rows]
    mean = (total - centered) / n
    variance = np.maximum((squares - centered**2) / n - mean**2, MIN_LOG_SCORE_STD**2)
    return (centered - mean) / np.sqrt(variance)


def tied_scores(quantiles: NDArray, count: int) -> NDArray[np.float64]:
    """Return the normal score of equal quantiles, that of their mean level; NaN of all others."""
    result, levels = np.full(len(quantiles), np.nan), quantile_levels(count)
    slack = 2.0 * TIE_TOLERANCE * (1.0 + np.abs(quantiles[1:]))
    tied, i = np.diff(quantiles) <= slack, 0
    while i < len(tied):
        end = i
        while end < len(tied) and tied[end]:
            end += 1
        if end > i:
            result[i : end + 1] = ndtri(0.5 * (levels[i] + levels[end]))
        i = end + 1
    return result
