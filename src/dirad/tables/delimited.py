"""CSV and its kin: delimiter and header found out, rows streamed, every fault given its line."""

import csv
import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from dirad.tables import cells
from dirad.tables.chunk import Chunk
from dirad.tables.error import TableError, first_repeated, listed, shown
from dirad.tables.files import opened
from dirad.tables.table import Table, numbered

DELIMITERS = (",", ";", "\t", "|")
SAMPLE = 100  # records looked at to find the delimiter
COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")  # a number with a decimal comma
MAX_LINE = 2**24  # characters; a longer line is a file of another kind


def open_delimited(path: Path, delimiter: str | None = None, header: bool | None = None) -> Table:
    """Open a text file of rows; UTF-8, with or without a byte order mark, any line ends.

    The delimiter, if not given, is the one of `, ; tab |` that splits the first rows most evenly.
    The first row is the header unless one of its fields is a number; without a header columns are
    named x0, x1, … Blank lines do not count, nor do blanks around a field. Where fields are not
    separated by commas, a number may have a decimal comma.
    """
    if delimiter is None:
        delimiter = _find_delimiter(path)
    records = _records(path, delimiter)
    line, first = next(records, (0, None))
    if first is None:
        raise TableError(f"{path}: empty")
    if header is None:
        fields = first if delimiter == "," else map(_decimal, first)
        header = not any(cells.number(field) is not None for field in fields)
    if header and next(records, None) is None:
        raise TableError(f"{path}: a header ({listed(first)}) and no row after it")
    place = f"{path}, line {line}"
    names = _header_names(place, first) if header else numbered("x", len(first))

    def read(rows: int) -> Iterator[Chunk]:
        records = islice(_records(path, delimiter), int(header), None)
        return _chunks(path, names, records, rows, delimiter != ",")

    return Table(path, "csv", names, read, files=(path,), has_header=header)


def _header_names(place: str, fields: list[str]) -> tuple[str, ...]:
    """Return the names of the columns; one without a name is called by its place."""
    names = tuple(field.strip() or f"column {i}" for i, field in enumerate(fields, 1))
    repeated = first_repeated(names)
    if repeated is not None:
        raise TableError(
            f"{place}: two columns are named {shown(repeated)} (--no-header, if this line is data)"
        )
    return names


def _chunks(
    path: Path,
    names: tuple[str, ...],
    records: Iterator[tuple[int, list[str]]],
    rows: int,
    commas: bool,
) -> Iterator[Chunk]:
    """Yield the records in chunks; with `commas`, decimal commas become points."""
    while batch := list(islice(records, rows)):
        for line, fields in batch:
            if len(fields) != len(names):
                raise TableError(
                    f"{path}, line {line}: {len(fields)} fields where there are {len(names)} "
                    f"columns ({listed(names)})"
                )
        lines = [line for line, _ in batch]
        columns = map(list, zip(*(fields for _, fields in batch), strict=True))
        if commas:
            columns = (list(map(_decimal, column)) for column in columns)
        yield Chunk(str(path), dict(zip(names, columns, strict=True)), lines, "line")


def _decimal(field: str) -> str:
    """Return a field with a decimal point where it has a decimal comma.

    >>> _decimal("-12,5"), _decimal("red, green")
    ('-12.5', 'red, green')
    """
    return field.replace(",", ".") if "," in field and COMMA.fullmatch(field) else field


def _find_delimiter(path: Path) -> str:
    """Return the delimiter that cuts most rows of the sample into as many fields as the first."""

    def evenness(delimiter: str) -> tuple[float, int]:
        try:
            widths = [len(fields) for _, fields in islice(_records(path, delimiter), SAMPLE)]
        except TableError:  # quotes that make no sense with this delimiter, or a damaged file
            return 0.0, 0
        if not widths or widths[0] == 1:
            return 0.0, 0
        return widths.count(widths[0]) / len(widths), widths[0]

    return max(DELIMITERS, key=evenness)  # of equals the first: a comma


def _records(path: Path, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the line on which it begins; blank lines are left out."""
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
    """Yield the lines of a text file, ends included."""
    with (
        opened(path) as file,
        # What is not UTF-8 becomes surrogates, so that its line can be named.
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
    """Say why a line is no text, None if it is."""
    if "\0" in line:
        return "a NUL byte; this is no text file (or UTF-16: save it as UTF-8)"
    if len(line) == MAX_LINE:
        return f"longer than {MAX_LINE:,} characters"
    if line.isascii():
        return None
    try:
        line.encode()
    except UnicodeEncodeError as error:
        byte = ord(line[error.start]) - 0xDC00
        return f"byte 0x{byte:02x}, character {error.start + 1}, is not UTF-8; save it as UTF-8"
    return None
