"""The demo's three problems, and what each network is compared with."""

from dataclasses import dataclass
from typing import Any

from dirad.core.propagate import respond
from dirad.experiments import pairs, parity
from dirad.experiments.baselines import greedy_logistic
from dirad.experiments.runner import Grown


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
