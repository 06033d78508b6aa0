"""The command that compares methods on tables."""

from pathlib import Path
from typing import Any, Literal

from dirad.cli.app import (
    DEFAULTS,
    Common,
    PositiveInt,
    Usage,
    progress_bar,
    spinner,
    warm_up,
    worker_count,
)
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_names

SMALL_NOTE = (
    "Accuracy, or R² for diabetes; ± standard error of the mean over folds. Folds of different "
    "repeats share samples, so that the true spread is larger. Difference: paired by fold. "
    "Parameters: of DIRAD edges, biases and Ks; of the linear model coefficients that are not "
    "0, and intercepts."
)


@app.command
def tabular(
    *,
    part: Literal["tables", "small"] = "tables",
    sets: str = "all",
    methods: str = "all",
    folds: PositiveInt = 5,
    repeats: PositiveInt = 5,
    finished: bool = False,
    common: Common = DEFAULTS,
) -> None:
    """Compare DIRAD with other methods on tables, all tuned alike.

    The part `tables` has 32 data sets of 500 to 20,000 rows, chosen by a rule before this
    comparison ran any method on them. Every method has the same five outer folds, and is tuned in
    the training part of each by three inner folds, among four settings (DIRAD and EBM among two).
    The methods are DIRAD, logistic or ridge regression, scikit-learn's histogram boosting, a random
    forest, a perceptron (MLP), explainable boosting (EBM), and a decision tree that stores no more
    numbers than DIRAD. A finished run is saved at once: after a stop, the next call runs only what
    is missing, and `--finished` shows what is there. The data come with the extra `tables`, EBM
    with the extra `bench`.

    The part `small` has five small tables of scikit-learn, by repeated 5-fold cross-validation,
    beside a linear model.

    ```
    python -m experiments tabular --sets pima,vehicle --folds 1   # a few minutes
    python -m experiments tabular                                 # about seven hours of one core
    python -m experiments tabular --part small
    ```

    Parameters
    ----------
    part
        tables or small.
    sets
        Names of data sets, of the part `tables`.
    methods
        Of DIRAD, logistic/ridge, boosting, forest, MLP, EBM, tree, of the part `tables`.
    folds
        The first so many of the five outer folds, of the part `tables`.
    repeats
        Repetitions of the five folds, each drawn at random, of the part `small`.
    finished
        Run nothing, and show what is finished, of the part `tables`.
    """
    if part == "small":
        _small(repeats, common)
        return
    from experiments.tabular import plan
    from experiments.tabular.catalogue import BY_NAME
    from experiments.tabular.figures import draw_gaps, draw_sizes
    from experiments.tabular.methods import DIRAD, METHODS, TREE
    from experiments.tabular.run import OUTER_FOLDS
    from experiments.tabular.tables import sections

    names = list(BY_NAME) if sets == "all" else read_names(sets, list(BY_NAME), "--sets")
    known = list(METHODS)
    chosen = known if methods == "all" else read_names(methods, known, "--methods")
    if folds > OUTER_FOLDS:
        raise Usage(f"--folds takes at most {OUTER_FOLDS}, not {folds}")
    if TREE in chosen and DIRAD not in chosen:
        raise Usage(f"--methods: the {TREE} has the size of {DIRAD}, which is missing")
    plan.check(names, [] if finished else chosen)
    warm_up(common)
    path = (common.out or Path("results") / "tabular") / "tabular.jsonl"
    workers = worker_count(common)
    with progress_bar(common, "tabular") as progress:
        jobs = plan.planned(names, chosen, folds, common.seed)
        runs = plan.execute(jobs, path, finished=finished, workers=workers, progress=progress)
    if TREE in chosen:
        with progress_bar(common, "trees") as progress:
            jobs = plan.trees(runs, common.seed)
            runs += plan.execute(jobs, path, finished=finished, workers=workers, progress=progress)
    with spinner(common, "drawing"):
        pictures = {"gaps": draw_gaps(runs), "sizes": draw_sizes(runs)}
    options: dict[str, Any] = {"sets": sets, "methods": methods, "folds": folds}
    options["seed"] = common.seed
    if finished:
        options["finished"] = True
    outcome = Outcome("tabular", options, "Tables", sections(runs), runs, pictures)
    deliver(outcome, common)


def _small(repeats: int, common: Common) -> None:
    """Compare DIRAD with a linear model on small tables."""
    from experiments.tabular import small

    warm_up(common)
    with progress_bar(common, "tabular") as progress:
        runs = small.measure(
            repeats, seed=common.seed, workers=worker_count(common), progress=progress
        )
    section = Section("DIRAD and a tuned linear model", small.summarize(runs), SMALL_NOTE)
    options = {"part": "small", "repeats": repeats, "seed": common.seed}
    deliver(Outcome("tabular", options, "Small tables", [section], runs, variant="small"), common)
