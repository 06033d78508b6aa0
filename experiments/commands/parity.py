"""The command that measures n-bit parity."""

from dirad.cli.app import (
    DEFAULTS,
    Common,
    Flag,
    NaturalInt,
    PositiveInt,
    Preset,
    progress_bar,
    warm_up,
    worker_count,
)
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_numbers

NOTE = (
    "Solved: every pattern answered right. Edges: all weights, biases apart. Means (and "
    "maxima) over all runs, solved or not. Distinct networks: 1 means that the seed changes "
    "nothing, so that all these runs are one. neat-python is quoted, not measured in this run."
)
STREAM_NOTE = " The MLP sees all patterns at once and no distractors, which is easier."


@app.command
def parity(
    *,
    bits: str = "2-8",
    seeds: PositiveInt = 20,
    preset: Preset = "default",
    batch_from_stream: Flag = False,
    distractors: NaturalInt = 0,
    common: Common = DEFAULTS,
) -> None:
    """n-bit parity: solved runs and sizes, beside perceptrons of n and 2n hidden units.

    A run is solved if all 2ⁿ patterns are answered right.

    ```
    python -m experiments parity                                   # 2 to 8 bits, 20 seeds
    python -m experiments parity --bits 2-4,8 --seeds 5
    python -m experiments parity --bits 2-10 --batch-from-stream   # random batches of 200
    python -m experiments parity --bits 4 --distractors 4          # and inputs without meaning
    ```

    Parameters
    ----------
    bits
        Numbers of bits: 4, or 2-8, or 2-4,8.
    seeds
        Runs per number of bits and method.
    preset
        Our own settings, or the paper's.
    batch_from_stream
        Show random batches of 200 patterns instead of all patterns at once.
    distractors
        Random inputs beside the bits; implies --batch-from-stream.
    """
    from dirad.plot.network import draw_network
    from experiments import parity as experiment

    chosen = read_numbers(bits, "--bits", 2, 12)
    stream = batch_from_stream or distractors > 0
    settings = (preset, stream, distractors)
    warm_up(common, preset)
    with progress_bar(common, "parity") as progress:
        numbers, workers = range(common.seed, common.seed + seeds), worker_count(common)
        runs = experiment.measure(chosen, numbers, settings, workers=workers, progress=progress)
    task = _task(stream, distractors)
    rows, note = experiment.summarize(runs), NOTE + STREAM_NOTE * stream
    model = experiment.grow_parity(max(chosen), common.seed, *settings)
    options = {"bits": bits, "seeds": seeds, "preset": preset}
    options |= {"batch-from-stream": batch_from_stream, "distractors": distractors}
    outcome = Outcome(
        "parity",
        options | {"seed": common.seed},
        f"n-bit parity: {task}",
        [Section(f"Parity, {task}, preset {preset}", rows, note)],
        runs,
        {f"network-{max(chosen)}-bits": draw_network(model.network_)},
        _variant(*settings),
    )
    deliver(outcome, common)


def _task(stream: bool, distractors: int) -> str:
    """Return what the runs are shown, in words."""
    from experiments.parity import STREAM_BATCH

    task = f"random batches of {STREAM_BATCH}" if stream else "all 2ⁿ patterns"
    return f"{task}, {distractors} distractors" if distractors else task


def _variant(preset: str, stream: bool, distractors: int) -> str:
    """Return what distinguishes the files of these options from those of others."""
    parts = ["paper"] * (preset == "paper") + ["stream"] * stream
    return "-".join(parts + [f"{distractors}-distractors"] * (distractors > 0))
