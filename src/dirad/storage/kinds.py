"""Kinds of values that a model file holds, each with its way in and out.

A kind packs a value into plain JSON, with its arrays put into a box by the path at which they
stand, and unpacks what it finds there, which may be anything: what does not fit is a `ModelError`
that names the path. What is read is decided by the kinds alone, never by the file.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.storage.errors import ModelError

# Of an array: how many it has in a direction, by a number or by a name that stands for the same
# number within one object.
Length = int | str
LARGEST = float(np.finfo(np.float64).max)


class Box:
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


class Kind:
    """A kind of value."""

    def pack(self, value: Any, box: Box, path: str) -> Any:
        """Return the value as plain JSON."""
        raise NotImplementedError

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        """Return the value."""
        raise NotImplementedError


# ------------------------------------------------------------------ single values


class Whole(Kind):
    """A whole number, not below `least`."""

    def __init__(self, least: int | None = None) -> None:
        self.least = least

    def pack(self, value: Any, box: Box, path: str) -> int:
        return int(value)

    def unpack(self, packed: Any, box: Box, path: str) -> int:
        if type(packed) is not int or not -(2**63) <= packed < 2**63:
            raise ModelError(f"{path}: {packed!r:.60} is no whole number of 64 bits")
        if self.least is not None and packed < self.least:
            raise ModelError(f"{path}: {packed} is below {self.least}")
        return packed


class Real(Kind):
    """A number; one that is not finite is written as a word."""

    WORDS = ("nan", "inf", "-inf")

    def __init__(self, finite: bool = True) -> None:
        self.finite = finite

    def pack(self, value: Any, box: Box, path: str) -> Any:
        value = value if type(value) is int else float(value)
        return value if math.isfinite(value) else str(float(value))

    def unpack(self, packed: Any, box: Box, path: str) -> float:
        if isinstance(packed, str) and packed in self.WORDS and not self.finite:
            return float(packed)
        if not isinstance(packed, int | float) or isinstance(packed, bool):
            raise ModelError(f"{path}: {packed!r:.60} is no number")
        if not -LARGEST <= packed <= LARGEST:  # nor NaN, nor a whole number of 400 digits
            raise ModelError(f"{path}: {packed!r:.60} is not a finite number")
        return packed


class Flag(Kind):
    """True or False."""

    def pack(self, value: Any, box: Box, path: str) -> bool:
        return bool(value)

    def unpack(self, packed: Any, box: Box, path: str) -> bool:
        if type(packed) is not bool:
            raise ModelError(f"{path}: {packed!r} is neither true nor false")
        return packed


class Text(Kind):
    """A text, one of `choices` if there are any."""

    def __init__(self, *choices: str) -> None:
        self.choices = choices

    def pack(self, value: Any, box: Box, path: str) -> str:
        return str(value)

    def unpack(self, packed: Any, box: Box, path: str) -> str:
        if not isinstance(packed, str) or (self.choices and packed not in self.choices):
            raise ModelError(f"{path}: {packed!r} is none of {', '.join(self.choices) or 'texts'}")
        return packed


class Plain(Kind):
    """Anything made of numbers, texts, lists and dictionaries."""

    def pack(self, value: Any, box: Box, path: str) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            return value if math.isfinite(value) else {"number": str(value)}
        if isinstance(value, Mapping):
            pairs = [
                [self.pack(key, box, path), self.pack(item, box, path)]
                for key, item in value.items()
            ]
            return {"pairs": pairs}
        if isinstance(value, (list, tuple, np.ndarray)):
            return [self.pack(item, box, path) for item in value]
        raise ModelError(f"{path}: {type(value).__name__} cannot be saved")

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        if isinstance(packed, list):
            return [self.unpack(item, box, path) for item in packed]
        if isinstance(packed, dict):
            if set(packed) == {"number"}:
                return Real(finite=False).unpack(packed["number"], box, path)
            return self._dictionary(packed, box, path)
        return packed

    def _dictionary(self, packed: dict, box: Box, path: str) -> dict:
        pairs = packed.get("pairs")
        if set(packed) != {"pairs"} or not isinstance(pairs, list):
            raise ModelError(f"{path}: this is no dictionary: {str(packed)[:60]}")
        result = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2 or isinstance(pair[0], (list, dict)):
                raise ModelError(f"{path}: this is no entry of a dictionary: {str(pair)[:60]}")
            result[pair[0]] = self.unpack(pair[1], box, path)
        return result


# ------------------------------------------------------------------ arrays


class Array(Kind):
    """An array of one type. Lengths that are names must agree within an object."""

    def __init__(self, dtype: Any, *shape: Length, finite: bool = True) -> None:
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.finite = finite

    def pack(self, value: Any, box: Box, path: str) -> Any:
        value = np.asarray(value)
        if self.dtype.names is None:
            return box.put(path, value.astype(self.dtype, copy=False))
        return {name: box.put(f"{path}/{name}", value[name]) for name in self.dtype.names}

    def unpack(self, packed: Any, box: Box, path: str) -> NDArray:
        if self.dtype.names is None:
            return self._one(box.get(packed, path), self.dtype, path)
        if not isinstance(packed, dict) or set(packed) != set(self.dtype.names):
            raise ModelError(f"{path}: the columns must be {', '.join(self.dtype.names)}")
        columns = {
            name: self._one(box.get(packed[name], path), self.dtype[name], f"{path}/{name}")
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


# ------------------------------------------------------------------ several values


class Maybe(Kind):
    """A value, or None."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def pack(self, value: Any, box: Box, path: str) -> Any:
        return None if value is None else self.kind.pack(value, box, path)

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        return None if packed is None else self.kind.unpack(packed, box, path)


