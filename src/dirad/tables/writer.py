"""Tables written chunk by chunk: whole when they are there, or not at all."""

import gzip
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, cast

import numpy as np

from dirad.atomic import replacing
from dirad.tables.cells import number
from dirad.tables.error import TableError, listed, shown
from dirad.tables.files import failures_named
from dirad.tables.parquet import pyarrow

SUFFIXES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".pq")
QUOTED = re.compile(r'[",;|\t\r\n]')  # text that needs quotes to be read as it was
FORMULA = tuple("=+-@\t\r＝＋－＠")  # what begins with it a spreadsheet takes for a formula

Sink = Callable[[dict[str, list[Any]]], None]  # takes the columns of one chunk
Cell = Callable[[Any], str]  # writes a value as text


class TableWriter:
    """Writes a table chunk by chunk: CSV, TSV (both also .gz) or Parquet, by the file's name.

    The file appears under its name when the `with` block has ended well; till then, and after a
    failure, what was there before is there still. An open binary file, such as
    ``sys.stdout.buffer``, can be given in place of a name: it gets CSV. With `escape_formulas`
    texts of CSV and TSV that a spreadsheet would take for a formula get an apostrophe before them.

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
        cell = _harmless if escape_formulas else _cell
        if isinstance(path, str | os.PathLike):
            self.path = Path(path).expanduser()
            self._context = _file_sink(self.path, _suffix(self.path), cell)
        else:
            name = str(getattr(path, "name", "stream"))
            self.path = Path("standard output" if name == "<stdout>" else name)
            self._context = nullcontext(_text_sink(path, ",", cell))
        self._names: tuple[str, ...] | None = None

    def __enter__(self) -> "TableWriter":
        with failures_named(self.path):
            self._sink = self._context.__enter__()
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with failures_named(self.path) if error is None else nullcontext():
            self._context.__exit__(type, error, traceback)

    def write(self, columns: Mapping[str, Any]) -> None:
        """Write some rows: a sequence of text, numbers or booleans (None: missing) per column."""
        lists = {name: _plain(values) for name, values in columns.items()}
        names = tuple(lists)
        if self._names not in (None, names):
            raise ValueError(f"{self.path}: columns {listed(names)} after {listed(self._names)}")
        if len({len(values) for values in lists.values()}) != 1:
            sizes = ", ".join(f"{shown(name)}: {len(values)}" for name, values in lists.items())
            raise ValueError(f"{self.path}: columns of different lengths ({sizes})")
        self._names = names
        with failures_named(self.path):
            self._sink(lists)


def write_table(
    path: str | os.PathLike[str], columns: Mapping[str, Any], *, escape_formulas: bool = False
) -> None:
    """Write a table of named columns, by the rules of `TableWriter`."""
    with TableWriter(path, escape_formulas=escape_formulas) as writer:
        writer.write(columns)


def _plain(values: Any) -> list[Any]:
    """Return a column as a list of Python's own types."""
    if isinstance(values, np.ndarray):
        return values.tolist()
    return [value.item() if isinstance(value, np.generic) else value for value in values]


def _suffix(path: Path) -> str:
    found = [suffix for suffix in SUFFIXES if path.name.lower().endswith(suffix)]
    if not found:
        raise TableError(f"{path}: a table is written as {', '.join(SUFFIXES)}; name one of these")
    return found[0]


@contextmanager
def _file_sink(path: Path, suffix: str, cell: Cell) -> Iterator[Sink]:
    """Open the file beside `path` that will take its place."""
    with replacing(path) as part, open(part, "wb") as file, ExitStack() as stack:
        if suffix in (".parquet", ".pq"):
            yield _parquet_sink(path, file, stack)
            return
        stream: BinaryIO = file
        if suffix.endswith(".gz"):  # no name and no time inside: the same table, the same bytes
            zipped = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
            stream = cast(BinaryIO, stack.enter_context(zipped))
        yield _text_sink(stream, "\t" if suffix.startswith(".tsv") else ",", cell)


def _text_sink(stream: BinaryIO, delimiter: str, cell: Cell) -> Sink:
    begun = False

    def write(columns: dict[str, list[Any]]) -> None:
        nonlocal begun
        rows = zip(*(_cells(values, cell) for values in columns.values()), strict=True)
        if not begun:
            rows = chain([_cells(list(columns), cell)], rows)
        begun = True
        # An empty line would be no row: a lone missing value is written as "".
        lines = (delimiter.join(row) or '""' for row in rows)
        stream.write("".join(f"{line}\n" for line in lines).encode())

    return write


def _cells(values: list[Any], cell: Cell) -> list[str]:
    types = set(map(type, values))
    if types == {int} or (types == {float} and not any(map(math.isnan, values))):
        return list(map(repr, values))  # as `_cell`, but fast
    return list(map(cell, values))


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


def _harmless(value: Any) -> str:
    """Return a value as text of a CSV file that holds no formula.

    >>> _harmless("=1+1"), _harmless("-1"), _harmless(-1)
    ("'=1+1", '-1', '-1')
    """
    if isinstance(value, str) and value.startswith(FORMULA) and number(value) is None:
        return _cell(f"'{value}")
    return _cell(value)


def _parquet_sink(path: Path, stream: BinaryIO, stack: ExitStack) -> Sink:
    pa = pyarrow()
    writer: Any = None

    def write(columns: dict[str, list[Any]]) -> None:
        nonlocal writer
        try:
            table = pa.table(columns, schema=writer and writer.schema)
            if writer is None:
                writer = stack.enter_context(pa.parquet.ParquetWriter(stream, table.schema))
            writer.write_table(table)
        except (pa.ArrowException, OverflowError) as error:
            reason = f"a value does not fit the type of its column ({error})"
            raise TableError(f"{path}: {reason}") from error

    return write
