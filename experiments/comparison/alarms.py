"""False alarms, promised and measured: many models, each judging batches it never saw.

The rate is promised for samples from where the model's own came from: training samples that it was
not shown. The test set may come from elsewhere (MNIST's was written by other people), and is asked
about for comparison.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dirad.preval.choice import new_system
from dirad.preval.expert import Expert
from dirad.preval.judgement import judge
from dirad.preval.settings import PRESETS
from experiments.comparison.run import SIZES
from experiments.comparison.scenario import load

DATA = ("mnist", "fashion-mnist")
CLASSES = 10  # of each of them
SHOWN = 2000  # samples of two classes that each model learns from
SETS = ("training", "test")


@dataclass(frozen=True)
class Alarms:
    """What one model says of batches of its own task."""

    data: str
    seed: int
    chances: dict[str, dict[str, list[float]]]  # p-values by set and batch size, without labels


def measure(data: str, seed: int) -> Alarms:
    """Return the p-values that a model of two random classes gives to batches it never saw."""
    samples, rng = load(data), np.random.default_rng([seed, 800])
    own = rng.permutation(CLASSES)[:2]
    train = rng.permutation(np.flatnonzero(np.isin(samples.y_train, own)))
    test = rng.permutation(np.flatnonzero(np.isin(samples.y_test, own)))
    shown = train[:SHOWN]
    model = learned(samples.X_train[shown].astype(np.float64), samples.y_train[shown], seed)
    fresh = {"training": samples.X_train[train[SHOWN:]], "test": samples.X_test[test]}
    chances = {
        name: {str(size): p_values(model, X.astype(np.float64), size) for size in SIZES}
        for name, X in fresh.items()
    }
    return Alarms(data, seed, chances)


def learned(X: NDArray[np.float64], y: NDArray[np.int64], seed: int) -> Expert:
    """Return the stable model of one task, which takes all samples for its own."""
    settings = PRESETS["default"].replace(false_alarms=0.0)
    system = new_system(X.shape[1], CLASSES, settings, seed=seed)
    taken = system.learn(X, y)
    system.finish(X[taken:], y[taken:])
    (model,) = system.experts
    assert isinstance(model, Expert)
    return model


def p_values(model: Expert, X: NDArray[np.float64], size: int) -> list[float]:
    """Return the p-value of each whole batch under a model."""
    starts = range(0, len(X) - size + 1, size)
    return [judge(model, X[start : start + size]).verdict.p for start in starts]
