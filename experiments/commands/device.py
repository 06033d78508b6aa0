"""The command that compares accuracy in a number of bytes on a Cortex-M0."""

from typing import Literal

from dirad.cli.app import DEFAULTS, Common, PositiveInt, Usage, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver, read_numbers

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


@app.command
def device(
    *,
    part: Literal["digits", "sensors", "choices"] = "digits",
    sizes: str = "1024,2048,4096,12288",
    seeds: PositiveInt = 1,
    common: Common = DEFAULTS,
) -> None:
    """Accuracy in a number of bytes of flash, model and code, beside trees and a pruned MLP.

    It needs the extra `bench` and, for the sizes of code, arm-none-eabi-gcc.

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
        Bytes, for the digits: 1024, 2048, 4096 or 12288.
    seeds
        Runs per size and method.
    """
    from dirad.export.compact.flash import COMPILER, has_compiler
    from experiments.device import digits, sensors

    if not has_compiler():
        raise Usage(f"{COMPILER} is not installed: sizes of code are measured with it")
    chosen = read_numbers(sizes, "--sizes", min(digits.SIZES), max(digits.SIZES))
    for size in chosen:
        if size not in digits.SIZES:
            raise Usage(f"--sizes takes {', '.join(map(str, digits.SIZES))}, not {size}")
    warm_up(common)
    every = range(common.seed, common.seed + seeds)
    workers = worker_count(common)
    runs = []
    with progress_bar(common, "device") as progress:
        if part == "digits":
            runs = digits.measure(chosen, every, workers=workers, progress=progress)
            section = Section("Ten digits in few bytes", digits.summarize(runs), NOTE_DIGITS)
        elif part == "sensors":
            runs = sensors.measure(every, workers=workers, progress=progress)
            section = Section("Sensors in few bytes", sensors.summarize(runs), NOTE_SENSORS)
        else:
            rows = digits.choices(chosen)
            section = Section("Settings on held-out samples", rows, "Seed 0, 10,000 held out.")
    options = {"part": part, "sizes": sizes, "seeds": seeds, "seed": common.seed}
    deliver(Outcome("device", options, "Bytes on a Cortex-M0", [section], runs), common)
