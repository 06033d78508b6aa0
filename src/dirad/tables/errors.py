"""The error for a data file that cannot be used, and how messages quote names and values."""

from collections.abc import Iterable
from difflib import get_close_matches
from shlex import quote

MAX_SHOWN = 40  # characters of a value that a message repeats


class TableError(ValueError):
    """A data file cannot be used; the message names the file, the line and the column."""


def shown(value: object) -> str:
    """Quote a value for a message, and shorten it if it is long.

    >>> shown("abc"), shown("a" * 100)
    ("'abc'", "'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…'")
    """
    text = str(value)
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")


def listed(values: Iterable[object], most: int = 8) -> str:
    """List values for a message; of many, only the first ones and the last.

    >>> listed("abcd", most=3)
    "'a', 'b', …, 'd' (4 in all)"
    """
    texts = [shown(value) for value in values]
    if len(texts) <= most:
        return ", ".join(texts)
    return f"{', '.join(texts[: most - 1])}, …, {texts[-1]} ({len(texts):,} in all)"


def drop_options(names: Iterable[str]) -> str:
    """Return the command-line options that leave out these columns.

    >>> drop_options(["id", "full name"])
    "--drop id --drop 'full name'"
    """
    return " ".join(f"--drop {quote(name)}" for name in names)


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time.

    >>> first_repeated("abcb")
    'b'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def no_column(file: object, name: str, names: Iterable[str]) -> TableError:
    """Return the error for a missing column, which suggests the most similar name."""
    names = list(names)
    folded = {other.casefold(): other for other in names}
    near = get_close_matches(name.casefold(), folded, 1)
    hint = f"did you mean {shown(folded[near[0]])}?" if near else f"it has {listed(names)}"
    return TableError(f"{file}: no column {shown(name)}; {hint}")
