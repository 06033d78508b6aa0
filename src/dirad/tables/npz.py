"""NPZ: arrays named by NumPy, streamed out of their archive; nothing is ever unpickled."""

from collections.abc import Iterator
from contextlib import ExitStack
from lzma import LZMAError
from pathlib import Path
from typing import BinaryIO, cast
from zipfile import BadZipFile, ZipFile, ZipInfo

from numpy.lib import format as npy

from dirad.tables.blocks import Block, open_blocks
from dirad.tables.error import TableError
from dirad.tables.files import failures_named
from dirad.tables.table import Table

# What a damaged archive makes the readers raise.
DAMAGE = (BadZipFile, LZMAError, ValueError, NotImplementedError, RuntimeError)


def open_npz(path: Path) -> Table:
    """Open arrays of equal length: a one-dimensional array is a column of its name.

    An array X of more dimensions gives columns x0, x1, …, another one columns of its name and a
    number. Single values are left out.
    """
    with failures_named(path, *DAMAGE), ZipFile(path) as archive:
        members = {info: _header(path, archive, info) for info in archive.infolist()}
    members = {info: block for info, block in members.items() if block.shape}
    if not members:
        raise TableError(f"{path}: no array in it")

    def streams(stack: ExitStack) -> Iterator[BinaryIO]:
        stack.enter_context(failures_named(path, *DAMAGE))
        archive = stack.enter_context(ZipFile(path))
        for info in members:
            stream = cast(BinaryIO, stack.enter_context(archive.open(info)))
            _shape_and_type(stream)
            yield stream

    return open_blocks(path, "npz", list(members.values()), streams, (path,))


def _header(path: Path, archive: ZipFile, info: ZipInfo) -> Block:
    if not info.filename.endswith(".npy"):
        raise TableError(f"{path}: holds {info.filename!r}, which is no array: not an NPZ file")
    name = info.filename.removesuffix(".npy")
    with archive.open(info) as stream:
        shape, by_column, dtype = _shape_and_type(cast(BinaryIO, stream))
    return Block(f"{path}, array {name!r}", name, dtype, shape, by_column)


def _shape_and_type(stream: BinaryIO):
    """Read the header of an array: its shape, whether it lies by columns, its type."""
    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    return read(stream)
