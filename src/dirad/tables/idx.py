"""IDX, the format of MNIST: images in one file, their labels in another."""

import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dirad.tables.blocks import Block, open_blocks
from dirad.tables.error import TableError
from dirad.tables.files import existing_file, opened
from dirad.tables.table import Table

# The third byte of a file says what its numbers are; all are big-endian.
TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def open_idx(path: Path, labels: Path | None = None) -> Table:
    """Open images (columns x0, x1, …, pixel by pixel) and their labels (column label).

    The labels are those given, else those found beside the images under MNIST's names
    (train-images-idx3-ubyte and train-labels-idx1-ubyte, plain or gzipped); without labels there
    is no such column. A file of labels can be opened alone.
    """
    if labels is None:
        labels = find_labels(path)
    files = (path,) if labels is None else (path, existing_file(labels))
    blocks = []
    for file in files:
        with opened(file) as stream:
            dtype, shape = read_header(stream, str(file))
        blocks.append(Block(str(file), "X" if len(shape) > 1 else "label", dtype, shape))

    def streams(stack: ExitStack) -> Iterator[BinaryIO]:
        for file in files:
            stream = stack.enter_context(opened(file))
            read_header(stream, str(file))
            yield stream

    return open_blocks(path, "idx", blocks, streams, files)


def find_labels(images: Path) -> Path | None:
    """Return the file of labels that belongs to a file of images by its name, if there is one."""
    if "images" not in images.name:
        return None
    name = re.sub(r"idx\d", "idx1", images.name.replace("images", "labels")).removesuffix(".gz")
    for candidate in (images.with_name(name), images.with_name(name + ".gz")):
        if candidate.is_file():
            return candidate
    return None


def read_header(stream: BinaryIO, place: str) -> tuple[np.dtype, tuple[int, ...]]:
    """Return type and shape of an IDX file: 0, 0, type, number of axes; then each axis' length.

    >>> import io
    >>> read_header(io.BytesIO(bytes([0, 0, 8, 1, 0, 0, 0, 5])), "labels")
    (dtype('uint8'), (5,))
    """
    magic = stream.read(4)
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in TYPES or magic[3] == 0:
        raise TableError(f"{place}: not an IDX file")
    axes = stream.read(4 * magic[3])
    if len(axes) < 4 * magic[3]:
        raise TableError(f"{place}: ends inside its header")
    return np.dtype(TYPES[magic[2]]), struct.unpack(f">{magic[3]}I", axes)
