"""Every combination, scored by the likelihood of the outcomes of all 32 of the paper's runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.engine import Progress, run_all
from experiments.paper_rules.combinations import Combination, combinations
from experiments.paper_rules.recordings import (
    CONNECTIVITY,
    STOPS,
    TASKS,
    Recording,
    load,
    make,
    orders,
)
from experiments.paper_rules.rules import OUTCOMES, TIES, Rule, accuracies, outcomes, verdicts
from experiments.reproduction import published
from experiments.reproduction.protocol import (
    TEST_SAMPLES,
    missed_a_task,
    net_accuracy,
    task_accuracy,
)

MIN_DEVIATION = 1.0 / TEST_SAMPLES  # of accuracies: equal ones in few runs would have density ∞


def paper_outcomes() -> NDArray:
    """Return how many of the paper's runs had each outcome: (OUTCOMES, T_CP)."""
    result = np.zeros((len(OUTCOMES), len(published.T_CP)))
    for column, T_CP in enumerate(published.T_CP):
        for tests in published.RUNS[T_CP]:
            second, third = (task_accuracy(tests, task, 2) > 0 for task in (1, 2))
            result[2 * (not second) + (not third), column] += 1
    return result


def paper_accuracies() -> list[NDArray]:
    """Return the accuracies of the paper's runs that missed no task: (runs, tasks) per T_CP."""
    return [
        np.array(
            [
                [net_accuracy(tests, task) for task in range(TASKS)]
                for tests in published.RUNS[T_CP]
                if not missed_a_task(tests)
            ]
        )
        for T_CP in published.T_CP
    ]


def log_likelihood(counts: NDArray, observed: NDArray) -> float:
    """Return the log-likelihood of observed outcomes under our counts, one added to each.

    Both are (outcomes, values of T_CP).
    """
    smooth = (counts + 1.0) / (counts + 1.0).sum(axis=0)
    return float((observed * np.log(smooth)).sum())


def accuracy_log_likelihood(ours: NDArray, theirs: Sequence[NDArray]) -> float:
    """Return the log-density of the paper's accuracies after tasks 2 and 3.

    Under normal distributions with the mean and deviation of `ours`, (runs, tasks, T_CP).
    """
    mean = ours.mean(axis=0)
    deviation = np.maximum(ours.std(axis=0, ddof=1), MIN_DEVIATION)
    total = 0.0
    for column, runs in enumerate(theirs):
        for task in range(1, TASKS):
            sigma = deviation[task, column]
            z = (runs[:, task] - mean[task, column]) / sigma
            total -= float(np.sum(0.5 * z**2 + np.log(sigma * np.sqrt(2 * np.pi))))
    return total


class Score(NamedTuple):
    """The results of one combination; the last axis is T_CP."""

    combination: Combination
    runs: int
    counts: NDArray  # (OUTCOMES, T_CP) sums over runs
    R_IS: NDArray  # (T_CP,) mean over models
    confident: NDArray  # (T_CP,)
    false_alarms: NDArray  # (T_CP,) share of batches of its own task that are new to a model
    accuracy: NDArray  # (TIES, runs, tasks, T_CP)
    squared_error: float  # mean over the last batch and all targets
    edges: float  # of L1

    @property
    def detection(self) -> float:
        """Log-likelihood of the paper's detections."""
        return log_likelihood(self.counts, paper_outcomes())

    @property
    def routing(self) -> float:
        """Log-density of the paper's accuracies in runs that detected every task."""
        return accuracy_log_likelihood(self.accuracy[0], paper_accuracies())


class Replay(NamedTuple):
    """One run under one rule: the fields of a `Score`, of this run alone."""

    counts: NDArray  # (OUTCOMES, T_CP) shares of the probes
    R_IS: NDArray
    confident: NDArray
    false_alarms: NDArray
    accuracy: NDArray  # (TIES, tasks, T_CP)


def replay(recordings: Sequence[Recording], rule: Rule, digits: Sequence[int]) -> Replay:
    """Return what a rule makes of one run."""
    models = [verdicts(one, rule) for one in recordings]
    return Replay(
        outcomes(models, rule.batches),
        np.mean([model.R_IS for model in models], axis=0),
        np.mean([model.confident for model in models], axis=0),
        np.mean([model.own.mean(axis=0) for model in models], axis=0),
        np.array([accuracies(recordings, models, digits, ties) for ties in TIES]),
    )


def replay_all(
    folder: Path, connectivity: str, stop: str, runs: Sequence[int], seed: int
) -> list[Score]:
    """Return the scores of all combinations of one connectivity and one stop of L1."""
    chosen = [one for one in combinations() if (one.connectivity, one.stop) == (connectivity, stop)]
    found: list[list[Replay]] = [[] for _ in chosen]
    errors, edges = [], []
    for run in runs:
        recordings = load(folder, run, connectivity, stop, seed)
        errors += [float(np.mean(one.last[-1] ** 2)) for one in recordings]
        edges += [float(one.sizes[1]) for one in recordings]
        for combination, replays in zip(chosen, found, strict=True):
            replays.append(replay(recordings, combination.rule, orders()[run]))
    scores = []
    for combination, replays in zip(chosen, found, strict=True):
        counts, R_IS, confident, alarms, accuracy = (
            np.array(part) for part in zip(*replays, strict=True)
        )
        scores.append(
            Score(
                combination,
                len(runs),
                counts.sum(axis=0),
                R_IS.mean(axis=0),
                confident.mean(axis=0),
                alarms.mean(axis=0),
                accuracy.swapaxes(0, 1),
                float(np.mean(errors)),
                float(np.mean(edges)),
            )
        )
    return scores


def measure(
    folder: Path, runs: int, seed: int, *, workers: int = 1, progress: Progress | None = None
) -> list[Score]:
    """Return the scores of all combinations; recordings that `folder` holds are not repeated."""
    numbers = range(runs)
    jobs = [(folder, n, c, seed, by) for n in numbers for c in CONNECTIVITY for by in (0, 1)]
    run_all(make, jobs, workers=workers, progress=progress)
    return [
        score
        for connectivity in CONNECTIVITY
        for stop in STOPS
        for score in replay_all(folder, connectivity, stop, numbers, seed)
    ]
