"""Means of squared sums, without an array of the sums.

Each value is a mean of squares of sparse weighted sums: the prediction error of a cluster. There
are thousands of sums per sample. Written to memory and read again, they would take several times as
long as the arithmetic.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import exact_kernel


def mean_squares(sums: Any, means: Any, values: NDArray, result: NDArray) -> None:
    """Write means of squared sums of values: result (means, samples), from values (any, samples).

    `sums` and `means` are weighted sums as in `dirad.program`: those of the values, and those of
    the squares, whose rows take one square after the other. The result has the same bits as that of
    products with sparse matrices.
    """
    scale = means.weight[np.minimum(means.start[:-1], len(means.weight) - 1)]
    entries = sums.start.view(np.uint32), sums.source.view(np.uint32), sums.weight, sums.bias
    groups = means.start.view(np.uint32), scale, means.bias
    _mean_squares(values, *entries, *groups, np.empty(values.shape[1]), result)


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
