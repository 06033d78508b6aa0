"""Features of images by an encoder: each is computed once, and then kept in the cache."""

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.atomic import destination, replacing
from dirad.images.cache import FeatureCache, default_cache
from dirad.images.encoder import Encoder, open_encoder
from dirad.images.errors import ImageError, required
from dirad.images.source import ImageSet, Source, open_images
from dirad.tables import TableWriter
from dirad.tables.parquet import pyarrow
from dirad.tables.writer import SUFFIXES

KEEP_EVERY = 5.0  # seconds: what a process that is killed loses at most, and one batch
ROWS = 4000  # rows of a table that are written at once
PARQUET = (".parquet", ".pq")

Progress = Callable[[int, int, str], None]  # images done, all images, what is done


class Features(NamedTuple):
    """The features of images."""

    X: NDArray[np.float32]  # (images, features)
    y: NDArray[Any] | None  # (images,): labels, if the images have labels
    names: Sequence[str]  # of each image: its file, or its place in an array
    n_computed: int  # images that were not in the cache

    def shuffled(self, seed: int) -> "Features":
        """Return them in random order, in which no class comes before another."""
        order = np.random.default_rng(seed).permutation(len(self.X))
        y = None if self.y is None else self.y[order]
        return self._replace(X=self.X[order], y=y, names=[self.names[i] for i in order])


def compute_features(
    images: Source,
    encoder: str | os.PathLike[str],
    *,
    size: int | tuple[int, int] | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    labels: Source | None = None,
    batch_size: int = 16,
    threads: int | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Features:
    """Return the features of images: what an encoder computes, one row per image.

    What is computed is kept in a cache folder, by digests of the image, the encoder and the
    settings. A later call, also after one that was stopped, computes only what is missing.

    Parameters
    ----------
    images : path or array
        A folder of pictures, in the order of their names, with one subfolder per class (its name
        is the label) or without subfolders; an NPY, NPZ or IDX file; or an array of shape
        (images, height, width), with 1 or 3 channels before or after height and width. Pixels of
        arrays are uint8, or floats in [0, 1].
    encoder : path
        An ONNX model. Whether its channels come first, and how many there are, is found from the
        shape of its input. Its first output is used; if that has four axes, its mean over space.
    size : int or (height, width), optional
        To which images are scaled; by default what the model takes.
    mean, std : float or one per channel, optional
        For the normalization of pixels in [0, 1]; by default those of ImageNet for colour, and no
        normalization for gray.
    labels : path or array, optional
        Labels of images in a file or an array, as NPY or IDX; by default those in an NPZ file
        (label, labels, y or target), or beside an IDX file.
    batch_size : int
        Images that the encoder gets at once.
    threads : int, optional
        Threads of the encoder; by default one per core.
    cache : path, optional
        The folder of computed features; by default `dirad/features` in the user's cache folder. It
        can be removed at any time.
    progress : callable, optional
        Called with the number of images done, the number of all images, and what is being done.

    Raises
    ------
    ImageError
        An image or the encoder cannot be used; the message names it.
    """
    if batch_size < 1:
        raise ImageError(f"batch_size: {batch_size}, not 1 or more")
    required("PIL.Image")  # if it is missing, this is said at once
    model = open_encoder(encoder, size, mean, std, threads)
    source = open_images(images, labels)
    identity, n_features = model.identify()
    folder = Path(cache).expanduser() if cache else default_cache()
    known = FeatureCache(folder, identity, n_features)
    work = _Work(source, model, known, progress or (lambda done, total, text: None))
    X, n_computed = work.collect(model.layout.batch or batch_size)
    return Features(X, source.labels, source.names, n_computed)


@dataclass(frozen=True)
class _Work:
    """Images, their encoder, and what is known of their features."""

    source: ImageSet
    model: Encoder
    cache: FeatureCache
    show: Progress

    def collect(self, batch_size: int) -> tuple[NDArray[np.float32], int]:
        """Return the features of all images, and of how many they had to be computed."""
        n_images = len(self.source.names)
        rows: dict[bytes, list[int]] = {}  # of each image by its digest: equal images have several
        for number in range(n_images):
            rows.setdefault(self.source.digest(number), []).append(number)
            self.show(number + 1, n_images, "reading images")
        X = np.empty((n_images, self.cache.n_features), np.float32)
        missing = self.cache.look_up(rows, X)
        self._compute({digest: rows[digest] for digest in rows if digest in missing}, X, batch_size)
        return X, len(missing)

    def _compute(
        self, rows: dict[bytes, list[int]], X: NDArray[np.float32], batch_size: int
    ) -> None:
        """Fill the rows of some images, and keep their features; also of those before an error."""
        digests = list(rows)
        done = len(X) - sum(map(len, rows.values()))
        kept, kept_at = 0, time.monotonic()  # of the digests, how many are in the cache
        ready = 0  # of the digests, how many have their features
        try:
            for start in range(0, len(digests), batch_size):
                batch = digests[start : start + batch_size]
                features = self._features_of([rows[digest][0] for digest in batch])
                for digest, values in zip(batch, features, strict=True):
                    X[rows[digest]] = values
                    done += len(rows[digest])
                ready += len(batch)
                self.show(done, len(X), "computing features")
                if time.monotonic() - kept_at >= KEEP_EVERY:
                    self._keep(digests[kept:ready], rows, X)
                    kept, kept_at = ready, time.monotonic()
        except BaseException:
            with suppress(OSError):  # the first error is what went wrong
                self._keep(digests[kept:ready], rows, X)
            raise
        self._keep(digests[kept:], rows, X)

    def _features_of(self, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Compute the features of some images."""
        prepared = [self.model.prepare(self.source.pixels(number)) for number in numbers]
        features = self.model.features(prepared)
        for number, row in zip(numbers, features, strict=True):
            if not np.isfinite(row).all():
                raise ImageError(f"{self.source.names[number]}: its features are not finite")
        return features

    def _keep(
        self, digests: Sequence[bytes], rows: dict[bytes, list[int]], X: NDArray[np.float32]
    ) -> None:
        """Put the features of some images into the cache."""
        if digests:
            self.cache.add(digests, X[[rows[digest][0] for digest in digests]])


# ------------------------------------------------------------------ files


def check_features_file(path: Path) -> None:
    """Refuse a file that `write_features` could not write, before anything is computed."""
    name = path.name.lower()
    if not name.endswith((*SUFFIXES, ".npz")):
        raise ImageError(f"{path}: the name has to end in .npz, {', '.join(SUFFIXES)}")
    if name.endswith(PARQUET):
        pyarrow()
    destination(path)


def write_features(
    path: str | os.PathLike[str], features: Features, *, file_names: bool = False
) -> None:
    """Write features as a data file: NPZ, CSV, TSV or Parquet, by the name of the file.

    The columns are x0, x1, … and, if there are labels, `label`; with `file_names` also
    `file_name`.
    """
    path = Path(path).expanduser()
    check_features_file(path)
    others: dict[str, NDArray[Any]] = {} if features.y is None else {"label": features.y}
    if file_names:
        others["file_name"] = np.array(features.names)
    if path.suffix.lower() == ".npz":
        with replacing(path) as part, part.open("wb") as file:
            arrays: dict[str, Any] = {"X": features.X, **others}
            np.savez(file, **arrays)
        return
    with TableWriter(path) as writer:
        for start in range(0, len(features.X), ROWS):
            some = slice(start, start + ROWS)
            columns = {f"x{i}": column for i, column in enumerate(features.X[some].T)}
            writer.write(columns | {name: values[some] for name, values in others.items()})
