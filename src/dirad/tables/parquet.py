"""Parquet files, read by pyarrow, which is imported only when such a file is opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dirad.tables.errors import TableError
from dirad.tables.files import failures_named
from dirad.tables.table import Chunk, Table
from dirad.tables.values import Kind, Unusable, Values, iso_texts


def pyarrow() -> Any:
    """Return the package, with its module for Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from error
    return pyarrow


def open_parquet(path: Path) -> Table:
    """Open a Parquet file; only columns of numbers, booleans and text can be inputs."""
    pa = pyarrow()
    with _opened(pa, path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    if n_rows == 0:
        raise TableError(f"{path}: no rows")
    kinds: dict[str, Kind] = {field.name: _kind(pa, field.type) for field in schema}

    def read(rows: int) -> Iterator[Chunk]:
        columns: dict[str, Values] = {field.name: Unusable(str(field.type)) for field in schema}
        read = [f.name for f in schema if kinds[f.name] != "unusable" or _is_time(pa, f.type)]
        start = 1
        with _opened(pa, path) as file:
            for batch in file.iter_batches(rows, columns=read, use_threads=False):
                columns |= {name: _values(pa, batch[name], kinds[name]) for name in read}
                yield Chunk(str(path), dict(columns), range(start, start + len(batch)))
                start += len(batch)

    return Table(path, "parquet", tuple(schema.names), read, n_rows, kinds, (path,))


@contextmanager
def _opened(pa: Any, path: Path) -> Iterator[Any]:
    """Open a file by pyarrow, and turn its exceptions into a `TableError`."""
    # With buffering in advance, the whole file would be held in memory.
    options = {"pre_buffer": False, "page_checksum_verification": True}
    with (
        failures_named(path, pa.ArrowException, UnicodeDecodeError),
        pa.parquet.ParquetFile(path, **options) as file,
    ):
        yield file


def _kind(pa: Any, type: Any) -> Kind:
    types = pa.types
    if types.is_dictionary(type):
        return _kind(pa, type.value_type)
    if types.is_boolean(type):
        return "boolean"
    if types.is_integer(type) or types.is_floating(type) or types.is_decimal(type):
        return "number"
    text = types.is_string(type) or types.is_large_string(type) or types.is_string_view(type)
    return "category" if text else "unusable"


def _is_time(pa: Any, type: Any) -> bool:
    """Return whether values of this type are dates or date-times."""
    return pa.types.is_timestamp(type) or pa.types.is_date(type)


def _values(pa: Any, column: Any, kind: Kind) -> Values:
    """Return numbers as an array, text as a list; booleans with missing values as text."""
    if _is_time(pa, column.type):
        zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
        times = column.cast(pa.timestamp("us"), safe=False).to_numpy(zero_copy_only=False)
        return Unusable(str(column.type), iso_texts(times, "+00:00" if zoned else ""))
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)  # as floats, large ones could become equal
    if kind == "number":
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if kind == "boolean" and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)
    return column.cast(pa.string()).to_pylist()
