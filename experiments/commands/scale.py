"""The command that measures what growth costs, and extrapolates beyond this machine."""

from pathlib import Path
from typing import Any

from dirad.cli.app import DEFAULTS, Common, Flag, PositiveInt, progress_bar, spinner, warm_up
from dirad.cli.outcome import Outcome
from experiments.commands.app import app, deliver, read_names

ALL_PARTS = "inputs,targets,strict,edges,models,screening,samples,simulate"


@app.command
def scale(
    *,
    parts: str = ALL_PARTS,
    models: PositiveInt = 10_000,
    inputs: PositiveInt = 1_000_000,
    quick: Flag = False,
    common: Common = DEFAULTS,
) -> None:
    """Measure what growth costs in every direction, and what a system past this machine needs.

    Each size is measured in a process of its own, one after the other, with one thread; times are
    the processor's. A finished measurement is saved at once: after a stop, the next call
    measures only what is missing. All of it takes about half an hour.

    ```
    python -m experiments scale --parts edges                    # a minute
    python -m experiments scale --parts simulate --models 1000   # from what was measured before
    ```

    Parameters
    ----------
    parts
        Of inputs and edges (one network), targets (the L1 of one model), strict (the paper's, on
        MNIST), models (up to 500 in one system), screening (the first step of routing, for up to
        10,000), samples (10⁷ from a file), simulate (on paper, from targets and screening).
    models
        Of the simulation.
    inputs
        Of the simulation.
    quick
        Tiny sizes, to see that all of it works; the figures mean nothing.
    """
    from experiments.scale import plan
    from experiments.scale.figures import draw
    from experiments.scale.simulate import World
    from experiments.scale.tables import sections

    chosen = read_names(parts, plan.PARTS, "--parts")
    extent = plan.QUICK if quick else plan.FULL
    path = (common.out or Path("results") / "scale") / "scale.jsonl"
    world = World(models, inputs) if "simulate" in chosen else None
    warm_up(common, "default", "paper")
    with progress_bar(common, "scale") as progress:
        rows = plan.execute(plan.planned(chosen, extent, common.seed), path, progress)
    before = plan.kept(plan.planned(plan.MEASURED, extent, common.seed), path)
    tables = sections(rows, world, {**before, **rows})
    with spinner(common, "drawing"):
        pictures = draw(rows)
    options: dict[str, Any] = {"parts": parts, "models": models, "inputs": inputs}
    deliver(
        Outcome(
            "scale",
            options | {"quick": quick, "seed": common.seed},
            "Scale: what growth costs in every direction",
            tables,
            pictures=pictures,
        ),
        common,
    )
