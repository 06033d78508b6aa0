"""The demo: three problems for one network, and a stream of tasks for a system of them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dirad.experiments import pairs, parity, published
from dirad.experiments.baselines import greedy_logistic
from dirad.experiments.protocol import images
from dirad.experiments.runner import Grown
from dirad.experiments.streams.follow import Moment, Watcher, accuracy_of
from dirad.experiments.streams.recurrence import learn_recurring
from dirad.experiments.streams.scoring import quick as quick_settings
from dirad.inference import respond
from dirad.preval.settings import PRESETS
from dirad.preval.system import System


@dataclass(frozen=True)
class Problem:
    """A task of two classes for the demo; `y` holds 0 and 1."""

    key: str  # names files
    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    max_edges: int
    bits: int = 0  # of parity; 0: digits
    image_shape: tuple[int, int] | None = None


def problems(quick: bool) -> tuple[list[Problem], str]:
    """Return the three problems, and a remark on where the digits come from."""
    found = []
    for bits, key, name in ((2, "xor", "XOR"), (6, "parity-6", "parity of 6 bits")):
        X = parity.patterns(bits)
        y = parity.odd(X, bits)
        limit = parity.max_edges(bits)
        found.append(Problem(key, name, X, y, X, y, limit, bits))
    digits_4_9, side, remark = pairs.four_and_nine(small=quick)
    found.append(
        Problem(
            "digits-4-9",
            f"4 or 9, {side} × {side} pixels",
            digits_4_9.X_train,
            digits_4_9.y_train == 9,
            digits_4_9.X_test,
            digits_4_9.y_test == 9,
            15,
            image_shape=(side, side),
        )
    )
    return found, remark


def compare(problem: Problem, result: Grown, seed: int) -> dict[str, Any]:
    """Return what the final table says of a problem."""
    X, _ = pairs.standardize(problem.X, problem.X_test)
    answers = respond(result.network, X)[:, 0] > 0.5
    network = result.network
    row = {
        "problem": problem.name,
        "right": float((answers == (problem.y_test == 1)).mean()),
        "edges": network.n_edges,
        "hidden": network.n_hidden,
        "parameters": network.n_parameters,
        "steps": result.steps,
        "seconds": result.seconds,
    }
    if problem.bits:
        rival = parity.smallest_mlp(problem.bits, seed)
        name = f"MLP, {rival.hidden} hidden" + ("" if rival.solved else " (not solved)")
        return row | {"beside": name, "its_edges": rival.edges}
    sizes = (network.n_edges, 2 * network.n_edges, 4 * network.n_edges)
    fitted = greedy_logistic(problem.X, problem.y, sizes)
    scores = [(fitted[n].predict(problem.X_test) == problem.y_test).mean() for n in sizes]
    return row | {
        "beside": "logistic, best pixels",
        "its_edges": " / ".join(str(n) for n in sizes),
        "its_accuracy": " / ".join(f"{score:.4f}" for score in scores),
    }


# ------------------------------------------------------------------ the stream

ORDER = (0, 1, 2, 0, 1)  # three tasks, two of which come again


@dataclass(frozen=True)
class Story:
    """A stream as it was lived through."""

    system: System
    moments: list[Moment]
    classes: list[list[int]]  # the digits of each task
    accuracies: list[float]  # on test samples of all tasks so far, when each became known


def live_through(seed: int, quick: bool, report: Watcher) -> Story:
    """Show the stream to a new system."""
    data = pairs.small_digits() if quick else images(14)
    settings = quick_settings(PRESETS["default"]) if quick else PRESETS["default"]
    accuracies: list[float] = []

    def look(moment: Moment, system: System) -> None:
        if len(system.stable) > len(accuracies):
            seen = [code for model in system.stable for code in model.classes]
            test = np.isin(data.y_test, seen)
            accuracies.append(accuracy_of(system, data.X_test[test], data.y_test[test]))
        report(moment, system)

    system, moments, classes = learn_recurring(
        "default", ORDER, seed=seed, data=data, settings=settings, report=look
    )
    return Story(system, moments, classes, accuracies)


def against_the_paper(story: Story) -> list[dict[str, Any]]:
    """Return the accuracy after each task, ours and the paper's best."""
    rows = [{"system": "this one"}, {"system": "the paper's best"}]
    rows += [{"system": "perfect on the latest task, nothing before"}, {"system": "chance"}]
    for task in range(3):
        name = f"after {2 * task + 2} digits"
        found = story.accuracies[task] if task < len(story.accuracies) else float("nan")
        best = max(printed[0][task] for printed in published.ACCURACIES.values())
        for row, value in zip(rows, (found, best, 1 / (task + 1), 0.5 / (task + 1)), strict=True):
            row[name] = f"{value:.2f}"
    return rows


def what_happened(story: Story) -> list[dict[str, Any]]:
    """Return the events, with what the stream really did beside them."""
    size = story.system.settings.l0.batch_size
    rows = []
    for event in story.system.events:
        at = min(event.batch, len(story.moments) - 1)
        a, b = story.classes[story.moments[at].task]
        rows.append(
            {
                "batch": event.batch,
                "samples": event.batch * size,
                "shown": f"{a} and {b}",
                "event": f"model {event.model} {event.kind}",
                "p of each model": ", ".join(f"{p:.2g}" for p in event.evidence.get("p", [])),
            }
        )
    return rows
