"""Which format a file is of, by its name or else by how it begins."""

import os
from pathlib import Path

from dirad.tables.delimited import open_delimited
from dirad.tables.error import TableError
from dirad.tables.files import existing_file, opened
from dirad.tables.idx import open_idx
from dirad.tables.npz import open_npz
from dirad.tables.parquet import open_parquet
from dirad.tables.table import Table

FORMATS = ("csv", "tsv", "parquet", "npz", "idx")
BY_SUFFIX = {
    ".csv": "csv",
    ".txt": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".npz": "npz",
    ".idx": "idx",
}
BY_BEGINNING = {b"PAR1": "parquet", b"PK": "npz", b"\0\0": "idx"}


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
        By default the name's ending says it, else the file's first bytes; any other is CSV.
    delimiter, header : optional
        Of text files; by default found out (see `dirad.tables.delimited`).
    labels : optional
        Of IDX images: the file of their labels (see `dirad.tables.idx`).

    Raises
    ------
    TableError
        The file is not there, not readable, empty, damaged or no table.
    """
    path = existing_file(path)
    format = format or find_format(path)
    if format not in FORMATS:
        raise TableError(f"{path}: unknown format {format!r}; known are {', '.join(FORMATS)}")
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
    """Return the format of a file by its name, else by its first bytes.

    >>> find_format(Path("a.csv.gz")), find_format(Path("a.pq"))
    ('csv', 'parquet')
    """
    name = path.name.lower().removesuffix(".gz")
    suffix = Path(name).suffix
    if suffix in BY_SUFFIX:
        return BY_SUFFIX[suffix]
    with opened(path) as file:
        beginning = file.read(4)
    return next((found for b, found in BY_BEGINNING.items() if beginning.startswith(b)), "csv")
