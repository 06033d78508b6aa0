"""CSV and other delimited text: delimiter and header are detected, rows are streamed."""

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dirad.tables.errors import TableError, first_repeated, listed, shown
from dirad.tables.files import opened
from dirad.tables.table import Chunk, Table
from dirad.tables.values import number

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 100  # records inspected to find the delimiter
DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
MAX_LINE = 2**24  # characters; a longer line means that this is not a table

Records = Iterator[tuple[int, list[str]]]  # the first line and the fields of each record


def open_delimited(path: Path, delimiter: str | None = None, header: bool | None = None) -> Table:
    """Open a text file of rows; UTF-8, with or without a byte order mark, any line endings.

    The default delimiter is the one of `, ; tab |` that splits the first rows most evenly. The
    first row is taken as the header unless one of its fields is a number; without a header,
    columns are named x0, x1, … Blank lines are skipped, and spaces around fields are ignored. If
    the delimiter is not a comma, numbers may have a decimal comma.
    """
    if delimiter is None:
        delimiter = _find_delimiter(path)
    records = _records(path, delimiter)
    line, first = next(records, (0, None))
    if first is None:
        raise TableError(f"{path}: empty")
    if header is None:
        fields = first if delimiter == "," else map(_decimal_point, first)
        header = not any(number(field) is not None for field in fields)
    names = tuple(f"x{i}" for i in range(len(first)))
    if header:
        if next(records, None) is None:
            raise TableError(f"{path}: a header ({listed(first)}) and no row after it")
        names = _header_names(f"{path}, line {line}", first)

    def read(rows: int) -> Iterator[Chunk]:
        records = islice(_records(path, delimiter), int(header), None)
        return _chunks(path, names, records, rows, delimiter != ",")

    return Table(path, "csv", names, read, files=(path,), has_header=header)


def _header_names(place: str, fields: list[str]) -> tuple[str, ...]:
    """Return the names of the columns; an unnamed column is named by its number."""
    names = tuple(field.strip() or f"column {i}" for i, field in enumerate(fields, 1))
    repeated = first_repeated(names)
    if repeated is not None:
        raise TableError(
            f"{place}: two columns are named {shown(repeated)} (--no-header, if this line is data)"
        )
    return names


def _chunks(
    path: Path, names: tuple[str, ...], records: Records, rows: int, decimal_commas: bool
) -> Iterator[Chunk]:
    """Yield the records in chunks of `rows` rows."""
    while batch := list(islice(records, rows)):
        for line, fields in batch:
            if len(fields) != len(names):
                raise TableError(
                    f"{path}, line {line}: {len(fields)} fields where there are {len(names)} "
                    f"columns ({listed(names)})"
                )
        lines = [line for line, _ in batch]
        columns = map(list, zip(*(fields for _, fields in batch), strict=True))
        if decimal_commas:
            columns = (list(map(_decimal_point, column)) for column in columns)
        yield Chunk(str(path), dict(zip(names, columns, strict=True)), lines, "line")


def _decimal_point(field: str) -> str:
    """Replace the decimal comma of a number by a point.

    >>> _decimal_point("-12,5"), _decimal_point("red, green")
    ('-12.5', 'red, green')
    """
    return field.replace(",", ".") if "," in field and DECIMAL_COMMA.fullmatch(field) else field


def _find_delimiter(path: Path) -> str:
    """Return the delimiter that splits most of the first rows into as many fields as the first."""

    def evenness(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(fields) for _, fields in islice(_records(path, delimiter), SAMPLE)]
        except TableError:  # quotes that make no sense with this delimiter, or a damaged file
            return 0.0, 0
        if not widths or widths[0] == 1:
            return 0.0, 0
        return widths.count(widths[0]) / len(widths), widths[0]

    return max(DELIMITERS, key=evenness)  # a tie goes to the first, the comma


def _records(path: Path, delimiter: str) -> Records:
    """Yield each record with the line on which it begins; blank lines are skipped."""
    reader = csv.reader(_lines(path), delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            hint = "; is a quote never closed?" if reader.line_num > line else ""
            raise TableError(f"{path}, line {line}: {error}{hint}") from error
        if fields is None:
            return
        if fields:
            yield line, fields


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file with their line endings."""
    with (
        opened(path) as file,
        # Bytes that are not UTF-8 become surrogates, so that their line can be named.
        io.TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        number = 0
        while line := text.readline(MAX_LINE):
            number += 1
            fault = _fault(line)
            if fault is not None:
                raise TableError(f"{path}, line {number}: {fault}")
            yield line


def _fault(line: str) -> str | None:
    """Say why a line is not text, None if it is."""
    if "\0" in line:
        return "a NUL byte; this is not a text file (or it is UTF-16: save it as UTF-8)"
    if len(line) == MAX_LINE:
        return f"longer than {MAX_LINE:,} characters"
    try:
        line.encode()
    except UnicodeEncodeError as error:
        byte = ord(line[error.start]) - 0xDC00
        return f"byte 0x{byte:02x}, character {error.start + 1}, is not UTF-8; save it as UTF-8"
    return None
