"""The command that compares accuracy in a number of bytes on a Cortex-M0."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from dirad.cli.app import DEFAULTS, Common, PositiveInt, Usage, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_names, read_numbers

NOTE_DIGITS = (
    "Test accuracy over 10,000 samples; ± standard deviation over seeds. Bytes are code, constants "
    "and what is linked of the compiler's libraries, by arm-none-eabi-gcc -Os for a Cortex-M0. The "
    "perceptron's code is taken as ours without gates. Trees are emlearn's inline code with "
    "integers, the number of trees chosen on held-out samples. BitNetMCU publishes 0.9422 in about "
    "1.1 kB and 0.9902 in 12.3 kB, on 16 × 16 pixels."
)
NOTE_SENSORS = (
    "Test accuracy on a quarter of the rows, mean over seeds. m2cgen's numbers are double, whose "
    "comparisons are linked from a library; where no tree fits, the most frequent class is "
    "answered. Rank 1 is the best."
)


LEAST_BYTES, MOST_BYTES = 128, 1 << 16  # of sensors
PARTS = {"digits": "device", "sensors": "device-sensors", "choices": "device-choices"}


@app.command
def device(
    *,
    part: Literal["digits", "sensors", "choices"] = "digits",
    sizes: str | None = None,
    methods: str | None = None,
    seeds: PositiveInt = 1,
    common: Common = DEFAULTS,
) -> None:
    """Accuracy in a number of bytes of flash, model and code, beside trees and a pruned MLP.

    It needs the extra `bench` and, for the sizes of code, arm-none-eabi-gcc. Every result is saved
    when its run is finished: the same command continues where it was interrupted.

    ```
    python -m experiments device --seeds 5                # ten digits
    python -m experiments device --part sensors --seeds 3 # five tables, 512 and 2,048 bytes
    python -m experiments device --part choices           # how settings were chosen
    ```

    Parameters
    ----------
    part
        The ten digits of MNIST, five tables of sensors, or the choice of settings for the digits
        on held-out training samples.
    sizes
        Bytes. For the digits: 1024, 2048, 4096 or 12288 [default: all, and 512,2048 for sensors].
    methods
        Some of DIRAD, pruned MLP and emlearn, for sensors of DIRAD, emlearn and m2cgen [default:
        all].
    seeds
        Runs per size and method.
    """
    from dirad.export.compact.flash import COMPILER, has_compiler
    from experiments.device import digits, sensors

    if not has_compiler():
        raise Usage(f"{COMPILER} is not installed: sizes of code are measured with it")
    of_part = sensors if part == "sensors" else digits
    chosen = _sizes(sizes, part, of_part.SIZES)
    known = of_part.METHODS
    named = list(known) if methods is None else read_names(methods, known, "--methods")
    warm_up(common)
    every = range(common.seed, common.seed + seeds)
    workers = worker_count(common)
    name = PARTS[part]
    path = (common.out or Path("results") / "device") / f"{name}.jsonl"
    runs = []
    with progress_bar(common, "device") as progress:
        how: dict[str, Any] = {"workers": workers, "progress": progress}
        if part == "digits":
            runs = digits.measure(chosen, every, named, path, **how)
            section = Section("Ten digits in few bytes", digits.summarize(runs), NOTE_DIGITS)
        elif part == "sensors":
            runs = sensors.measure(chosen, every, named, path, **how)
            section = Section("Sensors in few bytes", sensors.summarize(runs), NOTE_SENSORS)
        else:
            rows = digits.choices(chosen, named, path, **how)
            section = Section("Settings on held-out samples", rows, "Seed 0, 10,000 held out.")
    options = {
        "part": part,
        "sizes": ",".join(map(str, chosen)),
        "methods": ",".join(named),
        "seeds": seeds,
        "seed": common.seed,
    }
    outcome = Outcome("device", options, "Bytes on a Cortex-M0", [section], runs, file=name)
    deliver(outcome, common)


def _sizes(sizes: str | None, part: str, known: Sequence[int]) -> list[int]:
    """Return the bytes that are asked for; those of the digits have settings of their own."""
    if sizes is None:
        return list(known)
    if part == "sensors":
        return read_numbers(sizes, "--sizes", LEAST_BYTES, MOST_BYTES)
    chosen = read_numbers(sizes, "--sizes", min(known), max(known))
    for size in chosen:
        if size not in known:
            raise Usage(f"--sizes takes {', '.join(map(str, known))}, not {size}")
    return chosen
