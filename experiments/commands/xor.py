"""The command that walks through XOR, stage by stage."""

from dirad.cli.app import DEFAULTS, Common, Preset, stdout, warm_up
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver


@app.command
def xor(*, preset: Preset = "paper", common: Common = DEFAULTS) -> None:
    """Watch a network grow on XOR, the smallest task that no single edge can begin.

    The stages are those of the paper's figure, caught from a real run.

    ```
    python -m experiments xor
    python -m experiments xor --seed 3 --out results/xor-3
    ```

    Parameters
    ----------
    preset
        The paper's settings, or our own.
    """
    from experiments.xor.figures import draw_stages, print_stages
    from experiments.xor.stages import stages

    warm_up(common, preset)
    found = stages(common.seed, preset)
    if not (common.quiet or common.json):
        print_stages(stdout(), found)
    rows = [
        {
            "stage": stage.number,
            "title": stage.title,
            "step": stage.step,
            "edges": stage.network.n_edges,
            "hidden": stage.network.n_hidden,
            "error": f"{stage.error:.4f}",
            "what happens": stage.text,
        }
        for stage in found
    ]
    outcome = Outcome(
        "xor",
        {"preset": preset, "seed": common.seed},
        "XOR, step by step",
        [Section("Stages", rows)],
        pictures={"stages": draw_stages(found)},
    )
    deliver(outcome, common, show=False)
