"""Why a batch is new: what kind of change it shows, and which inputs contradict the model most."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.preval import decide
from dirad.preval.events import (
    BACK,
    KNOWN,
    MIXED,
    NEW_INPUTS,
    NEW_RULE,
    SHIFTED_INPUTS,
    Explanation,
    InputChange,
)
from dirad.preval.expert import Expert
from dirad.preval.judgement import Judgement, answering, judge
from dirad.preval.refinement import is_numeric, logistic
from dirad.preval.switch import Switched, sample_costs
from dirad.preval.targets import class_codes, is_labelled

MAX_INPUTS = 5  # that are named
MIN_SHARE_OF_STRONGEST = 0.1  # of the strongest contradiction, below which an input is not named
SCALING_SAMPLES = 200  # by which the usual mean and spread of an input were estimated
CLEAR = 10.0  # standard errors of a mean or spread, which explain a batch without L1
UNUSUAL_SHARE = 0.05  # of known samples, which are taken for unusual one by one


def explained(
    decision: decide.Decision | Switched,
    judgements: Sequence[Judgement],
    X: NDArray,
    y: NDArray,
    latest: int | None,
) -> Explanation:
    """Return what a batch is to the models, given the decision on it; `latest` is in use."""
    match decision:
        case decide.Known(number, p):
            return Explanation(KNOWN if number == latest else BACK, number, p, [])
        case decide.Mixed(models, p):
            return Explanation(MIXED, decision.largest, p, [], models=numbers_of(models))
        case Switched(before, after, _, p):
            return Explanation(MIXED, after, p, [], models=(before, after))
        case decide.SomeNew(models, novel):
            found = explained_change(judgements, X, y, models, novel, latest)
            if novel.all():
                return found
            known = numbers_of(models[~novel])
            return found._replace(kind=MIXED, cause=found.kind, models=known)
    raise ValueError("no model is calibrated, so that nothing can be explained")


def explained_change(
    judgements: Sequence[Judgement],
    X: NDArray,
    y: NDArray,
    models: NDArray[np.int64],
    novel: NDArray[np.bool_],
    latest: int | None,
) -> Explanation:
    """Return how the novel samples of a batch contradict the closest model.

    Compared with any other, they differ also by what distinguishes the tasks of the two.
    """
    one = closest(judgements, y, models, novel, latest)
    model, verdict = answering(one.model), one.verdict
    X, y = X[novel], y[novel]
    if verdict.validated:  # the model knows the batch as a whole: only its end is new
        rate = 1.0 - verdict.limit
        verdict = judge(one.model, X, y, rate, may_doubt=False).verdict
    scores = model.evaluate(X)
    known = one.calibration.known(scores.log_error, scores.group, UNUSUAL_SHARE)
    kind = kind_of_change(verdict.p_inputs, verdict.p_labels, 1.0 - verdict.limit, known)
    inputs = contradicting_inputs(model, X, y, rule=kind == NEW_RULE)
    return Explanation(kind, model.number, one.verdict.p, inputs)


def closest(
    judgements: Sequence[Judgement],
    y: NDArray,
    models: NDArray[np.int64],
    novel: NDArray[np.bool_],
    latest: int | None,
) -> Judgement:
    """Return the judgement by the model that fits the novel samples of a batch best.

    `models` are those that know the inputs of each sample best. Of several rules on the same
    inputs, labels tell, or else the model in use is closest.
    """
    nearest = int(np.bincount(models[novel]).argmax())
    group = next(one.model.group for one in judgements if one.model.number == nearest)

    def surprise(one: Judgement) -> tuple[float, bool]:
        costs = sample_costs(one._replace(scores=one.scores.of(slice(-len(y), None))), y)
        costs = one.label_errors[-len(y) :] if costs is None else costs
        return float(costs[novel].sum()), one.model.number != latest

    return min((one for one in judgements if one.model.group == group), key=surprise)


def numbers_of(models: NDArray[np.int64]) -> tuple[int, ...]:
    """Return the models that know samples, each once."""
    return tuple(np.unique(models).tolist())


def kind_of_change(
    p_inputs: float, p_labels: float, false_alarms: float, known: NDArray[np.bool_]
) -> str:
    """Return the kind of change by the tests of inputs and labels, and which samples are known.

    Without labels, inputs are shifted rather than new where most samples are known one by one.
    """
    labelled = p_labels == p_labels
    if labelled and p_labels <= p_inputs >= false_alarms:
        return NEW_RULE
    agree = p_labels >= false_alarms if labelled else known.mean() > 0.5
    return SHIFTED_INPUTS if agree else NEW_INPUTS


def contradicting_inputs(model: Expert, X: NDArray, y: NDArray, *, rule: bool) -> list[InputChange]:
    """Return the inputs of a batch that contradict a model most; with `rule`, by their labels."""
    scaling, n = model.evaluator.scaling, len(X)
    found, spread = X.mean(axis=0), X.std(axis=0)
    if rule:
        strength = change_of_rule(model, X, y)
    else:
        moved = np.abs(found - scaling.offset) / scaling.spread
        moved = moved / np.sqrt(1.0 / n + 1.0 / SCALING_SAMPLES)
        # Of an input that never varied, the usual spread is only assumed: narrower means little.
        widened = np.log(np.maximum(spread / scaling.spread, 1.0))
        widened = widened / np.sqrt(0.5 / n + 0.5 / SCALING_SAMPLES)
        strength = np.maximum(moved, widened)
        # L1 also errs on inputs that it predicts from one that moved: that one is the reason.
        if strength.max() < CLEAR:
            strength = np.maximum(strength, unpredicted(model, X))
    order = np.argsort(-strength, kind="stable")[:MAX_INPUTS]
    least = max(MIN_SHARE_OF_STRONGEST * strength.max(), np.finfo(float).tiny)
    order = order[strength[order] >= least]  # none if the batch has no spread
    return [
        InputChange(
            int(j),
            float(scaling.offset[j]),
            float(found[j]),
            float(scaling.spread[j]),
            float(spread[j]),
            float(strength[j]),
        )
        for j in order
    ]


def unpredicted(model: Expert, X: NDArray) -> NDArray[np.float64]:
    """Return how much worse L1 predicts each input than usual, in standard errors."""
    result = np.zeros(X.shape[1])
    if model.l1 is not None and model.error_stats is not None:
        is_input = model.l1.is_input
        errors = model.errors(X)[:, is_input].mean(axis=0)
        usual = model.error_stats.mean[is_input]
        deviation = np.maximum(model.error_stats.deviation[is_input], np.finfo(float).tiny)
        with np.errstate(over="ignore"):  # of an input that never varied before
            result[model.l1.nodes[is_input]] = (errors - usual) / deviation * np.sqrt(len(X))
    return result


def change_of_rule(model: Expert, X: NDArray, y: NDArray) -> NDArray[np.float64]:
    """Return how much the effect of each input on the answer differs from the model's.

    It is the size of the weights of a linear correction of the model's answers to the batch.
    """
    labelled = is_labelled(y)
    X, y = X[labelled], y[labelled]
    if not len(X):
        return np.zeros(X.shape[1])
    outputs = model.evaluate(X).outputs
    inputs = model.evaluator.scaling.standardize_and_clip(X)
    if is_numeric(model):
        residual = y - outputs[:, 0]
        centred = inputs - inputs.mean(axis=0)
        return np.abs(centred.T @ (residual - residual.mean())) / len(X)
    # As an offset, the model's answers would hide changes where the model is confident.
    Z = np.hstack([inputs, np.ones((len(X), 1))])
    codes = class_codes(y).tolist()
    classes = [*model.classes, *sorted(set(codes) - set(model.classes))]  # those never seen too
    targets = np.array([classes.index(code) for code in codes])
    nothing, start = np.zeros((len(X), len(classes))), np.zeros((Z.shape[1], len(classes)))
    weights = logistic(Z, targets, nothing, start)
    answers = outputs.argmax(axis=1) if model.classes else targets
    before = logistic(Z, answers, nothing, start)
    return np.abs(weights - before)[:-1].max(axis=1)
