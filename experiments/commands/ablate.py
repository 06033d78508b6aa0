"""The command that measures what each piece is worth."""

from typing import Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from dirad.cli.app import DEFAULTS, Common, Flag, PositiveInt, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_names

PARTS = ("ladder", "pieces", "sweep")
NOTE = (
    "Held-out accuracy ± standard error; difference: paired, to the row without one. Means (and "
    "maxima) of edges, hidden nodes and steps. Without settling, edges on their way out are still "
    "there, so that a network may be larger than its limit."
)


@app.command
def ablate(
    *,
    parts: str = ",".join(PARTS),
    pairs: Annotated[int, Parameter(validator=Number(gte=1, lte=45))] = 6,
    seeds: PositiveInt = 3,
    full: Flag = False,
    common: Common = DEFAULTS,
) -> None:
    """What each piece is worth: the paper step by step, our default without each of its parts.

    Digits are scored on a held-out sixth of the training set; the test set is not touched.

    ```
    python -m experiments ablate
    python -m experiments ablate --parts sweep --pairs 2 --seeds 1   # δ_min, R₁, R₂, roughly
    python -m experiments ablate --parts pieces --full               # ten digits as well
    ```

    Parameters
    ----------
    parts
        Which parts: ladder (from edge generation to the paper, and other readings of it), pieces
        (our default without each piece), sweep (δ_min, R₁, R₂).
    pairs
        Pairs of digits, spread evenly over the 45.
    seeds
        Runs per variant and task.
    full
        All ten digits at 500 edges as well.
    """
    from experiments import ablation as experiment
    from experiments.pairs import choose_pairs

    wanted = read_names(parts, PARTS, "--parts")
    chosen, many = choose_pairs(pairs), range(common.seed, common.seed + seeds)
    jobs: list[Any] = []
    if "ladder" in wanted:
        jobs += experiment.ladder_jobs(chosen, many)
    if "pieces" in wanted:
        jobs += experiment.piece_jobs(chosen, many, full)
    if "sweep" in wanted:
        jobs += experiment.sweep_jobs(chosen, many)
    experiment.mnist()
    warm_up(common, *(["default"] if "pieces" in wanted else []), "paper")
    with progress_bar(common, "ablate") as progress:
        runs = experiment.measure(jobs, workers=worker_count(common), progress=progress)
    note = f"{pairs} pairs × {seeds} seeds; parity and ten digits: {seeds} seeds. {NOTE}"
    outcome = Outcome(
        "ablate",
        {"parts": parts, "pairs": pairs, "seeds": seeds, "full": full, "seed": common.seed},
        "What each piece is worth",
        [Section(title, rows, note) for title, rows in experiment.tables(runs)],
        runs,
    )
    deliver(outcome, common)
