"""The command that counts false alarms."""

from dirad.cli.app import DEFAULTS, Common, PositiveInt, Usage, progress_bar, warm_up, worker_count
from dirad.cli.outcome import Outcome
from dirad.report.tables import Section
from experiments.commands.app import app, deliver


@app.command
def alarms(
    *, seeds: PositiveInt = 8, samples: PositiveInt = 12_000, common: Common = DEFAULTS
) -> None:
    """Count false alarms in streams of one task: heavy tails, outliers, noise, rare classes.

    Samples are independent and their distribution never changes, so that whatever is called new is
    a false alarm. What is promised (`false_alarms`) must hold whatever the distribution.

    ```
    python -m experiments alarms                             # four minutes on one core
    python -m experiments alarms --seeds 2 --samples 2000
    ```

    Parameters
    ----------
    seeds
        Streams of each kind.
    samples
        Of each stream; as many more are shown to the stable model. At least 400: two batches.
    """
    from experiments import false_alarms as experiment

    size, rate = experiment.BATCH_SIZE, experiment.PROMISED
    if samples < 2 * size:
        raise Usage(f"--samples takes at least {2 * size}, two batches, not {samples}")
    warm_up(common)
    with progress_bar(common, "alarms") as progress:
        runs = experiment.measure(
            range(common.seed, common.seed + seeds),
            samples,
            workers=worker_count(common),
            progress=progress,
        )
    expected = rate * sum(one.judged for one in runs)
    promised = (
        f"{seeds} streams of {samples:,} samples of each kind, in batches of {size}, with labels. "
        f"Promised: {rate:g} per batch, the preset's `false_alarms`, which makes {expected:.1f} of "
        "all these batches. False alarms: batches called new or mixed. The interval is that of "
        "Clopper and Pearson; batches of one stream are judged by the same model, so that it is "
        "rather too narrow. Right is one model per stream. Where labels are noise, 1/classes is "
        "the best accuracy."
    )
    measured = (
        "Share of batches to which a model gives a smaller chance than promised, while it adapts "
        f"and when it is stable (to {samples:,} further samples): mean over streams ± standard "
        "error. The model is set to take every batch for its own. Inputs and labels count; where "
        "mistakes are few, or inputs take few values, the tests are conservative."
    )
    outcome = Outcome(
        "alarms",
        {"seeds": seeds, "samples": samples, "seed": common.seed},
        "False alarms whatever the distribution",
        [
            Section("As the preset is", experiment.alarm_rows(runs), promised),
            Section("Rates, promised and measured", experiment.rate_rows(runs), measured),
        ],
        runs,
    )
    deliver(outcome, common)
