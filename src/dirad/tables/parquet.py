"""Parquet files, read by pyarrow, which is imported only when such a file is opened."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dirad.tables.errors import TableError
from dirad.tables.files import failures_named
from dirad.tables.table import Chunk, Table
from dirad.tables.values import Kind, Unusable, Values


def pyarrow() -> Any:
    """Return the package, with its module for Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow") from error
    return pyarrow


def open_parquet(path: Path) -> Table:
    """Open a Parquet file; only columns of numbers, booleans and text can be used."""
    pa = pyarrow()
    with _opened(pa, path) as file:
        schema, n_rows = file.schema_arrow, file.metadata.num_rows
    if n_rows == 0:
        raise TableError(f"{path}: no rows")
    kinds: dict[str, Kind] = {field.name: _kind(pa, field.type) for field in schema}

    def read(rows: int) -> Iterator[Chunk]:
        usable = [name for name, kind in kinds.items() if kind != "unusable"]
        columns: dict[str, Values] = {field.name: Unusable(str(field.type)) for field in schema}
        start = 1
        with _opened(pa, path) as file:
            for batch in file.iter_batches(rows, columns=usable, use_threads=False):
                columns |= {name: _values(pa, batch[name], kinds[name]) for name in usable}
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


def _values(pa: Any, column: Any, kind: Kind) -> Values:
    """Return numbers as an array, text as a list; booleans with missing values as text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_integer(column.type) and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)  # as floats, large ones could become equal
    if kind == "number":
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if kind == "boolean" and column.null_count == 0:
        return column.to_numpy(zero_copy_only=False)
    return column.cast(pa.string()).to_pylist()
