"""Objects that never change: copies of what holds them share them."""

import copy
from typing import Any

REBUILD = "rebuild"  # a key of `deepcopy`'s memo: immutable objects are copied too


def shared(instance: Any, memo: dict[Any, Any]) -> Any:
    """Return what `__deepcopy__` of an immutable object returns: itself, or a copy on demand."""
    if REBUILD not in memo:
        return instance
    result = object.__new__(type(instance))
    memo[id(instance)] = result
    vars(result).update(copy.deepcopy(vars(instance), memo))
    return result
