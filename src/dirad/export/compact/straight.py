"""A compact network as straight-line C: a statement per row, without tables and loops.

Sources of a row that have weights of one magnitude are added first, and their sum multiplied once:
by shifts where the weight is a power of two. Answers are bit for bit those of the table: all sums
are exact, and partial sums are no larger than those that `check_bounds` limits.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from dirad.export.compact.form import (
    LIMIT,
    NODE_MOST,
    ONE,
    SQUARE_SHIFT,
    CompactNetwork,
    bounds,
)

WIDTH = 96  # of a line

_NODE = """static inline int32_t {name}_node(int32_t z, int32_t t, int shift)
{{
    t = t < -{limit} ? -{limit} : t > {limit} ? {limit} : t;
    t += {one} - ((t * (t < 0 ? -t : t)) >> {square});
{state}}}

"""

# About the bytes of code on a Cortex-M0 of each part, as arm-none-eabi-gcc 12 compiles it.
FRAME, OF_EDGE, OF_FAR_EDGE, OF_GROUP, OF_ROW, OF_NODE, OF_CHOICE = 60, 3.7, 5.2, 5.5, 8, 26, 24
NEAR = 32  # inputs whose place is part of the instruction


def straight_lines(net: CompactNetwork) -> str:
    """Return the function that computes the outputs, for `compact_source`."""
    used = _used(net)
    body: list[str] = []
    for node in range(net.n_hidden):
        z, m = 2 * node, 2 * node + 1
        if not used[net.n_inputs + node]:
            continue
        gate, product = int(net.gate_shift[node]), int(net.product_shift[node])
        body += [
            f"    const int32_t z{node} = {_sum(net, z)};",
            f"    const int32_t m{node} = {_sum(net, m)};",
            f"    const int32_t h{node} ="
            f" {{name}}_node(z{node}, (m{node} * {ONE}) >> {gate}, {product});",
        ]
    for k in range(net.n_outputs):
        body.append(f"    out[{k}] = {_sum(net, 2 * net.n_hidden + k)};")
    own = [line for one in body for line in _wrapped(one)]
    takes = "" if used[: net.n_inputs].any() else "    (void)x;\n"
    return (
        (_node(net) if used[net.n_inputs :].any() else "")
        + "/* The outputs in the units of integers: {NAME}_SCALE of one is 1. */\n"
        + "static inline void {name}_predict(const uint8_t *x, int32_t *out)\n{\n"
        + takes
        + "\n".join(own)
        + "\n}\n"
    )


def _used(net: CompactNetwork) -> NDArray[np.bool_]:
    """Mark the nodes on which an output depends."""
    used = np.zeros(net.n_inputs + net.n_hidden, bool)
    live = net.weight != 0
    used[net.source[live & (net.row >= 2 * net.n_hidden)]] = True
    for node in range(net.n_hidden - 1, -1, -1):  # each after those that it feeds
        if used[net.n_inputs + node]:
            used[net.source[live & (net.row // 2 == node)]] = True
    return used


def _node(net: CompactNetwork) -> str:
    """Return the function of a hidden node; its state is limited where it could exceed 16 bits."""
    state = "    return (z * t) >> shift;\n"
    if bounds(net).nodes.max(initial=0) > NODE_MOST:
        most = NODE_MOST
        state = (
            "    z = (z * t) >> shift;\n"
            f"    return z < -{most} ? -{most} : z > {most} ? {most} : z;\n"
        )
    return _NODE.format(name="{name}", limit=LIMIT, one=ONE, square=SQUARE_SHIFT, state=state)


def _groups(net: CompactNetwork, row: int) -> list[tuple[int, list[str], list[str]]]:
    """Return the magnitudes of a row's weights, with the values that are added and subtracted."""
    own = slice(int(net.start[row]), int(net.start[row + 1]))
    found: dict[int, tuple[list[str], list[str]]] = {}
    for source, weight in zip(net.source[own].tolist(), net.weight[own].tolist(), strict=True):
        if weight:
            value = f"x[{source}]" if source < net.n_inputs else f"h{source - net.n_inputs}"
            found.setdefault(abs(weight), ([], []))[weight < 0].append(value)
    return [(size, plus, minus) for size, (plus, minus) in sorted(found.items())]


def _sum(net: CompactNetwork, row: int) -> str:
    """Return the expression of a row."""
    bias = int(net.bias[row]) << net.bias_shift
    parts: list[tuple[bool, str]] = []  # whether it is subtracted
    for size, plus, minus in _groups(net, row):
        negative = not plus
        first, second = (minus, plus) if negative else (plus, minus)
        inside = "(int32_t)" + " + ".join(first) + "".join(f" - {value}" for value in second)
        if len(first) + len(second) > 1 and (negative or size > 1):
            inside = f"({inside})"
        parts.append((negative, inside if size == 1 else f"{inside} * {size}"))
    text = f"INT32_C({bias})" if bias or not parts else ""
    for negative, part in parts:
        sign = " - " if negative else " + "
        text = f"{text}{sign}{part}" if text else f"{'-' if negative else ''}{part}"
    return text


def _wrapped(line: str) -> Iterator[str]:
    """Break a statement into lines."""
    start = ""
    for word in line.strip().split(" "):
        if start and len(start) + len(word) + 5 > WIDTH:
            yield "    " + start
            start = "    " + word
        else:
            start = f"{start} {word}" if start else word
    yield "    " + start


def straight_bytes(net: CompactNetwork) -> int:
    """Return about how many bytes the code takes on a Cortex-M0."""
    live = np.concatenate([np.repeat(_used(net)[net.n_inputs :], 2), np.ones(net.n_outputs, bool)])
    source = net.source[live[net.row]]
    far = (source >= NEAR) & (source < net.n_inputs)
    rows = np.flatnonzero(live).tolist()
    groups = sum(len(_groups(net, row)) for row in rows)
    return int(
        FRAME
        + OF_EDGE * np.count_nonzero(~far)
        + OF_FAR_EDGE * np.count_nonzero(far)
        + OF_GROUP * groups
        + OF_ROW * len(rows)
        + OF_NODE * (len(rows) - net.n_outputs) / 2
        + OF_CHOICE * (net.n_outputs > 1)
    )
