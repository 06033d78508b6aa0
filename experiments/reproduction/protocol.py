"""The paper's protocol: tasks of two digits each, one after the other, unannounced.

The system adapts to a task until it is stable; then the task changes. After each task it is
tested on all classes seen so far. Summaries take the paper's per-run tables and ours alike.
"""

import time
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset, load_mnist
from dirad.demo.recurring import draw
from dirad.preval.choice import ContinualSystem, new_system
from dirad.preval.settings import PRESETS, Settings
from dirad.streams.averages import mean
from dirad.streams.run import CLASSES

TEST_SAMPLES = 300
BLOCK = 50  # batches drawn at a time
PROBES = 20  # further batches that are judged, but not learned, to measure false alarms


@dataclass(frozen=True)
class Setting:
    """What a run depends on, beside its number."""

    preset: str = "paper"
    T_CP: float = 0.10
    connectivity: str | None = None  # None: the preset's
    batch_size: int | None = None
    side: int = 14  # of an image
    tasks: int = 3
    seed: int = 0
    told: bool = False  # is the system told that a task is new? Then routing alone is measured

    def settings(self) -> Settings:
        """Return the constants of the system."""
        chosen = PRESETS[self.preset].replace(T_CP=self.T_CP)
        if self.connectivity is not None:
            chosen = chosen.replace(connectivity=self.connectivity)
        if self.batch_size is not None:
            chosen = chosen.replace(
                l0=chosen.l0.replace(batch_size=self.batch_size),
                l1=chosen.l1.replace(batch_size=self.batch_size),
            )
        return chosen


@dataclass(frozen=True)
class Probe:
    """Invalid shares of fresh batches, judged by one model when a task has been learned."""

    model: int
    limit: float  # (1 + ε_IS)·R_IS
    own: list[float]  # batches of the task that the model was opened for
    next: list[float]  # batches of the task that comes next


@dataclass(frozen=True)
class Run:
    """One run of the protocol."""

    setting: Setting
    number: int
    digits: list[int]  # two per task
    tests: list[dict[int, float]]  # after each task: accuracy by class
    detected: list[bool]  # was a model opened for the task?
    false_alarms: list[float]  # after each task: share of fresh known batches taken for new
    routed: list[float]  # after each task: share of test samples sent to their own model
    probes: list[Probe]
    models: list[dict[str, float]]  # size and steps of each model
    seconds: float

    @property
    def missed(self) -> bool:
        """Was a task not detected?"""
        return not all(self.detected)


@cache
def images(side: int) -> Dataset:
    """Return MNIST at 14 × 14 or 28 × 28."""
    return load_mnist(side)


def run(setting: Setting, number: int) -> Run:
    """Return run `number` of a setting; it depends on nothing else."""
    start = time.perf_counter()
    data, settings = images(setting.side), setting.settings()
    rng = np.random.default_rng([setting.seed, number, round(1000 * setting.T_CP)])
    digits = rng.permutation(CLASSES)[: 2 * setting.tasks].tolist()
    size = settings.l0.batch_size
    system = new_system(data.X_train.shape[1], CLASSES, settings, seed=int(rng.integers(2**62)))
    pools = [np.flatnonzero(data.y_train == digit) for digit in range(CLASSES)]
    owner: list[int | None] = []  # the model opened for each task
    tests, false_alarms, routed, probes = [], [], [], []
    for task in range(setting.tasks):
        own = [pools[digit] for digit in digits[2 * task : 2 * task + 2]]
        before, batches = {model.number for model in system.models}, system.journal.batches
        learn_task(system, data, own, rng, told=setting.told)
        owner.append(opened_for_task(system, before, batches))
        seen = digits[: 2 * task + 2]
        tests.append(test(system, data, seen, rng))
        routed.append(right_model(system, data, seen, owner))
        following = [pools[digit] for digit in digits[2 * task + 2 : 2 * task + 4]]
        alarms = 0
        for t, model in enumerate(owner):
            known = [pools[digit] for digit in digits[2 * t : 2 * t + 2]]
            batches = data.X_train[draw(rng, known, PROBES, size)].reshape(PROBES, size, -1)
            judged = [{v.model: v for v in system.judge(batch)} for batch in batches]
            alarms += sum(not any(v.validated for v in verdicts.values()) for verdicts in judged)
            if t == task and model is not None:
                own_verdicts = [verdicts[model] for verdicts in judged]
                others = []
                if following:
                    foreign = data.X_train[draw(rng, following, PROBES, size)]
                    others = [
                        next(v.value for v in system.judge(batch) if v.model == model)
                        for batch in foreign.reshape(PROBES, size, -1)
                    ]
                shares = [v.value for v in own_verdicts]
                probes.append(Probe(model, own_verdicts[0].limit, shares, others))
        false_alarms.append(alarms / (PROBES * len(owner)))
    return Run(
        setting,
        number,
        digits,
        tests,
        [model is not None for model in owner],
        false_alarms,
        routed,
        probes,
        [describe(model) for model in system.models],
        time.perf_counter() - start,
    )


def example(preset: str, seed: int = 0) -> tuple[ContinualSystem, NDArray, NDArray]:
    """Return a system of three tasks, the first 6 and 7; a batch and a sample of the second.

    At the value of T_CP at which the paper's rule notices new tasks.
    """
    data = images(14)
    settings = Setting(preset, 0.05).settings()
    rng = np.random.default_rng([seed, 67])
    system = new_system(data.X_train.shape[1], CLASSES, settings, seed=seed)
    tasks = [[np.flatnonzero(data.y_train == d) for d in pair] for pair in ((6, 7), (0, 3), (1, 5))]
    for pools in tasks:
        learn_task(system, data, pools, rng)
    batch = data.X_train[draw(rng, tasks[1], 1, settings.l0.batch_size)]
    threes = data.X_test[data.y_test == 3]
    # One that the models disagree on, for the picture.
    sample = threes[np.argmax(np.ptp(system.scores(threes[:200]), axis=1))]
    return system, batch, sample


