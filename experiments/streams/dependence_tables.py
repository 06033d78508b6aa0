"""Tables of false alarms and of delays where samples depend on those before."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dirad.report.tables import Section
from experiments.metrics import interval
from experiments.streams.dependence import (
    AMPLITUDE,
    BATCH_SIZE,
    BURST_EVERY,
    BURST_LENGTH,
    LEAST_CHANGED,
    MOST_CHANGED,
    N_SAMPLES,
    NONE,
    PROMISED,
    SEASON,
    SMALL_BATCHES,
    Run,
    batch_size,
    delay,
    worth,
)

UNCHANGING = (
    f"Streams of {N_SAMPLES:,} samples, promise {PROMISED:g} for the whole stream. The season "
    f"has {SEASON:,} samples and an amplitude of {AMPLITUDE:g} standard deviations; bursts of "
    f"{BURST_LENGTH} samples on average come every {BURST_EVERY:,.0f}."
)
PLANTED = (
    f"The change is planted between batches {LEAST_CHANGED} and {MOST_CHANGED} of "
    f"{BATCH_SIZE} samples. Delay: batches until the alarm, 1 in the first batch of the change; "
    "infinite where the change is not found. Worth: how many independent samples tell as much of a "
    "mean, or for a wider input of a spread, as the samples of that delay. Independent samples "
    "need: the fewest in which independent streams find that change, in batches that are worth at "
    "least as much (table below). Alarm before: streams with a false alarm before the change. "
    "Cause named: the input that changed is among the first three of the alarm's explanation."
)
SMALL = (
    "Streams of as many batches, before and after the change, with fewer samples each. Median "
    "delay in batches, and in how many streams the change was found."
)


def sections(runs: Sequence[Run]) -> list[Section]:
    """Return the tables of false alarms and of changes."""
    result = []
    if any(one.change == NONE for one in runs):
        result.append(Section("One unchanging task", false_alarm_rows(runs), UNCHANGING))
    changed = [one for one in runs if one.change != NONE]
    if changed:
        result.append(Section("Planted changes", change_rows(changed), PLANTED))
    if any(one.kind in SMALL_BATCHES for one in changed):
        rows = small_batch_rows(changed)
        result.append(Section("Planted changes, independent samples in small batches", rows, SMALL))
    return result


def false_alarm_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per kind of stream that does not change."""
    rows = []
    for kind in dict.fromkeys(one.kind for one in runs):
        own = [one for one in runs if one.kind == kind and one.change == NONE]
        if not own:
            continue
        alarmed = sum(bool(one.opened) for one in own)
        low, high = interval(alarmed, len(own))
        rows.append(
            {
                "stream": kind,
                "streams": len(own),
                "with a second model": alarmed,
                "95 % interval of the share": f"{low:.3f} to {high:.3f}",
            }
        )
    return rows


def change_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per kind of stream and of change, but for those of small batches."""
    rows = []
    for kind, change in dict.fromkeys((one.kind, one.change) for one in runs):
        if kind in SMALL_BATCHES:
            continue
        own = [one for one in runs if (one.kind, one.change) == (kind, change)]
        named = [one.named for one in own if one.named >= 0]
        delayed = median_delay(own)
        needed = delayed * worth(kind, change)
        needs = needed_by_independent(runs, change, worth(kind, change))
        rows.append(
            {
                "stream": kind,
                "change": change,
                "streams": len(own),
                "alarm before": sum(min(one.opened, default=one.at) < one.at for one in own),
                "found": sum(delay(one) < math.inf for one in own),
                "median delay (batches)": batches(delayed),
                "worth (samples)": f"{needed:.0f}" if needed < math.inf else "–",
                "independent samples need": f"{needs:.0f}" if needs < math.inf else "–",
                "ratio": f"{needed / needs:.2f}" if needs < math.inf else "–",
                "cause named": f"{sum(named)} of {len(named)}" if named else "–",
            }
        )
    return rows


def small_batch_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return a row per size of batches of independent samples, and a column per change."""
    rows = []
    for kind in dict.fromkeys(one.kind for one in runs if one.kind in SMALL_BATCHES):
        own = [one for one in runs if one.kind == kind]
        row: dict[str, Any] = {"samples of a batch": batch_size(kind)}
        for change in dict.fromkeys(one.change for one in own):
            these = [one for one in own if one.change == change]
            found = sum(delay(one) < math.inf for one in these)
            row[change] = f"{batches(median_delay(these))} ({found} of {len(these)})"
        rows.append(row)
    return rows


def needed_by_independent(runs: Sequence[Run], change: str, least: float) -> float:
    """Return the fewest independent samples, in batches of `least` or more, that find a change."""
    sizes = {"independent": BATCH_SIZE} | SMALL_BATCHES
    needed = [math.inf]
    for kind, size in sizes.items():
        own = [one for one in runs if (one.kind, one.change) == (kind, change)]
        if own and size >= math.floor(least):
            needed.append(size * median_delay(own))
    return min(needed)


def median_delay(runs: Sequence[Run]) -> float:
    """Return the median delay in batches; a change that is not found has an infinite one."""
    return float(np.median([delay(one) for one in runs]))


def batches(delayed: float) -> float | str:
    """Return a delay, as it is shown."""
    return delayed if delayed < math.inf else "not found"
