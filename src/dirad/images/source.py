"""Where images come from: a folder of pictures, a file of arrays, or an array."""

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.images.errors import ImageError, required
from dirad.tables.arrays import find_labels, read_idx_header
from dirad.tables.files import opened

PICTURES = (
    ".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp",
)  # fmt: skip
LABEL_NAMES = ("label", "labels", "y", "target")  # of an array in an NPZ file
SIXTEEN_BITS = 65_535
WHITE = (255, 255, 255, 255)

Source = str | os.PathLike[str] | NDArray[Any]


@dataclass(frozen=True)
class ImageSet:
    """Images that are read one at a time."""

    names: Sequence[str]  # of each image, for messages: its file, or its place in an array
    labels: NDArray[Any] | None  # (images,): texts or integers
    content: Callable[[int], bytes]  # what identifies an image
    pixels: Callable[[int], NDArray[Any]]  # (height, width, 1 or 3): bytes, or floats in [0, 1]

    def digest(self, number: int) -> bytes:
        """Return the SHA-256 of an image."""
        return hashlib.sha256(self.content(number)).digest()


def open_images(source: Source, labels: Source | None = None) -> ImageSet:
    """Open a folder of pictures, an NPY, NPZ or IDX file of images, or an array of them."""
    if isinstance(source, np.ndarray):
        found, place = _Arrays(source, None), "the array"
    else:
        path = Path(source).expanduser()
        if not path.exists():
            raise ImageError(f"{path}: no such file or folder")
        if path.is_dir():
            if labels is not None:
                raise ImageError(f"{path}: the subfolders of a folder are its labels")
            return _open_folder(path)
        found, place = _read_file(path), str(path)
    if labels is not None:
        given = labels if isinstance(labels, np.ndarray) else _read_file(Path(labels)).images
        found = found._replace(labels=given)
    return _open_array(found.images, found.labels, place)


# ------------------------------------------------------------------ folders of pictures


def _open_folder(folder: Path) -> ImageSet:
    """Open all pictures of a folder and its subfolders, in the order of their names.

    If the folder has pictures only in subfolders, the name of the subfolder is the label.
    """
    paths = sorted(path for path in folder.rglob("*") if _is_picture(path.relative_to(folder)))
    paths = [path for path in paths if path.is_file()]
    if not paths:
        raise ImageError(f"{folder}: no pictures ({', '.join(PICTURES)}) in this folder")
    parts = [path.relative_to(folder).parts for path in paths]
    loose = next((path for path, part in zip(paths, parts, strict=True) if len(part) == 1), None)
    labels = None
    if loose is None:
        labels = np.array([part[0] for part in parts])
    elif any(len(part) > 1 for part in parts):
        raise ImageError(f"{loose}: this picture has no class, others are in subfolders of classes")
    return ImageSet(
        [str(path) for path in paths],
        labels,
        lambda number: _file_content(paths[number]),
        lambda number: _decoded(paths[number]),
    )


def _is_picture(path: Path) -> bool:
    """Say whether a file is a picture by its name; hidden files and folders are left out.

    >>> (
    ...     _is_picture(Path("cats/1.JPG")),
    ...     _is_picture(Path("cats/.1.jpg")),
    ...     _is_picture(Path("a.txt")),
    ... )
    (True, False, False)
    """
    hidden = any(part.startswith(".") for part in path.parts)
    return path.suffix.lower() in PICTURES and not hidden


def _file_content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror}") from error


def _decoded(path: Path) -> NDArray[Any]:
    """Return the pixels of a picture file."""
    content = io.BytesIO(_file_content(path))
    Image = required("PIL.Image")
    try:
        with Image.open(content) as picture:
            pixels = _picture_pixels(picture)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(f"{path}: not a readable picture ({_reason(error)})") from error
    return checked_pixels(pixels, str(path))


def _reason(error: Exception) -> str:
    """Return what Pillow says, without the address of a buffer that it may name."""
    return "unknown format" if "cannot identify" in str(error) else str(error)


def _picture_pixels(picture: Any) -> NDArray[Any]:
    """Return pixels as a viewer shows them: upright, with white behind what is transparent."""
    Image, ImageOps = required("PIL.Image"), required("PIL.ImageOps")
    picture = ImageOps.exif_transpose(picture)
    if picture.mode.startswith("I"):  # gray of 16 bits, which Pillow would clip to 8
        return np.asarray(picture).astype(np.float32) / SIXTEEN_BITS
    if picture.mode == "F":
        return np.asarray(picture)
    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, WHITE), picture)
    return np.asarray(picture.convert("L" if picture.mode in ("1", "L") else "RGB"))


