"""The labelled sets that come with river. None has an order: their samples were shuffled.

River has further sets, in order of time, which it downloads when they are first used.
"""

from importlib import import_module
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from experiments.peers.trees import ADVICE

NAMES = {  # of the streams, and in river
    "shuttle": "Shuttle",
    "segments": "ImageSegments",
    "phishing": "Phishing",
    "bananas": "Bananas",
}


def read_set(
    name: str, limit: int
) -> tuple[NDArray[np.float64], NDArray[np.int64], tuple[str, ...]]:
    """Return inputs, classes and names of inputs of a set's first samples."""
    try:
        kind = getattr(import_module("river.datasets"), NAMES[name])
    except ImportError as error:
        raise ImportError(f"{NAMES[name]} {ADVICE}") from error
    samples = list(islice(kind(), limit))
    names = tuple(samples[0][0])
    X = np.array([[inputs[key] for key in names] for inputs, _ in samples], np.float64)
    classes = sorted({target for _, target in kind()})  # of the whole set
    return X, np.array([classes.index(target) for _, target in samples], np.int64), names
