"""The command that compares on small tables."""

from dirad.cli.app import DEFAULTS, Common, PositiveInt, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver


@app.command
def tabular(*, repeats: PositiveInt = 5, common: Common = DEFAULTS) -> None:
    """Small tables of scikit-learn, by repeated 5-fold cross-validation, beside a linear model.

    The linear model is standardized and its penalty tuned within each training part.

    ```
    python -m experiments tabular
    python -m experiments tabular --repeats 1 --workers 1
    ```

    Parameters
    ----------
    repeats
        Repetitions of the five folds, each drawn at random.
    """
    from experiments.tabular import small as experiment

    warm_up(common)
    with progress_bar(common, "tabular") as progress:
        runs = experiment.measure(
            repeats, seed=common.seed, workers=worker_count(common), progress=progress
        )
    note = (
        "Accuracy, or R² for diabetes; ± standard error of the mean over folds. Folds of different "
        "repeats share samples, so that the true spread is larger. Difference: paired by fold. "
        "Parameters: of DIRAD edges, biases and Ks; of the linear model coefficients that are not "
        "0, and intercepts."
    )
    outcome = Outcome(
        "tabular",
        {"repeats": repeats, "seed": common.seed},
        "Small tables",
        [Section("DIRAD and a tuned linear model", experiment.summarize(runs), note)],
        runs,
    )
    deliver(outcome, common)
