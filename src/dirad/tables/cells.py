"""Single values: what text means as a number, as a boolean, as a category, as nothing."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

# Text that stands for no value; blanks around it do not count.
MISSING = frozenset({"", "NA", "<NA>", "N/A", "n/a", "NaN", "nan", "null", "NULL"})
TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}


def category(text: str | None) -> str | None:
    """Return text without blanks around it, None where it stands for no value.

    >>> category(" red "), category("NA")
    ('red', None)
    """
    text = text and text.strip()
    return None if text is None or text in MISSING else text


def number(text: str) -> float | None:
    """Return the number that text writes, None where it writes none.

    >>> number("1e3"), number("1_000"), number("abc")
    (1000.0, None, None)
    """
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def truth(text: str) -> float | None:
    """Return 1 for true, 0 for false, None for anything else.

    >>> truth("True"), truth("0"), truth("maybe")
    (1.0, 0.0, None)
    """
    return TRUTH.get(text.lower())


def numbers(texts: Sequence[str | None]) -> NDArray[np.float64] | None:
    """Return a column of text as numbers (NaN: missing), None if any of it is no number."""
    try:
        found = np.fromiter(map(float, texts), np.float64, len(texts))  # type: ignore[arg-type]
    except (ValueError, TypeError):  # a missing value, or no number
        return _numbers_and_gaps(texts)
    return None if "_" in "".join(texts) else found  # type: ignore[arg-type]


def _numbers_and_gaps(texts: Sequence[str | None]) -> NDArray[np.float64] | None:
    found = np.full(len(texts), np.nan)
    for i, text in enumerate(texts):
        if (text := category(text)) is not None:
            value = number(text)
            if value is None:
                return None
            found[i] = value
    return found


def text_of(value: float | bool) -> str | None:
    """Return a number or a boolean as text, None for NaN.

    >>> text_of(3.0), text_of(0.5), text_of(True)
    ('3', '0.5', 'true')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return None
    return str(int(value)) if float(value).is_integer() else repr(value)


def counts(values: Sequence[str | None] | NDArray) -> Counter[str | None]:
    """Return how often each category occurs in a column as it was read; None: missing."""
    if isinstance(values, np.ndarray):
        distinct, times = np.unique(values, return_counts=True)
        pairs = zip(map(text_of, distinct.tolist()), times.tolist(), strict=True)
    else:
        pairs = ((category(text), n) for text, n in Counter(values).items())
    total: Counter[str | None] = Counter()
    for text, n in pairs:
        total[text] += n
    return total
