"""The data sets of the comparison, and how the classes of each are split into tasks."""

import importlib
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from dirad.datasets import (
    Dataset,
    DatasetMissing,
    load_fashion_mnist,
    load_mnist,
    small_digits,
)
from experiments.comparison.constants import (
    CIFAR,
    LETTERS,
    QUICKDRAW,
    QUICKDRAW_FEATURES,
    Constants,
)
from experiments.tabular import source
from experiments.tabular.catalogue import BY_NAME

FLOAT = 4  # bytes
LARGEST_FEATURE = 6.0  # of a network whose units end at 6


class Split(NamedTuple):
    """A data set whose classes come a few at a time."""

    title: str  # how tables call it
    load: Callable[[], Dataset]
    classes: int = 10
    tasks: int = 5
    per_task: int = 11_000  # samples: nearly all there are
    batch_size: int = 200
    begin: int | None = None  # samples of a task before ours may call a batch new; None: the preset
    input_bytes: int = 1  # of an input as it came: a pixel or a small integer takes one
    constants: Constants = Constants()  # of peers
    # What ours keeps at the end, as measured in one order: so much prototypes may take.
    our_bytes: int | None = None

    @property
    def classes_per_task(self) -> int:
        """Classes of each task."""
        return self.classes // self.tasks


def load_letters() -> Dataset:
    """Return the 16 measures of 20,000 printed letters, in [0, 1]; a third of them for testing."""
    from sklearn.model_selection import train_test_split

    table = source.load(BY_NAME["letter"])
    fit, held = train_test_split(
        np.arange(len(table.y)), test_size=1 / 3, random_state=0, stratify=table.y
    )
    low, high = table.X[fit].min(axis=0), table.X[fit].max(axis=0)
    X = np.clip((table.X - low) / (high - low), 0.0, 1.0).astype(np.float32)
    return Dataset(X[fit], table.y[fit], X[held], table.y[held])


def load_features(module: str, loader: str, *arguments: int) -> Dataset:
    """Return features of a frozen network, in [0, 1]."""
    data = load_embedded(module, loader, *arguments)
    return data._replace(
        X_train=data.X_train / np.float32(LARGEST_FEATURE),
        X_test=data.X_test / np.float32(LARGEST_FEATURE),
    )


def load_embedded(module: str, loader: str, *arguments: int) -> Dataset:
    """Return what a function of a module of `experiments.embeddings` loads."""
    package = "experiments.embeddings"
    if importlib.util.find_spec(package) is None:
        raise DatasetMissing(f"{loader} needs {package}")
    return getattr(importlib.import_module(f"{package}.{module}"), loader)(*arguments)


SHORT = 100  # samples of a short task before ours may call a batch new

SPLITS: dict[str, Split] = {
    "mnist": Split("Split-MNIST, 14 × 14", load_mnist, our_bytes=1_986_000),
    "mnist-28": Split("Split-MNIST, 28 × 28", partial(load_mnist, 28), our_bytes=4_717_000),
    "fashion-mnist": Split(
        "Split-Fashion-MNIST, 14 × 14", load_fashion_mnist, our_bytes=2_861_000
    ),
    "digits": Split(
        "scikit-learn's digits, 8 × 8", small_digits, per_task=230, batch_size=23, begin=SHORT,
        our_bytes=93_000,
    ),  # some 240 samples a task: fewer than other tasks have in two batches
    "letters": Split(
        "letters, 16 measures", load_letters, classes=26, tasks=13, per_task=960, batch_size=40,
        begin=SHORT, constants=LETTERS, our_bytes=106_000,
    ),
    "cifar-10": Split(
        "CIFAR-10, 1,280 features", partial(load_features, "cifar", "load_cifar_features"),
        per_task=10_000, input_bytes=FLOAT, constants=CIFAR,
    ),
    "cifar-10-10tasks": Split(
        "CIFAR-10, 1,280 features, class by class",
        partial(load_features, "cifar", "load_cifar_features"), tasks=10, per_task=5000,
        input_bytes=FLOAT, constants=CIFAR,
    ),
    "quickdraw": Split(
        "Quick Draw, 14 × 14", partial(load_embedded, "quickdraw", "load_quickdraw", 100, 14),
        classes=100, tasks=20, per_task=400, batch_size=40, begin=SHORT, constants=QUICKDRAW,
    ),
    "quickdraw-features": Split(
        "Quick Draw, 1,280 features",
        partial(load_features, "quickdraw", "load_quickdraw_features", 100), classes=100, tasks=20,
        per_task=400, batch_size=40, begin=SHORT, input_bytes=FLOAT, constants=QUICKDRAW_FEATURES,
    ),
}  # fmt: skip
