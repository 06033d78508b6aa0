"""Two digits of MNIST: how much accuracy a given number of edges buys.

`measure` compares at equal size (edges; biases apart) with regressions and trees. `measure_paper`
repeats the paper's single-task claim: ten logistic outputs of which two are active.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from dirad.datasets import Dataset, digit_pair, load_mnist
from dirad.demo.baselines import greedy_logistic
from dirad.demo.problems import Grown, grow
from dirad.engine import Progress, run_all
from dirad.estimators import DIRADClassifier
from dirad.inference import respond
from dirad.params import Params, preset
from dirad.streams.averages import deviation, mean, standard_error
from experiments.baselines.logistic import full_logistic, l1_logistic
from experiments.baselines.tree import decision_tree

ALL_PAIRS = tuple(combinations(range(10), 2))
HELD_OUT = 1 / 6  # of the training data, where a choice is made

Pair = tuple[int, int]

SIZED = {"greedy logistic": greedy_logistic, "L1 logistic": l1_logistic, "tree": decision_tree}
REFERENCE = "greedy logistic"
METHODS = ("DIRAD", *SIZED, "full logistic")

# The paper's figures for one task (its section on single-task performance).
PAPER_ACCURACY = 0.90
PAPER_HIDDEN, PAPER_EDGES = 20, 50  # "less than"
FULLY_CONNECTED = 196 * 16 + 16 * 10  # edges of the perceptron it compares with: 3,296


@dataclass(frozen=True)
class Run:
    """One fit on one pair."""

    pair: str
    method: str
    size: int | None  # edges allowed; None: no limit
    accuracy: float
    edges: int  # used; of a tree: splits
    hidden: int = 0
    steps: int | None = None
    seed: int | None = None


def choose_pairs(count: int) -> list[Pair]:
    """Return `count` of the 45 pairs, spread evenly over their list.

    >>> choose_pairs(3)
    [(0, 1), (1, 8), (4, 5)]
    """
    if not 1 <= count <= len(ALL_PAIRS):
        raise ValueError(f"there are {len(ALL_PAIRS)} pairs of digits, not {count}")
    return [ALL_PAIRS[i * len(ALL_PAIRS) // count] for i in range(count)]


@cache
def mnist() -> Dataset:
    """MNIST at 14 × 14, read once per process."""
    return load_mnist()


def load_pair(pair: Pair, held_out: bool = False) -> Dataset:
    """A pair's training and test samples; `held_out`: both parts from the training samples."""
    data = digit_pair(mnist(), *pair)
    return hold_out(data) if held_out else data


def hold_out(data: Dataset) -> Dataset:
    """Put a sixth of the training samples in the place of the test samples."""
    fit, held = train_test_split(
        np.arange(len(data.y_train)), test_size=HELD_OUT, random_state=0, stratify=data.y_train
    )
    return Dataset(data.X_train[fit], data.y_train[fit], data.X_train[held], data.y_train[held])


def pair_name(pair: Pair) -> str:
    return f"{pair[0]} vs {pair[1]}"


def _score(answers: NDArray, data: Dataset) -> float:
    return float(np.mean(answers == data.y_test))


# --- at equal size -----------------------------------------------------------------------------


def fit_dirad(
    pair: Pair,
    size: int,
    seed: int,
    changes: dict[str, Any] | None = None,
    held_out: bool = False,
) -> DIRADClassifier:
    """DIRAD's default with at most `size` edges. `changes`: constants other than the preset's."""
    data = load_pair(pair, held_out)
    model = DIRADClassifier(random_state=seed, **{"max_edges": size, **(changes or {})})
    return model.fit(data.X_train, data.y_train)


def run_dirad(
    pair: Pair,
    size: int,
    seed: int,
    changes: dict[str, Any] | None = None,
    held_out: bool = False,
) -> Run:
    """Fit DIRAD and score it."""
    data = load_pair(pair, held_out)
    model = fit_dirad(pair, size, seed, changes, held_out)
    return Run(
        pair_name(pair),
        "DIRAD",
        size,
        _score(model.predict(data.X_test), data),
        model.n_edges_,
        model.n_hidden_,
        model.n_steps_,
        seed,
    )


