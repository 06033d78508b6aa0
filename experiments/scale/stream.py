"""A long stream from a file that is never held: memory must not grow with its length.

Tasks come again and again. The file is IDX, of bytes, read chunk by chunk by `dirad.tables`.
"""

import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from dirad.estimators import PREVALClassifier
from dirad.tables import open_table
from experiments.scale.clock import MEGABYTE, peak_memory
from experiments.scale.growth import Row

INPUTS, TASKS, CLASSES = 16, 4, 2
STAY = 20_000  # samples for which a task stays
CHUNK = 2000  # samples read at a time
BUFFER, MODES = 2000, 2  # of a model: small, so that most of the time is the stream's
IMAGES, LABELS = "images-idx2-ubyte", "labels-idx1-ubyte"


def write_stream(folder: Path, n_samples: int, seed: int = 0) -> Path:
    """Write a stream of recurring tasks, piece by piece; return the file of its inputs."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(40, 215, (TASKS, CLASSES, INPUTS))
    with (folder / IMAGES).open("wb") as images, (folder / LABELS).open("wb") as labels:
        images.write(bytes([0, 0, 8, 2]) + struct.pack(">2I", n_samples, INPUTS))
        labels.write(bytes([0, 0, 8, 1]) + struct.pack(">I", n_samples))
        for start in range(0, n_samples, STAY):
            n, task = min(STAY, n_samples - start), start // STAY % TASKS
            y = rng.integers(CLASSES, size=n)
            X = centres[task, y] + rng.normal(0, 10, (n, INPUTS))
            images.write(np.clip(X, 0, 255).astype(np.uint8).tobytes())
            labels.write((CLASSES * task + y).astype(np.uint8).tobytes())
    return folder / IMAGES


def read_stream(path: Path) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """Yield samples and labels, a chunk at a time."""
    for chunk in open_table(path).chunks(CHUNK):
        X = np.stack([chunk.numbers(f"x{i}") for i in range(INPUTS)], axis=1)
        yield X, chunk.numbers("label").astype(np.int64)


def measure_stream(numbers: Sequence[int], seed: int = 0) -> list[Row]:
    """Return the peak of memory after these numbers of samples of one stream."""
    with TemporaryDirectory() as folder:
        path = write_stream(Path(folder), max(numbers), seed)
        return list(_followed(path, numbers, seed))


def _followed(path: Path, numbers: Sequence[int], seed: int) -> Iterator[Row]:
    learner = PREVALClassifier(buffer_size=BUFFER, modes=MODES, random_state=seed, n_jobs=1)
    seen, start = 0, time.process_time()
    for X, y in read_stream(path):
        learner.partial_fit(X, y)
        seen += len(X)
        if seen in numbers:
            yield {
                "size": seen,
                "megabytes": peak_memory() / MEGABYTE,
                "seconds": time.process_time() - start,
                "models": len(learner.models_),
                "opened": sum(event.kind == "opened" for event in learner.events_),
                "reports": len(learner.reports_),
                "events": len(learner.events_),
            }
