"""The scan for gates: all thresholds of a source are compared in one pass over the samples.

The sums of a candidate's score and of its variance are collected in the bins between thresholds;
cumulative sums then give both for every threshold (see `evidence` for score, variance and G).
"""

from typing import NamedTuple

import numpy as np

from dirad.core.compilation import kernel
from dirad.growth.edge_generation import has_edge_into
from dirad.growth.evidence import g_statistic, squared_z
from dirad.growth.products import multiply_rows

MAX_BINS = 32  # between the thresholds of a source
CORNER_BINS = 8  # the same for each of the two sources of a corner
QUANTILE_SAMPLES = 256  # from which thresholds are taken; samples are in random order

# Columns of a candidate. A source of -1 is the constant 1; STEP_GATE -1: it is no corner.
RATE, SOURCE, GATE, THRESHOLD, SIGN, GAIN = 0, 1, 2, 3, 4, 5
STEP_GATE, STEP_THRESHOLD, STEP_SIGN, STEP_GAIN = 6, 7, 8, 9
N_COLUMNS = 10


class Bins(NamedTuple):
    """The samples of a round, sorted into bins by the state of each node."""

    thresholds: np.ndarray  # (nodes, bins) rising
    n_thresholds: np.ndarray  # (nodes,)
    bins: np.ndarray  # (nodes, samples) of uint8: the number of thresholds below the state


@kernel
def sort_into_bins(states, nodes, n):
    """Return the bins of some rows of states."""
    result = Bins(
        np.empty((states.shape[0], MAX_BINS)),
        np.zeros(states.shape[0], np.int64),
        np.empty((states.shape[0], n), np.uint8),
    )
    for s in nodes:
        count = write_thresholds(states[s, : min(n, QUANTILE_SAMPLES)], result.thresholds[s])
        result.n_thresholds[s] = count
        for m in range(n):
            x = states[s, m]
            low, high = 0, count
            while low < high:
                middle = (low + high) // 2
                if x > result.thresholds[s, middle]:
                    low = middle + 1
                else:
                    high = middle
            result.bins[s, m] = low
    return result


@kernel
def sort_few(values, ordered):
    """Write the values in rising order (insertion sort, which compiles fast)."""
    for m in range(values.shape[0]):
        x, place = values[m], m
        while place > 0 and ordered[place - 1] > x:
            ordered[place] = ordered[place - 1]
            place -= 1
        ordered[place] = x


