"""The compact form of a network: small integer weights, bytes as inputs, sums of 32 bits.

Nodes are numbered inputs first, then hidden nodes in an order in which each follows its sources.
Rows are weighted sums: the two terms z and m of each hidden node, then one row per output,

    row = bias + Σ weight · node                      (inputs from 0 to 255)
    t = clip((64 · m) >> gate_shift, −256, 256)       (64 is 1: six fractional bits)
    node = clip((z · (64 + t − t·|t| / 512)) >> product_shift, −32767, 32767)

The parabola t − t·|t|/512 replaces 2·tanh(t/2) of σ₁: the same slope at 0, the same limits, within
0.07 everywhere. A steep gate is so nearly always at a limit: it is a comparison.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

BYTE = 255  # largest input
ONE_BITS = 6  # fractional bits of t and σ₁
ONE = 1 << ONE_BITS
LIMIT = 4 * ONE  # of t: σ₁ is −1 or 3 beyond
SQUARE_SHIFT = ONE_BITS + 3  # t·|t| over 8, in the fraction of t
SIGMA_MOST = 3 * ONE
LARGEST_SHIFT = 15  # two shifts share a byte
INTEGER = 2**31 - 1
LEAST_FLOAT = 1e-37  # smaller numbers are written as 0
NODE_MOST = 2**15 - 1  # of a hidden node; C tests it only where a node could exceed it

UNIFORM, POWERS = "uniform", "powers"  # kinds of weight levels


class Weights(NamedTuple):
    """How the edges of a group of rows are stored: bits of a gap, bits and kind of a weight.

    Uniform levels are the odd numbers −(2^bits − 1) … 2^bits − 1; powers are ±2^k. Of 8 bits, a
    weight has a byte of its own and is any integer from −127 to 127.
    """

    gap: int
    bits: int
    kind: str = UNIFORM

    @property
    def is_wide(self) -> bool:
        """Whether an edge takes two bytes: its gap and its weight."""
        return self.bits == 8

    @property
    def levels(self) -> NDArray[np.int64]:
        """The weights that can be stored, by their codes; of 8 bits, in ascending order."""
        if self.is_wide:
            return np.arange(-127, 128)
        if self.kind == POWERS:
            powers = 1 << np.arange(1 << (self.bits - 1))
            return np.concatenate([powers, -powers])
        return 2 * np.arange(1 << self.bits) - ((1 << self.bits) - 1)

    @property
    def escape(self) -> int:
        """The largest gap, which stands for no edge."""
        return (1 << self.gap) - 1

    @property
    def largest(self) -> int:
        """The largest weight."""
        return int(self.levels.max())

    def rounded(self, values: NDArray) -> NDArray:
        """Return the nearest level of each number."""
        levels = np.sort(self.levels).astype(values.dtype)
        middle = (levels[1:] + levels[:-1]) / 2
        return levels[np.searchsorted(middle, values)]


@dataclass(frozen=True)
class CompactNetwork:
    """A network in small integers. `evaluate` computes it; so does the C of `compact_source`."""

    n_inputs: int
    n_hidden: int
    start: NDArray[np.int64]  # (rows + 1,) where the edges of each row begin
    source: NDArray[np.int64]  # (edges,) node numbers, ascending within a row
    weight: NDArray[np.int64]  # (edges,) levels of the format of their row
    bias: NDArray[np.int64]  # (rows,) in units of 2^bias_shift
    bias_bytes: int  # 1 or 2
    bias_shift: int
    gate_shift: NDArray[np.int64]  # (hidden,) 0 … 15
    product_shift: NDArray[np.int64]  # (hidden,) 0 … 15
    formats: tuple[Weights, Weights]  # of the rows of hidden nodes, and of outputs
    low: NDArray[np.float64]  # (inputs,) the value of byte 0
    high: NDArray[np.float64]  # (inputs,) the value of byte 255
    scale: NDArray[np.float64]  # (outputs,) an output in its own unit is offset + scale · row
    offset: NDArray[np.float64]  # (outputs,)
    classes: tuple[Any, ...] | None  # None for a regressor
    names: tuple[str, ...] = ()  # of the inputs

    @property
    def n_rows(self) -> int:
        """The number of weighted sums."""
        return len(self.bias)

    @property
    def n_outputs(self) -> int:
        """The number of output rows: one for two classes."""
        return self.n_rows - 2 * self.n_hidden

    @property
    def n_edges(self) -> int:
        """The number of edges."""
        return len(self.source)

    @property
    def row(self) -> NDArray[np.int64]:
        """The row of each edge."""
        return np.repeat(np.arange(self.n_rows), np.diff(self.start))

    def format_of(self, row: int) -> Weights:
        """Return how the edges of a row are stored."""
        return self.formats[int(row >= 2 * self.n_hidden)]

    def sources_of(self, row: int) -> int:
        """Return the number of nodes that a row may take: those computed before it."""
        return self.n_inputs + min(row // 2, self.n_hidden)

    def to_bytes(self, X: NDArray) -> NDArray[np.uint8]:
        """Return inputs as bytes; what lies beyond the range is taken as its end."""
        return as_bytes(X, self.low, self.high)

    def with_edges(self, keep: NDArray[np.bool_]) -> "CompactNetwork":
        """Return the network with some of its edges."""
        counts = np.bincount(self.row[keep], minlength=self.n_rows)
        start = np.concatenate([[0], np.cumsum(counts)])
        return replace(self, start=start, source=self.source[keep], weight=self.weight[keep])


def as_bytes(X: NDArray, low: NDArray, high: NDArray) -> NDArray[np.uint8]:
    """Return inputs as bytes, bit for bit as the function ``<name>_input`` in C makes them."""
    if np.isnan(X).any():
        raise ValueError("a compact network takes no missing values")
    with np.errstate(over="ignore"):  # what is infinite in float is beyond the range
        values = np.asarray(X, np.float64).astype(np.float32)
    low, high = in_float(low), in_float(high)
    inside = (values > low) & (values < high)
    width = np.where(high > low, high - low, np.float32(1.0))
    share = np.where(inside, values - low, np.float32(0.0)) / width
    whole = np.floor(share * np.float32(BYTE) + np.float32(0.5))
    return np.where(inside, whole, np.where(values > low, BYTE, 0)).astype(np.uint8)


def in_float(ends: NDArray) -> NDArray[np.float32]:
    """Return the ends of ranges as C has them; the smallest numbers are 0 there."""
    return np.where(np.abs(ends) < LEAST_FLOAT, 0.0, ends).astype(np.float32)


def check_ranges(low: NDArray, high: NDArray) -> None:
    """Refuse ranges that are out of order, or whose width float does not hold."""
    with np.errstate(over="ignore", invalid="ignore"):
        width = in_float(high) - in_float(low)
    bad = (low > high) | ~np.isfinite(width)
    if bad.any():
        i = int(np.argmax(bad))
        why = "" if low[i] > high[i] else ", which is too wide for float"
        raise ValueError(f"input {i} has the range {low[i]:g} to {high[i]:g}{why}")


class OutOfRange(ValueError):
    """A sum could leave 32 bits."""


class Bounds(NamedTuple):
    """Largest magnitudes, whatever the input bytes."""

    sums: NDArray[np.int64]  # (rows,)
    nodes: NDArray[np.int64]  # (hidden,) before they are limited to NODE_MOST


def bounds(net: CompactNetwork) -> Bounds:
    """Return the largest magnitude of every row and hidden node, by interval arithmetic."""
    largest = np.concatenate([np.full(net.n_inputs, BYTE), np.zeros(net.n_hidden, np.int64)])
    sums, nodes = np.zeros(net.n_rows, np.int64), np.zeros(net.n_hidden, np.int64)
    for row in range(net.n_rows):
        own = slice(net.start[row], net.start[row + 1])
        reach = int(np.abs(net.weight[own]) @ largest[net.source[own]])
        sums[row] = reach + (abs(int(net.bias[row])) << net.bias_shift)
        if row < 2 * net.n_hidden and row % 2:
            product = int(sums[row - 1]) * SIGMA_MOST
            nodes[row // 2] = (product >> int(net.product_shift[row // 2])) + 1
            largest[net.n_inputs + row // 2] = min(int(nodes[row // 2]), NODE_MOST)
    return Bounds(sums, nodes)


def check_bounds(net: CompactNetwork) -> None:
    """Refuse a network whose sums could leave 32 bits."""
    found = bounds(net)
    hidden = found.sums[: 2 * net.n_hidden]
    steps = {"sum": found.sums, "gate": hidden[1::2] * ONE, "product": hidden[::2] * SIGMA_MOST}
    for what, values in steps.items():
        if values.max(initial=0) > INTEGER:
            worst = int(values.argmax())
            raise OutOfRange(
                f"the {what} of row {worst} may reach {int(values[worst])}, which 32 bits do not "
                "hold: use fewer bits per weight"
            )
