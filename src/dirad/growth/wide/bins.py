"""Thresholds of the inputs of a wide network, and the bins between them."""

import numpy as np
from numpy.typing import NDArray

from dirad.core.input_groups import NO_GROUPS, InputGroups
from dirad.growth.wide.costs import Samples
from dirad.growth.wide.gate import Gate, Sum, alone, summed
from dirad.growth.wide.subsets import find_subsets

BINS = 32  # between the thresholds of an input
CORNER_BINS = 8  # the same for each of the two inputs of a corner
NEAR = 0.15  # share of the samples on each side of a threshold that its spread is found from
NEAR_OF_NORMAL = 0.7706  # the width of so many of them in standard deviations, if they are normal
SCANNED_SAMPLES = 1500  # on which all candidates are compared


class Bins:
    """Thresholds of each variable, and the bins of the samples on which candidates are compared.

    A variable is an input, or a number with the lowest or highest value where it is missing.
    """

    def __init__(
        self,
        samples: Samples,
        usable: NDArray[np.bool_],
        seed: int,
        groups: InputGroups = NO_GROUPS,
    ) -> None:
        inputs = samples.inputs
        self.rows = np.flatnonzero(samples.weight > 0)
        if len(self.rows) > SCANNED_SAMPLES:
            shuffled = np.random.default_rng(seed).permutation(self.rows)
            self.rows = np.sort(shuffled[:SCANNED_SAMPLES])
        self.sums = [alone(i) for i in range(inputs.shape[1])]
        for number, gap in groups.gaps:
            if usable[number] and usable[gap]:
                self.sums += sums_with_gap(inputs, number, gap)
        self.input = np.array([one[0][0] for one in self.sums], np.intp)  # of each variable
        empty = np.empty(0)
        values = [summed(one, inputs) for one in self.sums]
        self._sorted = [np.sort(x[samples.weight > 0]) for x in values]
        self._spread: dict[tuple[Sum, float], float] = {}  # by gate and threshold
        self._variable = {one: i for i, one in enumerate(self.sums)}
        columns = [
            thresholds(x) if usable[i] else empty for x, i in zip(values, self.input, strict=True)
        ]
        self.thresholds = columns
        self.counts = np.array([len(column) for column in columns])
        self.bins = np.stack(
            [np.searchsorted(t, x[self.rows]) for t, x in zip(columns, values, strict=True)], 1
        )
        self._coarse: dict[int, tuple[NDArray, NDArray[np.float32]]] = {}  # by variable
        self.subsets = find_subsets(inputs, groups.categories, usable, self.rows)

    def spread_at(self, gate: Gate) -> float:
        """Return the spread of an input around the threshold of a gate.

        It is the standard deviation of normal values whose middle has as many samples as there are
        around the threshold. Of values with a long tail, the standard deviation of all would make
        every gate between the others too gradual.
        """
        place = gate.gate, gate.threshold
        if place not in self._spread:
            values = self._sorted[self._variable[gate.gate]]
            at, reach = int(np.searchsorted(values, gate.threshold)), int(NEAR * len(values))
            low, high = max(at - reach, 0), min(at + reach, len(values) - 1)
            self._spread[place] = max(float(values[high] - values[low]) / NEAR_OF_NORMAL, 1e-12)
        return self._spread[place]

    def totals(self, values: NDArray, inputs: NDArray[np.intp]) -> NDArray[np.float32]:
        """Return sums of columns of values over the samples of each bin: (columns, inputs, BINS).

        Only bins that an input has take part: indicators of categories have two.
        """
        widths = self.counts[inputs] + 1
        first = np.cumsum(widths) - widths
        indicators = np.zeros((len(self.rows), widths.sum()), np.float32)
        indicators[np.arange(len(self.rows))[:, None], first + self.bins[:, inputs]] = 1.0
        place = np.arange(len(first)).repeat(widths) * BINS
        place += np.arange(len(place)) - first.repeat(widths)
        result = np.zeros((values.shape[1], len(inputs) * BINS), np.float32)
        result[:, place] = values.T @ indicators
        return result.reshape(-1, len(inputs), BINS)

    def coarse(self, inputs: NDArray[np.intp]) -> tuple[list[NDArray], NDArray[np.float32]]:
        """Return fewer thresholds of some inputs, by number, and indicators of the wider bins."""
        for j in inputs:
            if int(j) not in self._coarse:
                self._coarse[int(j)] = self._coarse_of(int(j))
        found = [self._coarse[int(j)] for j in inputs]
        return [place for place, _ in found], np.concatenate([part for _, part in found], axis=1)

    def _coarse_of(self, j: int) -> tuple[NDArray, NDArray[np.float32]]:
        count = int(self.counts[j])
        place = np.arange(count)
        if count >= CORNER_BINS:
            wanted = np.linspace(0, count - 1, CORNER_BINS + 1)[1:-1]
            place = np.unique(wanted.round().astype(int))
        wide = (self.bins[:, j, None] > place).sum(axis=1)
        return place, np.eye(CORNER_BINS, dtype=np.float32)[wide]

    def valid(self, inputs: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which bins end in a threshold: (inputs, bins)."""
        return np.arange(BINS) < self.counts[inputs][:, None]


def sums_with_gap(inputs: NDArray, number: int, gap: int) -> list[Sum]:
    """Return sums that are the lowest or highest number where it is missing, by the input `gap`."""
    missing = inputs[:, gap] > inputs[:, gap].min()
    if missing.all() or not missing.any():
        return []
    step = np.ptp(inputs[:, gap])
    known, mean = inputs[~missing, number], inputs[missing, number][0]
    return [((number, 1.0), (gap, float(end - mean) / step)) for end in (known.min(), known.max())]


def thresholds(values: NDArray) -> NDArray[np.float64]:
    """Return at most BINS − 1 thresholds between different values, at their quantiles."""
    distinct = np.unique(values)
    if len(distinct) <= BINS:
        return 0.5 * (distinct[1:] + distinct[:-1])
    wanted = np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1], method="higher")
    place = np.unique(np.clip(np.searchsorted(distinct, wanted), 1, len(distinct) - 1))
    return 0.5 * (distinct[place] + distinct[place - 1])