class Many(Kind):
    """A list, or what `make` makes of one."""

    def __init__(self, kind: Kind, make: Callable[[list], Any] = list) -> None:
        self.kind = kind
        self.make = make

    def pack(self, value: Any, box: Box, path: str) -> list:
        return [self.kind.pack(item, box, f"{path}/{i}") for i, item in enumerate(value)]

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        if not isinstance(packed, list):
            raise ModelError(f"{path}: this is no list: {str(packed)[:60]}")
        items = [self.kind.unpack(item, box, f"{path}/{i}") for i, item in enumerate(packed)]
        return self.make(items)


class Row(Kind):
    """A tuple of given kinds."""

    def __init__(self, *kinds: Kind) -> None:
        self.kinds = kinds

    def pack(self, value: Any, box: Box, path: str) -> list:
        both = enumerate(zip(self.kinds, value, strict=True))
        return [kind.pack(item, box, f"{path}/{i}") for i, (kind, item) in both]

    def unpack(self, packed: Any, box: Box, path: str) -> tuple:
        if not isinstance(packed, list) or len(packed) != len(self.kinds):
            raise ModelError(f"{path}: this is no list of {len(self.kinds)}: {str(packed)[:60]}")
        both = enumerate(zip(self.kinds, packed, strict=True))
        return tuple(kind.unpack(item, box, f"{path}/{i}") for i, (kind, item) in both)


class Table(Kind):
    """A dictionary, by keys of one kind."""

    def __init__(self, key: Kind, value: Kind) -> None:
        self.pairs = Many(Row(key, value))

    def pack(self, value: Any, box: Box, path: str) -> list:
        return self.pairs.pack(value.items(), box, path)

    def unpack(self, packed: Any, box: Box, path: str) -> dict:
        pairs = self.pairs.unpack(packed, box, path)
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ModelError(f"{path}: a key is there twice")
        return result


