"""Gates for subsets of categories: open for some categories of a column, closed for the others.

As trees do, the categories of a column are ordered by their mean gradients (weighted by a source:
by the best weight of the source within the category), and the cuts of this order are compared. With
several outputs the order is that of the direction in which the gradients of the categories differ
most. The best cut becomes one gate, with an in-edge from each category of its smaller side.

An order chosen to fit finds something in pure noise as well, the more so the more categories there
are. This expected gain is subtracted.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.growth.wide.gains import gated_gains, largest, variance_of
from dirad.growth.wide.gate import Sum

LEAST_CATEGORIES = 3  # a subset of fewer is a category
MOST_CATEGORIES = 32  # of one column that are ordered; the others are on neither side
SHARP = 24.0  # gain of a gate whose term 1 is 0 or 1, around the threshold ½


class Subsets(NamedTuple):
    """Columns of categories, and the category of each sample on which candidates are compared."""

    inputs: list[NDArray[np.intp]]  # of each column, one per category
    low: list[NDArray[np.float64]]  # values of these inputs for other categories
    step: list[NDArray[np.float64]]  # how much higher they are for their own
    indicators: NDArray[np.float32]  # (samples, columns · width): 1 where a sample is in a category

    @property
    def width(self) -> int:
        """Number of indicators per column; unused ones are 0."""
        return self.indicators.shape[1] // max(len(self.inputs), 1)

    @property
    def counts(self) -> NDArray[np.intp]:
        """Number of categories per column."""
        return np.array([len(one) for one in self.inputs], np.intp)

    def gate(self, column: int, members: NDArray[np.intp]) -> tuple[Sum, float]:
        """Return term 1 of a gate for some categories, and its threshold."""
        inputs, step = self.inputs[column][members], self.step[column][members]
        offset = float((self.low[column][members] / step).sum())
        return tuple(zip(inputs.tolist(), (1.0 / step).tolist(), strict=True)), 0.5 + offset


def find_subsets(
    inputs: NDArray, columns: Sequence[Sequence[int]], usable: NDArray, rows: NDArray
) -> Subsets:
    """Return the columns of at least three categories; `columns` lists the inputs of each."""
    found = Subsets([], [], [], np.zeros((len(rows), 0), np.float32))
    for column in columns:
        own = np.array([i for i in column if usable[i]], np.intp)
        if len(own) < LEAST_CATEGORIES:
            continue
        low, high = inputs[:, own].min(axis=0), inputs[:, own].max(axis=0)
        frequent = np.argsort(-(inputs[:, own] > low).sum(axis=0), kind="stable")
        kept = np.sort(frequent[:MOST_CATEGORIES])
        found.inputs.append(own[kept])
        found.low.append(low[kept])
        found.step.append((high - low)[kept])
    width = int(found.counts.max()) if found.inputs else 0
    indicators = np.zeros((len(rows), len(found.inputs), width), np.float32)
    for j, (own, low) in enumerate(zip(found.inputs, found.low, strict=True)):
        indicators[:, j, : len(own)] = inputs[np.ix_(rows, own)] > low
    return found._replace(indicators=indicators.reshape(len(rows), -1))


def chance_gain(n_categories: NDArray, n_outputs: int) -> NDArray[np.float64]:
    """Return what ordering gains in pure noise of variance 1, beyond a cut of a given order.

    Of k independent normal gradients, all positive ones on one side gain 2/π each on average. The
    power of the number of outputs was found by simulation.
    """
    return 2.0 / np.pi * np.maximum(n_categories - 2, 0) * n_outputs**0.3


def category_orders(g: NDArray, h: NDArray, counts: NDArray, decay: float) -> NDArray[np.intp]:
    """Return the categories of each column by rising mean gradient, those beyond `counts` last.

    g and h hold sums of gradients and of curvatures: (outputs, sources, columns, categories). The
    result has no axis of outputs.
    """
    if len(g) == 1:
        score, curvature = g[0], h[0]
    else:
        scaled = np.moveaxis(g / np.sqrt(h + max(decay, 1e-9)), 0, -2).astype(np.float64)
        direction = np.linalg.eigh(scaled @ np.swapaxes(scaled, -1, -2))[1][..., -1]
        direction = np.moveaxis(direction, -1, 0)[..., None]
        score, curvature = (direction * g).sum(axis=0), (direction**2 * h).sum(axis=0)
    mean = score / (curvature + max(decay, 1e-9))
    unused = np.arange(g.shape[-1]) >= counts[:, None]
    return np.argsort(np.where(unused, np.inf, mean), axis=-1, kind="stable")


class Sources(NamedTuple):
    """What gates are multiplied with, for the samples on which candidates are compared."""

    states: NDArray[np.float32]  # (samples, sources)
    feeds: NDArray[np.bool_]  # (sources,) do they feed the outputs already?
    n_edges: NDArray[np.intp]  # (sources,) into a new node, without those of its gate


class Cut(NamedTuple):
    """A source multiplied with a gate for a subset of categories."""

    rate: float  # gain per edge
    source: int  # its place among the sources
    column: int
    members: NDArray[np.intp]  # categories of the smaller side
    opens: bool  # is the gate open for them, or for the others?


def cut_gains(
    subsets: Subsets, sources: Sources, g: NDArray, h: NDArray, decay: float
) -> tuple[NDArray, NDArray, NDArray]:
    """Return the order of the categories, and the gains of gates that open below or above each.

    g and h are (samples, outputs); the results have the axes (sources, columns, categories).
    """
    shape = (sources.states.shape[1], len(subsets.inputs), subsets.width)

    def of_category(states: NDArray, values: NDArray) -> NDArray:
        sums = [(states * one[:, None]).T @ subsets.indicators for one in values.T]
        return np.stack(sums).reshape(-1, *shape)

    of_g, of_h = of_category(sources.states, g), of_category(sources.states**2, h)
    order = category_orders(of_g, of_h, subsets.counts, decay)
    below_g, below_h = (
        np.cumsum(np.take_along_axis(one, order[None], -1), -1) for one in (of_g, of_h)
    )
    feeds = sources.feeds[:, None, None]
    open_below, open_above = gated_gains(below_g, below_h, feeds, decay)
    return order, open_below.sum(axis=0), open_above.sum(axis=0)


def best_cuts(
    subsets: Subsets, sources: Sources, g: NDArray, h: NDArray, decay: float, count: int
) -> list[Cut]:
    """Return the cuts of the largest gain per edge, less the gain that chance would bring."""
    order, *sides = cut_gains(subsets, sources, g, h, decay)
    gains = np.stack(sides)  # (sides, sources, columns, categories)
    counts = subsets.counts[:, None]
    size = np.arange(1, subsets.width + 1)  # categories below a cut
    smaller = np.minimum(size, counts - size)
    edges = smaller + g.shape[1] + sources.n_edges[:, None, None]
    chance = variance_of(g, h) * chance_gain(counts, g.shape[1])
    rates = np.where(smaller > 0, gains - chance, 0.0) / np.maximum(edges, 1)
    found = []
    for place in largest(rates, count):
        side, source, column, last = (int(i) for i in np.unravel_index(place, rates.shape))
        ordered = order[source, column, : counts[column, 0]]
        below, above = np.split(ordered, [last + 1])
        few = below if len(below) <= len(above) else above
        opens = (few is below) == (side == 0)
        found.append(
            Cut(float(rates[side, source, column, last]), source, column, np.sort(few), opens)
        )
    return found
