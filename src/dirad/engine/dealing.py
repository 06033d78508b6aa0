"""Items dealt out like cards, and put in order again."""

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def dealt(items: Sequence[Item], n: int) -> list[Sequence[Item]]:
    """Return n hands, or fewer where items are few. Neighbours, which take alike, are apart.

    >>> dealt([0, 1, 2, 3, 4], 2)
    [[0, 2, 4], [1, 3]]
    """
    n = max(1, min(n, len(items)))
    return [items[i::n] for i in range(n)]


def collected(hands: Sequence[Sequence[Item]]) -> list[Item]:
    """Return the items in the order in which they were before they were dealt.

    >>> collected(dealt("scale", 3))
    ['s', 'c', 'a', 'l', 'e']
    """
    n = len(hands)
    return [hands[i % n][i // n] for i in range(sum(map(len, hands)))]
