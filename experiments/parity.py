"""n-bit parity: a task of pure conflict, since no input says anything unless all others are known.

Two ways to show it: all 2ⁿ patterns at once, or a stream of random batches, where chance makes
wrong sources look right. `distractors` are inputs that have nothing to do with the answer.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import Network
from dirad.demo.baselines import parity_mlp
from dirad.demo.problems import odd, parity_edges, patterns
from dirad.engine import Progress, run_all
from dirad.estimators import DIRADClassifier
from dirad.history import KIND_NAMES, History
from dirad.streams.averages import mean

STREAM_SAMPLES = 20_000  # random patterns that a stream is drawn from
STREAM_BATCH = 200
FRESH_DRAWS = 20  # draws of the distractors per pattern in the final check

# Quoted, not measured in the same run: neat-python, all patterns, solved runs of five.
NEAT_RUNS = 5
NEAT_SOLVED = {2: 2, 3: 0, 4: 0, 5: 0, 6: 0}


@dataclass(frozen=True)
class Run:
    """One attempt. Edges and hidden nodes are those of the final network, solved or not."""

    bits: int
    method: str
    seed: int
    solved: bool
    edges: int
    hidden: int
    steps: int | None = None
    last_change: int | None = None  # steps until the last edge or node was added
    network: str | None = None  # fingerprint, which is the same for repeated runs


def grow_parity(
    bits: int,
    seed: int,
    preset: str = "default",
    stream: bool = False,
    distractors: int = 0,
    changes: dict[str, Any] | None = None,
) -> DIRADClassifier:
    """Return a fitted network. `changes` are constants other than the preset's."""
    model = DIRADClassifier(
        preset=preset,
        random_state=seed,
        **{
            "max_edges": parity_edges(bits) if preset == "paper" else None,
            "batch_size": STREAM_BATCH if stream or distractors else None,
            **(changes or {}),
        },
    )
    if stream or distractors:
        rng = np.random.default_rng([seed, bits, distractors])
        X = rng.choice([-1.0, 1.0], (STREAM_SAMPLES, bits + distractors))
    else:
        X = patterns(bits)
    return model.fit(X, odd(X, bits))


def fresh_samples(bits: int, distractors: int, seed: int) -> NDArray[np.float64]:
    """Return all patterns, each with several new draws of the distractors."""
    X = patterns(bits)
    if not distractors:
        return X
    X = np.repeat(X, FRESH_DRAWS, axis=0)
    rng = np.random.default_rng([seed, bits, distractors, 1])
    return np.hstack([X, rng.choice([-1.0, 1.0], (len(X), distractors))])


def run_dirad(
    bits: int,
    seed: int,
    preset: str = "default",
    stream: bool = False,
    distractors: int = 0,
    changes: dict[str, Any] | None = None,
) -> Run:
    """Grow, then ask for every pattern."""
    model = grow_parity(bits, seed, preset, stream, distractors, changes)
    X = fresh_samples(bits, distractors, seed)
    return Run(
        bits,
        "DIRAD",
        seed,
        bool(np.all(model.predict(X) == odd(X, bits))),
        model.n_edges_,
        model.n_hidden_,
        model.n_steps_,
        last_change(model.history_),
        fingerprint(model.network_),
    )


def run_mlp(bits: int, factor: int, seed: int) -> Run:
    """A perceptron with `factor`·n hidden units, on all patterns."""
    run = parity_mlp(bits, factor * bits, seed)
    return Run(bits, _mlp_name(factor), seed, run.solved, run.n_edges, factor * bits)


def fingerprint(network: Network) -> str:
    """Return a short text that differs if two networks differ in anything."""
    digest = hashlib.sha256()
    for array in network:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def last_change(history: History) -> int:
    """Return the number of steps after which no edge and no node was added."""
    grown = np.isin(history.events["kind"], [KIND_NAMES.index("edge"), KIND_NAMES.index("ENC")])
    return int(history.events["step"][grown].max()) + 1 if grown.any() else 0


def _mlp_name(factor: int) -> str:
    return f"MLP, {'' if factor == 1 else factor}n hidden"


METHODS = ("DIRAD", _mlp_name(1), _mlp_name(2))


def _run(kind: str, *job: Any) -> Run:
    return run_mlp(*job) if kind == "mlp" else run_dirad(*job)


def measure(
    bits: Sequence[int],
    seeds: Sequence[int],
    settings: tuple[str, bool, int] = ("default", False, 0),
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> list[Run]:
    """Return a run per number of bits, method and seed.

    `settings` are those of `run_dirad`: preset, stream, distractors.
    """
    jobs: list[tuple[Any, ...]] = []
    for n in sorted(bits, reverse=True):
        jobs += [("mlp", n, factor, seed) for factor in (2, 1) for seed in seeds]
        jobs += [("dirad", n, seed, *settings) for seed in seeds]
    runs = run_all(_run, jobs, workers=workers, progress=progress)
    return sorted(runs, key=lambda run: (run.bits, METHODS.index(run.method), run.seed))


def summarize(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per number of bits and method, the quoted one last."""
    rows: list[dict[str, Any]] = []
    for bits in sorted({run.bits for run in runs}):
        for method in METHODS:
            group = [run for run in runs if run.bits == bits and run.method == method]
            if group:
                rows.append({"bits": bits, "method": method, **summary_of(group)})
        if bits in NEAT_SOLVED:
            solved = NEAT_SOLVED[bits]
            row = {"bits": bits, "method": "neat-python (quoted)", "solved": solved}
            rows.append({**row, "runs": NEAT_RUNS})
    return rows


def summary_of(group: Sequence[Run]) -> dict[str, Any]:
    """Return what a group of runs comes to: solved, and means and maxima over all runs.

    Where a seed changes nothing (all patterns are one batch, ties go to the first source), many
    seeds are one run. `distinct` counts the different networks, so that no one is misled.
    """
    row: dict[str, Any] = {"solved": sum(run.solved for run in group), "runs": len(group)}
    networks = {run.network for run in group if run.network is not None}
    if networks:
        row["distinct"] = len(networks)
    for name in ("edges", "hidden", "last_change", "steps"):
        values = [getattr(run, name) for run in group if getattr(run, name) is not None]
        if values:
            row[name], row[f"{name}_max"] = mean(values), max(values)
    return row
