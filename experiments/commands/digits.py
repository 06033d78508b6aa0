"""The command that compares on all ten digits of MNIST."""

from dirad.cli.app import DEFAULTS, Common, PositiveInt, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_numbers


@app.command
def digits(
    *, edges: str = "500,1000,2000", seeds: PositiveInt = 1, common: Common = DEFAULTS
) -> None:
    """Ten digits of MNIST at 14 × 14, beside a perceptron pruned to the same size.

    ```
    python -m experiments digits                       # 500, 1,000 and 2,000 edges, one seed
    python -m experiments digits --edges 500 --seeds 3
    ```

    Parameters
    ----------
    edges
        Sizes to compare: 500,1000,2000.
    seeds
        Runs per size and method.
    """
    from experiments import digits as experiment

    sizes = read_numbers(edges, "--edges", 10, 20_000)
    experiment.mnist()
    warm_up(common)
    with progress_bar(common, "digits") as progress:
        runs = experiment.measure(
            sizes,
            range(common.seed, common.seed + seeds),
            workers=worker_count(common),
            progress=progress,
        )
    note = (
        "Test accuracy over 10,000 samples (whose own sampling error is about 0.003 at 0.90 and "
        "0.002 at 0.96); ± standard deviation over seeds, where there are several. Full logistic "
        "regression is the ceiling of networks without hidden nodes. Seconds: of one core, kernels "
        "compiled; the pruned MLP's include the choice of its hidden size, full logistic "
        "regression's that of its penalty."
    )
    outcome = Outcome(
        "digits",
        {"edges": edges, "seeds": seeds, "seed": common.seed},
        "MNIST, ten digits",
        [Section("Ten digits at a given size", experiment.summarize(runs), note)],
        runs,
    )
    deliver(outcome, common)
