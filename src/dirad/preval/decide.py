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
from scipy.special import ndtr

from dirad.preval.buffer import UNLABELLED
from dirad.preval.calibration import Calibration, ScoreSum, sidak
from dirad.preval.dependence import autocorrelation_time
from dirad.preval.events import Verdict
from dirad.preval.expert import PHASE_STABLE, Expert, Scores
from dirad.preval.learner import Learner
from dirad.preval.refinement import Refinement
from dirad.preval.settings import Settings
from dirad.preval.targets import class_codes, is_labelled, missing_targets

Model = Learner | Expert

MIN_P_VALUE_OF_TAIL = 0.01  # of the last samples of a batch, from which they are usual again
TAIL_SHARE = 0.25  # of a batch
MIN_KNOWN_SHARE_TO_SPLIT = 0.2  # share of known samples below which a batch is altogether new


class Judgement(NamedTuple):
    """What one model makes of a batch."""

    model: Model
    scores: Scores
    verdict: Verdict
    label_errors: NDArray[np.bool_]  # which labels differ from the predicted ones
    calibration: Calibration  # by which wrong answers are tested
    outputs: NDArray[np.float64] = np.zeros((0, 0))  # of the model, without a refinement
    in_doubt: bool = False  # is it unusual unless samples of the task depend on each other?

    @property
    def score_sum(self) -> ScoreSum:
        """The sum of the normal scores of the batch."""
        return self.calibration.score_sum(self.scores.log_error, self.scores.group)


class NoneCalibrated(NamedTuple):
    """No model is calibrated yet: the batch goes to the one that learns."""


class Known(NamedTuple):
    """A model knows the whole batch."""

    model: int
    p: float


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


class Undecided(NamedTuple):
    """From somewhere on, the batch is unusual: the next one tells whether that was a burst."""

    model: int  # in use
    p: float


Decision = NoneCalibrated | Known | Mixed | SomeNew | Undecided


def judge(
    model: Model,
    X: NDArray,
    y: NDArray[np.int64] | None = None,
    false_alarms: float | None = None,
    *,
    refinement: Refinement | None = None,
    undecided: tuple[NDArray, NDArray] | None = None,
    may_doubt: bool = True,
) -> Judgement:
    """Evaluate a batch by one model, and test it against the model's held-out samples.

    `false_alarms` is the rate for this batch; by default that of the first batch of a stream. With
    `may_doubt`, what is unusual to a model in training may show instead that samples of its task
    depend on each other; `undecided` is the batch before, if it was.
    """
    scores = own = model.evaluate(X)
    if refinement is not None:
        scores = refinement.scores(answering(model), X, own)
    settings = model.settings
    if y is None or not settings.labels_in_detection:
        y = missing_targets(len(X), settings.targets)
    labelled = is_labelled(y)
    calibration = model.calibration_with_labels if labelled.any() else model.calibration
    wrong = model.label_errors(scores.label, class_codes(y))
    rate = settings.batch_rate(0) if false_alarms is None else false_alarms
    result = tested(model, calibration, scores, wrong, y, rate)
    if may_doubt and isinstance(model, Learner) and not result.verdict.validated:
        memory = model.memory_with(X, y, undecided)
        if memory != calibration.memory:
            result = tested(model, calibration._replace(memory=memory), scores, wrong, y, rate)
            in_doubt = calibration.memory.independent or result.verdict.validated
            result = result._replace(in_doubt=in_doubt)
    return result._replace(outputs=own.outputs)


def answering(model: Model) -> Expert:
    """Return the expert by which a calibrated model answers."""
    expert = model.interim if isinstance(model, Learner) else model
    assert expert is not None, "a model is asked only when it is calibrated"
    return expert


