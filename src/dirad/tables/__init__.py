"""Data files as tables: CSV, TSV, Parquet, NPZ and IDX, with columns encoded as numbers.

NumPy's own readers, pandas and pyarrow read CSV too, but none of them does all three things that
matter here: an error names the file, the line and the column; memory does not grow with the file;
and values stay exact (codes such as 007 stay text, large whole numbers are not rounded). So rows
are split by the standard library's `csv`, arrays are streamed by their headers, and only Parquet
is left to pyarrow, which does all three and is an optional dependency.
"""

from dirad.tables.encoder import Encoder
from dirad.tables.errors import TableError
from dirad.tables.files import digest
from dirad.tables.opening import open_table
from dirad.tables.table import Chunk, Column, Table
from dirad.tables.time_order import in_time_order
from dirad.tables.times import Time
from dirad.tables.writer import TableWriter, write_table

__all__ = [
    "Chunk",
    "Column",
    "Encoder",
    "Table",
    "TableError",
    "TableWriter",
    "Time",
    "digest",
    "in_time_order",
    "open_table",
    "write_table",
]
