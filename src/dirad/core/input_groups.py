"""Which inputs of a network belong together."""

from typing import NamedTuple


class InputGroups(NamedTuple):
    """Inputs that belong together because they are computed from one column."""

    categories: tuple[tuple[int, ...], ...] = ()  # of each column of categories, gaps included
    gaps: tuple[tuple[int, int], ...] = ()  # a number, and the input that tells that it is missing


NO_GROUPS = InputGroups()
