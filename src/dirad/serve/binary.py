"""Arrow and Parquet bodies."""

from typing import Any

from dirad.serve.children import Answer
from dirad.serve.specification import IDS, TARGET

MAX_TEXT = 64_000_000  # bytes of text that a binary body may unpack to


def check_columns(found: list[str], names: list[str]) -> None:
    """Raise a ValueError if a table does not have the columns of a stream."""
    missing = [name for name in names if name not in found]
    unknown = sorted(set(found) - {*names, TARGET, IDS})
    if missing:
        raise ValueError(f"column {missing[0]!r:.80} is missing")
    if unknown:
        raise ValueError(f"there is no column {unknown[0]!r:.80} in this stream")


def read_binary(head: dict[str, Any], body: bytes) -> Answer:
    """Return the columns of an Arrow or Parquet body: numbers as float64, others as texts."""
    import pyarrow as pa
    import pyarrow.ipc
    import pyarrow.parquet

    try:
        table = _read_table(pa, head, body)
        numbers, texts, content, size = [], {}, [], 0
        for name in table.column_names:
            values = table[name].combine_chunks()
            kind = values.type
            if name == IDS and (values.null_count or pa.types.is_floating(kind)):
                raise ValueError(f"column {IDS!r}: an id is a text or a whole number")
            is_label = name == TARGET and pa.types.is_boolean(kind)  # 0 or 1, as in JSON
            is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or is_label
            if is_number and name != IDS:  # long whole numbers, which ids may be, are not exact
                numbers.append(name)
                values = values.cast(pa.int8()) if is_label else values
                found = values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
                content.append(found.astype("<f8").tobytes())
            else:
                values = values.cast(pa.string())
                size += values.nbytes
                if size > MAX_TEXT:
                    raise ValueError("its rows have too much text")
                texts[name] = values.to_pylist()
    except (pa.ArrowException, OSError, NotImplementedError) as error:
        raise ValueError(str(error)) from None
    return {"rows": table.num_rows, "numbers": numbers, "texts": texts}, b"".join(content)


def _read_table(pa: Any, head: dict[str, Any], body: bytes) -> Any:
    """Return a table whose lengths and offsets were checked: a body could lie about them."""
    batches, n = [], 0
    for batch in _batches(pa, head["format"], body):
        n += batch.num_rows
        if n > head["rows"]:
            raise ValueError(f"a request may have {head['rows']} rows")
        if not batches:
            check_columns(batch.schema.names, head["columns"])
        batch.validate(full=True)
        batches.append(batch)
    if n == 0:
        raise ValueError("there are no rows")
    table = pa.Table.from_batches(batches)
    if len(set(table.column_names)) < table.num_columns:
        raise ValueError("two columns have the same name")
    return table


def _batches(pa: Any, format: str, body: bytes) -> Any:
    source = pa.BufferReader(body)
    if format == "parquet":
        return pa.parquet.ParquetFile(source).iter_batches(1000, use_threads=False)
    if body.startswith(b"ARROW1"):
        file = pa.ipc.open_file(source)
        return (file.get_batch(i) for i in range(file.num_record_batches))
    return pa.ipc.open_stream(source)