def tested(
    model: Model,
    calibration: Calibration,
    scores: Scores,
    wrong: NDArray[np.bool_],
    y: NDArray,
    false_alarms: float,
) -> Judgement:
    """Test the scores of a batch, and which of its labels are wrong, by a calibration."""
    labelled = is_labelled(y)
    total = calibration.score_sum(scores.log_error, scores.group)
    p = p_inputs = calibration.p_value(total)
    p_labels = float("nan")
    if labelled.any():
        # A finished model that learned no class does not know what labels mean.
        without_classes = model.phase == PHASE_STABLE and not model.classes
        p_labels = 0.0 if without_classes else p_of_labels(calibration, scores, y, wrong)
        p = sidak(min(p_inputs, p_labels))
    verdict = Verdict(model.number, 1.0 - p, 1.0 - false_alarms, p, p_inputs, p_labels)
    return Judgement(model, scores, verdict, wrong, calibration)


def p_of_labels(
    calibration: Calibration, scores: Scores, y: NDArray, wrong: NDArray[np.bool_]
) -> float:
    """Return the p-value of the labels in a batch: of the wrong classes, or of the residuals."""
    labelled = is_labelled(y)
    if calibration.residuals is not None:
        residuals = calibration.residuals.for_stream(calibration.memory, calibration.n_learned)
        return residuals.p_value(y[labelled] - scores.outputs[labelled, 0])
    return calibration.p_labels(class_codes(y)[labelled], wrong[labelled])


def judge_all(
    models: Sequence[Model],
    X: NDArray,
    y: NDArray[np.int64],
    latest: int | None,
    false_alarms: float,
    *,
    refinement: Refinement | None = None,
    undecided: tuple[NDArray, NDArray] | None = None,
    may_doubt: bool = True,
) -> list[Judgement]:
    """Return what models say of a batch, oldest first; `latest` took the last one.

    As long as the model in use knows what it sees, only those that may be its duplicates are asked
    too.
    """
    in_use = next((one for one in models if one.number == latest), None)
    found: dict[int, Judgement] = {}
    if in_use is not None:
        found[in_use.number] = judge(
            in_use, X, y, false_alarms,
            refinement=refinement, undecided=undecided, may_doubt=may_doubt,
        )  # fmt: skip
        if found[in_use.number].verdict.validated:
            models = [one for one in models if set(one.classes) == set(in_use.classes)]
    for one in models:
        if one is not in_use:
            found[one.number] = judge(one, X, y, false_alarms, may_doubt=False)
    return [found[one.number] for one in models]


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
    in_use = next((one for one in judgements if one.model.number == latest), None)
    if may_wait and in_use is not None and in_use.in_doubt:
        return Undecided(in_use.model.number, in_use.verdict.p)
    known = [one.verdict for one in judgements if one.verdict.validated]
    if known:
        # The model in use is kept as long as it knows what it sees.
        best = max(known, key=lambda v: (v.model == latest, v.p))
        return Known(best.model, best.p)
    if not settings.labels_in_detection:
        y = missing_targets(len(y), settings.targets)
    if len(judgements[0].label_errors) > len(y):  # earlier batches were tested with this one
        p = max(one.verdict.p for one in judgements)
        closest = max(judgements, key=lambda one: one.verdict.p).model.number
        return SomeNew(np.full(len(y), closest), np.ones(len(y), bool), p)
    rate = settings.batch_rate(0) if false_alarms is None else false_alarms
    result = split(one_per_group(judgements), y, rate, judgements)
    if in_use is None or isinstance(result, Mixed):
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
    tail = slice(len(y) - math.ceil(TAIL_SHARE * len(y)), None)
    last = scores.of(tail)
    p = calibration.p_value(calibration.score_sum(last.log_error, last.group))
    if is_labelled(y[tail]).any():
        p = min(p, p_of_labels(calibration, last, y[tail], wrong[tail]))
    if p >= MIN_P_VALUE_OF_TAIL:
        return Known(judgement.model.number, new.p)
    return Undecided(judgement.model.number, new.p) if may_wait else new


def one_per_group(judgements: Sequence[Judgement]) -> list[Judgement]:
    """Return of models with the same inputs the one whose labels fit best: rules do not mix."""
    best: dict[int, int] = {}
    for i, one in enumerate(judgements):
        j = best.get(one.model.group)
        if j is None or one.verdict.p_labels > judgements[j].verdict.p_labels:
            best[one.model.group] = i
    return [judgements[i] for i in sorted(best.values())]


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
