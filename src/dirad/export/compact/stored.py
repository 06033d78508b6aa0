"""A compact network as JSON, within a model file; what is read back is checked."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.export.compact.form import (
    LARGEST_SHIFT,
    POWERS,
    UNIFORM,
    CompactNetwork,
    Weights,
    check_bounds,
    check_ranges,
)

INTEGERS = ("start", "source", "weight", "bias", "gate_shift", "product_shift")
REALS = ("low", "high", "scale", "offset")
COUNTS = ("n_inputs", "n_hidden", "bias_bytes", "bias_shift")
GAP_BITS, WEIGHT_BITS = range(1, 9), range(1, 9)
MOST_BIAS_SHIFT = 24
MOST_BITS_OF_POWERS = 5  # up to 2^15: sums of larger ones may not even fit into 64 bits


def as_json(net: CompactNetwork) -> dict[str, Any]:
    """Return the numbers of a network; classes and names belong to its model."""
    found: dict[str, Any] = {key: getattr(net, key) for key in COUNTS}
    found |= {key: getattr(net, key).tolist() for key in INTEGERS + REALS}
    return found | {"formats": [list(own) for own in net.formats]}


def from_json(
    found: Any, classes: tuple[Any, ...] | None, names: tuple[str, ...]
) -> CompactNetwork:
    """Return a network; raise ValueError where it is not a valid one."""
    try:
        read: dict[str, Any] = {key: _count(found[key], key) for key in COUNTS}
        read |= {key: _integers(found[key], key) for key in INTEGERS}
        read |= {key: _reals(found[key], key) for key in REALS}
        formats = _formats(found["formats"])
        net = CompactNetwork(**read, formats=formats, classes=classes, names=names)
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"not a valid compact network: {error}") from None
    _check(net)
    check_bounds(net)
    try:
        check_ranges(net.low, net.high)
    except ValueError as error:
        raise ValueError(f"compact network: {error}") from None
    return net


def _count(value: Any, key: str) -> int:
    if type(value) is not int or not 0 <= value <= 1 << 20:
        raise ValueError(f"compact network: {key} is {value!r}")
    return value


def _integers(values: Any, key: str) -> NDArray[np.int64]:
    if not isinstance(values, list) or any(type(v) is not int for v in values):
        raise ValueError(f"compact network: {key} is not a list of integers")
    return np.array(values, np.int64)


def _reals(values: Any, key: str) -> NDArray[np.float64]:
    made = np.array(values, np.float64)
    if made.ndim != 1 or not np.isfinite(made).all():
        raise ValueError(f"compact network: {key} is not a list of finite numbers")
    return made


def _formats(values: Any) -> tuple[Weights, Weights]:
    hidden, output = (Weights(*own) for own in values)
    for own in (hidden, output):
        narrow = type(own.gap) is int and type(own.bits) is int
        narrow = narrow and own.gap in GAP_BITS and own.bits in WEIGHT_BITS
        narrow = narrow and (own.kind != POWERS or own.bits <= MOST_BITS_OF_POWERS)
        if not narrow or own.gap + own.bits not in (8, 16) or own.kind not in (UNIFORM, POWERS):
            raise ValueError(f"compact network: unknown format {own}")
    if hidden.is_wide != output.is_wide or hidden.kind != output.kind:
        raise ValueError("compact network: the formats of hidden nodes and outputs do not match")
    return hidden, output


def _check(net: CompactNetwork) -> None:
    """Refuse arrays that do not fit together."""
    if net.n_outputs < 1 or net.bias_bytes not in (1, 2) or net.bias_shift > MOST_BIAS_SHIFT:
        raise ValueError("compact network: no outputs, or biases of an unknown form")
    lengths = {
        "start": net.n_rows + 1,
        "source": int(net.start[-1]) if len(net.start) else -1,
        "weight": len(net.source),
        "gate_shift": net.n_hidden,
        "product_shift": net.n_hidden,
        "low": net.n_inputs,
        "high": net.n_inputs,
        "scale": net.n_outputs,
        "offset": net.n_outputs,
    }
    for key, length in lengths.items():
        if len(getattr(net, key)) != length:
            raise ValueError(f"compact network: {key} has {len(getattr(net, key))} numbers")
    shifts = np.concatenate([net.gate_shift, net.product_shift])
    most = (1 << (8 * net.bias_bytes - 1)) - 1
    if (shifts < 0).any() or (shifts > LARGEST_SHIFT).any() or (np.abs(net.bias) > most).any():
        raise ValueError("compact network: a shift or a bias is out of range")
    if net.start[0] != 0 or (np.diff(net.start) < 0).any():
        raise ValueError("compact network: rows are not in order")
    for row in range(net.n_rows):
        own = slice(net.start[row], net.start[row + 1])
        source, weight = net.source[own], net.weight[own]
        inside = ((source >= 0) & (source < net.sources_of(row))).all()
        if not inside or (np.diff(source) <= 0).any():
            raise ValueError(f"compact network: the sources of row {row} are not in order")
        if not np.isin(weight, net.format_of(row).levels).all():
            raise ValueError(f"compact network: a weight of row {row} is no level")
