"""Items divided among workers, who take the next part when they are done with one."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")

SHARE = 4  # a part is this share of what each worker would have left


def parts_for(workers: int, items: Sequence[Item]) -> list[Sequence[Item]]:
    """Return runs of items, none longer than the one before, so that all workers end together.

    >>> [len(part) for part in parts_for(2, range(40))]
    [5, 5, 4, 4, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]
    """
    parts, start = [], 0
    while start < len(items):
        end = start + -(-(len(items) - start) // (SHARE * max(workers, 1)))
        parts.append(items[start:end])
        start = end
    return parts
