"""Three problems for one network: XOR, parity of six bits, and the digits 4 and 9."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LOGISTIC, Network
from dirad.datasets import DatasetMissing, digit_pair, small_digits
from dirad.demo.baselines import greedy_logistic, parity_mlp
from dirad.growth.adapt import adapt, new_data
from dirad.growth.state import State, new_state
from dirad.history import History
from dirad.inference import respond
from dirad.params import Params, preset
from dirad.streams.run import source

DIGITS_EDGES = 15  # allowed for 4 against 9
CHUNK = 25  # steps between two reports


@dataclass(frozen=True)
class Problem:
    """A task of two classes; `y` holds 0 and 1."""

    key: str  # used in file names
    name: str
    X: Any
    y: Any
    X_test: Any
    y_test: Any
    max_edges: int
    bits: int = 0  # of parity; 0: digits
    image_shape: tuple[int, int] | None = None


class Grown(NamedTuple):
    """A network that has become stable."""

    network: Network
    history: History
    steps: int
    seconds: float


def patterns(bits: int) -> NDArray[np.float64]:
    """Return all 2ⁿ patterns of −1 and 1, one per row."""
    return np.array(list(product([-1.0, 1.0], repeat=bits)))


def odd(X: NDArray[np.float64], bits: int) -> NDArray[np.int64]:
    """Return 1 where the number of ones among the first `bits` columns is odd.

    >>> odd(patterns(2), 2).tolist()
    [0, 1, 1, 0]
    """
    return np.count_nonzero(X[:, :bits] > 0, axis=1) % 2


def parity_edges(bits: int) -> int:
    """Return the edges allowed: a product of n sources needs 2n − 1; this leaves some room."""
    return 2 * bits + 6


def problems(quick: bool) -> tuple[list[Problem], str]:
    """Return the three problems, and a note on where the digits come from.

    The digits are MNIST's, or if `quick`, or if MNIST is missing, scikit-learn's of 8 × 8 pixels.
    """
    found = []
    for bits, key, name in ((2, "xor", "XOR"), (6, "parity-6", "parity of 6 bits")):
        X = patterns(bits)
        y = odd(X, bits)
        found.append(Problem(key, name, X, y, X, y, parity_edges(bits), bits))
    side, note = 8, "Digits: scikit-learn's, of 8 × 8 pixels."
    try:
        data = small_digits() if quick else source("mnist")
        if not quick:
            side, note = 14, "Digits: MNIST."
    except DatasetMissing:
        data, note = small_digits(), f"MNIST was not found. {note}"
    pair = digit_pair(data, 4, 9)
    name, shape = f"4 or 9, {side} × {side} pixels", (side, side)
    fit, test = (pair.X_train, pair.y_train == 9), (pair.X_test, pair.y_test == 9)
    found.append(Problem("digits-4-9", name, *fit, *test, DIGITS_EDGES, image_shape=shape))
    return found, note


def standardize(X: NDArray, other: NDArray | None = None) -> tuple[NDArray, NDArray[np.bool_]]:
    """Return X, or `other`, standardized by the mean and deviation of X; and which columns vary."""
    mean_of, spread = X.mean(axis=0), X.std(axis=0)
    varies = spread > 1e-6
    chosen = X if other is None else other
    return (chosen - mean_of) / np.where(varies, spread, 1.0), varies


def grow(
    X: NDArray,
    targets: NDArray,
    params: Params,
    seed: int,
    *,
    usable: NDArray[np.bool_] | None = None,
    report: Callable[[State], None] | None = None,
    chunk: int = 200,
) -> Grown:
    """Grow a network with logistic outputs on X (n, inputs) and targets (n, outputs)."""
    start = time.perf_counter()
    state = new_state(X.shape[1], targets.shape[1], transfer=LOGISTIC, seed=seed, n_samples=len(X))
    if usable is not None:
        state.network.usable[:] = usable
    data = new_data(X, targets, params)
    state, history = adapt(state, data, params, report=report, chunk=chunk)
    return Grown(state.network, history, state.step, time.perf_counter() - start)


def solve(problem: Problem, seed: int, report: Callable[[State], None]) -> Grown:
    """Grow a network for a problem; `report` is called with its state every few steps."""
    X, usable = standardize(problem.X)
    params = preset("default", max_edges=problem.max_edges)
    targets = problem.y[:, None].astype(float)
    return grow(X, targets, params, seed, usable=usable, report=report, chunk=CHUNK)


def compare(problem: Problem, result: Grown, seed: int) -> dict[str, Any]:
    """Return a row: the network that was grown, and a baseline beside it."""
    X, _ = standardize(problem.X, problem.X_test)
    network = result.network
    answers = respond(network, X)[:, 0] > 0.5
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
        return row | _parity_baseline(problem.bits, seed)
    sizes = (network.n_edges, 2 * network.n_edges, 4 * network.n_edges)
    fitted = greedy_logistic(problem.X, problem.y, sizes)
    scores = [(fitted[n].predict(problem.X_test) == problem.y_test).mean() for n in sizes]
    return row | {
        "beside": "logistic, best pixels",
        "its_edges": " / ".join(str(n) for n in sizes),
        "its_accuracy": " / ".join(f"{score:.4f}" for score in scores),
    }


def _parity_baseline(bits: int, seed: int) -> dict[str, Any]:
    """Describe the perceptron of n hidden units, or of 2n where that one fails."""
    hidden = bits
    run = parity_mlp(bits, hidden, seed)
    if not run.solved:
        hidden = 2 * bits
        run = parity_mlp(bits, hidden, seed)
    name = f"MLP, {hidden} hidden" + ("" if run.solved else " (not solved)")
    return {"beside": name, "its_edges": run.n_edges}
