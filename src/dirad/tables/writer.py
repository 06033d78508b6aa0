"""Write tables chunk by chunk; a file appears only when it is complete."""

import gzip
import math
import os
import re
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from dirad.atomic import replacing
from dirad.tables.errors import TableError, listed, shown
from dirad.tables.files import failures_named
from dirad.tables.parquet import pyarrow
from dirad.tables.values import number

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
QUOTED = re.compile(r'[",;|\t\r\n]')  # text that has to be quoted
FORMULA = tuple("=+-@\t\r＝＋－＠")  # a spreadsheet takes text that starts so for a formula


class TableWriter:
    """Writes a table chunk by chunk: CSV, TSV (both also .gz) or Parquet, by the file's name.

    The file appears under its name when the `with` block has ended without an error; until then,
    and after an error, an earlier file of that name is unchanged. Instead of a name, an open binary
    file such as ``sys.stdout.buffer`` can be given, which receives CSV. With `escape_formulas`, an
    apostrophe is put before texts of CSV and TSV that a spreadsheet would take for a formula.

    >>> import sys, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TableWriter(Path(folder) / "a.csv") as writer:
    ...         writer.write({"class": ["red", "a, b"], "sure": [True, False]})
    ...     print((Path(folder) / "a.csv").read_text(), end="")
    class,sure
    red,true
    "a, b",false
    """

    def __init__(
        self, path: str | os.PathLike[str] | BinaryIO, *, escape_formulas: bool = False
    ) -> None:
        self._cell = _escaped_cell if escape_formulas else _cell
        self._names: tuple[str, ...] | None = None
        self._parquet: Any = None  # pyarrow's writer, which needs the first chunk's types
        if isinstance(path, str | os.PathLike):
            self.path = Path(path).expanduser()
            self._suffix = _suffix(self.path)
        else:
            name = str(getattr(path, "name", "stream"))
            self.path = Path("standard output" if name == "<stdout>" else name)
            self._suffix, self._stream = "", path

    def __enter__(self) -> "TableWriter":
        with failures_named(self.path), ExitStack() as stack:
            if self._suffix in (".parquet", ".pq"):
                pyarrow()  # if it is missing, this is said at once
            if self._suffix:
                part = stack.enter_context(replacing(self.path))
                self._stream = stack.enter_context(open(part, "wb"))
            if self._suffix.endswith(".gz"):
                # Without a name and a time inside, the same table gives the same bytes.
                zipped = gzip.GzipFile("", "wb", fileobj=self._stream, mtime=0)
                self._stream = cast(BinaryIO, stack.enter_context(zipped))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        with failures_named(self.path) if error[0] is None else nullcontext():
            self._stack.__exit__(*error)

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write some rows: a sequence of text, numbers or booleans (None: missing) per column."""
        lists = {name: _plain(values) for name, values in columns.items()}
        names = tuple(lists)
        if self._names not in (None, names):
            raise ValueError(f"{self.path}: columns {listed(names)} after {listed(self._names)}")
        if len({len(values) for values in lists.values()}) != 1:
            sizes = ", ".join(f"{shown(name)}: {len(values)}" for name, values in lists.items())
            raise ValueError(f"{self.path}: columns of different lengths ({sizes})")
        with failures_named(self.path):
            if self._suffix in (".parquet", ".pq"):
                self._write_parquet(lists)
            else:
                self._write_text(lists)
        self._names = names

    def _write_text(self, columns: dict[str, list[Any]]) -> None:
        rows = zip(*(self._cells(values) for values in columns.values()), strict=True)
        if self._names is None:
            rows = chain([self._cells(list(columns))], rows)
        delimiter = "\t" if self._suffix.startswith(".tsv") else ","
        # A blank line would not be read as a row: a single missing value is written as "".
        lines = (delimiter.join(row) or '""' for row in rows)
        self._stream.write("".join(f"{line}\n" for line in lines).encode())

    def _cells(self, values: list[Any]) -> list[str]:
        types = set(map(type, values))
        if types == {int} or (types == {float} and not any(map(math.isnan, values))):
            return list(map(repr, values))  # the same as `_cell`, but faster
        return list(map(self._cell, values))

    def _write_parquet(self, columns: dict[str, list[Any]]) -> None:
        pa = pyarrow()
        try:
            table = pa.table(columns, schema=self._parquet and self._parquet.schema)
            if self._parquet is None:
                writer = pa.parquet.ParquetWriter(self._stream, table.schema)
                self._parquet = self._stack.enter_context(writer)
            self._parquet.write_table(table)
        except (pa.ArrowException, OverflowError) as error:
            reason = f"a value does not fit the type of its column ({error})"
            raise TableError(f"{self.path}: {reason}") from error


def write_table(
    path: str | os.PathLike[str], columns: Mapping[str, Any], *, escape_formulas: bool = False
) -> None:
    """Write a table of named columns, as `TableWriter` does."""
    with TableWriter(path, escape_formulas=escape_formulas) as writer:
        writer.write(columns)


def _plain(values: Any) -> list[Any]:
    """Return a column as a list of Python's own types."""
    if isinstance(values, np.ndarray):
        return values.tolist()
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _suffix(path: Path) -> str:
    for suffix in SUFFIXES:
        if path.name.lower().endswith(suffix):
            return suffix
    raise TableError(f"{path}: the name of a table must end in {', '.join(SUFFIXES)}")


def _cell(value: Any) -> str:
    """Return a value as text of a CSV file.

    >>> _cell(0.1), _cell(None), _cell(True), _cell("a, b")
    ('0.1', '', 'true', '"a, b"')
    """
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if QUOTED.search(text) else text


def _escaped_cell(value: Any) -> str:
    """Return a value as text of a CSV file that no spreadsheet takes for a formula.

    >>> _escaped_cell("=1+1"), _escaped_cell("-1"), _escaped_cell(-1)
    ("'=1+1", '-1', '-1')
    """
    if isinstance(value, str) and value.startswith(FORMULA) and number(value) is None:
        return _cell(f"'{value}")
    return _cell(value)
