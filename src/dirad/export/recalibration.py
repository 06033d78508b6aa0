"""Recalibration of a PREVAL system, by errors as the exported model computes them."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.export.exported import Exported
from dirad.export.fixed_run import run, whole_inputs
from dirad.export.fixed_system import LOG, FixedModel
from dirad.export.novelty import novelty_scale, pooled_limits, recalibrated
from dirad.export.system import Model
from dirad.inference import evaluate
from dirad.preval.expert import Expert
from dirad.program import ERROR, OWN, SCORE


class Found(NamedTuple):
    """What one exported model computes for some samples."""

    score: NDArray[np.float64]
    log_error: NDArray[np.float64]
    best: NDArray[np.int64]  # the highest of its own outputs


def found_by(
    whole: Exported, X: NDArray, models: Sequence[FixedModel] | None = None
) -> list[Found]:
    """Evaluate samples by the exported models, in fixed point if these are given."""
    if models is None:
        results = [evaluate(member.program, X) for member in whole.members]
        return [
            Found(one[SCORE][:, 0], np.log(one[ERROR][:, 0]), one[OWN].argmax(axis=1))
            for one in results
        ]
    result = []
    for model in models:
        values = run(model, whole_inputs(model.inputs, X))
        scores, errors = values[model.score] / 2.0**LOG, values[model.error] / 2.0**LOG
        result.append(Found(scores, errors, values[list(model.own)].argmax(axis=0)))
    return result


def routes(found: Sequence[Found]) -> NDArray[np.int64]:
    """Return the place of the model with the lowest score, of equals the newest."""
    scores = np.stack([one.score for one in found])
    return len(found) - 1 - np.argmin(scores[::-1], axis=0)


def calibrated_by(
    whole: Exported,
    models: Sequence[Model],
    X: NDArray,
    fixed: Sequence[FixedModel] | None = None,
) -> Exported:
    """Return the system calibrated by samples of known tasks that it was not fitted to.

    Each model is calibrated by the samples that it knows best. Groups of which there are too few
    keep the calibration that they have.
    """
    if whole.promise is None:
        raise ValueError("the paper's models have no calibration")
    X = np.asarray(X, np.float64)
    if X.ndim != 2 or X.shape[1] != len(whole.inputs) or not np.isfinite(X).all():
        raise ValueError(
            f"calibration must be finite numbers, (samples, {len(whole.inputs)}), got {X.shape}"
        )
    found = found_by(whole, X, fixed)
    route = routes(found)
    members = []
    for i, (member, model, one) in enumerate(zip(whole.members, models, found, strict=True)):
        assert isinstance(model, Expert)
        own, by_class = route == i, model.evaluator.by_class
        groups = one.best[own] if by_class else np.zeros(own.sum(), np.int64)
        made = recalibrated(model.calibration, one.log_error[own], groups)
        rate = whole.promise.sample
        scale = novelty_scale(made, len(model.classes), rate, by_class=by_class)
        limit = pooled_limits(made, one.log_error[own], made.row[groups], rate)
        members.append(member._replace(scale=scale._replace(limit=limit)))
    return whole._replace(members=tuple(members))