class Columns(Kind):
    """A list of like objects, all of whose parts are arrays: these stand one behind the other."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def pack(self, value: Sequence[Any], box: Box, path: str) -> Any:
        if not value:
            return None
        boxes = [Box() for _ in value]
        trees = [self.kind.pack(item, one, "") for item, one in zip(value, boxes, strict=True)]
        parts = [one.arrays for one in boxes]
        names = list(parts[0])
        for number, name in enumerate(names):
            arrays = [part[name] for part in parts]
            box.put(f"{path}{name}", np.concatenate(arrays))
            box.put(f"{path}#{number}", np.array([len(array) for array in arrays], np.int64))
        return {"like": trees[0], "names": names}

    def unpack(self, packed: Any, box: Box, path: str) -> list[Any]:
        if packed is None:
            return []
        if not isinstance(packed, dict) or set(packed) != {"like", "names"}:
            raise ModelError(f"{path}: these are no columns")
        names = Many(Text()).unpack(packed["names"], box, path)
        parts: list[dict[str, NDArray]] = []
        for number, name in enumerate(names):
            lengths = Array(np.int64, "n").unpack(f"{path}#{number}", box, path)
            pieces = list(self._cut(box.get(f"{path}{name}", path), lengths, path))
            parts = parts or [{} for _ in pieces]
            if len(pieces) != len(parts):
                raise ModelError(f"{path}: {name} is there {len(pieces)} times, not {len(parts)}")
            for part, piece in zip(parts, pieces, strict=True):
                part[name] = piece
        return [
            self.kind.unpack(packed["like"], Box(part), f"{path}/{i}")
            for i, part in enumerate(parts)
        ]

    @staticmethod
    def _cut(array: NDArray, lengths: NDArray, path: str) -> Iterator[NDArray]:
        if array.ndim == 0 or (lengths < 0).any() or int(lengths.sum()) != len(array):
            raise ModelError(f"{path}: the parts do not make up the whole")
        start = 0
        for length in lengths.tolist():
            yield array[start : start + length]
            start += length


class Object(Kind):
    """An object by its fields; `make` makes it from them, `check` looks at it as a whole.

    Given a plain class, its attributes are set and its `__init__` is not called.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        fields: Mapping[str, Kind],
        check: Callable[[Any], None] | None = None,
        later: frozenset[str] = frozenset(),
        gone: frozenset[str] = frozenset(),
    ) -> None:
        self.make = make
        self.fields = dict(fields)
        self.check = check
        self.later = later  # fields that older files lack: `make` has a default for them
        self.gone = gone  # fields that only older files have: they are passed over

    def pack(self, value: Any, box: Box, path: str) -> dict:
        return {
            name: kind.pack(getattr(value, name), box, f"{path}/{name}")
            for name, kind in self.fields.items()
        }

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        needed, known = self.fields.keys() - self.later, self.fields.keys() | self.gone
        if not isinstance(packed, dict) or not needed <= packed.keys() <= known:
            raise ModelError(f"{path}: the fields must be {', '.join(self.fields)}")
        found = {
            name: kind.unpack(packed[name], box, f"{path}/{name}")
            for name, kind in self.fields.items()
            if name in packed
        }
        self._same_lengths(found, path)
        try:
            result = self.make(**found)
            if self.check is not None:
                self.check(result)
        except ModelError as error:
            raise ModelError(f"{path}: {error}") from error
        except (ValueError, TypeError, OverflowError, IndexError) as error:
            raise ModelError(f"{path}: {error}") from error
        return result

    def _same_lengths(self, found: dict[str, Any], path: str) -> None:
        lengths: dict[str, int] = {}
        for name, kind in self.fields.items():
            if isinstance(kind, Array) and found.get(name) is not None:
                for symbol, length in zip(kind.shape, found[name].shape, strict=True):
                    if isinstance(symbol, str) and lengths.setdefault(symbol, length) != length:
                        raise ModelError(
                            f"{path}/{name} has {length} {symbol}, others have {lengths[symbol]}"
                        )


class Shared(Kind):
    """An object that several others may hold: it is written once, and read as one."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def pack(self, value: Any, box: Box, path: str) -> int:
        place = box.places.get(id(value))
        if place is None:
            box.kept.append(value)
            place = box.places[id(value)] = len(box.shared)
            box.shared.append(None)
            box.shared[place] = self.kind.pack(value, box, f"shared/{place}")
        return place

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        if type(packed) is not int or not 0 <= packed < len(box.shared):
            raise ModelError(f"{path}: there is no shared object {packed!r}")
        if packed in box.open:
            raise ModelError(f"{path}: object {packed} is a part of itself")
        if packed not in box.found:
            box.open.add(packed)
            found = self.kind.unpack(box.shared[packed], box, f"shared/{packed}")
            box.open.discard(packed)
            box.found[packed] = self, found
        kind, found = box.found[packed]
        if kind is not self:
            raise ModelError(f"{path}: object {packed} is of another kind")
        return found


class Later(Kind):
    """A kind that is named before it is made: one that holds others of itself."""

    def __init__(self, kind: Callable[[], Kind]) -> None:
        self.kind = kind

    def pack(self, value: Any, box: Box, path: str) -> Any:
        return self.kind().pack(value, box, path)

    def unpack(self, packed: Any, box: Box, path: str) -> Any:
        return self.kind().unpack(packed, box, path)


def bare(cls: type) -> Callable[..., Any]:
    """Return what makes an object of a class from its attributes, without its `__init__`."""

    def make(**attributes: Any) -> Any:
        result = object.__new__(cls)
        result.__dict__.update(attributes)
        return result

    return make
