"""Rules that turn prediction errors into verdicts, replayed on recorded errors.

A rule is one reading of the paper's section on validation: what a prediction error is, which
batches its statistics come from, and from which share of invalid samples a batch is new.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.paper_rules.recordings import TASKS, Recording
from experiments.reproduction import published
from experiments.reproduction.protocol import TEST_SAMPLES

OUTCOMES = ("both", "second only", "third only", "neither")  # new tasks that a run detected
TOLERANCE = 0.01  # the paper's acceptable mismatch
ROUNDING = 1e-9  # by which shares of whole samples may differ from their quotient
TIES = ("newest", "oldest", "random")
AS_PRINTED, OR_ALL, VALID = "above (1+ε)R", "above (1+ε)R, or all", "valid below (1−ε)(1−R)"


class Measure(NamedTuple):
    """What is taken for a prediction error, in each of its three uses."""

    choice: Callable[[NDArray], NDArray]  # its mean below T_CP: confidently predicted
    error: Callable[[NDArray], NDArray]  # μ is its mean; E is compared with μ + T_conf·σ
    spread: Callable[[NDArray], NDArray]  # σ is its standard deviation


def tolerant(errors: NDArray) -> NDArray:
    """Return |error|, or 0 where it is below the acceptable mismatch."""
    size = np.abs(errors)
    return np.where(size < TOLERANCE, 0.0, size)


MEASURES = {
    "absolute": Measure(np.abs, np.abs, np.abs),
    "squared": Measure(np.square, np.square, np.square),
    "absolute, below 0.01 none": Measure(tolerant, tolerant, tolerant),
    "prediction − state": Measure(np.positive, np.positive, np.positive),
    "state − prediction": Measure(np.negative, np.negative, np.negative),
    "absolute, σ of signed": Measure(np.abs, np.abs, np.positive),
    "T_CP on squared, else absolute": Measure(np.square, np.abs, np.abs),
    "T_CP on absolute, else prediction − state": Measure(np.abs, np.positive, np.positive),
    "T_CP on absolute, else squared": Measure(np.abs, np.square, np.square),
}


class Rule(NamedTuple):
    """One reading of the rules that turn prediction errors into verdicts."""

    measure: str = "absolute"  # of MEASURES
    statistics: str = "last"  # batches of μ, σ and the choice of confident nodes: see `source`
    share: str = "last"  # batches of R_IS: see `source`
    limit: str = AS_PRINTED  # from which share of invalid samples a batch is new: see `is_new`
    batches: int = 1  # batches of a new task that are judged until one is new
    T_conf: float = 1.5
    T_SV: float = 0.01
    epsilon: float = 0.2


PRESET_PAPER = Rule("squared", limit=OR_ALL)  # the rule of the preset `paper`


def source(recording: Recording, name: str) -> NDArray:
    """Return the errors that a statistic is computed from: (batches, samples, targets)."""
    return {
        "last": recording.last[-1:],
        "one before": recording.last[-2:-1],
        "last ten": recording.last,
        "each target's own last": recording.at_stop[None],
        "next": recording.own[:1],
    }[name]


def is_new(share: NDArray, R_IS: NDArray, rule: Rule) -> NDArray[np.bool_]:
    """Return which batches are new, given their shares of invalid samples and the model's own."""
    if rule.limit == AS_PRINTED:
        return share > (1.0 + rule.epsilon) * R_IS + ROUNDING
    if rule.limit == OR_ALL:
        return (share > (1.0 + rule.epsilon) * R_IS + ROUNDING) | (share > 1.0 - ROUNDING)
    if rule.limit == VALID:
        return 1.0 - share < (1.0 - rule.epsilon) * (1.0 - R_IS) - ROUNDING
    raise ValueError(f"unknown limit {rule.limit!r}")


class Verdicts(NamedTuple):
    """The verdicts of one model on the recorded samples; the last axis is T_CP."""

    confident: NDArray  # (T_CP,) confidently predicted nodes
    R_IS: NDArray  # (T_CP,)
    own: NDArray[np.bool_]  # (probes, T_CP) is the batch of its own task new to it?
    later: NDArray[np.bool_]  # (later tasks, probes, T_CP) is the batch new to it?
    test: NDArray  # (samples, T_CP) N_conf / N_CP


def verdicts(recording: Recording, rule: Rule) -> Verdicts:
    """Return the verdicts of a model under a rule."""
    measure = MEASURES[rule.measure]
    errors = source(recording, rule.statistics).astype(float)
    errors = errors.reshape(-1, errors.shape[-1])
    sigma = measure.spread(errors).std(axis=0)
    threshold = measure.error(errors).mean(axis=0) + rule.T_conf * sigma
    mean = measure.choice(errors).mean(axis=0)
    chosen = np.array([mean < T_CP for T_CP in published.T_CP], float).T  # (targets, T_CP)
    confident = chosen.sum(axis=0)

    def ratio(errors: NDArray) -> NDArray:
        conflicted = measure.error(errors.astype(float)) > threshold
        return conflicted @ chosen / np.maximum(confident, 1.0)

    def invalid(errors: NDArray) -> NDArray:
        return (ratio(errors) >= rule.T_SV - ROUNDING).mean(axis=-2)

    R_IS = invalid(source(recording, rule.share)).mean(axis=0)
    return Verdicts(
        confident,
        R_IS,
        is_new(invalid(recording.own), R_IS, rule),
        is_new(invalid(recording.later), R_IS, rule),
        ratio(recording.test),
    )


def any_new(new: NDArray[np.bool_], batches: int) -> NDArray[np.bool_]:
    """Return whether one of `batches` batches, counted from each probe, is new: (probes, T_CP)."""
    return np.any([np.roll(new, -i, axis=0) for i in range(batches)], axis=0)


def outcomes(models: Sequence[Verdicts], batches: int) -> NDArray:
    """Return the share of each outcome over the probes: (OUTCOMES, T_CP).

    If the second task is not detected, there is no second model to judge the third.
    """
    second = any_new(models[0].later[0], batches)
    alone = any_new(models[0].later[1], batches)
    together = any_new(models[0].later[1] & models[1].later[0], batches)
    third = np.where(second, together, alone)
    found = (second & third, second & ~third, ~second & third, ~second & ~third)
    return np.array([part.mean(axis=0) for part in found])


def accuracies(
    recordings: Sequence[Recording], models: Sequence[Verdicts], digits: Sequence[int], ties: str
) -> NDArray:
    """Return the accuracy after each task if all tasks were detected: (tasks, T_CP).

    A sample is routed to the model with the smallest share of conflicted nodes.
    """
    truth = np.repeat(digits, TEST_SAMPLES // len(digits))
    rng = np.random.default_rng(0)
    result = []
    for task in range(TASKS):
        n = len(truth) * (task + 1) // TASKS
        ratio = np.stack([model.test[:n] for model in models[: task + 1]])
        answers = np.stack([one.answers[:n] for one in recordings[: task + 1]])
        if ties == "newest":
            route = task - np.argmin(ratio[::-1], axis=0)
        else:
            noise = rng.random(ratio.shape) if ties == "random" else 0.0
            route = np.argmin(ratio + ROUNDING * noise, axis=0)
        answered = np.take_along_axis(answers[:, :, None], route[None], axis=0)[0]
        result.append((answered == truth[:n, None]).mean(axis=0))
    return np.array(result)
