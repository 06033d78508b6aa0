"""Samples, the answers of outputs, and what wrong answers cost."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR, LOGISTIC

LEAST_PROBABILITY = 1e-12


class Samples(NamedTuple):
    """Scaled inputs, targets and weights."""

    inputs: NDArray[np.float64]  # (samples, inputs)
    targets: NDArray[np.float64]  # (samples, outputs)
    weight: NDArray[np.float64]  # (samples,)

    def take(self, rows: NDArray[np.intp]) -> "Samples":
        """Return some of the samples."""
        return Samples(self.inputs[rows], self.targets[rows], self.weight[rows])


def transferred(activation: NDArray, transfer: int) -> NDArray[np.float64]:
    """Return the outputs: the activations, their logistic function, or their softmax."""
    if transfer == LINEAR:
        return activation
    if transfer == LOGISTIC:
        return 0.5 * np.tanh(0.5 * activation) + 0.5
    powers = np.exp(activation - activation.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def costs(activation: NDArray, targets: NDArray, transfer: int) -> NDArray[np.float64]:
    """Return the cost of each sample: half the squared error, or the cross-entropy."""
    if transfer == LINEAR:
        return 0.5 * ((activation - targets) ** 2).sum(axis=1)
    if transfer == LOGISTIC:
        return (np.logaddexp(0.0, activation) - targets * activation).sum(axis=1)
    top = activation.max(axis=1, keepdims=True)
    log_sum = top[:, 0] + np.log(np.exp(activation - top).sum(axis=1))
    return log_sum - (targets * activation).sum(axis=1)


def costs_of_answers(answers: NDArray, targets: NDArray, transfer: int) -> NDArray[np.float64]:
    """Return the cost of each sample from the outputs of a network."""
    if transfer == LINEAR:
        return costs(answers, targets, transfer)
    logs = targets * np.log(np.maximum(answers, LEAST_PROBABILITY))
    if transfer == LOGISTIC:
        logs += (1.0 - targets) * np.log(np.maximum(1.0 - answers, LEAST_PROBABILITY))
    return -logs.sum(axis=1)


def zero_one_losses(answers: NDArray, targets: NDArray, transfer: int) -> NDArray[np.float64]:
    """Return 1 for each sample whose most probable class is wrong, else 0."""
    if transfer == LOGISTIC:
        return ((answers > 0.5) != (targets > 0.5)).any(axis=1).astype(float)
    return (answers.argmax(axis=1) != targets.argmax(axis=1)).astype(float)


def total_cost(activation: NDArray, samples: Samples, transfer: int) -> float:
    """Return the weighted cost of all samples."""
    return float(samples.weight @ costs(activation, samples.targets, transfer))
