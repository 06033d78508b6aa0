"""The samples of the task at hand: a bounded random sample of all that were shown."""

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import uniform

RESERVOIR = 102  # purpose of the random key by which the buffer keeps samples
FEW = 50  # samples up to which none can be spared for calibration
EARLY = 200  # samples of which at least a fifth is held out: an opinion is needed soon
EARLY_SHARE = 0.2
UNLABELLED = -1


class Buffer:
    """At most `size` samples, a part of which is held out: nothing is ever fitted to it."""

    def __init__(self, n_inputs: int, size: int, held_out: float, seed: int) -> None:
        self.size = size
        self.share = held_out
        self.seed = seed
        self.seen = 0  # samples shown
        self.shown = [0, 0]  # of these, for fitting and held out
        self._empty(n_inputs)

    def _empty(self, n_inputs: int) -> None:
        self.X = np.zeros((0, n_inputs))
        self.y = np.zeros(0, np.int64)
        self.number = np.zeros(0, np.int64)  # of each sample in the stream
        self.spared = np.zeros(0, bool)

    def __len__(self) -> int:
        return len(self.X)

    @property
    def full(self) -> bool:
        """Has it all the samples it may hold?"""
        return len(self.X) >= self.size

    def add(self, X: NDArray, y: NDArray[np.int64], numbers: NDArray[np.int64]) -> None:
        """Take samples, by their numbers in the stream.

        Where there is no room, each replaces another with the chance it should.
        """
        keys = range(self.seen, self.seen + len(X))
        drawn = np.array([uniform(self.seed, RESERVOIR, 1, key) for key in keys])
        early = max(self.share, EARLY_SHARE) if self.share else 0.0
        spared = drawn < np.where(np.array(keys) < EARLY, early, self.share)
        new = min(self.size - len(self.X), len(X))
        self.X = np.concatenate([self.X, X[:new]])
        self.y = np.concatenate([self.y, y[:new]])
        self.number = np.concatenate([self.number, numbers[:new]])
        self.spared = np.concatenate([self.spared, spared[:new]])
        for i, key in enumerate(keys):
            kind = int(spared[i])
            self.shown[kind] += 1
            if i < new:
                continue
            # A held-out place takes held-out samples only: no sample is ever both. Within its
            # kind, each of all that were shown is equally likely to be here.
            places = np.flatnonzero(self.spared == spared[i])
            place = int(uniform(self.seed, RESERVOIR, 0, key) * self.shown[kind])
            if place < len(places):
                at = places[place]
                self.X[at], self.y[at], self.number[at] = X[i], y[i], numbers[i]
        self.seen += len(X)

    def label(self, numbers: NDArray[np.int64], y: NDArray[np.int64]) -> int:
        """Take labels that came late, for samples of these numbers; return how many are here."""
        if not len(numbers):
            return 0
        order = np.argsort(numbers, kind="stable")
        place = np.searchsorted(numbers, self.number, sorter=order)
        place = order[np.minimum(place, len(order) - 1)]
        here = numbers[place] == self.number
        self.y[here] = y[place[here]]
        return int(np.count_nonzero(here))

    @property
    def labelled(self) -> NDArray[np.bool_]:
        """Which samples have labels."""
        return self.y != UNLABELLED

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Which samples calibrate: none where there are few."""
        return self.spared & (len(self.X) > FEW)

    def clear(self) -> None:
        """Forget all samples."""
        self._empty(self.X.shape[1])