# ------------------------------------------------------------------ arrays


class _Arrays(NamedTuple):
    images: NDArray[Any]
    labels: NDArray[Any] | None


def _read_file(path: Path) -> _Arrays:
    """Return the array of a file, and its labels where they are in it or beside it."""
    path = path.expanduser()
    try:
        with opened(path) as file:
            start = file.read(6)
    except ValueError as error:
        raise ImageError(str(error)) from error
    if start == b"\x93NUMPY":
        return _Arrays(_loaded(path, lambda: np.load(path, mmap_mode="r")), None)
    if start[:2] == b"PK":
        return _loaded(path, lambda: _read_npz(path))
    if start[:2] == b"\0\0":
        labels = find_labels(path)
        return _Arrays(_read_idx(path), None if labels is None else _read_idx(labels))
    raise ImageError(f"{path}: not a folder of pictures, and not an NPY, NPZ or IDX file")


def _loaded(path: Path, load: Callable[[], Any]) -> Any:
    """Load arrays, without Python objects; name the file where that fails."""
    try:
        return load()
    except ImageError:
        raise
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ImageError(f"{path}: damaged, or not an array of numbers ({error})") from error


def _read_npz(path: Path) -> _Arrays:
    """Return the array of three or four axes, and that of the labels."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    images = [name for name, array in arrays.items() if array.ndim in (3, 4)]
    if len(images) != 1:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ImageError(f"{path}: one array of 3 or 4 axes is needed; it has {listed}")
    labels = next((arrays[name] for name in LABEL_NAMES if name in arrays), None)
    return _Arrays(arrays[images[0]], labels)


def _read_idx(path: Path) -> NDArray[Any]:
    try:
        with opened(path) as file:
            dtype, shape = read_idx_header(file, str(path))
            content = file.read()
    except ValueError as error:
        raise ImageError(str(error)) from error
    if len(content) != np.prod(shape, dtype=np.int64) * dtype.itemsize:
        raise ImageError(f"{path}: its length is not that of its header, {shape}")
    return np.frombuffer(content, dtype).reshape(shape)


def _open_array(images: NDArray[Any], labels: NDArray[Any] | None, place: str) -> ImageSet:
    """Open an array: (images, height, width), with the channels before or after the last two."""
    channels_last = images.ndim == 4 and images.shape[3] in (1, 3)
    channels_first = images.ndim == 4 and images.shape[1] in (1, 3) and not channels_last
    if not (images.ndim == 3 or channels_last or channels_first):
        raise ImageError(
            f"{place}: shape {images.shape}; images are (images, height, width), with 1 or 3 "
            "channels before or after height and width"
        )
    if 0 in images.shape:
        raise ImageError(f"{place}: shape {images.shape}: no image in it")
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise ImageError(f"{place}: type {images.dtype}; pixels are uint8, or floats in [0, 1]")
    if labels is not None and labels.shape != images.shape[:1]:
        raise ImageError(f"{place}: {len(images)} images and labels of shape {labels.shape}")
    names = [f"{place}, image {number}" for number in range(len(images))]
    about = f"{images.dtype.str} {images.shape[1:]}".encode()

    def pixels(number: int) -> NDArray[Any]:
        image = np.asarray(images[number])
        return checked_pixels(image.transpose(1, 2, 0) if channels_first else image, names[number])

    return ImageSet(
        names,
        labels,
        lambda number: about + np.ascontiguousarray(images[number]).tobytes(),
        pixels,
    )


def checked_pixels(pixels: NDArray[Any], name: str) -> NDArray[Any]:
    """Return pixels as (height, width, channels): bytes, or single-precision floats in [0, 1]."""
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    if pixels.dtype == np.uint8:
        return pixels
    pixels = pixels.astype(np.float32)
    if not (pixels.min() >= 0 and pixels.max() <= 1):  # also where a pixel is not a number
        low, high = pixels.min(), pixels.max()
        raise ImageError(f"{name}: pixels from {low:g} to {high:g}; floats have to be in [0, 1]")
    return pixels
