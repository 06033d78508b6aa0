"""One method, one stream: all that is reported of it."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from dirad.preval.answers import Evaluated
from dirad.preval.expert import Expert
from dirad.preval.judgement import judge
from dirad.streams.kinds import Stream
from experiments.comparison.methods import (
    DRIVEN,
    METHODS,
    WIDE,
    Ours,
    Watched,
    settings_for,
)
from experiments.comparison.scenario import Scenario, load, unseen
from experiments.comparison.size import peer_bytes, system_bytes
from experiments.metrics import (
    final_accuracy,
    mutual_information,
    novelty_auroc,
    novelty_fpr95,
    purity,
)
from experiments.peers import EWC

NAN = float("nan")
SLOW = {"Hoeffding tree": 2000}  # test samples on which a slow method is tested
SIZES = (20, 100, 500)  # of batches on which false alarms are counted


@dataclass(frozen=True)
class Result:
    """What became of one method in one stream."""

    scenario: Scenario
    order: int
    method: str
    accuracies: list[list[float]] = field(default_factory=list)  # R: after task i, on task j
    before_finish: float = NAN  # ours: final accuracy when the stream ends, still in training
    opened: list[int] = field(default_factory=list)  # batches at which a task was called new
    models: int = 0
    routed: float = NAN  # share of test samples that reach the model of their own task
    purity: float = NAN
    nmi: float = NAN
    auroc: float = NAN  # of novelty, after the first task
    fpr95: float = NAN
    stored: int = 0  # numbers
    n_bytes: int = 0  # of these, by the rule of `size`
    samples: int = 0  # kept at the end
    seconds: float = NAN
    # For every model of ours with exactly one task's classes: p-values of unseen batches of that
    # task by batch size, without labels.
    chances: list[dict[str, list[float]]] = field(default_factory=list)
    sizes: list[dict[str, float]] = field(default_factory=list)  # of every model of ours


@dataclass(frozen=True)
class Done:
    """The results of one job: of a method, and of what ran beside it."""

    results: list[Result]


def run(scenario: Scenario, order: int, method: str, changes: dict[str, Any] | None = None) -> Done:
    """Return what a method does in a stream. `changes` are settings of ours, for ablations."""
    stream = scenario.stream(order)
    n_inputs = stream.X.shape[1]
    if changes is None:
        learner = (METHODS | WIDE)[method](scenario, n_inputs, order)
    else:
        learner = Ours(scenario, n_inputs, order, settings_for(scenario, **changes))
    driven = None
    if method == "ours (default)" and changes is None:
        driven = Driven(n_inputs, scenario.n_classes, order)
    start = time.perf_counter()
    R, R_driven, novelty, testing, beside = [], [], (NAN, NAN), 0.0, 0.0
    before_finish = NAN
    for task in range(scenario.tasks):
        for batch in np.array_split(np.flatnonzero(stream.task == task), _batches(scenario)):
            X, y = stream.X[batch], stream.y[batch]
            learner.learn(X, y)
            if driven is not None:
                pause = time.perf_counter()
                driven.learn(X, y, learner)
                beside += time.perf_counter() - pause
        end = getattr(learner, "end", None)
        if task == scenario.tasks - 1 and end is not None:
            if isinstance(learner, Ours):
                pause = time.perf_counter()
                before_finish = final_accuracy([accuracies_after(learner, stream, task)])
                testing += time.perf_counter() - pause
            end()
        pause = time.perf_counter()
        if not isinstance(learner, Watched):
            R.append(accuracies_after(learner, stream, task, SLOW.get(method)))
            if driven is not None:
                R_driven.append(accuracies_after(driven, stream, task))
            if task == (scenario.tasks - 1 if isinstance(learner, Ours) else 0):
                novelty = novelty_of(learner, scenario, stream)
        testing += time.perf_counter() - pause
    seconds = time.perf_counter() - start - testing - beside
    route = routing(learner, stream)
    result = Result(
        scenario, order, method, R, before_finish, list(getattr(learner, "opened", [])),
        models_of(learner), *route, *novelty, getattr(learner, "n_stored", 0),
        bytes_of(learner, scenario, n_inputs), getattr(learner, "n_samples_stored", 0), seconds,
        p_values(learner, scenario, order), sizes(learner),
    )  # fmt: skip
    if driven is None:
        return Done([result])
    return Done(
        [
            result,
            Result(
                scenario,
                order,
                DRIVEN,
                R_driven,
                opened=driven.told,
                stored=driven.n_stored,
                n_bytes=bytes_of(driven, scenario, n_inputs),
                samples=driven.n_samples_stored,
                seconds=seconds + beside,
            ),
        ]
    )


def _batches(scenario: Scenario) -> int:
    return scenario.per_task // scenario.batch_size


class Driven(EWC):
    """EWC that is told of a new task by our reports, as `dirad.watch` gives them."""

    def __init__(self, n_inputs: int, n_classes: int, seed: int) -> None:
        super().__init__(n_inputs, n_classes, seed=seed)
        self.at = 0  # the task at hand
        self.told: list[int] = []

    def learn(self, X: NDArray, y: NDArray, ours: Any = None) -> None:
        report = ours.system.journal.reports[-1]
        if report.model != self.at:
            self.at = report.model
            self.told.append(report.batch)
            self.new_task()
        super().learn(X, y)


def accuracies_after(
    learner: Any, stream: Stream, after: int, most: int | None = None
) -> list[float]:
    """Return the accuracy on each task so far; 0 on those to come."""
    result = []
    for task in range(len(stream.classes)):
        chosen = np.flatnonzero(stream.task_test == task)[: most and most // len(stream.classes)]
        if task > after:
            result.append(0.0)
        else:
            answers = learner.predict(stream.X_test[chosen])
            result.append(float(np.mean(answers == stream.y_test[chosen])))
    return result


def novelty_of(learner: Any, scenario: Scenario, stream: Stream) -> tuple[float, float]:
    """Return AUROC and FPR95 of test samples of the first task against all other classes.

    Peers are tested after the first task; ours at the end, by the model of that task alone.
    """
    if not hasattr(learner, "novelty"):
        return NAN, NAN
    data = load(scenario.data)
    own = np.isin(data.y_test, stream.classes[0])
    if isinstance(learner, Ours):
        first = [
            m
            for m in learner.system.experts
            if isinstance(m, Expert) and set(stream.classes[0]) <= set(m.classes)
        ]
        if not first:
            return NAN, NAN
        scores = Evaluated.by(first[0], data.X_test.astype(np.float64)).novelty
    else:
        scores = learner.novelty(data.X_test)
    return novelty_auroc(scores[own], scores[~own]), novelty_fpr95(scores[own], scores[~own])


def routing(learner: Any, stream: Stream) -> tuple[float, float, float]:
    """Return the share of test samples that reach their task's model, purity and NMI."""
    if not hasattr(learner, "route"):
        return NAN, NAN, NAN
    route = np.asarray(learner.route(stream.X_test))
    # Tasks and models are paired so that as many samples as possible reach their task's model.
    models = np.unique(route)
    counts = np.array(
        [
            [np.sum((stream.task_test == task) & (route == model)) for model in models]
            for task in range(len(stream.classes))
        ]
    )
    pairs = linear_sum_assignment(-counts)
    return (
        float(counts[pairs].sum() / len(route)),
        purity(stream.task_test, route),
        mutual_information(stream.task_test, route),
    )


