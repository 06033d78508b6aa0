"""Tasks of two digits that come again, each shown until it is learned: A B A C B.

Unlike the streams of `dirad.streams.kinds`, this one waits for the system: a new task lasts until
its model is stable.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.datasets import Dataset
from dirad.preval.choice import ContinualSystem, new_system
from dirad.preval.settings import Settings
from dirad.streams.follow import Moment, Watcher, predict_and_learn
from dirad.streams.run import CLASSES, settings_of, source


def draw(rng: np.random.Generator, pools: Sequence[NDArray], batches: int, size: int) -> NDArray:
    """Return the indices of whole batches, each with equally many samples of every pool."""
    result = []
    for _ in range(batches):
        share = [size // len(pools) + (i < size % len(pools)) for i in range(len(pools))]
        parts = [
            rng.choice(pool, n, replace=n > len(pool)) for pool, n in zip(pools, share, strict=True)
        ]
        result.append(rng.permutation(np.concatenate(parts)))
    return np.concatenate(result)


def learn_recurring(
    preset: str = "default",
    order: Sequence[int] = (0, 1, 0, 2, 1),
    *,
    seed: int = 0,
    batches: int = 10,
    data: Dataset | None = None,
    settings: Settings | None = None,
    report: Watcher | None = None,
) -> tuple[ContinualSystem, list[Moment], list[list[int]]]:
    """Return a system that saw tasks in this order, its moments, and the digits of each task.

    A new task lasts until its model is stable, at least `batches` batches; a known task lasts
    `batches`. The digits are those of MNIST unless other data are given.
    """
    data = source("mnist") if data is None else data
    settings = settings_of(preset) if settings is None else settings
    size = settings.l0.batch_size
    rng = np.random.default_rng([seed, 500])
    digits = rng.permutation(CLASSES).reshape(-1, 2).tolist()
    system = new_system(data.X_train.shape[1], CLASSES, settings, seed=seed, threads=1)
    moments: list[Moment] = []
    for task in order:
        pools = [np.flatnonzero(data.y_train == digit) for digit in digits[task]]
        shares = np.eye(max(order) + 1)[task]
        shown = 0
        while shown < batches or system.adapting is not None:
            for chosen in draw(rng, pools, batches, size).reshape(batches, size):
                X, y = data.X_train[chosen], data.y_train[chosen]
                moments.append(predict_and_learn(system, X, y, shares))
                if report is not None:
                    report(moments[-1], system)
            shown += batches
    return system, moments, digits[: max(order) + 1]
