"""A batch in which the rule for numeric targets changes: which samples come before the change?

Without this, the samples of two rules in one batch would be learned as one new rule, and a known
rule that returns in the middle of a batch would not be recognized.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dirad.preval.batch_split import MIN_KNOWN_SHARE_TO_SPLIT, SomeNew
from dirad.preval.calibration import sidak
from dirad.preval.decide import Decision, decide
from dirad.preval.dependence import change_point
from dirad.preval.judgement import Judgement, p_of_labels
from dirad.preval.residuals import ResidualCalibration
from dirad.preval.settings import Settings
from dirad.preval.targets import is_labelled


class Switched(NamedTuple):
    """One model knows the first samples of a batch, and another one the rest."""

    before: int
    after: int
    at: int  # the first sample of the rest
    p: float


def decide_numbers(
    judgements: Sequence[Judgement],
    y: NDArray,
    settings: Settings,
    latest: int | None,
    *,
    false_alarms: float,
    may_wait: bool = False,
) -> Decision | Switched:
    """Decide as `decide` does, but look for a change of the rule within a batch that seems new."""
    decision = decide(judgements, y, settings, latest, false_alarms=false_alarms, may_wait=may_wait)
    in_use = next((one for one in judgements if one.model.number == latest), None)
    if not isinstance(decision, SomeNew) or in_use is None or not settings.labels_in_detection:
        return decision
    if len(in_use.label_errors) > len(y):  # earlier batches were tested with this one
        return decision
    found = switch_to_known(in_use, judgements, y, false_alarms)
    return found or new_after_switch(in_use, y, false_alarms, decision)


def switch_to_known(
    in_use: Judgement, judgements: Sequence[Judgement], y: NDArray, false_alarms: float
) -> Switched | None:
    """Return the most probable switch to another model, if both know their parts of the batch."""
    best: Switched | None = None
    before = sample_costs(in_use, y)
    for other in judgements:
        after = sample_costs(other, y)
        if other is in_use or before is None or after is None:
            continue
        at = int(np.argmin(np.cumsum(before - after)[:-1])) + 1
        p = sidak(min(p_of_part(in_use, y, slice(0, at)), p_of_part(other, y, slice(at, None))))
        if p >= max(false_alarms, 0.0 if best is None else best.p):
            best = Switched(in_use.model.number, other.model.number, at, p)
    return best


def new_after_switch(
    in_use: Judgement, y: NDArray, false_alarms: float, decision: SomeNew
) -> SomeNew:
    """Return the decision that only the samples after a change are new, if there is a clear one."""
    residuals = residuals_of(in_use, y)
    calibration = in_use.calibration.residuals
    if calibration is None or not is_labelled(y).all():
        return decision
    logs = calibration.log_magnitudes(residuals)
    scores = calibration.magnitude.normal_scores(logs, np.zeros(len(y), np.int64))
    at, z = change_point(scores)
    clear = at >= MIN_KNOWN_SHARE_TO_SPLIT * len(y) and ndtr(-z) < false_alarms
    if not clear or p_of_part(in_use, y, slice(0, at)) < false_alarms:
        return decision
    model = np.full(len(y), in_use.model.number)
    return SomeNew(model, np.arange(len(y)) >= at, decision.p)


def residuals_of(one: Judgement, y: NDArray) -> NDArray[np.float64]:
    """Return y − prediction by a model; NaN where y is missing."""
    return y - one.scores.outputs[:, 0] if one.scores.outputs.shape[1] else np.full(len(y), np.nan)


def sample_costs(one: Judgement, y: NDArray) -> NDArray[np.float64] | None:
    """Return −ln(likelihood) of each target by a model, as if its residuals had a Laplace density.

    Its scale is the mean size of the held-out residuals. Missing targets cost nothing.
    """
    calibration: ResidualCalibration | None = one.calibration.residuals
    if calibration is None:
        return None
    scale = max(float(calibration.sizes.mean()), np.finfo(float).tiny)
    cost = np.abs(residuals_of(one, y)) / scale + np.log(scale)
    return np.where(is_labelled(y), cost, 0.0)


def p_of_part(one: Judgement, y: NDArray, part: slice) -> float:
    """Return the p-value of inputs and targets of a part of the batch."""
    scores = one.scores.of(np.arange(len(y))[part])
    total = one.calibration.score_sum(scores.log_error, scores.group)
    p_inputs = one.calibration.upper_tail(one.calibration.z(total))
    p_labels = p_of_labels(one.calibration, scores, y[part], one.label_errors[part])
    return sidak(min(p_inputs, p_labels))
