"""What a fixed-point model of a PREVAL system computes, in NumPy: bit for bit what its C does."""

import numpy as np
from numpy.typing import NDArray

from dirad.export.fixed_point import MODULATION, UNIT, FixedTerm, Format
from dirad.export.fixed_system import (
    LARGEST_INTEGER,
    LEAST_LOG,
    LOG,
    FixedModel,
    Log,
    LogCopy,
    Logistic,
    LogShares,
    MeanSquare,
    Modulated,
    PowerMean,
    Softmax,
    Step,
    Sums,
    log_integer,
)

Whole = NDArray[np.int64]

LN_2 = 186065279  # ln 2, with 28 bits behind the point
# e^−t = 2^−(n+f): 2^−f is a polynomial, see `c_fixed`.
POWERS = (1073741823, -744260973, 257938912, -59582935, 10286296, -1369601, 117391)
LOG2_E = 1549082005  # with 30 bits behind the point
LONGEST = 64 << LOG  # e^−t is 0 long before


def whole_inputs(inputs: tuple[Format, ...], X: NDArray) -> Whole:
    """Return inputs as integers: (samples, inputs). What is beyond a range is taken as its end."""
    low = np.array([own.low for own in inputs], np.float32)
    high = np.array([own.high for own in inputs], np.float32)
    unit = np.array([2.0**own.fraction for own in inputs], np.float32)
    scaled = np.clip(np.asarray(X, np.float32), low, high) * unit
    half = np.float32(0.5)
    return np.trunc(np.where(scaled < 0, scaled - half, scaled + half)).astype(np.int64)


def run(model: FixedModel, X: Whole) -> Whole:
    """Return all values for integer inputs: (values, samples)."""
    values = np.zeros((model.n_values, len(X)), np.int64)
    values[: model.n_inputs] = X.T
    place = model.n_inputs
    for step in model.steps:
        own = _computed(step, values)
        values[place : place + len(own)] = own
        place += len(own)
    return values


def _computed(step: Step, values: Whole) -> Whole:
    match step:
        case Sums(terms, limit):
            return np.array([_sum(term, values, limit) for term in terms])
        case Logistic(term):
            return logistic(_sum(term, values), term.format.fraction)[None]
        case Modulated(z, m, shift):
            sigma = logistic(_sum(m, values), m.format.fraction) - (1 << MODULATION)
            return _clipped(shifted(_sum(z, values) * sigma, shift))[None]
        case MeanSquare(start, n, offset):
            squares = (values[start : start + n] ** 2).sum(axis=0)
            return np.maximum(natural_log(squares) + offset, log_integer(LEAST_LOG))[None]
        case Log(term, floor):
            z = _sum(term, values)
            scale = ((term.format.fraction << LOG) * LN_2) >> 28
            return np.where(z > 0, np.maximum(natural_log(z) - scale, floor), floor)[None]
        case LogCopy(source, floor):
            return np.maximum(values[source], floor)[None]
        case LogShares():
            return _log_shares(step, values)
        case Softmax(start, n, fraction, used):
            z = values[start : start + n]
            powers = exponential(z.max(axis=0) - z, fraction)
            return (powers << UNIT) // powers.sum(axis=0) if used else np.zeros_like(z)
        case PowerMean(start, n, exponent, inverse, log_n):
            logs = values[start : start + n]
            least = logs.min(axis=0)
            t = np.minimum(((logs - least) * exponent) >> 16, LONGEST)
            total = _log_of_unit(exponential(t, LOG).sum(axis=0)) - log_n
            return (least - ((total * inverse) >> 30))[None]
    raise TypeError(f"unknown step {step!r}")


def _sum(term: FixedTerm, values: Whole, limit: int = LARGEST_INTEGER) -> Whole:
    z = np.array(term.weights, np.int64) @ values[list(term.sources)]
    return np.clip(shifted(z, term.shift) + term.bias, -limit, limit)


def shifted(value: Whole, shift: int) -> Whole:
    """Return value / 2^shift, rounded as the C does it."""
    return (value + ((1 << shift) >> 1)) >> shift


def _clipped(value: Whole) -> Whole:
    return np.clip(value, -LARGEST_INTEGER, LARGEST_INTEGER)


def _log_of_unit(value: Whole) -> Whole:
    """Return ln of positive numbers with `UNIT` bits behind the point."""
    return natural_log(value) - (((UNIT << LOG) * LN_2) >> 28)


def _log_shares(step: LogShares, values: Whole) -> Whole:
    logits = values[step.start : step.start + step.n]
    top = logits.max(axis=0)
    everything = _log_of_unit(exponential(top - logits, step.fraction).sum(axis=0))
    result = []
    for term in step.terms:
        own = values[[source + step.moved for source in term.sources]]
        if not len(own):
            result.append(np.full(len(top), step.floor))
            continue
        best = own.max(axis=0)
        total = _log_of_unit(exponential(best - own, step.fraction).sum(axis=0))
        more, less = max(LOG - step.fraction, 0), max(step.fraction - LOG, 0)
        lower = ((best - top) * (1 << more)) >> less
        result.append(np.maximum(lower + total - everything, step.floor))
    return np.array(result)


def exponential(t: Whole, fraction: int) -> Whole:
    """Return e^−t with `UNIT` bits behind the point, of t ≥ 0."""
    y = (t * LOG2_E) >> fraction
    part, result = y & (2**30 - 1), np.full(t.shape, POWERS[-1], np.int64)
    for c in POWERS[-2::-1]:
        result = c + ((result * part) >> 30)
    whole = y >> 30
    return np.where(whole > 30, 0, result >> np.minimum(whole, 30))


def logistic(z: Whole, fraction: int) -> Whole:
    """Return 1 / (1 + e^−z) with `UNIT` bits behind the point."""
    high = (1 << 60) // ((1 << 30) + exponential(np.abs(z), fraction))
    return np.where(z < 0, (1 << 30) - high, high)


def natural_log(value: Whole) -> Whole:
    """Return ln of integers with `LOG` bits behind the point; of 0, that of 1."""
    value = np.maximum(value, 1)
    top = np.zeros(value.shape, np.int64)
    for bits in (32, 16, 8, 4, 2, 1):
        longer = (value >> (top + bits)) > 0
        top += np.where(longer, bits, 0)
    y = np.where(top > 30, value >> np.maximum(top - 30, 0), value << np.maximum(30 - top, 0))
    result = top.copy()
    for _ in range(LOG):
        y = (y * y) >> 30
        bit = y >> 31
        y >>= bit
        result = (result << 1) | bit
    return (result * LN_2) >> 28
