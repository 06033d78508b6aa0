"""The command that measures well-known small problems."""

from dirad.cli.app import DEFAULTS, Common, PositiveInt, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver

NOTE = (
    "Mean and standard deviation over seeds, each with data of its own: 2,000 samples (500 in the "
    "variant 'few samples'), 70 % for training. All methods have their default settings, and no "
    "limit of edges is given. Edges: all weights of DIRAD's network, biases apart."
)


@app.command
def shapes(*, seeds: PositiveInt = 5, common: Common = DEFAULTS) -> None:
    """Moons, spirals, a checkerboard, sines and others, beside boosting and a perceptron.

    Eleven problems, each plain, rotated, with three inputs without meaning, and with 500 samples
    instead of 2,000.

    ```
    python -m experiments shapes              # some minutes
    python -m experiments shapes --seeds 20
    ```

    Parameters
    ----------
    seeds
        Runs per problem, variant and method.
    """
    from experiments.shapes import measure, summarize

    warm_up(common)
    numbers = range(common.seed, common.seed + seeds)
    with progress_bar(common, "shapes") as progress:
        runs = measure(numbers, workers=worker_count(common), progress=progress)
    section = Section("Small problems", summarize(runs), NOTE)
    options = {"seeds": seeds, "seed": common.seed}
    deliver(Outcome("shapes", options, "Small problems", [section], runs), common)
