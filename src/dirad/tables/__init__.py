"""Data files as tables: CSV, Parquet, NPZ and IDX, streamed; their columns encoded as numbers."""

from dirad.tables.chunk import Chunk
from dirad.tables.encoder import Encoder
from dirad.tables.error import TableError
from dirad.tables.files import digest
from dirad.tables.opening import open_table
from dirad.tables.table import Column, Table
from dirad.tables.writer import TableWriter, write_table

__all__ = [
    "Chunk",
    "Column",
    "Encoder",
    "Table",
    "TableError",
    "TableWriter",
    "digest",
    "open_table",
    "write_table",
]
