"""Estimators that several threads use: one learns at a time, and a refusal changes nothing."""

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from dirad.immutable import REBUILD

# Locks are kept beside the estimators, not in them: they can be neither copied nor pickled.
_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_GUARD = Lock()


def _forget_locks() -> None:
    """Begin without locks: threads that held them do not exist in a forked process."""
    global _LOCKS, _GUARD
    _LOCKS, _GUARD = WeakKeyDictionary(), Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextmanager
def locked(estimator: Any) -> Iterator[None]:
    """Wait until no other thread changes the estimator, and keep others waiting in this block."""
    with _GUARD:
        lock = _LOCKS.setdefault(estimator, RLock())
    with lock:
        yield


@contextmanager
def transaction(estimator: Any) -> Iterator[None]:
    """Lock the estimator; if the block fails, its attributes are again what they were.

    What the attributes refer to must not be changed in place. Attributes are set back one by one,
    so that other threads never see an estimator without them.
    """
    with locked(estimator):
        before = vars(estimator).copy()
        try:
            yield
        except BaseException:
            vars(estimator).update(before)
            for name in vars(estimator).keys() - before.keys():
                del vars(estimator)[name]
            raise


def writable_copy(state: Any) -> Any:
    """Return the state with plain, writable arrays, as kernels need them; itself if it has them.

    Arrays that `joblib.load(..., mmap_mode="r")` maps into memory are read-only, and of another
    type.
    """
    copies: Any = {id(array): np.array(array) for array in memmaps_in(state, set())}
    copies |= {REBUILD: True} if copies else {}
    return copy.deepcopy(state, copies) if copies else state


def memmaps_in(part: Any, seen: set[int]) -> Iterator[np.memmap]:
    """Yield every memory-mapped array in a tree of objects, each once."""
    if id(part) in seen or isinstance(part, str | bytes | int | float | bool | None):
        return
    seen.add(id(part))
    if isinstance(part, np.memmap):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from memmaps_in(value, seen)
    elif isinstance(part, list | tuple):
        for value in part:
            yield from memmaps_in(value, seen)
    elif hasattr(part, "__dict__"):
        yield from memmaps_in(vars(part), seen)
