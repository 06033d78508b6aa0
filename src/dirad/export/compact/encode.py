"""The bytes of a compact network: rows one after the other, edges by the gaps between them.

A row begins with its bias. Then each code stores the weight of one edge and the gap to the next:
`at` is the source of the edge, and moves on by gap + 1. Where `at` passes the number of sources,
the row ends, and the next row begins at what is left: neither counts nor ends are stored. The
largest gap is an escape: `at` moves on by it, without an edge. After the two rows of a hidden node
comes a byte with its shifts.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from dirad.export.compact.form import CompactNetwork, Weights


class Encoded(NamedTuple):
    """A compact network as bytes."""

    first: tuple[int, int]  # where the rows of hidden nodes begin, and those of outputs
    stream: bytes


def encoded(net: CompactNetwork) -> Encoded:
    """Return the bytes of a network.

    Where outputs have another format than hidden nodes, their rows begin at a source of their own,
    because their escapes have another length.
    """
    stream = bytearray()
    hidden, outputs = range(2 * net.n_hidden), range(2 * net.n_hidden, net.n_rows)
    if net.formats[0] == net.formats[1]:
        first = _write_rows(net, range(net.n_rows), stream)
        return Encoded((first, first), bytes(stream))
    return Encoded(
        (_write_rows(net, hidden, stream), _write_rows(net, outputs, stream)), bytes(stream)
    )


def _write_rows(net: CompactNetwork, rows: range, stream: bytearray) -> int:
    """Write consecutive rows of one format; return at which source the first one begins."""
    places = {r: net.source[net.start[r] : net.start[r + 1]].tolist() for r in rows}
    at = first = _next_place(net, places, rows)
    for row in rows:
        _write_bias(net, row, stream)
        own, end = net.format_of(row), net.sources_of(row)
        weights = net.weight[net.start[row] : net.start[row + 1]].tolist()
        edges = deque(zip(places[row], weights, strict=True))
        while at < end:
            weight = edges.popleft()[1] if edges and edges[0][0] == at else None
            later = range(row + 1, rows.stop)
            to = edges[0][0] if edges else end + _next_place(net, places, later)
            at += _write_code(stream, own, weight, to - at)
        at -= end
        if row < 2 * net.n_hidden and row % 2:
            node = row // 2
            stream.append(int(net.product_shift[node]) | int(net.gate_shift[node]) << 4)
    return first


def _write_bias(net: CompactNetwork, row: int, stream: bytearray) -> None:
    """Write a bias as an unsigned number: the middle of its range is 0."""
    middle = 1 << (8 * net.bias_bytes - 1)
    stream += (int(net.bias[row]) + middle).to_bytes(net.bias_bytes, "big")


def _next_place(net: CompactNetwork, places: dict[int, list[int]], rows: range) -> int:
    """Return how far the first edge of these rows is; 0 where there is none."""
    distance = 0
    for row in rows:
        if places[row]:
            return distance + places[row][0]
        distance += net.sources_of(row)
    return 0


def _write_code(stream: bytearray, own: Weights, weight: int | None, distance: int) -> int:
    """Write an edge, or an escape where there is none; return how far the next code is."""
    escape = own.escape
    if weight is None:
        stream += bytes([escape, 0]) if own.is_wide else bytes([escape << own.bits])
        return escape
    gap = (distance - 1) % escape  # the remainder first, as escapes have one length
    if own.is_wide:
        stream += bytes([gap, weight + 128])
    else:
        stream.append(gap << own.bits | own.levels.tolist().index(weight))
    return gap + 1


def decoded(net: CompactNetwork, data: Encoded) -> Iterator[tuple[int, int, int]]:
    """Read the edges back, as C does: row, source and weight of each."""
    at, place, hidden = data.first[0], 0, 2 * net.n_hidden
    for row in range(net.n_rows):
        place += net.bias_bytes
        own = net.format_of(row)
        if row == hidden and net.formats[0] != net.formats[1]:
            at = data.first[1]
        while at < net.sources_of(row):
            gap = data.stream[place] >> (0 if own.is_wide else own.bits)
            if own.is_wide:
                place += 1
                weight = data.stream[place] - 128
            else:
                weight = int(own.levels[data.stream[place] % (1 << own.bits)])
            place += 1
            if gap == own.escape:
                at += gap
            else:
                yield row, at, weight
                at += gap + 1
        at -= net.sources_of(row)
        place += row < hidden and row % 2
