"""From a draft to a compact network: the scale of every row, and rounding.

A row of scale S stores weight w, of a source whose unit is c, as the level nearest to w · c / S.
The unit of a byte is 1. That of a hidden node follows from the scale of its first row and its
product shift; the scale of its second row from its gate shift. Scales are chosen so that the
rounding disturbs the sums least; all outputs have the same one, so that they can be compared.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dirad.export.compact.draft import Draft, node_values
from dirad.export.compact.form import (
    LARGEST_SHIFT,
    ONE,
    ONE_BITS,
    CompactNetwork,
    Weights,
    check_bounds,
)

SCALES = 2.0 ** (np.arange(-12, 13) / 8)  # factors that are tried around a first scale
USUAL_NODE = 64.0  # root mean square of a hidden node that feeds hidden nodes
LEAST_SPREAD = 1e-9


@dataclass(frozen=True)
class Storage:
    """How the numbers of a network are stored."""

    formats: tuple[Weights, Weights]  # of hidden nodes, and of outputs
    bias_bytes: int = 1
    fast: bool = False  # as straight-line code, instead of a table
    direct: bool = False  # without hidden nodes, whose code would take bytes too


@dataclass(frozen=True)
class Scaled:
    """A network in the units of integers, but not rounded yet: what `refit` adapts."""

    net: CompactNetwork  # its structure and shifts; weights and biases rounded
    weight: NDArray[np.float64]  # (edges,) in levels
    bias: NDArray[np.float64]  # (rows,) in units of their sums

    def rounded(self) -> CompactNetwork:
        """Return the compact network nearest to it."""
        most = (1 << (8 * self.net.bias_bytes - 1)) - 1
        largest = np.abs(self.bias).max(initial=0.0)
        shift = max(0, int(np.ceil(np.log2(max(largest, 1.0) / most))))
        bias = np.clip(np.rint(self.bias / 2.0**shift), -most, most).astype(np.int64)
        net = replace(
            self.net, weight=rounded_weights(self.net, self.weight), bias=bias, bias_shift=shift
        )
        check_bounds(net)
        return net


def rounded_weights(net: CompactNetwork, weight: NDArray) -> NDArray[np.int64]:
    """Return the level nearest to each weight."""
    n = int(net.start[2 * net.n_hidden])
    parts = zip(net.formats, (weight[:n], weight[n:]), strict=True)
    return np.concatenate([own.rounded(part) for own, part in parts]).astype(np.int64)


def scaled(draft: Draft, storage: Storage, x: NDArray[np.uint8]) -> Scaled:
    """Choose the scales of all rows for a draft, given typical bytes x."""
    values = node_values(draft, x)
    spread = np.maximum(values.std(axis=1), LEAST_SPREAD)
    center = values.mean(axis=1)
    n_in, hidden = draft.n_inputs, draft.n_hidden
    unit = np.ones(n_in + hidden)  # of each node: its state is unit · integer
    scale = np.ones(draft.n_rows)
    gate, product = np.zeros(hidden, np.int64), np.zeros(hidden, np.int64)
    weight, bias = draft.weight.copy(), draft.bias.copy()
    final = _feeds_outputs_only(draft)
    for node in range(hidden):
        z, m = 2 * node, 2 * node + 1
        scale[z] = _first_scale(draft, z, storage.formats[0], unit, spread)
        gate[node], factor = _gate_shift(draft, node, storage.formats[0], unit, spread)
        scale[m] = 2.0 ** -gate[node] / draft.gain[node]
        own = slice(draft.start[m], draft.start[m + 1])
        weight[own] *= factor
        bias[m] *= factor
        size = np.sqrt(np.mean(values[n_in + node] ** 2)) + LEAST_SPREAD
        product[node] = _shift(np.log2(size * ONE / (USUAL_NODE * scale[z])))
        unit[n_in + node] = scale[z] * 2.0 ** product[node] / ONE
    _scale_outputs(draft, storage.formats[1], final, scale, unit, product, spread)
    row = draft.row
    stored = weight * unit[draft.source] / scale[row]
    structure = _structure(draft, storage, gate, product, scale)
    levels = rounded_weights(structure, stored)
    lost = (stored - levels) / unit[draft.source] * center[draft.source]
    shift = np.bincount(row, lost, minlength=draft.n_rows)
    shift[1 : 2 * hidden : 2] = 0.0  # thresholds stay where they are
    return Scaled(structure, stored, bias / scale + shift)


def _structure(
    draft: Draft, storage: Storage, gate: NDArray, product: NDArray, scale: NDArray
) -> CompactNetwork:
    of_outputs = scale[2 * draft.n_hidden :]
    return CompactNetwork(
        draft.n_inputs,
        draft.n_hidden,
        draft.start,
        draft.source,
        np.zeros(len(draft.source), np.int64),
        np.zeros(draft.n_rows, np.int64),
        storage.bias_bytes,
        0,
        gate,
        product,
        storage.formats,
        draft.low,
        draft.high,
        draft.scale * of_outputs,
        draft.offset,
        draft.classes,
        draft.names,
    )


def _shift(value: float) -> int:
    return int(np.clip(np.rint(value), 0, LARGEST_SHIFT))


def _feeds_outputs_only(draft: Draft) -> NDArray[np.bool_]:
    """Mark the hidden nodes that feed no other hidden node."""
    result = np.ones(draft.n_hidden, bool)
    inner = draft.source[: draft.start[2 * draft.n_hidden]]
    result[inner[inner >= draft.n_inputs] - draft.n_inputs] = False
    return result


def _error(
    own: Weights, stored: NDArray[np.float64], importance: NDArray[np.float64], scale: float
) -> float:
    """Return the variance that rounding adds to a sum."""
    return float(np.sum(((stored - own.rounded(stored)) * scale * importance) ** 2))


def _first_scale(draft: Draft, row: int, own: Weights, unit: NDArray, spread: NDArray) -> float:
    """Return the scale of a first row that is rounded best."""
    edges = slice(draft.start[row], draft.start[row + 1])
    source = draft.source[edges]
    if not len(source):
        return max(abs(draft.bias[row]), LEAST_SPREAD) / USUAL_NODE
    wanted = draft.weight[edges] * unit[source]
    importance = spread[source] / unit[source]
    first = max(np.abs(wanted).max(), LEAST_SPREAD) / own.largest
    tried = [float(first * factor) for factor in SCALES]
    return min(tried, key=lambda s: _error(own, wanted / s, importance, s))


def _gate_shift(
    draft: Draft, node: int, own: Weights, unit: NDArray, spread: NDArray
) -> tuple[int, float]:
    """Return the shift of a gate, and the factor by which a gate that is too steep is flattened."""
    edges = slice(draft.start[2 * node + 1], draft.start[2 * node + 2])
    source = draft.source[edges]
    wanted = draft.weight[edges] * unit[source] * draft.gain[node]
    importance = spread[source] / unit[source]
    largest = np.abs(wanted).max(initial=LEAST_SPREAD)
    if largest >= own.largest:  # a comparison: as steep as can be
        return 0, float(own.largest / largest)
    shifts = range(LARGEST_SHIFT + 1)
    errors = [_error(own, wanted * 2.0**s, importance, 2.0**-s) for s in shifts]
    return int(np.argmin(errors)), 1.0


def _scale_outputs(
    draft: Draft,
    own: Weights,
    final: NDArray[np.bool_],
    scale: NDArray[np.float64],
    unit: NDArray[np.float64],
    product: NDArray[np.int64],
    spread: NDArray[np.float64],
) -> None:
    """Set the common scale of the outputs, and the product shifts of nodes that feed only them."""
    edges = slice(draft.start[2 * draft.n_hidden], len(draft.source))
    source, weight = draft.source[edges], draft.weight[edges]
    if not len(source):
        scale[2 * draft.n_hidden :] = max(np.abs(draft.bias).max(), LEAST_SPREAD) / USUAL_NODE
        return
    free = np.flatnonzero(final)
    by_node = [np.flatnonzero(source == draft.n_inputs + node) for node in free]
    fixed = np.flatnonzero(~np.isin(source, draft.n_inputs + free))
    first = np.median(np.abs(weight * unit[source])) * 2 / own.largest

    def fit(s: float) -> tuple[float, list[int]]:
        """Return the error with a scale, and the best product shift of every free node."""
        total = _error(
            own,
            weight[fixed] * unit[source[fixed]] / s,
            spread[source[fixed]] / unit[source[fixed]],
            s,
        )
        shifts = []
        for node, entries in zip(free, by_node, strict=True):
            base = scale[2 * node] / ONE
            importance = spread[draft.n_inputs + node]
            units = base * 2.0 ** np.arange(LARGEST_SHIFT + 1)
            errors = [
                _error(own, weight[entries] * u / s, np.array(importance / u), s) for u in units
            ]
            shifts.append(int(np.argmin(errors)))
            total += errors[shifts[-1]]
        return total, shifts

    found = [(fit(s * first), s * first) for s in SCALES]
    (_, shifts), best = min(found, key=lambda one: one[0][0])
    scale[2 * draft.n_hidden :] = best
    product[free] = shifts
    unit[draft.n_inputs + free] = scale[2 * free] * 2.0 ** (product[free] - ONE_BITS)
