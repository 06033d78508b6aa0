"""Codecs of values that a model file holds, each with its way in and out.

A codec packs a value into plain JSON, with its arrays put into a store by the path at which they
stand, and unpacks what it finds there, which may be anything: what does not fit is a `ModelError`
that names the path. What is read is decided by the codecs alone, never by the file.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.storage.errors import ModelError

# Of an array: how many it has in a direction, by a number or by a name that stands for the same
# number within one object.
Length = int | str
LARGEST = float(np.finfo(np.float64).max)


class ArrayStore:
    """The arrays of a file, and the objects that several others refer to."""

    def __init__(self, arrays: Mapping[str, NDArray] | None = None, shared: Any = ()) -> None:
        self.arrays: dict[str, NDArray] = dict(arrays or {})
        self.shared: list[Any] = list(shared)  # packed
        self.places: dict[int, int] = {}  # packing: of objects, by their id
        self.kept: list[Any] = []  # packing: so that no id is given again
        self.found: dict[int, Any] = {}  # unpacking: by place
        self.open: set[int] = set()  # unpacking: places at which it is going on

    def put(self, path: str, array: NDArray) -> str:
        """Keep an array; return its name."""
        self.arrays[path] = np.ascontiguousarray(array)
        return path

    def get(self, name: Any, path: str) -> NDArray:
        """Return an array by its name."""
        if not isinstance(name, str) or name not in self.arrays:
            raise ModelError(f"{path}: there is no array {name!r}")
        return self.arrays[name]


class Codec:
    """Turns values of one kind into JSON and arrays, and back."""

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        """Return the value as plain JSON."""
        raise NotImplementedError

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        """Return the value."""
        raise NotImplementedError


# ------------------------------------------------------------------ single values


class Int(Codec):
    """A whole number, not below `least`."""

    def __init__(self, least: int | None = None) -> None:
        self.least = least

    def pack(self, value: Any, store: ArrayStore, path: str) -> int:
        return int(value)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> int:
        if type(packed) is not int or not -(2**63) <= packed < 2**63:
            raise ModelError(f"{path}: {packed!r:.60} is no whole number of 64 bits")
        if self.least is not None and packed < self.least:
            raise ModelError(f"{path}: {packed} is below {self.least}")
        return packed


class Real(Codec):
    """A number; one that is not finite is written as a word."""

    WORDS = ("nan", "inf", "-inf")

    def __init__(self, finite: bool = True) -> None:
        self.finite = finite

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        value = value if type(value) is int else float(value)
        return value if math.isfinite(value) else str(float(value))

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> float:
        if isinstance(packed, str) and packed in self.WORDS and not self.finite:
            return float(packed)
        if not isinstance(packed, int | float) or isinstance(packed, bool):
            raise ModelError(f"{path}: {packed!r:.60} is no number")
        if not -LARGEST <= packed <= LARGEST:  # nor NaN, nor a whole number of 400 digits
            raise ModelError(f"{path}: {packed!r:.60} is not a finite number")
        return packed


class Flag(Codec):
    """True or False."""

    def pack(self, value: Any, store: ArrayStore, path: str) -> bool:
        return bool(value)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> bool:
        if type(packed) is not bool:
            raise ModelError(f"{path}: {packed!r} is neither true nor false")
        return packed


class Text(Codec):
    """A text, one of `choices` if there are any."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def pack(self, value: Any, store: ArrayStore, path: str) -> str:
        return str(value)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> str:
        if not isinstance(packed, str) or (self.choices and packed not in self.choices):
            raise ModelError(f"{path}: {packed!r} is none of {', '.join(self.choices) or 'texts'}")
        return packed


class Plain(Codec):
    """Anything made of numbers, texts, lists and dictionaries."""

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": str(value)}
        if isinstance(value, Mapping):
            pairs = [
                [self.pack(key, store, path), self.pack(item, store, path)]
                for key, item in value.items()
            ]
            return {"pairs": pairs}
        if isinstance(value, (list, tuple, np.ndarray)):
            return [self.pack(item, store, path) for item in value]
        raise ModelError(f"{path}: {type(value).__name__} cannot be saved")

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        if isinstance(packed, list):
            return [self.unpack(item, store, path) for item in packed]
        if isinstance(packed, dict):
            if set(packed) == {"number"}:
                return Real(finite=False).unpack(packed["number"], store, path)
            return self._dictionary(packed, store, path)
        return packed

    def _dictionary(self, packed: dict, store: ArrayStore, path: str) -> dict:
        pairs = packed.get("pairs")
        if set(packed) != {"pairs"} or not isinstance(pairs, list):
            raise ModelError(f"{path}: this is no dictionary: {str(packed)[:60]}")
        result = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], (list, dict)):
                raise ModelError(f"{path}: this is no entry of a dictionary: {str(pair)[:60]}")
            result[pair[0]] = self.unpack(pair[1], store, path)
        return result


# ------------------------------------------------------------------ arrays


class Array(Codec):
    """An array of one type. Lengths that are names must agree within an object."""

    def __init__(self, dtype: Any, *shape: Length, finite: bool = True) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.finite = finite

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        value = np.asarray(value)
        if self.dtype.names is None:
            return store.put(path, value.astype(self.dtype, copy=False))
        return {name: store.put(f"{path}/{name}", value[name]) for name in self.dtype.names}

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> NDArray:
        if self.dtype.names is None:
            return self._one(store.get(packed, path), self.dtype, path)
        if not isinstance(packed, dict) or set(packed) != set(self.dtype.names):
            raise ModelError(f"{path}: the columns must be {', '.join(self.dtype.names)}")
        columns = {
            name: self._one(store.get(packed[name], path), self.dtype[name], f"{path}/{name}")
            for name in self.dtype.names
        }
        if len({len(column) for column in columns.values()}) > 1:
            raise ModelError(f"{path}: the columns have different lengths")
        result = np.zeros(len(next(iter(columns.values()))), self.dtype)
        for name, column in columns.items():
            result[name] = column
        return result

    def _one(self, array: NDArray, dtype: np.dtype, path: str) -> NDArray:
        if array.dtype != dtype or array.ndim != len(self.shape):
            raise ModelError(
                f"{path}: expected {len(self.shape)} dimensions of {dtype}, found {array.ndim} of "
                f"{array.dtype}"
            )
        for wanted, length in zip(self.shape, array.shape, strict=True):
            if isinstance(wanted, int) and wanted != length:
                raise ModelError(f"{path}: the shape is {array.shape}, not {self.shape}")
        if self.finite and dtype.kind == "f" and not np.isfinite(array).all():
            raise ModelError(f"{path} holds NaN or infinity")
        return array.copy()
