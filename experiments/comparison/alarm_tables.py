"""False alarms, promised and measured, as rows of tables."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.report.tables import Section
from experiments.comparison.alarms import SETS, SHOWN, Alarms
from experiments.comparison.curves import Row
from experiments.comparison.plan import OURS
from experiments.comparison.run import SIZES, Result

RATES = (0.05, 0.01)  # promised
RESAMPLED = 2000  # times, for an interval
ALARM_NOTE = (
    "Share of disjoint batches of a model's own task, none of whose samples it ever saw, that it "
    "takes for new, at two promised rates: mean over models, in parentheses the 95 % interval by "
    "resampling models. Judged by the inputs alone, without labels."
)


def alarm_table(alarms: Sequence[Alarms]) -> Section:
    """Return measured against promised rates of false alarms."""
    every = list(dict.fromkeys(one.data for one in alarms))
    rows = [
        {"asked": place} | row
        for place in SETS
        for data in ([*every, "all"] if len(every) > 1 else every)
        for row in alarm_rows(
            data, [one.chances[place] for one in alarms if data in (one.data, "all")]
        )
    ]
    note = (
        f"{ALARM_NOTE} Models of two random classes, each shown {SHOWN:,} samples. The rate is "
        "promised for samples from where the model's own came from: training samples that were "
        "left over. Test samples need not be such, and MNIST's are not: other people wrote them. "
        "Models that learned the same classes are not independent, and all share a test set, so "
        "that intervals are rather too narrow."
    )
    return Section("False alarms, promised and measured", rows, note)


def own_alarm_table(results: Sequence[Result]) -> Section:
    """Return the false alarms of the models that the streams left behind."""
    ours = [one for one in results if one.method == OURS and one.chances]
    rows = [
        row
        for data in dict.fromkeys(one.scenario.data for one in ours)
        for row in alarm_rows(
            data, [found for one in ours if one.scenario.data == data for found in one.chances]
        )
    ]
    note = (
        f"{ALARM_NOTE} These models were shown nearly all training samples; most of those they "
        "are asked about are from the test set, which for MNIST other people wrote."
    )
    return Section("False alarms of the models above", rows, note)


def alarm_rows(data: str, models: Sequence[Mapping[str, Sequence[float]]]) -> list[Row]:
    """Return a row for each size of batches of which models judged any."""
    rng = np.random.default_rng(0)
    rows: list[Row] = []
    for size in SIZES:
        own = [np.array(found[str(size)]) for found in models if found[str(size)]]
        if own:
            rows.append({"data": data, "batch": size} | alarm_rates(own, rng))
    return rows


def alarm_rates(p_values: Sequence[NDArray], rng: np.random.Generator) -> Row:
    """Return how often models raised an alarm, from the p-values of the batches of each."""
    row: Row = {"models": len(p_values), "batches": sum(map(len, p_values))}
    for rate in RATES:
        shares = np.array([np.mean(p < rate) for p in p_values])
        picks = rng.integers(0, len(shares), (RESAMPLED, len(shares)))
        low, high = np.quantile(shares[picks].mean(axis=1), [0.025, 0.975])
        row[f"promised {rate}"] = f"{shares.mean():.3f} ({low:.3f} to {high:.3f})"
    return row
