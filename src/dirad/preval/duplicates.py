"""Models that know the same inputs: with other labels, or with the same ones, as duplicates."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dirad.preval.buffer import UNLABELLED, Buffer
from dirad.preval.calibration import ScoreSum
from dirad.preval.expert import Expert, Scores
from dirad.preval.judgement import Judgement, Model, judge
from dirad.preval.targets import class_codes

MAX_COMPARED, MIN_COMPARED = 1000, 30  # samples on which two models are compared
MIN_P_VALUE = 0.01  # of what both saw, below which two models do not know the same
MIN_RIVAL_SHARE = 0.5  # of a model's samples that another one claims, which then knows its inputs
MIN_RIVAL_Z = 4.0  # standard errors by which its share of wrong answers is higher
MIN_RIVAL_STD = 0.1  # of the difference of single answers


def is_same_inputs_other_labels(older: Model, buffer: Buffer, false_alarms: float) -> bool:
    """Does the older model know the inputs of a new model's samples, but not their labels?

    The classes must be mostly the same: others make another task, not another rule. A model that
    never had labels gives no answers, so that any labels are others.
    """
    X, y = buffer.X[:MAX_COMPARED], buffer.y[:MAX_COMPARED]
    codes = class_codes(y)
    labels = codes[codes != UNLABELLED]
    if len(X) < MIN_COMPARED or not len(labels):
        return False
    if older.classes and not has_most_labels(older, labels):
        return False
    verdict = judge(older, X, y).verdict
    return verdict.p_inputs >= false_alarms > verdict.p_labels


def has_most_labels(model: Model, labels: NDArray[np.int64]) -> bool:
    """Are most of these labels of classes that the model learned?"""
    return bool(np.mean(np.isin(labels, model.frequent_classes)) > 0.5)


def is_duplicate(older: Expert, young: Expert, buffer: Buffer) -> bool:
    """Does the older model know the task of a new one, whose samples are still in the buffer?"""
    held = buffer.held_out
    X, y = buffer.X[held][:MAX_COMPARED], buffer.y[held][:MAX_COMPARED]
    same_classes = set(older.classes) == set(young.classes)
    if len(X) < MIN_COMPARED or not same_classes or older.group == young.group:
        return False
    return judge(older, X, y).verdict.p >= MIN_P_VALUE


def rival_of(
    X: NDArray, y: NDArray[np.int64], own: Scores, others: Sequence[Model]
) -> Model | None:
    """Return another model that claims most samples of the one in use, and is wrong on them.

    The model in use knows these samples, and `own` are its scores. By scores alone the other model
    would answer, but the labels say that its rule is another one. Their classes must be mostly the
    same: models of other classes belong to other tasks, and each must go on answering its own.
    """
    known = y != UNLABELLED
    least, claimant = own.score, np.full(len(X), -1)
    labels = np.zeros((len(others), len(X)), np.int64)
    for i, other in enumerate(others):
        found = other.evaluate(X)
        claimant[found.score < least] = i
        least, labels[i] = np.minimum(least, found.score), found.label
    for i, other in enumerate(others):
        claimed = known & (claimant == i)
        n = np.count_nonzero(claimed)
        if n > MIN_RIVAL_SHARE * len(X) and has_most_labels(other, y[claimed]):
            gain = (labels[i] != y)[claimed] * 1.0 - (own.label != y)[claimed]
            error = max(float(gain.std()), MIN_RIVAL_STD) / np.sqrt(n)
            if float(gain.mean()) > MIN_RIVAL_Z * error:
                return other
    return None


@dataclass
class Agreement:
    """The normal scores of batches that two experts both knew, until they show duplicates."""

    pairs: dict[tuple[int, int], tuple[ScoreSum, ScoreSum]] = field(default_factory=dict)

    def add(self, judgements: Sequence[Judgement], enough: int) -> tuple[int, int] | None:
        """Add one batch; return a pair of duplicates, the older one first, or None.

        A batch that one of two knows and the other does not ends the comparison; so do many
        samples that seemed usual in each batch and together are not.
        """
        for i, a in enumerate(judgements):
            for b in judgements[i + 1 :]:
                pair = a.model.number, b.model.number
                same_classes = set(a.model.classes) == set(b.model.classes)
                alike = same_classes and a.model.group != b.model.group
                if not alike or a.verdict.validated != b.verdict.validated:
                    self.pairs.pop(pair, None)
                elif a.verdict.validated:
                    both = a.score_sum, b.score_sum
                    if pair in self.pairs:
                        before = self.pairs[pair]
                        both = before[0].plus(both[0]), before[1].plus(both[1])
                    self.pairs[pair] = both
                    if both[0].n >= enough:
                        del self.pairs[pair]
                        if is_usual(a, both[0]) and is_usual(b, both[1]):
                            return pair
        return None

    def forget(self, number: int) -> None:
        """Drop all comparisons with a model that is gone."""
        self.pairs = {pair: both for pair, both in self.pairs.items() if number not in pair}


def is_usual(judgement: Judgement, scores: ScoreSum) -> bool:
    """Are so many samples, together, usual for the model?"""
    return judgement.model.calibration.p_value(scores) >= MIN_P_VALUE