def run_baseline(pair: Pair, method: str, sizes: Sequence[int]) -> list[Run]:
    """A baseline at each size."""
    data = load_pair(pair)
    X, y, name = data.X_train, data.y_train, pair_name(pair)
    if method == "full logistic":
        model = full_logistic(X, y)
        return [Run(name, method, None, _score(model.predict(data.X_test), data), model.n_weights)]
    return [
        Run(name, method, size, _score(model.predict(data.X_test), data), model.n_weights)
        for size, model in SIZED[method](X, y, sizes).items()
    ]


def _run(kind: str, *job: Any) -> list[Run]:
    return [run_dirad(*job)] if kind == "dirad" else run_baseline(*job)


def measure(
    pairs: Sequence[Pair],
    sizes: Sequence[int],
    *,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per pair, method and size: trained on the training, scored on the test set."""
    mnist()  # a missing data set shows here, before any process starts
    baselines = ("full logistic", "greedy logistic", "L1 logistic", "tree")
    jobs: list[tuple[Any, ...]] = [
        ("baseline", pair, method, tuple(sizes)) for method in baselines for pair in pairs
    ]
    jobs += [("dirad", pair, size, seed) for pair in pairs for size in sizes]
    found = run_all(_run, jobs, workers=workers, progress=progress)
    return sorted(
        (run for runs in found for run in runs),
        key=lambda run: (run.size or 1 << 30, METHODS.index(run.method), run.pair),
    )


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per size and method: means over pairs, and the difference to greedy logistic."""
    rows: list[dict[str, Any]] = []
    for size, method in dict.fromkeys((run.size, run.method) for run in runs):
        group = {run.pair: run for run in runs if (run.size, run.method) == (size, method)}
        rival = {run.pair: run for run in runs if (run.size, run.method) == (size, REFERENCE)}
        scores = [run.accuracy for run in group.values()]
        row: dict[str, Any] = {
            "size": size if size is not None else "all",
            "method": method,
            "accuracy": mean(scores),
            "accuracy_se": standard_error(scores),
        }
        if rival and method != REFERENCE:
            gaps = [group[pair].accuracy - rival[pair].accuracy for pair in group]
            row |= {"difference": mean(gaps), "difference_se": standard_error(gaps)}
            row["pairs_better"] = sum(gap > 0 for gap in gaps)
            row["pairs"] = len(gaps)
        row["edges"] = mean(run.edges for run in group.values())
        row["edges_max"] = max(run.edges for run in group.values())
        if method == "DIRAD":
            row["hidden"] = mean(run.hidden for run in group.values())
            row["hidden_max"] = max(run.hidden for run in group.values())
        rows.append(row)
    return rows


# --- the paper's protocol ----------------------------------------------------------------------


def grow_paper(
    pair: Pair, seed: int, params: Params | None = None, held_out: bool = False
) -> Grown:
    """Ten logistic outputs, one a digit, and raw pixels."""
    data = load_pair(pair, held_out)
    return grow(data.X_train, np.eye(10)[data.y_train], params or preset("paper"), seed)


def run_paper(pair: Pair, seed: int, params: Params, held_out: bool = False) -> Run:
    """Grow as in the paper; the answer is the largest of all ten outputs."""
    data = load_pair(pair, held_out)
    grown = grow_paper(pair, seed, params, held_out)
    answers = np.argmax(respond(grown.network, data.X_test), axis=1)
    return Run(
        pair_name(pair),
        "DIRAD, paper",
        None,
        _score(answers, data),
        grown.network.n_edges,
        grown.network.n_hidden,
        grown.steps,
        seed,
    )


def measure_paper(
    pairs: Sequence[Pair],
    *,
    seed: int = 0,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per pair under the paper's preset."""
    mnist()
    jobs = [(pair, seed, preset("paper")) for pair in pairs]
    return run_all(run_paper, jobs, workers=workers, progress=progress)


def summarize_paper(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return our mean and deviation over pairs beside the paper's figures."""
    ours: dict[str, Any] = {"source": f"measured, {len(runs)} pairs"}
    for name in ("accuracy", "edges", "hidden", "steps"):
        values = [float(getattr(run, name)) for run in runs]
        ours |= {name: mean(values), f"{name}_sd": deviation(values)}
    return [
        ours,
        {
            "source": "the paper (quoted)",
            "accuracy": f"≈ {PAPER_ACCURACY:.2f}",
            "edges": f"< {PAPER_EDGES}",
            "hidden": f"< {PAPER_HIDDEN}",
        },
        {
            "source": "fully connected, 16 hidden (quoted)",
            "edges": f"{FULLY_CONNECTED:,}",
            "hidden": "16",
        },
    ]