def learn_task(
    system: ContinualSystem,
    data: Dataset,
    pools: Sequence[NDArray],
    rng: np.random.Generator,
    *,
    told: bool = False,
) -> None:
    """Show batches of one task until the system is stable: at once if it takes them for known."""
    size = system.settings.l0.batch_size
    blocks = 1
    while True:
        chosen = draw(rng, pools, blocks, size)
        if told and blocks == 1:
            system.open_model()
        system.learn(data.X_train[chosen], data.y_train[chosen], stop_when_stable=True)
        if system.adapting is None:
            return
        blocks = BLOCK


def test(
    system: ContinualSystem, data: Dataset, classes: Sequence[int], rng: np.random.Generator
) -> dict[int, float]:
    """Return the accuracy by class on 300 test samples, as many of each class."""
    each = TEST_SAMPLES // len(classes)
    result = {}
    for digit in classes:
        chosen = rng.choice(np.flatnonzero(data.y_test == digit), each, replace=False)
        answers = system.answer(data.X_test[chosen]).outputs.argmax(axis=1)
        result[digit] = float(np.mean(answers == digit))
    return result


def opened_for_task(system: ContinualSystem, before: Container[int], batches: int) -> int | None:
    """Return which of the new models took most batches from this one on; None: none is new."""
    taken = [report.model for report in system.journal.reports[batches:]]
    new = [model.number for model in system.models if model.number not in before]
    return max(new, key=taken.count, default=None)


def right_model(
    system: ContinualSystem, data: Dataset, digits: Sequence[int], owner: Sequence[int | None]
) -> float:
    """Return the share of test samples of all tasks so far that reach their task's own model."""
    shares = []
    for task, model in enumerate(owner):
        if model is not None:
            chosen = np.isin(data.y_test, digits[2 * task : 2 * task + 2])
            shares.append(float(np.mean(system.answer(data.X_test[chosen]).route == model)))
    return mean(shares)


def describe(model: Any) -> dict[str, float]:
    """Return the sizes of a stable model."""
    error, edges, _ = model.l1.learning_curves  # empty where L1 was solved for
    kept = model.l1.network.n_edges if model.l1.network is not None else 0
    stats = model.error_stats
    return {
        "L0_edges": model.network.n_edges,
        "L0_hidden": model.network.n_hidden,
        "L0_steps": len(model.history.error),
        "L1_targets": len(model.l1.steps_taken) or len(model.l1.targets),
        "L1_confident": len(stats.mean),
        "L1_edges_grown": int(edges[-1]) if len(edges) else kept,
        "L1_edges": kept,
        "L1_steps": len(error),
        "L1_error": float(error[-1]) if len(error) else float((stats.mean**2).mean()),
        "R_IS": stats.invalid_share,
        "parameters": model.n_parameters,
    }


# ------------------------------------------------------------------ summaries, the paper's and ours

Tests = Sequence[Mapping[int, float]]


def net_accuracy(tests: Tests, after: int) -> float:
    """Return the accuracy over all classes after a task (from 0): classes count alike."""
    return mean(tests[after].values())


def task_accuracy(tests: Tests, task: int, after: int) -> float:
    """Return the accuracy on one task's classes after another."""
    return mean(list(tests[after].values())[2 * task : 2 * task + 2])


def missed_a_task(tests: Tests) -> bool:
    """Was a task never answered at all? So the paper's tables show that it was not detected."""
    last = len(tests) - 1
    return any(task_accuracy(tests, task, last) == 0.0 for task in range(len(tests)))


def accuracies(runs: Sequence[Tests]) -> list[float]:
    """Return the mean accuracy after each task."""
    if not runs:
        return [float("nan")] * 3
    return [mean(net_accuracy(tests, after) for tests in runs) for after in range(len(runs[0]))]


def net_retention(runs: Sequence[Tests]) -> list[float]:
    """Return ALL+2, ALL+3, ...: the mean over runs of accuracy after ÷ before a task."""
    if not runs:
        return [float("nan")] * 2
    return [
        mean(net_accuracy(tests, after) / net_accuracy(tests, after - 1) for tests in runs)
        for after in range(1, len(runs[0]))
    ]


def task_retention(runs: Sequence[Tests]) -> dict[str, float]:
    """Return T1+2, T1+3, T2+3, ...: the same for the classes of one task."""
    result = {}
    n_tasks = len(runs[0]) if runs else 3
    for task in range(n_tasks):
        for after in range(task + 1, n_tasks):
            ratios = [
                task_accuracy(tests, task, after) / task_accuracy(tests, task, after - 1)
                for tests in runs
                if task_accuracy(tests, task, after - 1) > 0
            ]
            result[f"T{task + 1}+{after + 1}"] = mean(ratios)
    return result


def class_accuracies(runs: Sequence[Tests]) -> dict[int, tuple[float, int]]:
    """Return for each class its mean accuracy after the last task, and in how many runs it was."""
    result = {}
    for digit in range(CLASSES):
        values = [tests[-1][digit] for tests in runs if digit in tests[-1]]
        result[digit] = (mean(values), len(values))
    return result
