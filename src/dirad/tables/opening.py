"""Open a data file of any supported format, which is found by its name or its first bytes."""

import os
from pathlib import Path

from dirad.tables.arrays import open_idx, open_npz
from dirad.tables.delimited import open_delimited
from dirad.tables.errors import TableError
from dirad.tables.files import existing_file, opened
from dirad.tables.parquet import open_parquet
from dirad.tables.table import Table

SUFFIXES = {
    "csv": (".csv", ".txt"),
    "tsv": (".tsv", ".tab"),
    "parquet": (".parquet", ".pq"),
    "npz": (".npz",),
    "idx": (".idx",),
}
FIRST_BYTES = {b"PAR1": "parquet", b"PK": "npz", b"\0\0": "idx"}


def open_table(
    path: str | os.PathLike[str],
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    labels: str | os.PathLike[str] | None = None,
) -> Table:
    """Open a data file: CSV, TSV (both also gzipped), Parquet, NPZ, or IDX (also gzipped).

    Parameters
    ----------
    path : the file
    format : {"csv", "tsv", "parquet", "npz", "idx"}, optional
        By default found from the file name, or else from the first bytes; otherwise CSV.
    delimiter, header : optional
        For text files; detected by default (see `dirad.tables.delimited`).
    labels : optional
        For IDX images: the file of their labels (see `dirad.tables.arrays`).

    Raises
    ------
    TableError
        The file does not exist, or is unreadable, empty, damaged or not a table.
    """
    path = existing_file(path)
    format = format or find_format(path)
    if format not in SUFFIXES:
        raise TableError(f"{path}: unknown format {format!r}; known are {', '.join(SUFFIXES)}")
    if format == "parquet":
        return open_parquet(path)
    if format == "npz":
        return open_npz(path)
    if format == "idx":
        return open_idx(path, None if labels is None else Path(labels))
    if format == "tsv":
        delimiter = delimiter or "\t"
    return open_delimited(path, delimiter, header)


def find_format(path: Path) -> str:
    """Return the format of a file by its name, or else by its first bytes.

    >>> find_format(Path("a.csv.gz")), find_format(Path("a.pq"))
    ('csv', 'parquet')
    """
    suffix = Path(path.name.lower().removesuffix(".gz")).suffix
    for format, suffixes in SUFFIXES.items():
        if suffix in suffixes:
            return format
    with opened(path) as file:
        start = file.read(4)
    return next((format for b, format in FIRST_BYTES.items() if start.startswith(b)), "csv")
