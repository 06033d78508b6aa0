"""The screen before routing: what it costs for more models than can be learned here.

The screen knows of a model the mean and the spread of its inputs alone, so that made-up models
cost what learned ones do.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.preval.screening import ASKED, Screen
from experiments.scale.clock import MEGABYTE, shortest
from experiments.scale.growth import Row

INPUTS = 784
SAMPLES, TURNS = 500, 5


class Stand(NamedTuple):
    """All that a screen asks of a model."""

    number: int
    offset: NDArray[np.float64]
    spread: NDArray[np.float64]


def measure_screening(n_models: int, seed: int = 0) -> Row:
    """Return what it costs to find the likeliest of this many models, per sample."""
    rng = np.random.default_rng(seed)
    models: list[Any] = [
        Stand(number, rng.normal(size=INPUTS), rng.uniform(0.5, 2.0, INPUTS))
        for number in range(n_models)
    ]
    screen, X = Screen(models), rng.normal(size=(SAMPLES, INPUTS))
    return {
        "size": n_models,
        "inputs": INPUTS,
        "screen": shortest(lambda: screen.likeliest(X, ASKED), TURNS) / SAMPLES,
        "megabytes": (screen.square.nbytes + screen.linear.nbytes) / MEGABYTE,
    }
