"""Codecs of values made of others: lists, tuples, dictionaries, objects, shared objects."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.storage.codecs import Array, ArrayStore, Codec, Text
from dirad.storage.errors import ModelError


class Maybe(Codec):
    """A value, or None."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        return None if value is None else self.codec.pack(value, store, path)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        return None if packed is None else self.codec.unpack(packed, store, path)


class List(Codec):
    """A list, or what `make` makes of one."""

    def __init__(self, codec: Codec, make: Callable[[list], Any] = list) -> None:
        self.codec = codec
        self.make = make

    def pack(self, value: Any, store: ArrayStore, path: str) -> list:
        return [self.codec.pack(item, store, f"{path}/{i}") for i, item in enumerate(value)]

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        if not isinstance(packed, list):
            raise ModelError(f"{path}: this is no list: {str(packed)[:60]}")
        items = [self.codec.unpack(item, store, f"{path}/{i}") for i, item in enumerate(packed)]
        return self.make(items)


class Row(Codec):
    """A tuple of given kinds."""

    def __init__(self, *codecs: Codec) -> None:
        self.codecs = codecs

    def pack(self, value: Any, store: ArrayStore, path: str) -> list:
        both = enumerate(zip(self.codecs, value, strict=True))
        return [codec.pack(item, store, f"{path}/{i}") for i, (codec, item) in both]

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> tuple:
        if not isinstance(packed, list) or len(packed) != len(self.codecs):
            raise ModelError(f"{path}: this is no list of {len(self.codecs)}: {str(packed)[:60]}")
        both = enumerate(zip(self.codecs, packed, strict=True))
        return tuple(codec.unpack(item, store, f"{path}/{i}") for i, (codec, item) in both)


class Dictionary(Codec):
    """A dictionary, by keys of one kind."""

    def __init__(self, key: Codec, value: Codec) -> None:
        self.pairs = List(Row(key, value))

    def pack(self, value: Any, store: ArrayStore, path: str) -> list:
        return self.pairs.pack(value.items(), store, path)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> dict:
        pairs = self.pairs.unpack(packed, store, path)
        result = dict(pairs)
        if len(result) != len(pairs):
            raise ModelError(f"{path}: a key is there twice")
        return result


class Columns(Codec):
    """A list of like objects, all of whose parts are arrays: these stand one behind the other."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def pack(self, value: Sequence[Any], store: ArrayStore, path: str) -> Any:
        if not value:
            return None
        boxes = [ArrayStore() for _ in value]
        trees = [self.codec.pack(item, one, "") for item, one in zip(value, boxes, strict=True)]
        parts = [one.arrays for one in boxes]
        names = list(parts[0])
        for number, name in enumerate(names):
            arrays = [part[name] for part in parts]
            store.put(f"{path}{name}", np.concatenate(arrays))
            store.put(f"{path}#{number}", np.array([len(array) for array in arrays], np.int64))
        return {"like": trees[0], "names": names}

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> list[Any]:
        if packed is None:
            return []
        if not isinstance(packed, dict) or set(packed) - {"at"} != {"like", "names"}:
            raise ModelError(f"{path}: these are no columns")
        path = str(packed.get("at", path))  # where an older file has them
        names = List(Text()).unpack(packed["names"], store, path)
        parts: list[dict[str, NDArray]] = []
        for number, name in enumerate(names):
            lengths = Array(np.int64, "n").unpack(f"{path}#{number}", store, path)
            pieces = list(self._cut(store.get(f"{path}{name}", path), lengths, path))
            parts = parts or [{} for _ in pieces]
            if len(pieces) != len(parts):
                raise ModelError(f"{path}: {name} is there {len(pieces)} times, not {len(parts)}")
            for part, piece in zip(parts, pieces, strict=True):
                part[name] = piece
        return [
            self.codec.unpack(packed["like"], ArrayStore(part), f"{path}/{i}")
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


class Object(Codec):
    """An object by its fields; `make` makes it from them, `check` looks at it as a whole.

    Given a plain class, its attributes are set and its `__init__` is not called.
    """

    def __init__(
        self,
        make: Callable[..., Any],
        fields: Mapping[str, Codec],
        check: Callable[[Any], None] | None = None,
    ) -> None:
        self.make = make
        self.fields = dict(fields)
        self.check = check

    def pack(self, value: Any, store: ArrayStore, path: str) -> dict:
        return {
            name: codec.pack(getattr(value, name), store, f"{path}/{name}")
            for name, codec in self.fields.items()
        }

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        if not isinstance(packed, dict) or packed.keys() != self.fields.keys():
            raise ModelError(f"{path}: the fields must be {', '.join(self.fields)}")
        found = {
            name: codec.unpack(packed[name], store, f"{path}/{name}")
            for name, codec in self.fields.items()
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
        for name, codec in self.fields.items():
            if isinstance(codec, Array) and found.get(name) is not None:
                for symbol, length in zip(codec.shape, found[name].shape, strict=True):
                    if isinstance(symbol, str) and lengths.setdefault(symbol, length) != length:
                        raise ModelError(
                            f"{path}/{name} has {length} {symbol}, others have {lengths[symbol]}"
                        )


class OneOf(Codec):
    """An object of one of several classes, with the name of its class in the file."""

    def __init__(self, codecs: dict[str, tuple[type, Codec]]) -> None:
        self.codecs = codecs

    def pack(self, value: Any, store: ArrayStore, path: str) -> dict:
        for name, (cls, codec) in self.codecs.items():
            if isinstance(value, cls):
                return {name: codec.pack(value, store, path)}
        raise TypeError(f"{path}: a {type(value).__name__} cannot be saved")

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        if (
            not isinstance(packed, dict)
            or len(packed) != 1
            or not packed.keys() <= self.codecs.keys()
        ):
            raise ModelError(f"{path}: this must be one of {', '.join(self.codecs)}")
        ((name, inner),) = packed.items()
        return self.codecs[name][1].unpack(inner, store, path)


class Shared(Codec):
    """An object that several others may hold: it is written once, and read as one."""

    def __init__(self, codec: Codec) -> None:
        self.codec = codec

    def pack(self, value: Any, store: ArrayStore, path: str) -> int:
        place = store.places.get(id(value))
        if place is None:
            store.kept.append(value)
            place = store.places[id(value)] = len(store.shared)
            store.shared.append(None)
            store.shared[place] = self.codec.pack(value, store, f"shared/{place}")
        return place

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        if type(packed) is not int or not 0 <= packed < len(store.shared):
            raise ModelError(f"{path}: there is no shared object {packed!r}")
        if packed in store.open:
            raise ModelError(f"{path}: object {packed} is a part of itself")
        if packed not in store.found:
            store.open.add(packed)
            found = self.codec.unpack(store.shared[packed], store, f"shared/{packed}")
            store.open.discard(packed)
            store.found[packed] = self, found
        codec, found = store.found[packed]
        if codec is not self:
            raise ModelError(f"{path}: object {packed} is of another kind")
        return found


class Later(Codec):
    """A codec defined later: for objects that hold others of their own kind."""

    def __init__(self, codec: Callable[[], Codec]) -> None:
        self.codec = codec

    def pack(self, value: Any, store: ArrayStore, path: str) -> Any:
        return self.codec().pack(value, store, path)

    def unpack(self, packed: Any, store: ArrayStore, path: str) -> Any:
        return self.codec().unpack(packed, store, path)


def without_init(cls: type) -> Callable[..., Any]:
    """Return what makes an object of a class from its attributes, without its `__init__`."""

    def make(**attributes: Any) -> Any:
        result = object.__new__(cls)
        result.__dict__.update(attributes)
        return result

    return make
