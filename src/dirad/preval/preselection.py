"""Which of many experts are evaluated: a cheap preselection by likelihood.

Every expert has the mean and the spread of each input on its task. The likelihood of a sample with
independent normal inputs costs two matrix products for all experts together; the expert that
predicts a sample best is nearly always among the likeliest.
"""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.preval.expert import Expert

MIN_EXPERTS = 48  # up to so many all are evaluated: among similar ones preselection errs more
EXPERTS_PER_SAMPLE = 8  # experts that evaluate a sample, where there are more
MAX_FLOAT32_UNITS = 1e15  # units from the center: float32 holds their squares
EXPERTS_PER_BATCH = 24  # experts that evaluate a batch, whose verdict has more consequences


class Preselection:
    """The likelihood of samples under each of some experts."""

    def __init__(self, numbers: Sequence[int], mean: NDArray, spread: NDArray) -> None:
        """Take the numbers of experts, and mean and spread of their inputs: (experts, inputs)."""
        self.numbers = tuple(numbers)
        self.unit = np.median(spread, axis=0)  # float32 has a small range, inputs may have any
        mean = mean / self.unit
        precision = (self.unit / spread) ** 2
        # Σ (x − μ)²/σ² + ln σ² = x²·(1/σ²) − 2x·(μ/σ²) + a constant; x is measured from
        # the center of all means, where less is lost to rounding.
        self.center = mean.mean(axis=0)
        mean = mean - self.center
        self.square = np.ascontiguousarray(precision.T, np.float32)
        self.linear = np.ascontiguousarray(-2.0 * (mean * precision).T, np.float32)
        self.constant = (mean**2 * precision - np.log(precision)).sum(axis=1).astype(np.float32)

    def deviance(self, X: NDArray) -> NDArray[np.float32]:
        """Return −2·ln of the likelihood, up to a constant: (samples, experts)."""
        x = np.clip(X / self.unit - self.center, -MAX_FLOAT32_UNITS, MAX_FLOAT32_UNITS).astype(
            np.float32
        )
        return (x * x) @ self.square + x @ self.linear + self.constant

    def likeliest(self, X: NDArray, most: int) -> NDArray[np.int64]:
        """Return the indices of the likeliest experts for each sample: (samples, most)."""
        return np.argpartition(self.deviance(X), most - 1, axis=1)[:, :most]

    @staticmethod
    def of(experts: Sequence[Expert]) -> "Preselection":
        """Return the preselection of these experts."""
        scalings = [expert.evaluator.scaling for expert in experts]
        return Preselection(
            [expert.number for expert in experts],
            np.array([scaling.offset for scaling in scalings]),
            np.array([scaling.spread for scaling in scalings]),
        )

    def rows(self, X: NDArray, most: int) -> list[NDArray[np.int64]]:
        """Return the samples that each expert evaluates: those whose likeliest it is among."""
        chosen = self.likeliest(X, most)
        order = np.argsort(chosen.ravel(), kind="stable")
        ends = np.searchsorted(chosen.ravel()[order], np.arange(len(self.numbers) + 1))
        samples = order // most
        return [samples[a:b] for a, b in itertools.pairwise(ends)]

    def likeliest_of_batch(self, X: NDArray, most: int) -> set[int]:
        """Return the numbers of the experts that a batch is likely to belong to, at least in part.

        Each sample votes for its likeliest experts; those with the most votes are returned.
        """
        votes = np.bincount(
            self.likeliest(X, EXPERTS_PER_SAMPLE).ravel(), minlength=len(self.numbers)
        )
        return {self.numbers[i] for i in np.argsort(-votes, kind="stable")[:most] if votes[i]}
