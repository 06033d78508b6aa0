"""The command that compares on two digits of MNIST."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from dirad.cli.app import DEFAULTS, Common, Preset, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_numbers

if TYPE_CHECKING:
    from experiments.pairs import Pair, Run

PAPER_NOTE = (
    "Test accuracy of the largest of all ten outputs, two of them active. Mean ± standard "
    "deviation over pairs."
)
NOTE = (
    "Mean ± standard error over pairs. Difference: paired, to greedy logistic at the same "
    "size. Edges: weights used, biases apart (tree: splits); size: those allowed."
)


@app.command
def pairs(
    *,
    pairs: Annotated[int, Parameter(validator=Number(gte=1, lte=45))] = 45,
    edges: str = "5,15,50",
    preset: Preset = "default",
    common: Common = DEFAULTS,
) -> None:
    """Two digits of MNIST at 14 × 14: test accuracy at equal size, or the paper's claim.

    Size is the number of edges, biases apart. Beside DIRAD: logistic regression on greedily chosen
    pixels, on pixels chosen by an L1 penalty, on all pixels; and a decision tree (splits).

    ```
    python -m experiments pairs                  # all 45 pairs
    python -m experiments pairs --pairs 5 --edges 15
    python -m experiments pairs --preset paper   # ten outputs, two active, as in the paper
    ```

    Parameters
    ----------
    pairs
        How many of the 45 pairs, spread evenly.
    edges
        Sizes to compare: 5,15,50.
    preset
        default: at equal size. paper: the paper's own protocol, without a limit on edges.
    """
    from dirad.plot.network import draw_network
    from experiments import pairs as experiment

    sizes = read_numbers(edges, "--edges", 1, 196)
    chosen = experiment.choose_pairs(pairs)
    experiment.mnist()
    warm_up(common, preset)
    options: dict[str, Any] = {"pairs": pairs, "preset": preset, "seed": common.seed}
    if preset == "paper":
        runs = _measured(chosen, None, common)
        sections = _paper_sections(runs)
        network = experiment.grow_paper(chosen[0], common.seed).network
    else:
        options["edges"] = edges
        runs = _measured(chosen, sizes, common)
        title = f"Accuracy at equal size, mean over {pairs} pairs of digits"
        sections = [Section(title, experiment.summarize(runs), NOTE)]
        network = experiment.fit_dirad(chosen[0], sizes[-1], common.seed).network_
    a, b = chosen[0]
    outcome = Outcome(
        "pairs",
        options,
        "MNIST, two digits",
        sections,
        runs,
        {f"network-{a}-{b}": draw_network(network, image_shape=(14, 14))},
        "paper" if preset == "paper" else "",
    )
    deliver(outcome, common)


def _measured(pairs: list["Pair"], sizes: list[int] | None, common: Common) -> list["Run"]:
    """Run all pairs at these sizes, or as the paper does without sizes."""
    from experiments.pairs import measure, measure_paper

    with progress_bar(common, "pairs") as progress:
        workers = worker_count(common)
        if sizes is None:
            return measure_paper(pairs, seed=common.seed, workers=workers, progress=progress)
        return measure(pairs, sizes, seed=common.seed, workers=workers, progress=progress)


def _paper_sections(runs: Sequence["Run"]) -> list[Section]:
    from experiments.pairs import summarize_paper

    keys = ("pair", "accuracy", "edges", "hidden", "steps")
    each = [{key: getattr(run, key) for key in keys} for run in runs]
    return [
        Section("One task as in the paper", summarize_paper(runs), PAPER_NOTE),
        Section("Pair by pair", each),
    ]