@kernel
def write_thresholds(states, thresholds):
    """Write thresholds between different quantiles; return their number."""
    ordered = np.empty(states.shape[0])
    sort_few(states, ordered)
    n, count = ordered.shape[0], 0
    for i in range(1, MAX_BINS):
        place = max(1, i * n // MAX_BINS)
        while place < n and ordered[place - 1] == ordered[place]:
            place += 1  # no threshold may split equal values
        if place >= n:
            break
        value = 0.5 * (ordered[place - 1] + ordered[place])
        if count == 0 or value > thresholds[count - 1]:
            thresholds[count] = value
            count += 1
    return count


@kernel
def keep(kept, candidate, G, edges):
    """Put a candidate into the place of the worst that is kept, if it has more gain per edge."""
    worst = 0
    for i in range(kept.shape[0]):
        if kept[i, RATE] < kept[worst, RATE]:
            worst = i
    if G > edges * kept[worst, RATE]:
        for column in range(N_COLUMNS):
            kept[worst, column] = candidate[column]
        kept[worst, RATE] = G / edges


@kernel
def collect(bins, scores, squares, n, sums):
    """Add up scores and squares in bins: sums[b] = (Σ score, Σ square)."""
    sums[:] = 0.0
    for m in range(n):
        b = bins[m]
        sums[b, 0] += scores[m]
        sums[b, 1] += squares[m]


@kernel
def best_step(sums, count, n):
    """Return (G, threshold index) of the best step, given its sums in bins.

    A step is 1 above its threshold and 0 below. The parameter that the term already has for the
    stepped source (for the constant: its bias) takes up the mean.
    """
    total_square = 0.0
    for b in range(count + 1):
        total_square += sums[b, 1]
    best, place = 0.0, 0
    score, square = 0.0, 0.0
    for b in range(count):
        score += sums[b, 0]
        square += sums[b, 1]
        z = squared_z(score, square - square * square / max(total_square, 1e-300))
        if z > best:
            best, place = z, b
    return g_statistic(best, n), place


@kernel
def best_gated_edge(sums, count, n):
    """Return (G, threshold index, sign) of the best gate on a source that does not feed the term.

    A gate of sign 1 is 3 above its threshold and −1 below; one of sign −1 the other way round.
    """
    total, total_square = 0.0, 0.0
    for b in range(count + 1):
        total += sums[b, 0]
        total_square += sums[b, 1]
    best, place, sign = 0.0, 0, 1.0
    score, square = 0.0, 0.0  # below the threshold
    for b in range(count):
        score += sums[b, 0]
        square += sums[b, 1]
        z = squared_z(3.0 * total - 4.0 * score, 9.0 * total_square - 8.0 * square)
        if z > best:
            best, place, sign = z, b, 1.0
        z = squared_z(4.0 * score - total, total_square + 8.0 * square)
        if z > best:
            best, place, sign = z, b, -1.0
    return g_statistic(best, n), place, sign


@kernel
def accumulate(sums, rows, columns):
    """Turn sums in cells into sums over all cells up to each one."""
    for r in range(rows + 1):
        for c in range(columns + 1):
            for i in range(2):
                if r > 0:
                    sums[r, c, i] += sums[r - 1, c, i]
                if c > 0:
                    sums[r, c, i] += sums[r, c - 1, i]
                if r > 0 and c > 0:
                    sums[r, c, i] -= sums[r - 1, c - 1, i]


@kernel
def corner_squared_z(half, half_square, part, part_square, total_square, sign):
    """z² of a step times a gate, from the sums where the step is 1, and of these below the gate."""
    if sign < 0.0:  # the gate is 3 below its threshold
        score = 4.0 * part - half
        square = half_square + 8.0 * part_square
        mean = 4.0 * part_square - half_square
    else:
        score = 3.0 * half - 4.0 * part
        square = 9.0 * half_square - 8.0 * part_square
        mean = 3.0 * half_square - 4.0 * part_square
    return squared_z(score, square - mean * mean / total_square)


@kernel
def best_corner(sums, rows, columns, n):
    """Return (G, row, column, step sign, gate sign, is the gate the row?) of the best corner.

    `sums[r, c]` holds (Σ score, Σ square) of a cell. A corner is a step times a gate; either of
    the two sources can be the step.
    """
    accumulate(sums, rows, columns)
    total, total_square = sums[rows, columns, 0], max(sums[rows, columns, 1], 1e-300)
    best, found = 0.0, (0, 0, 1.0, 1.0, False)
    for r in range(rows):
        for c in range(columns):
            for gate_is_row in (False, True):
                # Below the threshold of the step, and below that of the gate.
                below = sums[rows, c] if gate_is_row else sums[r, columns]
                under_gate = sums[r, columns] if gate_is_row else sums[rows, c]
                for step_sign in (-1.0, 1.0):
                    half, half_square = below[0], below[1]
                    part, part_square = sums[r, c, 0], sums[r, c, 1]
                    if step_sign > 0.0:  # the step is 1 above its threshold
                        half, half_square = total - half, total_square - half_square
                        part, part_square = under_gate[0] - part, under_gate[1] - part_square
                    for sign in (-1.0, 1.0):
                        z = corner_squared_z(
                            half, half_square, part, part_square, total_square, sign
                        )
                        if z > best:
                            best, found = z, (r, c, step_sign, sign, gate_is_row)
    return g_statistic(best, n), found


@kernel
def scan_steps(score, candidates, bins, n, kept, strength):
    """Scan the steps of all candidates, and write the largest G of each into `strength`.

    Return the number of steps tried.
    """
    sums = np.empty((MAX_BINS, 2))
    one = np.zeros(N_COLUMNS)
    one[SOURCE], one[STEP_GATE], one[SIGN] = -1.0, -1.0, 1.0
    tries = 0
    for i in range(candidates.shape[0]):
        s = candidates[i]
        collect(bins.bins[s], score.residual, score.square, n, sums)
        G, place = best_step(sums, bins.n_thresholds[s], n)
        strength[i] = G
        tries += bins.n_thresholds[s]
        if bins.n_thresholds[s] > 1:  # a source of two values is a step itself
            one[GATE], one[THRESHOLD] = s, bins.thresholds[s, place]
            keep(kept, one, G, 2.0)
    return tries


@kernel
def scan_gated_edges(net, plan, work, term, score, sources, gates, bins, n, rows, kept):
    """Scan every gate on every source; return the number of candidates tried."""
    sums = np.empty((MAX_BINS, 2))
    one = np.zeros(N_COLUMNS)
    one[STEP_GATE] = -1.0
    tries = 0
    for s in sources:
        multiply_rows(rows[0, 0], rows[1, 0], score.residual, score.square, work.state[s], n)
        feeds = has_edge_into(net, plan, s, term)
        for g in gates:
            collect(bins.bins[g], rows[0, 0], rows[1, 0], n, sums)
            sign = 1.0
            if feeds:
                G, place = best_step(sums, bins.n_thresholds[g], n)
            else:
                G, place, sign = best_gated_edge(sums, bins.n_thresholds[g], n)
            tries += 2 * bins.n_thresholds[g]
            one[SOURCE], one[GATE] = s, g
            one[THRESHOLD], one[SIGN] = bins.thresholds[g, place], sign
            keep(kept, one, G, 3.0)
    return tries


@kernel
def scan_corners(score, gates, bins, n, kept):
    """Scan the corners of every two gates; return the number of candidates tried."""
    sums = np.empty((CORNER_BINS, CORNER_BINS, 2))
    one = np.zeros(N_COLUMNS)
    one[SOURCE] = -1.0
    tries = 0
    for i in range(gates.shape[0]):
        for j in range(i):
            first, second = gates[i], gates[j]
            width = -(
                -(bins.n_thresholds[first] + 1) // CORNER_BINS
            )  # bins that are taken together
            height = -(-(bins.n_thresholds[second] + 1) // CORNER_BINS)
            sums[:] = 0.0
            for m in range(n):
                r, c = bins.bins[first, m] // width, bins.bins[second, m] // height
                sums[r, c, 0] += score.residual[m]
                sums[r, c, 1] += score.square[m]
            rows, columns = bins.n_thresholds[first] // width, bins.n_thresholds[second] // height
            G, found = best_corner(sums, rows, columns, n)
            tries += 8 * rows * columns
            if G == 0.0:
                continue
            r, c, step_sign, sign, gate_is_row = found
            gate, step = GATE, STEP_GATE
            gate_threshold, step_threshold = THRESHOLD, STEP_THRESHOLD
            if not gate_is_row:
                gate, step = step, gate
                gate_threshold, step_threshold = step_threshold, gate_threshold
            one[gate], one[step] = first, second
            one[gate_threshold] = bins.thresholds[first, (r + 1) * width - 1]
            one[step_threshold] = bins.thresholds[second, (c + 1) * height - 1]
            one[SIGN], one[STEP_SIGN] = sign, step_sign
            keep(kept, one, G, 4.0)
    return tries
