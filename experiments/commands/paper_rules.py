"""The command that compares readings of the paper's rules for new tasks."""

from pathlib import Path

from dirad.cli.app import DEFAULTS, Common, PositiveInt, Usage, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from experiments.commands.app import app, deliver


@app.command
def paper_rules(*, runs: PositiveInt = 12, common: Common = DEFAULTS) -> None:
    """Score readings of the paper's rules by how likely they make its detections.

    The models of each run are trained once. Their prediction errors are stored in the folder of
    the results, 90 MB per run, and every rule is replayed on them. A run takes about a minute and
    a half on one core.

    ```
    python -m experiments paper-rules --runs 2
    ```

    Parameters
    ----------
    runs
        Runs, with the digits of the paper's runs: from 2 to 32.
    """
    from experiments.paper_rules.recordings import orders
    from experiments.paper_rules.scores import measure
    from experiments.paper_rules.tables import sections

    most = len(orders())
    if not 2 <= runs <= most:
        raise Usage(f"--runs takes 2 to {most}, the number of the paper's runs, not {runs}")
    folder = common.out or Path("results") / "paper-rules"
    warm_up(common, "paper")
    with progress_bar(common, "train") as progress:
        scores = measure(
            folder / "recordings",
            runs,
            common.seed,
            workers=worker_count(common),
            progress=progress,
        )
    outcome = Outcome(
        "paper-rules",
        {"runs": runs, "seed": common.seed},
        "Readings of the paper's rules, scored by its detections",
        sections(scores),
    )
    deliver(outcome, common)
