"""The command that measures what growth costs, and reckons what lies beyond."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    Outcome,
    PositiveInt,
    app,
    deliver,
    progress_bar,
    spinner,
    warm_up,
)
from dirad.cli.compare import split
from dirad.report.tables import Section

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from dirad.report.scale import Curve

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
    the processor's. A measurement that is finished is kept at once: stopped at any moment, the
    next call makes only what is missing. All of it takes about half an hour.

    ```
    dirad scale --parts edges                    # a minute
    dirad scale --parts simulate --models 1000   # from what was measured before
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
    from dirad.experiments.scale import plan
    from dirad.experiments.scale.simulate import World
    from dirad.experiments.scale.tables import sections

    chosen = split(parts, plan.PARTS, "--parts")
    extent = plan.QUICK if quick else plan.FULL
    ledger = (common.out or Path("results") / "scale") / "scale.jsonl"
    world = World(models, inputs) if "simulate" in chosen else None
    warm_up(common, "default", "paper")
    with progress_bar(common, "scale") as progress:
        rows = plan.execute(plan.planned(chosen, extent, common.seed), ledger, progress)
    before = plan.kept(plan.planned(plan.MEASURED, extent, common.seed), ledger)
    tables = sections(rows, world, {**before, **rows})
    with spinner(common, "drawing"):
        pictures = draw(rows)
    options: dict[str, Any] = {
        "parts": parts,
        "models": models,
        "inputs": inputs,
        "quick": quick,
        "seed": common.seed,
    }
    deliver(
        Outcome(
            "scale",
            options,
            "Scale: what growth costs in every direction",
            [Section(*table) for table in tables],
            pictures=pictures,
        ),
        common,
    )


# By part: title, what grows, and panels: a unit, and by name the cost that is drawn.
PICTURES: dict[str, tuple[str, str, dict[str, dict[str, str]]]] = {
    "inputs": (
        "One L0 as inputs grow",
        "inputs",
        {
            "seconds": {"whole fit": "fit", "a round of growth": "round", "a step": "step"},
            "megabytes": {"memory": "megabytes"},
        },
    ),
    "targets": (
        "One model's L1 as targets grow",
        "targets",
        {
            "seconds": {
                "before L1 adapts": "L0",
                "one sketch": "sketch",
                "L1": "L1",
                "per target": "per_target",
            },
            "megabytes": {"memory": "megabytes"},
        },
    ),
    "edges": (
        "One network as edges grow",
        "edges",
        {
            "seconds": {"a step": "step", "response to a sample": "response"},
            "megabytes": {"memory": "megabytes"},
        },
    ),
    "permuted": (
        "One system as models grow",
        "models",
        {
            "seconds for 10,000 samples": {"asking all": "all", "routing": "route"},
            "seconds for a batch of 50": {"taking it": "batch"},
        },
    ),
    "samples": (
        "A stream as it goes on",
        "samples",
        {"megabytes": {"peak of memory": "megabytes"}},
    ),
}


def draw(rows: Mapping[str, Sequence[Mapping[str, float]]]) -> dict[str, "Figure"]:
    """Return a picture of each part that was measured at two sizes or more."""
    from dirad.report.scale import Panel, draw_costs

    pictures = {}
    for part, (title, sizes, panels) in PICTURES.items():
        some = rows.get(part, ())
        if len(some) < 2:
            continue
        flat = part == "samples"
        drawn = [
            Panel(
                unit,
                {name: curve_of(some, cost, flat) for name, cost in costs.items()},
                limit_of(some, part) if not number else None,
                flat,
            )
            for number, (unit, costs) in enumerate(panels.items())
        ]
        pictures["models" if part == "permuted" else part] = draw_costs(title, sizes, drawn)
    return pictures


def curve_of(rows: Sequence[Mapping[str, float]], cost: str, flat: bool) -> "Curve":
    """Return a cost and its law; none of what is meant to stay as it is."""
    from dirad.experiments.scale.power_law import law_of
    from dirad.report.scale import Curve

    sizes, costs = [row["size"] for row in rows], [row[cost] for row in rows]
    law = None if flat else law_of(rows, cost)
    return Curve(sizes, costs) if law is None else Curve(sizes, costs, law.at, str(law))


def limit_of(rows: Sequence[Mapping[str, float]], part: str) -> float | None:
    """Return what the costs of a part must stay below, where something is required."""
    from dirad.experiments.scale.tables import MOST_GROWTH, MOST_OF_ONE

    if part == "permuted":
        return MOST_OF_ONE * rows[-1]["one"]
    return (1.0 + MOST_GROWTH) * rows[0]["megabytes"] if part == "samples" else None
