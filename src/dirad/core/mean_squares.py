"""Means of squared sums, without an array of the sums.

Each value is a mean of squares of sparse weighted sums: the prediction error of a cluster. There
are thousands of sums per sample. Written to memory and read again, they would take several times as
long as the arithmetic.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import exact_kernel

SIDE_BY_SIDE = 8  # sums that are computed together for a single sample: the kernel has eight


class SquaredSums(NamedTuple):
    """Sums and the means of their squares, as the kernel for many samples reads them."""

    start: NDArray[np.uint32]  # (rows + 1,) where the entries of each sum begin
    source: NDArray[np.uint32]  # (entries,)
    weight: NDArray[np.float64]  # (entries,)
    bias: NDArray[np.float64]  # (rows,)
    group: NDArray[np.uint32]  # (means + 1,) where the sums of each mean begin
    scale: NDArray[np.float64]  # (means,) weight of each square
    floor: NDArray[np.float64]  # (means,) added to a mean


class BundledSums(NamedTuple):
    """The same for a single sample: `SIDE_BY_SIDE` sums of about equal length are a bundle.

    A bundle holds the first entry of each of its sums, then the second of each, and so on; weights
    of 0 fill up those that are shorter than the first.
    """

    begin: NDArray[np.uint32]  # (bundles + 1,) where the entries of each bundle begin
    source: NDArray[np.unsignedinteger]  # (entries,)
    weight: NDArray[np.float64]  # (entries,)
    bias: NDArray[np.float64]  # (bundles · SIDE_BY_SIDE,)
    row: NDArray[np.uint32]  # (bundles · SIDE_BY_SIDE,) which sum it is; beyond the last: none
    group: NDArray[np.uint32]  # as above
    scale: NDArray[np.float64]
    floor: NDArray[np.float64]


def squared_sums(sums: Any, means: Any) -> SquaredSums:
    """Return weighted sums as in `dirad.program`, and the means of their squares.

    The rows of `means` take one square after the other.
    """
    scale = means.weight[np.minimum(means.start[:-1], len(means.weight) - 1)]
    entries = sums.start.view(np.uint32), sums.source.view(np.uint32), sums.weight, sums.bias
    return SquaredSums(*entries, means.start.view(np.uint32), scale, means.bias)


def bundled(squared: SquaredSums) -> BundledSums:
    """Return the same sums for a single sample."""
    start, source, weight, bias = squared.start, squared.source, squared.weight, squared.bias
    length = np.diff(start).astype(np.int64)
    order = np.argsort(-length, kind="stable")
    slot = np.empty(len(order), np.int64)
    slot[order] = np.arange(len(order))
    n_slots = -(-len(order) // SIDE_BY_SIDE) * SIDE_BY_SIDE
    longest, biases = np.zeros(n_slots, np.int64), np.zeros(n_slots)
    longest[slot], biases[slot] = length, bias
    row = np.append(order, np.full(n_slots - len(order), len(order)))
    begin = np.append(0, np.cumsum(longest[::SIDE_BY_SIDE])) * SIDE_BY_SIDE
    first = begin[slot // SIDE_BY_SIDE] + slot % SIDE_BY_SIDE  # entry of each sum
    within = np.arange(len(weight)) - np.repeat(start[:-1].astype(np.int64), length)
    to = np.repeat(first, length) + SIDE_BY_SIDE * within
    kind = np.uint16 if source.max(initial=0) < 2**16 else np.uint32
    sources, weights = np.zeros(begin[-1], kind), np.zeros(begin[-1])
    sources[to], weights[to] = source, weight
    entries = begin.astype(np.uint32), sources, weights, biases, row.astype(np.uint32)
    return BundledSums(*entries, squared.group, squared.scale, squared.floor)


def mean_squares(squared: SquaredSums, values: NDArray, result: NDArray) -> None:
    """Write means of squared sums of values: result (means, samples), from values (any, samples).

    The result has the same bits as that of products with sparse matrices.
    """
    _mean_squares(values, *squared, np.empty(values.shape[1]), result)


def mean_squares_of_one(sums: BundledSums, values: NDArray, result: NDArray) -> None:
    """Write squares and means for a single sample: result (rows + means,), from values (any,)."""
    n = len(result) - len(sums.floor)
    # What fills up the last bundle is written where a mean is written afterwards.
    _squares(values, *sums[:5], result)
    _means(*sums[5:], result[:n], result[n:])


@exact_kernel
def _squares(values, begin, source, weight, bias, row, squares):
    """Write the square of each sum. A single sum would wait for each of its additions."""
    for bundle in range(len(begin) - 1):
        z0 = z1 = z2 = z3 = z4 = z5 = z6 = z7 = 0.0
        for e in range(begin[bundle], begin[bundle + 1], SIDE_BY_SIDE):
            z0 += weight[e] * values[source[e]]
            z1 += weight[e + 1] * values[source[e + 1]]
            z2 += weight[e + 2] * values[source[e + 2]]
            z3 += weight[e + 3] * values[source[e + 3]]
            z4 += weight[e + 4] * values[source[e + 4]]
            z5 += weight[e + 5] * values[source[e + 5]]
            z6 += weight[e + 6] * values[source[e + 6]]
            z7 += weight[e + 7] * values[source[e + 7]]
        i = bundle * SIDE_BY_SIDE
        z0, z1, z2, z3 = z0 + bias[i], z1 + bias[i + 1], z2 + bias[i + 2], z3 + bias[i + 3]
        z4, z5, z6, z7 = z4 + bias[i + 4], z5 + bias[i + 5], z6 + bias[i + 6], z7 + bias[i + 7]
        squares[row[i]], squares[row[i + 1]] = z0 * z0, z1 * z1
        squares[row[i + 2]], squares[row[i + 3]] = z2 * z2, z3 * z3
        squares[row[i + 4]], squares[row[i + 5]] = z4 * z4, z5 * z5
        squares[row[i + 6]], squares[row[i + 7]] = z6 * z6, z7 * z7


@exact_kernel
def _means(group, scale, floor, squares, result):
    """Write each mean, four side by side as far as the shortest goes."""
    n = len(result)
    done = np.empty(4)
    for first in range(0, n, 4):
        m1, m2, m3 = min(first + 1, n - 1), min(first + 2, n - 1), min(first + 3, n - 1)
        b0, b1, b2, b3 = group[first], group[m1], group[m2], group[m3]
        shared = min(group[first + 1] - b0, group[m1 + 1] - b1, group[m2 + 1] - b2)
        shared = min(shared, group[m3 + 1] - b3)
        t0 = t1 = t2 = t3 = 0.0
        for k in range(shared):
            t0 += scale[first] * squares[b0 + k]
            t1 += scale[m1] * squares[b1 + k]
            t2 += scale[m2] * squares[b2 + k]
            t3 += scale[m3] * squares[b3 + k]
        done[0], done[1], done[2], done[3] = t0, t1, t2, t3
        for mean in range(first, min(first + 4, n)):
            total = done[mean - first]
            for row in range(group[mean] + shared, group[mean + 1]):
                total += scale[mean] * squares[row]
            result[mean] = total + floor[mean]


@exact_kernel
def _mean_squares(values, start, source, weight, bias, group, scale, floor, z, result):
    """Write each mean, for all samples at once; `z` holds a part of one sum for every sample."""
    n = values.shape[1]
    for g in range(len(result)):
        own = result[g]
        for s in range(n):
            own[s] = 0.0
        for row in range(group[g], group[g + 1]):
            first, end = start[row], start[row + 1]
            whole = end - (end - first) % 4
            _sum_by_fours(values, source, weight, first, whole, z)
            _add_squares(values, source, weight, whole, end, z, bias[row], scale[g], own)
        for s in range(n):
            own[s] += floor[g]


@exact_kernel
def _sum_by_fours(values, source, weight, first, end, z):
    """Write a sum of values for all samples, one entry after the other, four in each pass."""
    n = len(z)
    if first == end:
        for s in range(n):
            z[s] = 0.0
    for e in range(first, end, 4):
        w0, w1, w2, w3 = weight[e], weight[e + 1], weight[e + 2], weight[e + 3]
        i0, i1, i2, i3 = source[e], source[e + 1], source[e + 2], source[e + 3]
        if e == first:
            for s in range(n):
                two = w0 * values[i0, s] + w1 * values[i1, s]
                z[s] = (two + w2 * values[i2, s]) + w3 * values[i3, s]
        else:
            for s in range(n):
                two = (z[s] + w0 * values[i0, s]) + w1 * values[i1, s]
                z[s] = (two + w2 * values[i2, s]) + w3 * values[i3, s]


@exact_kernel
def _add_squares(values, source, weight, first, end, z, bias, share, result):
    """Add the squares of sums, whose last entries, up to three, are added to z in the same pass."""
    n = len(z)
    if end - first == 3:
        w0, w1, w2 = weight[first], weight[first + 1], weight[first + 2]
        i0, i1, i2 = source[first], source[first + 1], source[first + 2]
        for s in range(n):
            two = (z[s] + w0 * values[i0, s]) + w1 * values[i1, s]
            error = (two + w2 * values[i2, s]) + bias
            result[s] += share * (error * error)
    elif end - first == 2:
        w0, w1, i0, i1 = weight[first], weight[first + 1], source[first], source[first + 1]
        for s in range(n):
            error = ((z[s] + w0 * values[i0, s]) + w1 * values[i1, s]) + bias
            result[s] += share * (error * error)
    elif end - first == 1:
        w0, i0 = weight[first], source[first]
        for s in range(n):
            error = (z[s] + w0 * values[i0, s]) + bias
            result[s] += share * (error * error)
    else:
        for s in range(n):
            error = z[s] + bias
            result[s] += share * (error * error)
