"""Features that were computed before: files in a cache folder, each with some images' features."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from dirad.atomic import replacing

DAMAGE = (BadZipFile, ValueError, KeyError, EOFError, OSError)  # of a file that is not whole


def default_cache() -> Path:
    """Return the folder in the user's cache folder."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(home) / "dirad" / "features"


class FeatureCache:
    """The features of images by the digests of the images, for one encoder and its settings.

    Each call of `add` writes one file, atomically. So whatever stops a process, no file is damaged
    by it, and two processes that compute the same features do not disturb each other.
    """

    def __init__(self, folder: Path, encoder: str, n_features: int) -> None:
        self.folder = folder / encoder[:32]
        self.n_features = n_features

    def look_up(self, rows: Mapping[bytes, Sequence[int]], X: NDArray[np.float32]) -> set[bytes]:
        """Fill the rows of all images that are in the cache; return the digests of the others."""
        missing = set(rows)
        for digests, features in self._files():
            for digest, values in zip(map(bytes, digests), features, strict=True):
                if digest in missing:
                    X[rows[digest]] = values
                    missing.remove(digest)
        return missing

    def add(self, digests: Sequence[bytes], features: NDArray[np.float32]) -> None:
        """Keep the features of some images."""
        name = hashlib.sha256(b"".join(digests)).hexdigest()[:32]
        self.folder.mkdir(parents=True, exist_ok=True)
        keys = np.frombuffer(b"".join(digests), np.uint8).reshape(len(digests), -1)
        with replacing(self.folder / f"{name}.npz") as part, part.open("wb") as file:
            np.savez(file, digests=keys, features=features)

    def _files(self) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.float32]]]:
        """Yield the digests and the features of each file; a damaged file is passed over."""
        for path in sorted(self.folder.glob("*.npz")):
            try:
                with np.load(path) as archive:
                    digests, features = archive["digests"], archive["features"]
            except DAMAGE:
                continue
            if features.shape == (len(digests), self.n_features):
                yield digests, features
