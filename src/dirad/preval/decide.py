"""Whose is a batch? Pure functions from the models' scores and the labels to a decision.

The model in use tests every batch, and if it does not know it, so do all other calibrated models. A
batch that a model knows goes to it. One that no model knows as a whole is split: samples that some
model knows go to that model, the others to a new one.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval.batch_split import Mixed, SomeNew, split
from dirad.preval.dependence import autocorrelation_time, change_point
from dirad.preval.judgement import (
    Judgement,
    p_of_labels,
)
from dirad.preval.learner import Learner
from dirad.preval.settings import Settings
from dirad.preval.targets import is_labelled, missing_targets

MIN_P_VALUE_OF_TAIL = 0.01  # of the last samples of a batch, from which they are usual again
TAIL_SHARE = 0.25  # of a batch


class NoneCalibrated(NamedTuple):
    """No model is calibrated yet: the batch goes to the one that learns."""


class Known(NamedTuple):
    """A model knows the whole batch."""

    model: int
    p: float


class Undecided(NamedTuple):
    """From somewhere on, the batch is unusual: the next one tells whether that was a burst."""

    model: int  # in use
    p: float


Decision = NoneCalibrated | Known | Mixed | SomeNew | Undecided


def decide(
    judgements: Sequence[Judgement],
    y: NDArray[np.int64],
    settings: Settings,
    latest: int | None,
    *,
    false_alarms: float | None = None,
    may_wait: bool = False,
) -> Decision:
    """Decide which model, or models, a batch goes to; `latest` took the last one.

    `false_alarms` is the rate for this batch. With `may_wait`, the decision may be left to the next
    batch.
    """
    if not judgements:
        return NoneCalibrated()
    rate = settings.batch_rate(0) if false_alarms is None else false_alarms
    in_use = next((one for one in judgements if one.model.number == latest), None)
    if may_wait and in_use is not None and in_use.in_doubt:
        return Undecided(in_use.model.number, in_use.verdict.p)
    known = [one.verdict for one in judgements if one.verdict.validated]
    if known:
        # The model in use is kept as long as it knows what it sees.
        best = max(known, key=lambda v: (v.model == latest, v.p))
        if may_wait and in_use is not None and best is in_use.verdict:
            learns = isinstance(in_use.model, Learner)
            if learns and p_of_tail(in_use, len(y)) < rate:  # it would learn what may be new
                return Undecided(best.model, best.p)
        return Known(best.model, best.p)
    if not settings.labels_in_detection:
        y = missing_targets(len(y), settings.targets)
    if len(judgements[0].label_errors) > len(y):  # earlier batches were tested with this one
        p = max(one.verdict.p for one in judgements)
        closest = max(judgements, key=lambda one: one.verdict.p).model.number
        return SomeNew(np.full(len(y), closest), np.ones(len(y), bool), p)
    result = split(one_per_group(judgements), y, rate, judgements)
    if in_use is None or isinstance(result, Mixed) or settings.order_matters == "no":
        return result
    return unless_a_burst(result, in_use, y, may_wait=may_wait)


def unless_a_burst(new: SomeNew, judgement: Judgement, y: NDArray, *, may_wait: bool) -> Decision:
    """Return the decision on a batch that is partly new, in view of the order of its samples.

    Independent samples of another task are unusual from the first to the last. Where unusual
    samples follow each other and the last ones of the batch are usual again, it was a burst; where
    they last, the next batch tells. `judgement` is that of the model in use.
    """
    scores, calibration = judgement.scores, judgement.calibration
    normal_scores = calibration.normal_scores(scores.log_error, scores.group)
    wrong = judgement.label_errors
    if autocorrelation_time(np.column_stack([normal_scores, wrong])) <= 1.0:
        return new
    tail = tail_of(len(y))
    p = p_of_tail(judgement, len(y))
    if is_labelled(y[tail]).any():
        p = min(p, p_of_labels(calibration, scores.of(tail), y[tail], wrong[tail]))
    if p >= MIN_P_VALUE_OF_TAIL:
        return Known(judgement.model.number, new.p)
    return Undecided(judgement.model.number, new.p) if may_wait else from_a_step_on(new)


def from_a_step_on(new: SomeNew) -> SomeNew:
    """Return that all samples are new from the place on where most begin to be.

    Sample by sample, some of the known task are unusual by chance, and would be learned as new.
    """
    if new.novel.all():
        return new
    at, _ = change_point(new.novel.astype(np.float64))
    return new._replace(novel=np.arange(len(new.novel)) >= at)


def tail_of(n: int) -> slice:
    """Return where the last samples of a batch of n are, counted from its end."""
    return slice(-math.ceil(TAIL_SHARE * n), None)


def p_of_tail(judgement: Judgement, n: int) -> float:
    """Return the p-value of the inputs of the last samples of a batch of n."""
    last, calibration = judgement.scores.of(tail_of(n)), judgement.calibration
    return calibration.p_value(calibration.score_sum(last.log_error, last.group))


def new_tail(judgement: Judgement, y: NDArray, p: float, false_alarms: float) -> SomeNew | None:
    """Return the decision that a batch known as a whole is new from where its inputs change.

    None if its last samples are usual. `p` is the p-value of the batch after it, which is new.
    """
    if p_of_tail(judgement, len(y)) >= false_alarms:
        return None
    own = judgement.scores.of(slice(-len(y), None))
    at, _ = change_point(judgement.calibration.normal_scores(own.log_error, own.group))
    model = np.full(len(y), judgement.model.number)
    return SomeNew(model, np.arange(len(y)) >= at, p)


def one_per_group(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return of models with the same inputs the one whose labels fit best: rules do not mix.

    It is the one with the fewest wrong labels: where a part of the batch is new, the p-values of
    all rules may be 0.
    """
    best: dict[int, int] = {}
    for i, one in enumerate(judgements):
        j = best.get(one.model.group)
        if j is None or _fit_of_labels(one) > _fit_of_labels(judgements[j]):
            best[one.model.group] = i
    return [judgements[i] for i in sorted(best.values())]


def _fit_of_labels(one: Judgement) -> tuple[int, float]:
    return -int(np.count_nonzero(one.label_errors)), one.verdict.p_labels
