"""The screen before routing: what it costs for more models than can be learned here.

The screen knows of a model the mean and the spread of its inputs alone, so that made-up models
cost what learned ones do.
"""

import numpy as np

from dirad.preval.preselection import EXPERTS_PER_SAMPLE, Preselection
from experiments.scale.clock import MEGABYTE, shortest
from experiments.scale.growth import Row

INPUTS = 784
SAMPLES, TURNS = 500, 5


def measure_screening(n_models: int, seed: int = 0) -> Row:
    """Return what it costs to find the likeliest of this many models, per sample."""
    rng = np.random.default_rng(seed)
    shape = n_models, INPUTS
    mean, spread = rng.normal(size=shape), rng.uniform(0.5, 2.0, shape)
    preselection = Preselection(range(n_models), mean, spread)
    X = rng.normal(size=(SAMPLES, INPUTS))
    return {
        "size": n_models,
        "inputs": INPUTS,
        "screen": shortest(lambda: preselection.likeliest(X, EXPERTS_PER_SAMPLE), TURNS) / SAMPLES,
        "megabytes": (preselection.square.nbytes + preselection.linear.nbytes) / MEGABYTE,
    }
