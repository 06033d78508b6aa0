"""Quantities as text."""

import math

SIZES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
FRACTIONS = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
LONG = ((365 * 86_400.0, "years"), (86_400.0, "days"), (3600.0, "h"))


def figure(value: float, digits: int = 3) -> str:
    """Return a number with this many significant digits.

    >>> figure(123456), figure(0.012345), figure(10), figure(0)
    ('123,000', '0.0123', '10.0', '0')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    behind = digits - 1 - math.floor(math.log10(abs(value)))
    return f"{round(value, behind):,.{max(behind, 0)}f}"


def size(n_bytes: float) -> str:
    """Return a number of bytes.

    >>> size(8.1e10)
    '81.0 GB'
    """
    unit, prefix = next((pair for pair in SIZES if n_bytes >= pair[0]), SIZES[-1])
    return f"{figure(n_bytes / unit)} {prefix}B"


def duration(seconds: float) -> str:
    """Return a time.

    >>> duration(0.00123), duration(5e6), duration(1e9)
    ('1.23 ms', '57.9 days', '31.7 years')
    """
    for unit, name in LONG:
        if seconds >= 2 * unit:
            return f"{figure(seconds / unit)} {name}"
    unit, prefix = next((pair for pair in FRACTIONS if seconds >= pair[0]), FRACTIONS[-1])
    return f"{figure(seconds / unit)} {prefix}s"
