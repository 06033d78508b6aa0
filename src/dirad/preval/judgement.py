"""What a model makes of a batch: its scores and labels, tested against held-out samples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval.calibration import Calibration, ScoreSum, sidak
from dirad.preval.dependence import autocorrelation_time
from dirad.preval.events import Verdict
from dirad.preval.expert import PHASE_STABLE, Expert, Scores
from dirad.preval.learner import Learner
from dirad.preval.refinement import Refinement, corrected_scores
from dirad.preval.targets import class_codes, is_labelled, missing_targets
from dirad.preval.task_memory import memory_with

Model = Learner | Expert


class Judgement(NamedTuple):
    """What one model makes of a batch."""

    model: Model
    scores: Scores
    verdict: Verdict
    label_errors: NDArray[np.bool_]  # which labels differ from the predicted ones
    calibration: Calibration  # by which wrong answers are tested
    outputs: NDArray[np.float64] = np.zeros((0, 0))  # of the model, without a refinement
    in_doubt: bool = False  # is it unusual unless samples of the task depend on each other?
    version: int | None = None  # of the model, that knows the batch; None: the one in use

    @property
    def score_sum(self) -> ScoreSum:
        """The sum of the normal scores of the batch."""
        return self.calibration.score_sum(self.scores.log_error, self.scores.group)


def judge(
    model: Model,
    X: NDArray,
    y: NDArray[np.int64] | None = None,
    false_alarms: float | None = None,
    *,
    refinement: Refinement | None = None,
    n_learned: int = 0,
    undecided: tuple[NDArray, NDArray] | None = None,
    may_doubt: bool = True,
    is_long: bool = False,
) -> Judgement:
    """Evaluate a batch by one model, and test it against the model's held-out samples.

    `false_alarms` is the rate for this batch; by default that of the first batch of a stream. With
    `may_doubt`, what is unusual to a model in training may show instead that samples of its task
    depend on each other; `undecided` holds the batch before if it was undecided. The first
    `n_learned` samples are recent ones, which that model has learned, or the undecided batch. With
    `is_long`, there are enough samples to estimate their dependence; labels are left out, because a
    refinement may have learned them.
    """
    scores = own = model.evaluate(X)
    if refinement is not None:
        scores = refinement.scores(answering(model), X, own)
    settings = model.settings
    if y is None or is_long or not settings.labels_in_detection:
        y = missing_targets(len(X), settings.targets)
    labelled = is_labelled(y)
    calibration = model.calibration_with_labels if labelled.any() else model.calibration
    wrong = model.label_errors(scores.label, class_codes(y))
    rate = settings.batch_rate(0) if false_alarms is None else false_alarms
    if is_long:
        calibration = with_memory_of(calibration, scores)
    result = tested(model, calibration, scores, wrong, y, rate)
    may_doubt = may_doubt and settings.order_matters != "no"
    if may_doubt and isinstance(model, Learner) and not result.verdict.validated:
        next_X, next_y = X[n_learned:], y[n_learned:]
        memory = memory_with(model.buffer, calibration.memory, next_X, next_y, undecided)
        if memory != calibration.memory:
            result = tested(model, calibration._replace(memory=memory), scores, wrong, y, rate)
            in_doubt = calibration.memory.independent or result.verdict.validated
            result = result._replace(in_doubt=in_doubt)
    if settings.max_versions and labelled.any() and not result.verdict.validated:
        result = by_another_version(result, X, y, own, rate)
    return result._replace(outputs=own.outputs)


def by_another_version(
    judgement: Judgement, X: NDArray, y: NDArray, own: Scores, rate: float
) -> Judgement:
    """Return the judgement by the version of the model that knows a batch best, if one does.

    Versions answer differently for the same inputs, so that only labels tell which of them it is.
    """
    model, expert = judgement.model, answering(judgement.model)
    others = [(0, own)] if judgement.scores is not own else []
    others += [
        (one.number, corrected_scores(expert, X, own, one.weights)) for one in expert.versions
    ]
    found = []
    for number, scores in others:
        wrong = model.label_errors(scores.label, class_codes(y))
        one = tested(model, judgement.calibration, scores, wrong, y, rate)
        if one.verdict.validated:
            found.append(one._replace(version=number))
    return max(found, key=lambda one: one.verdict.p, default=judgement)


def with_memory_of(calibration: Calibration, scores: Scores) -> Calibration:
    """Return a calibration with a memory at least as long as that of these samples.

    A task may show its bursts only after it was learned.
    """
    normal_scores = calibration.normal_scores(scores.log_error, scores.group)
    errors = max(calibration.memory.errors, autocorrelation_time(normal_scores[:, None]))
    return calibration._replace(memory=calibration.memory._replace(errors=errors))


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
        residuals = calibration.residuals.for_stream(calibration)
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
    n_learned: int = 0,
    undecided: tuple[NDArray, NDArray] | None = None,
    may_doubt: bool = True,
    is_long: bool = False,
) -> list[Judgement]:
    """Return what models say of a batch, oldest first; `latest` took the last one.

    As long as the model in use knows what it sees, only those that may be its duplicates are asked
    too. See `judge` for the rest.
    """
    in_use = next((one for one in models if one.number == latest), None)
    found: dict[int, Judgement] = {}
    if in_use is not None:
        found[in_use.number] = judge(
            in_use, X, y, false_alarms,
            refinement=refinement, n_learned=n_learned, undecided=undecided,
            may_doubt=may_doubt, is_long=is_long,
        )  # fmt: skip
        if found[in_use.number].verdict.validated:
            models = [one for one in models if set(one.classes) == set(in_use.classes)]
    for one in models:
        if one is not in_use:
            found[one.number] = judge(one, X, y, false_alarms, may_doubt=False, is_long=is_long)
    return [found[one.number] for one in models]
