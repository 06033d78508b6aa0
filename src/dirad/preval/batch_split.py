"""A batch that no model knows as a whole: who knows which sample, and which are new?"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dirad.preval.buffer import UNLABELLED
from dirad.preval.calibration import sidak
from dirad.preval.expert import PHASE_STABLE
from dirad.preval.judgement import Judgement, p_of_labels
from dirad.preval.targets import class_codes, is_labelled

MIN_KNOWN_SHARE_TO_SPLIT = 0.2  # share of known samples below which a batch is altogether new


class Mixed(NamedTuple):
    """Several models together know the batch."""

    model: NDArray[np.int64]  # (samples,) that knows each sample
    p: float

    @property
    def largest(self) -> int:
        """The model that knows most of the samples."""
        models, counts = np.unique(self.model, return_counts=True)
        return int(models[counts.argmax()])


class SomeNew(NamedTuple):
    """Some samples are of a new task, or all."""

    model: NDArray[np.int64]  # (samples,) that knows each sample, where it is not novel
    novel: NDArray[np.bool_]  # (samples,)
    p: float


def split(
    judgements: Sequence[Judgement],
    y: NDArray[np.int64],
    false_alarms: float,
    everyone: Sequence[Judgement],
) -> Mixed | SomeNew:
    """Assign each sample to the model that knows it best, and say which none of them knows."""
    wrong_by_model = np.array([one.label_errors for one in judgements])
    wrong: NDArray[np.bool_] = np.logical_and.reduce(wrong_by_model, axis=0)
    scores = np.array([one.scores.score for one in judgements])
    # A label that only some models give speaks for these.
    place = np.argmin(np.where(wrong_by_model & ~wrong, np.inf, scores), axis=0)
    model = np.array([one.model.number for one in judgements])[place]
    p_new = max(one.verdict.p for one in everyone)

    normal_scores, z = assigned_scores_and_z(judgements, place)
    labelled = is_labelled(y)
    p_errors = 1.0
    if labelled.any():
        p_errors = p_of_assigned_labels(judgements, place, y, wrong)
    y = class_codes(y)
    # The best of several models was taken, so that low errors are not unusual here.
    p = float(ndtr(-z))
    if labelled.any():
        p = sidak(min(p, p_errors))
    too_usual = p >= false_alarms and z < 0 and len(np.unique(place)) == 1
    if is_another_rule(judgements, y, wrong, false_alarms) or too_usual:
        return SomeNew(model, np.ones(len(y), bool), p_new)
    told = decided_by_label(judgements, y, wrong, normal_scores, p_errors, false_alarms)
    novel = novel_samples(normal_scores, wrong, told)
    # An expert that learned no class cannot learn one: what it knows is learned again.
    untaught = np.array(
        [one.model.phase == PHASE_STABLE and not one.model.classes for one in judgements]
    )
    if (labelled & untaught[place]).any():
        return SomeNew(model, novel | untaught[place], p_new)
    if p >= false_alarms and not novel.all():
        return Mixed(model, p)
    return SomeNew(model, novel, p_new)


def p_of_assigned_labels(
    judgements: Sequence[Judgement],
    place: NDArray[np.int64],
    y: NDArray,
    wrong: NDArray[np.bool_],
) -> float:
    """Return the p-value of the labels of samples that were assigned to models.

    `wrong` are classes that no model gives. Residuals are compared model by model.
    """
    labelled = is_labelled(y)
    if all(one.calibration.residuals is None for one in judgements):
        codes = class_codes(y)[labelled]
        return max(one.calibration.p_labels(codes, wrong[labelled]) for one in judgements)
    parts = [(one, labelled & (place == i)) for i, one in enumerate(judgements)]
    p_values = [
        p_of_labels(one.calibration, one.scores.of(own), y[own], wrong[own])
        for one, own in parts
        if own.any()
    ]
    return sidak(min(p_values), len(p_values))


def assigned_scores_and_z(
    judgements: Sequence[Judgement], place: NDArray[np.int64]
) -> tuple[NDArray[np.float64], float]:
    """Return the normal score of each sample by its own model, and the z statistic of all."""
    normal_scores, variance = np.zeros(len(place)), 0.0
    for i, one in enumerate(judgements):
        own = place == i
        if own.any():
            part = one.scores.of(own)
            normal_scores[own] = one.calibration.normal_scores(part.log_error, part.group)
            rows = one.calibration.score_sum(part.log_error, part.group).rows
            variance += (own.mean() * one.calibration.standard_error_of_mean(rows)) ** 2
    return normal_scores, float(normal_scores.mean()) / float(np.sqrt(variance))


def decided_by_label(
    judgements: Sequence[Judgement],
    y: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    normal_scores: NDArray[np.float64],
    p_errors: float,
    false_alarms: float,
) -> NDArray[np.bool_]:
    """Return for which samples labels tell whether they are new.

    They do where classes that nobody learned show that something is new; a label of a known class
    may be right by chance.
    """
    classes = np.unique(np.concatenate([one.model.frequent_classes for one in judgements]))
    unknown_classes = wrong.any() and np.mean(np.isin(y[wrong], classes)) < 0.5
    told = (y != UNLABELLED) & (p_errors < false_alarms) & unknown_classes
    right = told & ~wrong
    if right.any():  # a known class that now looks different is not of the known task
        z = float(normal_scores[right].mean() * np.sqrt(np.count_nonzero(right)))
        if ndtr(-z) < false_alarms:
            told &= wrong
    return told


def is_another_rule(
    judgements: Sequence[Judgement],
    y: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    false_alarms: float,
) -> bool:
    """Does a model know these inputs, and these classes, but not with these labels?

    Then the batch is not a mixture, in which some samples are new: all follow another rule. A label
    that another model gives is no sign of it: `wrong` are the labels that none gives. Of numbers
    there is one class, which is always known.
    """
    for one in judgements:
        if one.calibration.residuals is not None:
            if one.verdict.p_inputs >= false_alarms > one.verdict.p_labels:
                return True
            continue
        known_classes = np.isin(y[one.label_errors & wrong], one.model.frequent_classes)
        if (
            one.verdict.p_inputs >= false_alarms > one.verdict.p_labels
            and len(known_classes) > 0.5 * np.count_nonzero(one.label_errors)
            and known_classes.mean() > 0.5
        ):
            return True
    return False


def novel_samples(
    normal_scores: NDArray, wrong: NDArray[np.bool_], told: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Return which samples are of a task that no model knows.

    Of those that labels tell of, the wrong ones. Of the others: half of all known samples have a
    normal score below 0, so that twice as many as do are known, and the most unusual ones are not.
    """
    new = wrong & told
    others = np.flatnonzero(~told)
    if len(others):
        known = min(1.0, 2.0 * float(np.mean(normal_scores[others] < 0)))
        count = max(round((1.0 - known) * len(others)), 0 if told.any() else 1)
        new[others[np.argsort(-normal_scores[others], kind="stable")[:count]]] = True
    return np.ones(len(new), bool) if np.mean(~new) < MIN_KNOWN_SHARE_TO_SPLIT else new