def bytes_of(learner: Any, scenario: Scenario, n_inputs: int) -> int:
    """Return what a method keeps, in bytes."""
    each = scenario.split.input_bytes
    if isinstance(learner, Ours):
        return system_bytes(learner.system, each)
    return peer_bytes(learner, n_inputs, each)


def models_of(learner: Any) -> int:
    """Return how many models or tasks a method has."""
    if isinstance(learner, Ours):
        return len(learner.system.models)
    return len(getattr(learner, "tasks", ()))


def p_values(learner: Any, scenario: Scenario, order: int) -> list[dict[str, list[float]]]:
    """Return the p-values of disjoint, unseen batches of its own task under each model of ours."""
    if not isinstance(learner, Ours):
        return []
    stream = scenario.stream(order)
    result = []
    for model in learner.system.experts:
        if not isinstance(model, Expert) or not model.classes:
            continue
        own = [set(classes) == set(model.classes) for classes in stream.classes]
        if not any(own):
            continue
        X = unseen(scenario, order, own.index(True)).astype(np.float64)
        found = {}
        for size in SIZES:
            whole = len(X) // size
            batches = X[: whole * size].reshape(whole, size, X.shape[1])
            found[str(size)] = [judge(model, batch).verdict.p for batch in batches]
        result.append(found)
    return result


def sizes(learner: Any) -> list[dict[str, float]]:
    """Return sizes and steps of each model of ours."""
    if not isinstance(learner, Ours):
        return []
    result = []
    for model in learner.system.experts:
        l1 = model.l1
        grown = l1.network if l1 is not None else None
        result.append(
            {
                "L0 edges": model.network.n_edges,
                "L0 steps": len(model.history.error),
                "L1 edges": grown.n_edges if grown is not None else 0,
                "modes": l1.n_clusters if l1 is not None else 0,
                "numbers": model.n_parameters,
            }
        )
    return result


def restored(plain: Any) -> list[Result]:
    """Return results from their line in the file of results."""
    return [Result(**{**one, "scenario": Scenario(**one["scenario"])}) for one in plain["results"]]


def noticed(result: Result) -> tuple[Sequence[int], int]:
    """Return the delay of each change in batches (-1: missed), and the number of false alarms.

    A change is noticed by the first batch within the new task that is called new. Every other
    batch that is called new, but the first of the stream, is a false alarm.
    """
    length = _batches(result.scenario)
    delays, false = [], 0
    for task in range(result.scenario.tasks):
        here = [batch - task * length for batch in result.opened if batch // length == task]
        false += max(len(here) - 1, 0)
        if task > 0:
            delays.append(here[0] if here else -1)
    return delays, false
