"""Which model answers a sample, and what: from scores that were computed once."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval.expert import Scores, find_model
from dirad.preval.judgement import Model
from dirad.preval.learner import Learner

ROUTE_TO_LEARNER_Z = 1.5  # above which a sample goes to a learner that is not calibrated yet


class Evaluated(NamedTuple):
    """The scores of some samples by one calibrated model."""

    model: Model
    rows: NDArray[np.int64]  # the samples
    scores: Scores

    @classmethod
    def by(cls, model: Model, X: NDArray) -> "Evaluated":
        """Evaluate all samples by a model."""
        return cls(model, np.arange(len(X)), model.evaluate(X))

    @property
    def novelty(self) -> NDArray[np.float64]:
        """How unusual each sample is to the model: ln(error) in standard deviations."""
        return self.model.calibration.z_scores(self.scores.log_error, self.scores.group)


class Answers(NamedTuple):
    """What a system answers."""

    route: NDArray[np.int64]  # (samples,) the number of the model that answers
    outputs: NDArray[np.float64]  # (samples, classes): probabilities; (samples, 1): numbers
    novelty: NDArray[np.float64]  # (samples,) to the model it is least novel to; inf without any
    known: NDArray[np.bool_] | None = None  # (samples,) if that was asked, and a model can tell


def answer(
    evaluated: Sequence[Evaluated],
    models: Sequence[Model],
    X: NDArray,
    default: NDArray[np.float64],
    latest: int | None,
    last_used: Mapping[int, int],
) -> Answers:
    """Return route, outputs and novelty of samples; `default` is the output where none answers."""
    novelty = np.full(len(X), np.inf)
    if evaluated:
        novelty = by_model(evaluated, [one.novelty for one in evaluated], len(X)).min(axis=0)
    numbers = route(evaluated, models, novelty, latest, last_used)
    return Answers(numbers, outputs(numbers, evaluated, models, X, default), novelty)


def route(
    evaluated: Sequence[Evaluated],
    models: Sequence[Model],
    novelty: NDArray[np.float64],
    latest: int | None,
    last_used: Mapping[int, int],
) -> NDArray[np.int64]:
    """Return the number of the model that answers each sample.

    The lowest score decides; what is new to all goes to a learner that is not calibrated yet. Of
    models with the same inputs, the one last used answers, if it has classes.
    """
    if not evaluated:
        if latest is None:
            raise ValueError("no batch was seen yet, or its model was removed")
        result = np.full(len(novelty), latest)
    else:
        result = best_model(evaluated, len(novelty))
    young = [m for m in models if not m.is_calibrated and m.classes]
    strangers = [m for m in young if m.group == m.number]
    if evaluated and strangers:
        result[novelty > ROUTE_TO_LEARNER_Z] = strangers[-1].number
    by_number = {model.number: model for model in models}
    candidates = [*(m for m in models if m.is_calibrated and m.classes), *young]
    for number in sorted(set(result.tolist())):
        group = [m for m in candidates if m.group == by_number[number].group]
        if group:
            last = max(group, key=lambda m: last_used.get(m.number, -1))
            result[result == number] = last.number
    return result


def by_model(
    evaluated: Sequence[Evaluated], values: Sequence[NDArray], n: int
) -> NDArray[np.float64]:
    """Return what each model gives each of n samples: (models, n); infinite where it has none."""
    if all(len(own) == n for own in values):
        return np.array(values)
    result = np.full((len(evaluated), n), np.inf)
    for row, one, own in zip(result, evaluated, values, strict=True):
        row[one.rows] = own
    return result


def best_model(evaluated: Sequence[Evaluated], n: int) -> NDArray[np.int64]:
    """Return the model that knows each of n samples best: with the lowest score, the newest."""
    newest_first = evaluated[::-1]
    scores = by_model(newest_first, [one.scores.score for one in newest_first], n)
    return np.array([one.model.number for one in newest_first])[scores.argmin(axis=0)]


def outputs(
    route: NDArray[np.int64],
    evaluated: Sequence[Evaluated],
    models: Sequence[Model],
    X: NDArray,
    default: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the probability of every class, or the number, by each sample's model.

    Where that model has learned no target yet, the other model that knows the sample best answers;
    where there is none, the answer is `default`.
    """
    result = np.empty((len(X), len(default)))
    result[:] = default
    scored = {one.model.number: one for one in evaluated}
    for number in sorted(set(route.tolist())):
        chosen = np.flatnonzero(route == number)
        model = find_model(models, number)
        if model.classes:
            values = own_outputs(model, scored.get(number), chosen, X)
            write(result, chosen, model, values)
        else:
            answer_by_others(result, chosen, [m for m in models if m.is_calibrated], X)
    return result


def answer_by_others(
    result: NDArray, rows: NDArray[np.int64], models: Sequence[Model], X: NDArray
) -> None:
    """Let the model with the lowest score among those with classes answer some samples."""
    able = [model for model in models if model.classes]
    scores = [model.evaluate(X[rows]) for model in able]
    if able:
        best = np.argmin([one.score for one in scores], axis=0)
        for i, (model, one) in enumerate(zip(able, scores, strict=True)):
            write(result, rows[best == i], model, one.of(best == i).outputs)


def own_outputs(
    model: Model, evaluated: Evaluated | None, rows: NDArray[np.int64], X: NDArray
) -> NDArray[np.float64]:
    """Return a model's outputs for some samples, from its scores where it has any."""
    if evaluated is None:
        return outputs_of(model, X[rows])
    if len(evaluated.rows) == len(X):
        return evaluated.scores.outputs[rows]
    place = np.full(len(X), -1)
    place[evaluated.rows] = np.arange(len(evaluated.rows))
    if (place[rows] < 0).any():  # another model of its group was selected for these samples
        return outputs_of(model, X[rows])
    return evaluated.scores.outputs[place[rows]]


def outputs_of(model: Model, X: NDArray) -> NDArray[np.float64]:
    """Evaluate samples that a model has not scored."""
    if isinstance(model, Learner) and not model.is_calibrated:
        return model.outputs(X)
    return model.evaluate(X).outputs


def write(result: NDArray, rows: NDArray[np.int64], model: Any, values: NDArray) -> None:
    """Write a model's outputs into the columns of its classes."""
    if len(rows):
        result[rows] = 0.0
        result[rows[:, None], np.array(model.classes)] = values


def is_known(evaluated: Sequence[Evaluated], n: int, false_alarms: float) -> NDArray[np.bool_]:
    """Return whether some model knows each of n samples, at this rate of false alarms."""
    result = np.zeros(n, bool)
    for model, rows, scores in evaluated:
        result[rows] |= model.calibration.known(scores.log_error, scores.group, false_alarms)
    return result


def interval_half_widths(
    route: NDArray[np.int64], models: Sequence[Model], coverage: float
) -> NDArray[np.float64]:
    """Return the half width of each sample's prediction interval: infinite before calibration."""
    result = np.full(len(route), np.inf)
    for model in models:
        residuals = model.calibration.residuals if model.is_calibrated else None
        if residuals is not None:
            result[route == model.number] = residuals.half_width(coverage)
    return result


def conflicted_inputs(
    route: NDArray[np.int64], models: Sequence[Any], X: NDArray
) -> NDArray[np.bool_]:
    """Return which inputs contradict the prediction of each sample's model: (samples, inputs)."""
    result = np.zeros(X.shape, bool)
    for model in models:
        chosen = route == model.number
        if chosen.any() and model.error_stats is not None:
            result[chosen] = model.conflicted(X[chosen])[:, : X.shape[1]]
    return result
