"""Memories of a bounded number of samples: which ones are kept of a stream."""

import numpy as np
from numpy.typing import NDArray


class Reservoir:
    """A uniform sample of all that came (Vitter, 1985)."""

    def __init__(self, size: int, n_inputs: int, rng: np.random.Generator) -> None:
        self.X = np.zeros((size, n_inputs), np.float32)
        self.y = np.zeros(size, np.int64)
        self.seen = 0
        self.rng = rng

    def __len__(self) -> int:
        return min(self.seen, len(self.y))

    def add(self, X: NDArray, y: NDArray) -> None:
        """Offer samples: the n-th takes a random one of n places, if the memory has that place."""
        number = np.arange(self.seen, self.seen + len(y))
        free = number < len(self.y)
        place = np.where(free, number, self.rng.integers(number + 1))
        kept = place < len(self.y)
        self.X[place[kept]], self.y[place[kept]] = X[kept], y[kept]  # of equal places the last wins
        self.seen += len(y)

    def draw(self, n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Return `n` different samples, or all where there are fewer."""
        rows = self.rng.choice(len(self), min(n, len(self)), replace=False)
        return self.X[rows], self.y[rows]


class Balanced:
    """Equally many samples of every class seen, taken greedily (Prabhu et al., 2020)."""

    def __init__(self, size: int, n_inputs: int, n_classes: int, rng: np.random.Generator) -> None:
        self.X = np.zeros((size, n_inputs), np.float32)
        self.y = np.zeros(size, np.int64)
        self.counts = np.zeros(n_classes, np.int64)  # samples kept of each class
        self.rng = rng

    def __len__(self) -> int:
        return int(self.counts.sum())

    def add(self, X: NDArray, y: NDArray) -> bool:
        """Offer samples; say whether any was kept."""
        changed = False
        for x, label in zip(X, y.tolist(), strict=True):
            known = np.count_nonzero(self.counts) + (self.counts[label] == 0)
            if self.counts[label] >= len(self.y) / known:
                continue
            place = len(self)
            if place == len(self.y):  # full: the largest class gives one up
                place = self.rng.choice(np.flatnonzero(self.y == self.counts.argmax()))
                self.counts[self.y[place]] -= 1
            self.X[place], self.y[place] = x, label
            self.counts[label] += 1
            changed = True
        return changed
