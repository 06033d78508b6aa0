"""What each piece is worth: switched on one after the other, and switched off alone.

Three parts: a ladder from edge generation alone to the paper and other readings of it; our
default without each of its pieces; and a sweep over δ_min, R₁ and R₂, of which the paper says that
they hardly matter. Digits are scored on a held-out part of the training set, never on the test
set.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dirad.engine import Progress, run_all
from dirad.params import preset
from dirad.streams.averages import mean, standard_error
from experiments import digits, parity
from experiments.pairs import Pair, mnist, run_dirad, run_paper

Changes = dict[str, Any]

PAPER = "the paper: edges and ENC"
LADDER: dict[str, Changes] = {
    "edge generation alone": {"enc": False},
    PAPER: {},
    "unrestricted ordering": {"ordering": "unrestricted"},
    "+ snapshot and settling": {"settle_steps": 300},
}
# Other readings of points that the paper leaves open.
READINGS: dict[str, Changes] = {
    "ties: the first source": {"ties": "first"},
    "K decays to +1": {"K_rule": "decay"},
    "outputs may be sources": {"outputs_as_sources": True},
    "ENC before a new node's own edge": {"fresh_first": False},
    "noise enters the exhaustion test": {"perturbation_in_exhaustion": True},
    "error watched smoothed": {"error_smoothing": 0.05},
    "k_w = 2": {"k_w": 2.0},
}
DEFAULT = "default"
PIECES: dict[str, Changes] = {
    DEFAULT: {},
    "no ENC": {"product_order": 1},
    "lenient significance test": {"significance": 1.0},
    # A pair without any evidence then ends the search for longer products: see parity.
    "no significance test": {"significance": 1e9},
    "gates not closed by ENC": {"gate_floor": 0.05},
    "no bias in term 0": {"term_0_bias": False},
    "no exchange": {"swaps": 0, "overshoot": 1.0},
    "no settling": {"settle_steps": 1},
    "SGD, γ = 0.1": {"optimizer": "sgd", "gamma": 0.1},
    "SGD, γ = 0.5": {"optimizer": "sgd", "gamma": 0.5},
    "SGD, γ = 2": {"optimizer": "sgd", "gamma": 2.0},
    "no prior": {"prior": 0.0},
    "K follows 1/w": {"K_rule": "follow"},
    "squared error": {"cost": "squared"},
}
SWEEP: dict[str, tuple[float, ...]] = {
    "delta_min": (0.001, 0.003, 0.01, 0.03, 0.1),
    "R1": (1.5, 2.0, 5.0, 10.0, 20.0),
    "R2": (0.0, 0.01, 0.1, 0.3, 1.0),
}
SYMBOLS = {"delta_min": "δ_min", "R1": "R₁", "R2": "R₂"}
PAIR_SIZES = (15, 50)
PARITY_BITS = (4, 6)
DIGITS_SIZE = 500
NOISY_BITS, NOISY_DISTRACTORS = 4, 4


@dataclass(frozen=True)
class Run:
    """One fit of one variant. Runs of the same task and case are compared with one another."""

    part: str
    variant: str
    task: str  # what a table is about, such as "pairs, 15 edges"
    case: str  # pair and seed
    accuracy: float  # held out; of parity: 1 if solved, else 0
    edges: int
    hidden: int
    steps: int | None
    network: str | None = None  # fingerprint (parity)


def _paper_run(part: str, variant: str, changes: Changes, pair: Pair, seed: int) -> Run:
    one = run_paper(pair, seed, preset("paper", **changes), held_out=True)
    case = f"{one.pair}, seed {seed}"
    return Run(part, variant, "pairs", case, one.accuracy, one.edges, one.hidden, one.steps)


def _pair_run(part: str, variant: str, changes: Changes, pair: Pair, size: int, seed: int) -> Run:
    one = run_dirad(pair, size, seed, changes, held_out=True)
    task, case = f"pairs, {size} edges", f"{one.pair}, seed {seed}"
    return Run(part, variant, task, case, one.accuracy, one.edges, one.hidden, one.steps)


def _parity_run(
    part: str, variant: str, changes: Changes, bits: int, distractors: int, seed: int
) -> Run:
    one = parity.run_dirad(bits, seed, "default", bool(distractors), distractors, changes)
    task = f"parity {bits}" + (f" + {distractors} distractors" if distractors else "")
    solved = float(one.solved)
    return Run(
        part, variant, task, f"seed {seed}", solved, one.edges, one.hidden, one.steps, one.network
    )


def _digits_run(part: str, variant: str, changes: Changes, size: int, seed: int) -> Run:
    one = digits.run("DIRAD", size, seed, changes, held_out=True)
    task, case = f"ten digits, {size} edges", f"seed {seed}"
    return Run(part, variant, task, case, one.accuracy, one.edges, one.hidden, one.steps)


_KINDS = {
    "paper": _paper_run,
    "pair": _pair_run,
    "parity": _parity_run,
    "digits": _digits_run,
}


def _run(kind: str, *job: Any) -> Run:
    return _KINDS[kind](*job)


Job = tuple[Any, ...]


def ladder_jobs(pairs: Sequence[Pair], seeds: Sequence[int]) -> list[Job]:
    """The paper's preset, from less to more, then each other reading alone."""
    return [
        ("paper", "ladder", name, changes, pair, seed)
        for name, changes in {**LADDER, **READINGS}.items()
        for pair in pairs
        for seed in seeds
    ]


