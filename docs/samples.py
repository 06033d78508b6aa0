"""Small data files for pages that use files without creating them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from dirad.tables import write_table

FAULTS = {1: ("leak", "clog"), 2: ("wear", "heat")}  # by day

Columns = dict[str, Any]


def flowers() -> Columns:
    """Return scikit-learn's iris: four lengths and the species."""
    iris = load_iris()
    names = [name.removesuffix(" (cm)") for name in iris.feature_names]
    lengths = dict(zip(names, iris.data.T, strict=True))
    return lengths | {"species": iris.target_names[iris.target]}


def day(number: int, rows: int = 1000) -> Columns:
    """Return a day of a plant: eight sensors with levels of that day, and two kinds of faults."""
    rng = np.random.default_rng(number)
    levels = rng.normal(0, 3, 8)
    fault = rng.integers(0, 2, rows)
    values = levels + 2 * fault[:, None] * (np.arange(8) < 4) + rng.normal(size=(rows, 8))
    sensors = {f"sensor {i}": column for i, column in enumerate(values.T)}
    return sensors | {"fault": np.array(FAULTS[number])[fault]}


def new() -> Columns:
    """Return the flowers without their species."""
    return {name: column for name, column in flowers().items() if name != "species"}


FILES: dict[str, Callable[[], Columns]] = {
    "flowers.csv": flowers,
    "new.csv": new,
    "day1.csv": lambda: day(1),
    "day2.csv": lambda: day(2),
    "day3.csv": lambda: day(1, rows=150),
}


def write(name: str, folder: Path) -> None:
    """Write one of the files into a folder."""
    write_table(folder / name, FILES[name]())
