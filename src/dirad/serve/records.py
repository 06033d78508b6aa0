"""The records of a stream's journal: what happened to the stream, in the order it was accepted.

A record is a kind and bytes: a JSON head, and for samples the rows as little-endian float64.
"""

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLES, LABELS, FINISH, REMOVE = "samples", "labels", "finish", "remove"


@dataclass(frozen=True)
class Record:
    """Something that a stream's learner has to do."""

    kind: str
    payload: bytes
    rows: int = 0  # samples that it adds to the stream


def samples(X: NDArray[np.float64], labels: list[Any] | None) -> Record:
    """Return the record of rows, with a label for each of them (None: unknown) or with none."""
    head = {"shape": list(X.shape), "labels": labels}
    return Record(SAMPLES, framed(head, X.astype("<f8").tobytes()), len(X))


def late_labels(numbers: list[int], labels: list[Any]) -> Record:
    """Return the record of labels that became known later, by the numbers of their rows."""
    return Record(LABELS, framed({"numbers": numbers, "labels": labels}))


def finish() -> Record:
    """Return the record of a request to finish all models."""
    return Record(FINISH, framed({}))


def remove(model: int) -> Record:
    """Return the record of a request to remove a model."""
    return Record(REMOVE, framed({"model": model}))


def unpacked(payload: bytes) -> tuple[dict[str, Any], bytes]:
    """Return the head and the remaining bytes of a framed payload."""
    size = int.from_bytes(payload[:4], "little")
    return json.loads(payload[4 : 4 + size]), payload[4 + size :]


def rows_of(head: dict[str, Any], body: bytes) -> NDArray[np.float64]:
    """Return the rows of a record of samples."""
    return np.frombuffer(body, "<f8").astype(np.float64).reshape(head["shape"])


def framed(head: dict[str, Any], body: bytes = b"") -> bytes:
    """Return a JSON head and bytes as one piece.

    >>> unpacked(framed({"a": 1}, b"xyz"))
    ({'a': 1}, b'xyz')
    """
    text = json.dumps(head, separators=(",", ":"), allow_nan=False).encode()
    return len(text).to_bytes(4, "little") + text + body