def sweep_jobs(pairs: Sequence[Pair], seeds: Sequence[int]) -> list[Job]:
    """The paper's preset with other δ_min, R₁ and R₂."""
    return [
        ("paper", f"sweep {constant}", f"{value:g}", {constant: value}, pair, seed)
        for constant, values in SWEEP.items()
        for value in values
        for pair in pairs
        for seed in seeds
    ]


def piece_jobs(pairs: Sequence[Pair], seeds: Sequence[int], full: bool = False) -> list[Job]:
    """Our default without each of its pieces; `full`: on all ten digits too."""
    jobs: list[Job] = []
    for name, changes in PIECES.items():
        if full:
            jobs += [("digits", "pieces", name, changes, DIGITS_SIZE, seed) for seed in seeds]
        jobs += [
            ("pair", "pieces", name, changes, pair, size, seed)
            for size in PAIR_SIZES
            for pair in pairs
            for seed in seeds
        ]
        tasks = [(bits, 0) for bits in PARITY_BITS] + [(NOISY_BITS, NOISY_DISTRACTORS)]
        jobs += [
            ("parity", "pieces", name, changes, *task, seed) for task in tasks for seed in seeds
        ]
    return jobs


def measure(
    jobs: Sequence[Job], *, workers: int = 1, progress: Progress | None = None
) -> list[Run]:
    """Return the runs of the jobs, in their order."""
    mnist()  # a missing data set shows here, before any process starts
    longest_first = sorted(range(len(jobs)), key=lambda i: jobs[i][0] != "digits")
    runs = run_all(_run, [jobs[i] for i in longest_first], workers=workers, progress=progress)
    return [run for _, run in sorted(zip(longest_first, runs, strict=True), key=lambda p: p[0])]


def summarize(
    runs: Sequence[Run], part: str, task: str, reference: str | None = None
) -> list[dict[str, Any]]:
    """Return a row per variant of a part and task; differences are paired, to `reference`."""
    chosen = [run for run in runs if run.part == part and run.task == task]
    base = {run.case: run.accuracy for run in chosen if run.variant == reference}
    solved = task.startswith("parity")
    rows = []
    for variant in dict.fromkeys(run.variant for run in chosen):
        group = [run for run in chosen if run.variant == variant]
        scores = [run.accuracy for run in group]
        row: dict[str, Any] = {"variant": variant}
        if solved:
            row |= {"solved": int(sum(scores)), "runs": len(group)}
            row["distinct"] = len({run.network for run in group})
        else:
            row |= {"held_out": mean(scores), "held_out_se": standard_error(scores)}
            gaps = [run.accuracy - base[run.case] for run in group if run.case in base]
            if variant == reference:
                row["difference"] = None
            elif gaps:
                row |= {"difference": mean(gaps), "difference_se": standard_error(gaps)}
        for name in ("edges", "hidden", "steps"):
            values = [getattr(run, name) for run in group]
            row |= {name: mean(values), f"{name}_max": max(values)}
        rows.append(row)
    return rows


def tables(runs: Sequence[Run]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return (title, rows) for everything that was measured."""
    found = []
    for part, task in dict.fromkeys((run.part, run.task) for run in runs):
        if part == "ladder":
            title, reference = "From edge generation to the paper, and other readings of it", PAPER
        elif part == "pieces":
            title, reference = f"Default without each piece: {task}", DEFAULT
        else:
            constant = part.removeprefix("sweep ")
            title = f"The paper's preset with other {SYMBOLS[constant]}"
            reference = f"{getattr(preset('paper'), constant):g}"
        found.append((title, summarize(runs, part, task, reference)))
    return found
