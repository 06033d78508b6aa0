"""The encoder: an ONNX model that turns prepared images into features."""

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dirad.engine import cores
from dirad.images.errors import ImageError, required

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # mean and standard deviation, RGB
UNCHANGED = ((0.0,), (1.0,))
LUMINANCE = (0.299, 0.587, 0.114)  # of red, green and blue: ITU-R 601-2, as in Pillow
LARGEST_BYTE = np.float32(255)
INPUT_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
VERSION = 1  # of this module: raise it when features change, so that cached ones are not used


@dataclass(frozen=True)
class Layout:
    """What an encoder takes."""

    channels_first: bool
    channels: int  # 1 or 3
    height: int
    width: int
    batch: int | None  # images per call, where the model fixes it


@dataclass(frozen=True)
class Encoder:
    """An ONNX model, and how images are prepared for it."""

    path: Path
    session: Any  # onnxruntime's
    layout: Layout
    mean: tuple[float, ...]  # per channel, of pixels in [0, 1]
    std: tuple[float, ...]

    def prepare(self, pixels: NDArray[Any]) -> NDArray[np.float32]:
        """Return an image as the model takes it: resized, normalized, (height, width, channels).

        An image of another shape is scaled by one factor, and cropped at its longer side.
        """
        values = _resized(pixels, self.layout.height, self.layout.width)
        if self.layout.channels == 3 and values.shape[2] == 1:
            values = np.repeat(values, 3, axis=2)
        elif self.layout.channels == 1 and values.shape[2] == 3:
            values = values @ np.array(LUMINANCE, np.float32)[:, None]
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return (values - mean) / std

    def features(self, images: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Return the features of prepared images: the first output, averaged over space."""
        batch = np.stack(images)
        if self.layout.batch is not None:  # a last batch that is too small is filled up
            missing = self.layout.batch - len(batch)
            batch = np.concatenate([batch, np.repeat(batch[-1:], missing, axis=0)])
        if self.layout.channels_first:
            batch = batch.transpose(0, 3, 1, 2)
        given = self.session.get_inputs()[0]
        batch = np.ascontiguousarray(batch, INPUT_TYPES[given.type])
        try:
            output = self.session.run(None, {given.name: batch})[0]
        except Exception as error:  # onnxruntime's errors have no common class
            raise ImageError(f"{self.path}: onnxruntime cannot run it ({_line(error)})") from error
        return self._pooled(np.asarray(output), len(batch))[: len(images)]

    def _pooled(self, output: NDArray[Any], n_images: int) -> NDArray[np.float32]:
        if output.ndim == 4:
            output = output.mean((2, 3) if self.layout.channels_first else (1, 2), np.float32)
        if output.ndim != 2 or len(output) != n_images or output.dtype.kind != "f":
            shape = f"{output.shape}, type {output.dtype}"
            raise ImageError(
                f"{self.path}: its first output for {n_images} images has shape {shape}; features "
                "are floats of shape (images, features), or maps with two more axes"
            )
        return output.astype(np.float32, copy=False)

    def identify(self) -> tuple[str, int]:
        """Return a digest of all that features depend on, and the number of features.

        The features of a test image are part of it: they change with weights that are kept in a
        file of their own, and with a version of onnxruntime that rounds differently.
        """
        shape = (self.layout.height, self.layout.width, self.layout.channels)
        test_image = np.random.default_rng(0).normal(size=shape).astype(np.float32)
        features = self.features([test_image])
        if not np.array_equal(features, self.features([test_image]), equal_nan=True):
            raise ImageError(
                f"{self.path}: its features of the same image differ from call to call"
            )
        with self.path.open("rb") as file:
            model = hashlib.file_digest(file, "sha256").hexdigest()
        test = hashlib.sha256(features.tobytes()).hexdigest()
        about = [VERSION, model, test, shape, self.mean, self.std]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest(), features.shape[1]


def open_encoder(
    path: str | os.PathLike[str],
    size: int | tuple[int, int] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    threads: int | None = None,
) -> Encoder:
    """Open an ONNX model, and check that images can be prepared for it."""
    path = Path(path).expanduser()
    if not path.is_file():
        raise ImageError(f"{path}: no such file")
    onnxruntime = required("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cores()
    options.log_severity_level = 4  # what goes wrong is raised as well
    try:
        session = onnxruntime.InferenceSession(
            str(path), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # onnxruntime's errors have no common class
        raise ImageError(
            f"{path}: not an ONNX model that onnxruntime can open ({_line(error)})"
        ) from error
    layout = _layout(path, session.get_inputs(), size)
    default = IMAGENET if layout.channels == 3 else UNCHANGED
    means = _per_channel("mean", default[0] if mean is None else mean, layout.channels)
    stds = _per_channel("std", default[1] if std is None else std, layout.channels)
    if min(stds) <= 0:
        raise ImageError(f"std: standard deviations have to be above 0, not {min(stds):g}")
    return Encoder(path, session, layout, means, stds)


def _layout(path: Path, inputs: Sequence[Any], size: int | tuple[int, int] | None) -> Layout:
    """Find out what the model takes; refuse what is not a batch of images."""
    if len(inputs) != 1:
        names = ", ".join(given.name for given in inputs)
        raise ImageError(f"{path}: an encoder has one input, this model has {len(inputs)}: {names}")
    shape, kind = inputs[0].shape, inputs[0].type
    if kind not in INPUT_TYPES:
        raise ImageError(f"{path}: its input is a {kind}, not one of {', '.join(INPUT_TYPES)}")
    if len(shape) != 4 or not {shape[1], shape[3]} & {1, 3}:
        raise ImageError(
            f"{path}: its input has shape {shape}, not that of images with 1 or 3 channels"
        )
    first = shape[1] in (1, 3)
    own = shape[2:] if first else shape[1:3]
    height, width = (size, size) if isinstance(size, int) else size or own
    for chosen, fixed in zip((height, width), own, strict=True):
        if not isinstance(chosen, int):
            raise ImageError(f"{path}: it takes images of any size: choose one (size)")
        if chosen < 1 or (isinstance(fixed, int) and fixed != chosen):
            raise ImageError(
                f"{path}: it takes images of {own[0]} × {own[1]}, not {height} × {width}"
            )
    batch = shape[0] if isinstance(shape[0], int) else None
    return Layout(first, shape[1] if first else shape[3], height, width, batch)


def _per_channel(name: str, values: float | Sequence[float], channels: int) -> tuple[float, ...]:
    """Return one number per channel, as floats of single precision have them.

    >>> _per_channel("mean", 0.5, 3)
    (0.5, 0.5, 0.5)
    """
    numbers = tuple(np.atleast_1d(np.asarray(values, np.float64)).tolist())
    if len(numbers) == 1:
        numbers *= channels
    if len(numbers) != channels or not np.isfinite(numbers).all():
        raise ImageError(f"{name}: {list(numbers)}; the encoder takes {channels} channels")
    return numbers


def _resized(pixels: NDArray[Any], height: int, width: int) -> NDArray[np.float32]:
    """Return pixels in [0, 1], scaled bilinearly to cover the size, and cropped at the centre."""
    Image, ImageOps = required("PIL.Image"), required("PIL.ImageOps")

    def fit(plane: NDArray[Any]) -> NDArray[Any]:
        picture = Image.fromarray(np.ascontiguousarray(plane))
        return np.asarray(ImageOps.fit(picture, (width, height), Image.Resampling.BILINEAR))

    if pixels.dtype == np.uint8 and pixels.shape[2] == 3:
        return fit(pixels).astype(np.float32) / LARGEST_BYTE
    planes = np.stack([fit(pixels[..., channel]) for channel in range(pixels.shape[2])], axis=2)
    return planes.astype(np.float32) / LARGEST_BYTE if pixels.dtype == np.uint8 else planes


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
