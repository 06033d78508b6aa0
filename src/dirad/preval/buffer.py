"""The samples of the current task: a bounded random sample of all that were shown."""

import numpy as np
from numpy.typing import NDArray

from dirad.core.random import uniform
from dirad.preval.stretches import EARLY_HOLD_OUT_SHARE, EARLY_SAMPLES, in_stretch
from dirad.preval.targets import CLASSES, UNLABELLED, is_labelled, missing_targets

RESERVOIR_KEY = 102  # purpose of the random keys
MIN_SAMPLES_TO_HOLD_OUT = 50  # up to so many samples, all are needed for fitting

__all__ = ["UNLABELLED", "Buffer"]


class Buffer:
    """At most `size` samples, some of which are held out: nothing is ever fitted to them."""

    weight: NDArray[np.float64] | None = None  # (samples,) in training L0; None: all 1

    def __init__(
        self,
        n_inputs: int,
        size: int,
        held_out: float,
        seed: int,
        targets: str = CLASSES,
        stretch: float = 0.0,
    ) -> None:
        self.size = size
        self.share = held_out
        self.seed = seed
        self.stretch = stretch  # longest stretch of samples that is held out; 0: single samples
        self.seen = 0  # samples shown
        self.shown = [0, 0]  # of these, for fitting and held out
        self.X = np.zeros((0, n_inputs))
        self.y = missing_targets(0, targets)
        self.number = np.zeros(0, np.int64)  # of each sample in the stream
        self.drawn_out = np.zeros(0, bool)  # drawn to be held out

    def __len__(self) -> int:
        return len(self.X)

    @property
    def full(self) -> bool:
        """Does it hold as many samples as it may?"""
        return len(self.X) >= self.size

    def add(
        self,
        X: NDArray,
        y: NDArray,
        numbers: NDArray[np.int64],
        weight: NDArray[np.float64] | None = None,
    ) -> None:
        """Add samples, with their numbers in the stream. When full: reservoir sampling."""
        keys = range(self.seen, self.seen + len(X))
        out = self._drawn_out(keys)
        new = min(self.size - len(self.X), len(X))
        if self.weight is not None or weight is not None:
            weight = np.ones(len(X)) if weight is None else weight
            before = np.ones(len(self.X)) if self.weight is None else self.weight
            self.weight = np.concatenate([before, weight[:new]])
        self.X = np.concatenate([self.X, X[:new]])
        self.y = np.concatenate([self.y, y[:new]])
        self.number = np.concatenate([self.number, numbers[:new]])
        self.drawn_out = np.concatenate([self.drawn_out, out[:new]])
        for i, key in enumerate(keys):
            kind = int(out[i])
            self.shown[kind] += 1
            if i < new:
                continue
            # A held-out sample only replaces a held-out sample: none is ever both. Within its
            # kind, each of all that were shown is equally likely to be here.
            places = np.flatnonzero(self.drawn_out == out[i])
            place = int(uniform(self.seed, RESERVOIR_KEY, 0, key) * self.shown[kind])
            if place < len(places):
                at = places[place]
                self.X[at], self.y[at], self.number[at] = X[i], y[i], numbers[i]
                if self.weight is not None and weight is not None:
                    self.weight[at] = weight[i]
        self.seen += len(X)

    def _drawn_out(self, keys: range) -> NDArray[np.bool_]:
        """Draw samples, counted from 0 as they are shown, to be held out."""
        if self.stretch:
            return np.array([in_stretch(i, self.seed, self.share, self.stretch) for i in keys])
        drawn = np.array([uniform(self.seed, RESERVOIR_KEY, 1, key) for key in keys])
        early = max(self.share, EARLY_HOLD_OUT_SHARE) if self.share else 0.0
        return drawn < np.where(np.array(keys) < EARLY_SAMPLES, early, self.share)

    def hold_out_stretches(self, length: float) -> bool:
        """Hold out stretches from now on, and draw again which of the samples here are held out.

        False if that was done before, if nothing is held out, or if some samples are gone already.
        """
        if self.stretch or not self.held_out.any() or self.seen > len(self.X):
            return False
        self.stretch = length
        self.drawn_out = self._drawn_out(range(self.seen))
        n_out = int(np.count_nonzero(self.drawn_out))
        self.shown = [self.seen - n_out, n_out]
        return True

    def label(self, numbers: NDArray[np.int64], y: NDArray) -> int:
        """Set labels that came late, by number of the sample; return how many samples are here."""
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
        return is_labelled(self.y)

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """Which samples are held out for calibration: none where there are few."""
        return self.drawn_out & (len(self.X) > MIN_SAMPLES_TO_HOLD_OUT)

    @property
    def calibration_mask(self) -> NDArray[np.bool_]:
        """The held-out samples, or all where none is held out."""
        held = self.held_out
        return held if held.any() else ~held
