"""How long the samples of a task in training remember those before them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.preval.buffer import Buffer
from dirad.preval.dependence import (
    Memory,
    autocorrelation_time,
    largest_step,
    trend_time,
    without_class_means,
)
from dirad.preval.expert import Evaluator, Scores
from dirad.preval.posterior import MIN_PROBABILITY
from dirad.preval.residuals import log_magnitudes
from dirad.preval.targets import class_codes

SIGNIFICANCE_OF_DOUBT = 0.01  # of autocorrelations, from which an alarm is doubted


def memory_of(buffer: Buffer, evaluator: Evaluator, inputs: float) -> Memory:
    """Return the autocorrelation times of a task, given that of its inputs."""
    if inputs <= 1.0:
        return Memory()
    scores = evaluator.evaluate(buffer.X)
    return Memory(
        inputs,
        autocorrelation_time(scores.log_error[:, None]),
        autocorrelation_time(losses(buffer, evaluator, scores, evaluator.classes)),
    )


def losses(
    buffer: Buffer, evaluator: Evaluator, scores: Scores, classes: Sequence[int]
) -> NDArray[np.float64]:
    """Return what L0 loses by each labelled sample, in time order: (samples, losses).

    It is −ln of the probability of the right class, or the residual and ln of its size.
    """
    scaling, known = evaluator.target_scaling, buffer.labelled
    if scaling is not None:
        residuals = buffer.y[known] - scores.outputs[known, 0]
        logs = log_magnitudes(residuals, scaling.spread)
        return np.column_stack([logs, residuals / scaling.spread])
    known = np.isin(buffer.y, classes)
    if not known.any():
        return np.zeros((0, 1))
    column = {code: i for i, code in enumerate(classes)}
    columns = [column[code] for code in buffer.y[known].tolist()]
    chance = scores.outputs[known, columns]
    return -np.log(np.maximum(chance, MIN_PROBABILITY))[:, None]


def memory_with(
    buffer: Buffer,
    known: Memory,
    X: NDArray,
    y: NDArray,
    undecided: tuple[NDArray, NDArray] | None = None,
) -> Memory:
    """Return the autocorrelation times of a task if X, which comes next, belongs to it.

    `known` are those by its own samples. A step between the samples at hand and X does not count:
    it would show another task. With a batch in between that is undecided, that step may lie
    anywhere in it: the samples after the step belong to X. Were the batch centred as a whole, its
    step would only be moved.
    """
    parts = [(buffer.X, class_codes(buffer.y))]
    if undecided is not None:
        between, codes = undecided[0], class_codes(undecided[1])
        at = largest_step(without_class_means(between, codes))
        parts.append((between[:at], codes[:at]))
        X, y = np.concatenate([between[at:], X]), np.concatenate([codes[at:], class_codes(y)])
    parts.append((X, class_codes(y)))
    centred = [without_class_means(*part) for part in parts]
    steps = np.cumsum([len(X) for X, _ in parts])[:-1].tolist()
    tau = autocorrelation_time(np.concatenate(centred), steps, SIGNIFICANCE_OF_DOUBT)
    tau = max(tau, *(trend_time(part) for part in centred))
    if known.independent:
        return Memory(tau, tau, tau)
    return known._replace(inputs=max(known.inputs, tau))
