"""Models that have the same inputs: rivals, which answer differently, and doubles, which do not."""

import numpy as np

from dirad.preval.buffer import UNLABELLED
from dirad.preval.buffer_model import BufferModel, Look
from dirad.preval.calibration import Tally, two_sided

MANY = 1000  # samples on which two models are compared at most
ENOUGH = 30  # and at least
DOUBTFUL = 0.01  # chance of what both saw, below which two models do not know the same

Judged = tuple[BufferModel, Look, bool]  # a model, what it saw in a batch, and whether it knew it


def are_rivals(older: BufferModel, young: BufferModel) -> bool:
    """Does the older model know the young one's inputs, but not its labels?

    The classes must be mostly the same: others make another task, not another rule. A model that
    never had labels has no answers at all, and so any are others.
    """
    X, y = young.buffer.X[:MANY], young.buffer.y[:MANY]
    labels = y[y != UNLABELLED]
    if len(X) < ENOUGH or not len(labels):
        return False
    if older.classes and np.mean(np.isin(labels, older.own_classes)) <= 0.5:
        return False
    verdict = older.judge(X, y)
    least = young.settings.false_alarms
    return verdict.p_inputs >= least and verdict.p_labels < least


def are_doubles(older: BufferModel, young: BufferModel) -> bool:
    """Does the older model know the task of one that has just become stable, samples at hand?"""
    held = young.buffer.held_out
    X, y = young.buffer.X[held][:MANY], young.buffer.y[held][:MANY]
    if len(X) < ENOUGH or set(older.classes) != set(young.classes) or older.group == young.group:
        return False
    return older.judge(X, y).p >= DOUBTFUL


class Together:
    """What pairs of stable models both knew, added up until it shows that they know the same."""

    def __init__(self) -> None:
        self.pairs: dict[tuple[int, int], tuple[Tally, Tally]] = {}

    def note(self, judged: list[Judged], enough: int) -> tuple[int, int] | None:
        """Take one more batch; return a pair that knows the same, the older one first, or None.

        A batch that one of two knows and the other does not makes them strangers again; so do
        many samples that each seemed usual and together are not.
        """
        for i, (a, seen_a, knew_a) in enumerate(judged):
            for b, seen_b, knew_b in judged[i + 1 :]:
                pair = a.number, b.number
                alike = set(a.classes) == set(b.classes) and a.group != b.group
                if not alike or knew_a != knew_b:
                    self.pairs.pop(pair, None)
                elif knew_a:
                    both = a.tally(seen_a), b.tally(seen_b)
                    if pair in self.pairs:
                        before = self.pairs[pair]
                        both = before[0].with_more(both[0]), before[1].with_more(both[1])
                    self.pairs[pair] = both
                    if both[0].n >= enough:
                        del self.pairs[pair]
                        if self._usual(a, both[0]) and self._usual(b, both[1]):
                            return pair
        return None

    @staticmethod
    def _usual(model: BufferModel, seen: Tally) -> bool:
        assert model.usual is not None
        return two_sided(model.usual.z(seen)) >= DOUBTFUL

    def forget(self, number: int) -> None:
        """A model is gone."""
        self.pairs = {pair: both for pair, both in self.pairs.items() if number not in pair}
