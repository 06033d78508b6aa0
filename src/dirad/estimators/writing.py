"""Estimators that several threads use: one learns at a time, and a refusal changes nothing."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

# Locks are kept beside the estimators, not in them: they can be neither copied nor pickled.
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_GUARD = Lock()


@contextmanager
def writing(estimator: Any) -> Iterator[None]:
    """Wait until no other thread changes the estimator, and keep others waiting in this block."""
    with _GUARD:
        lock = _LOCKS.setdefault(estimator, RLock())
    with lock:
        yield


@contextmanager
def changing(estimator: Any) -> Iterator[None]:
    """The same; if the block fails, the estimator's attributes are again what they were."""
    with writing(estimator):
        before = vars(estimator).copy()
        try:
            yield
        except BaseException:
            vars(estimator).clear()
            vars(estimator).update(before)
            raise


def owned(state: Any) -> Any:
    """Return a copy whose arrays are plain and writable, as kernels need them.

    Arrays that `joblib.load(..., mmap_mode="r")` maps into memory are read-only, and of another
    type.
    """
    memo: dict[int, Any] = {}
    for array in _mapped(state, set()):
        memo[id(array)] = np.array(array)
    return copy.deepcopy(state, memo)


def _mapped(part: Any, seen: set[int]) -> Iterator[np.memmap]:
    """Yield every memory-mapped array in a tree of objects, each once."""
    if id(part) in seen or isinstance(part, str | bytes | int | float | bool | None):
        return
    seen.add(id(part))
    if isinstance(part, np.memmap):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from _mapped(value, seen)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from _mapped(value, seen)
    elif hasattr(part, "__dict__"):
        yield from _mapped(vars(part), seen)
