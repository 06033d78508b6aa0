"""Which of many models are worth asking: a cheap guess before the full evaluation.

A model knows the mean and the spread of each input on its own task, by which it scales them. The
likelihood of a sample if inputs were normal and independent costs two products of matrices for all
models together; the model that predicts a sample best is nearly always among the likeliest.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.preval.buffer_model import BufferModel

FEW = 48  # models up to which all are asked: among models that are alike the guess errs more
ASKED = 8  # models that are asked of a sample, where there are more
MAX_UNITS = 1e15  # units from the middle; float32 holds no squares of more
ASKED_OF_BATCH = 24  # of a batch, whose verdict counts for more


class Screen:
    """The likelihood of samples under each of some models."""

    def __init__(self, models: Sequence[BufferModel]) -> None:
        self.numbers = tuple(model.number for model in models)
        spread = np.array([model.spread for model in models])
        self.unit = np.median(spread, axis=0)  # float32 holds few magnitudes, inputs may have any
        mean = np.array([model.offset for model in models]) / self.unit
        precision = (self.unit / spread) ** 2
        # Σ (x − μ)²/σ² + ln σ² = x²·(1/σ²) − 2x·(μ/σ²) + what x does not change; x is taken from
        # the middle of all means, where less is lost to rounding.
        self.middle = mean.mean(axis=0)
        mean = mean - self.middle
        self.square = np.ascontiguousarray(precision.T, np.float32)
        self.linear = np.ascontiguousarray(-2.0 * (mean * precision).T, np.float32)
        self.constant = (mean**2 * precision - np.log(precision)).sum(axis=1).astype(np.float32)

    def unlikeliness(self, X: NDArray) -> NDArray[np.float32]:
        """Return −2·ln of the likelihood but for a constant: (samples, models)."""
        x = np.clip(X / self.unit - self.middle, -MAX_UNITS, MAX_UNITS).astype(np.float32)
        return (x * x) @ self.square + x @ self.linear + self.constant

    def likeliest(self, X: NDArray, most: int) -> NDArray[np.int64]:
        """Return the places of the models most likely to know each sample: (samples, most)."""
        return np.argpartition(self.unlikeliness(X), most - 1, axis=1)[:, :most]

    def likeliest_of_batch(self, X: NDArray, most: int) -> set[int]:
        """Return the numbers of models that some part of a batch is likely to belong to.

        Each sample votes for the models that are likely to know it; the most votes count.
        """
        votes = np.bincount(self.likeliest(X, ASKED).ravel(), minlength=len(self.numbers))
        return {self.numbers[i] for i in np.argsort(-votes, kind="stable")[:most] if votes[i]}
