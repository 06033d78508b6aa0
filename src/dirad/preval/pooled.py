"""Evidence for classes by a covariance that all models share.

Where inputs are the features of a network, samples of all classes vary around their class's mean in
much the same way. A task alone shows little of how they vary, where inputs are many and correlated;
all tasks together show more. So every finished model adds the scatter of its samples around the
means of their classes to one matrix, which overwrites nothing. With the means, which a model keeps,
it gives each class a linear discriminant (Fisher, 1936), and the regression of its indicator by
least squares, which does not assume that classes vary alike. Both are added to what L1's errors
say.

How much each counts, and how much is added to the variances, is found on held-out samples: when a
model is finished, its own are shown to all models, and their losses (−ln of the posterior of the
right model and class) are added up for each of some candidates. Where samples of a class do not
vary alike, as handwritten digits do not, discriminants alone err more often than L1's errors alone:
then they are given up, and nothing is kept. Of few inputs (up to 200, as elsewhere) a task alone
shows enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax, softmax

from dirad.core.blas import one_blas_thread
from dirad.immutable import shared
from dirad.preval.answers import Evaluated
from dirad.preval.class_moments import ClassMoments
from dirad.preval.input_units import CommonInputUnits
from dirad.preval.settings import Settings
from dirad.preval.source_selection import FEW_INPUTS
from dirad.preval.targets import CLASSES

# Candidates: what is added to each variance, as a share of the mean variance, for as many samples
# as inputs (of more samples less, as covariances are more certain: so what is best of few tasks
# is best of many); the weight of discriminants and regression; the power of L1's errors; and the
# weight of a model's own answers.
RIDGES = (0.1, 0.3, 1.0, 3.0)
WEIGHTS = (0.0, *(2.0 ** (-power / 2) for power in range(10, -1, -1)))  # 1/32 to 1
EXPONENTS = (1.0, 2.0, 4.0, 8.0, 16.0)
ANSWERS = (0.25, 0.5, 1.0)
CANDIDATES = len(RIDGES), len(WEIGHTS), len(EXPONENTS), len(ANSWERS)
# Weight of the regression, whose values are near 1 and 0, beside discriminants, which are ln of
# likelihoods. Not a candidate: of few classes, as tests begin with, it helps less than of many.
REGRESSION = 80.0
LEAST_GAIN = 0.02  # share of the loss by which discriminants must lower it
ENOUGH_TESTED = 100  # held-out samples, before which they do not count
GIVE_UP = 1.0  # standard errors by which they err more often to be given up
MOST_TESTED = 500  # held-out samples of a model
MOST_INPUTS = 4096  # whose covariances are held
TINY = 1e-12  # no probability of a model is smaller


class Choice(NamedTuple):
    """How much counts what."""

    ridge: float
    weight: float  # of discriminants and regression
    exponent: float  # of L1's errors
    answers: float = 1.0  # the weight of what the models answer by themselves


@dataclass(frozen=True, eq=False)
class Pooled:
    """What finished models have added up."""

    scatter: NDArray[np.float64] | None  # (inputs, inputs); None: no model is finished
    losses: NDArray[
        np.float64
    ]  # (ridges, weights, exponents, answers) summed over held-out samples
    errors: NDArray[np.float64]  # (1 + ridges,) by L1 alone, and by discriminants alone
    n: float = 0.0  # samples, less the classes whose means they gave
    n_tested: int = 0  # held-out samples

    def __deepcopy__(self, memo: dict[Any, Any]) -> "Pooled":
        return shared(self, memo)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "choice"}

    @cached_property
    def choice(self) -> Choice | None:
        """The candidate with the lowest loss; None where discriminants do not help."""
        without = self.losses[:, WEIGHTS.index(0.0)].min()
        best = np.unravel_index(self.losses.argmin(), self.losses.shape)
        helps = self.losses[best] <= (1.0 - LEAST_GAIN) * without and self.excess <= 0
        if self.n_tested < ENOUGH_TESTED or not helps:
            return None
        tried = RIDGES, WEIGHTS, EXPONENTS, ANSWERS
        return Choice(*(values[place] for values, place in zip(tried, best, strict=True)))

    @property
    def excess(self) -> float:
        """How many more errors discriminants make alone than L1 does."""
        return float(self.errors[1:].min() - self.errors[0])

    @property
    def is_useless(self) -> bool:
        """Do discriminants alone err so often that they will not help?"""
        both = float(self.errors[1:].min() + self.errors[0])
        return self.excess > GIVE_UP * np.sqrt(both)

    @property
    def n_stored(self) -> int:
        """Numbers kept."""
        inputs = 0 if self.scatter is None else len(self.scatter)
        return inputs * (inputs + 1) // 2 + self.losses.size + self.errors.size + 2

    def plus(self, moments: ClassMoments) -> "Pooled":
        """Return the sum with the scatter of a model."""
        assert moments.scatter is not None
        scatter = moments.scatter if self.scatter is None else self.scatter + moments.scatter
        return replace(self, scatter=scatter, n=self.n + moments.n)

    def plus_test(self, other: "Tested") -> "Pooled":
        """Return the sum with the losses and errors on held-out samples of a model."""
        return replace(
            self,
            losses=self.losses + other.losses,
            errors=self.errors + other.errors,
            n_tested=self.n_tested + other.n,
        )


class Tested(NamedTuple):
    """What a test on held-out samples adds."""

    losses: NDArray[np.float64]  # of all CANDIDATES
    errors: NDArray[np.float64]  # (1 + ridges,)
    n: int  # samples


def new_pooled(n_inputs: int, settings: Settings) -> Pooled | None:
    """Return what is pooled before any model is finished; None where nothing will be."""
    wanted = settings.pooled and settings.targets == CLASSES and settings.score == "modes"
    if not wanted or not FEW_INPUTS < n_inputs <= MOST_INPUTS:
        return None
    return Pooled(None, np.zeros(CANDIDATES), np.zeros(1 + len(RIDGES)))


class Discriminants(NamedTuple):
    """The linear discriminants of the classes of some models."""

    moments: tuple[ClassMoments, ...]  # of these models
    choice: Choice
    units: CommonInputUnits
    slopes: NDArray[np.float64]  # (inputs, classes of all models)
    constants: NDArray[np.float64]  # (classes,)

    def of(self, X: NDArray) -> NDArray[np.float64]:
        """Return −ln of the evidence for each class, but for what all have in common."""
        return self.constants - self.units.symmetric(X) @ self.slopes

    def applied(self, evaluated: Sequence[Evaluated], X: NDArray) -> list[Evaluated]:
        """Return the scores of the same models with this evidence in them."""
        ends = np.cumsum([0, *(len(one.means) for one in self.moments)])
        linear = self.choice.weight * self.of(X)
        result = []
        for first, end, one in zip(ends[:-1], ends[1:], evaluated, strict=True):
            scores = one.scores
            found = linear[one.rows, first:end]
            found -= self.choice.answers * np.log(np.maximum(scores.outputs, TINY))
            # The model of the most probable class answers.
            score = self.choice.exponent * np.log(scores.score) + found.min(axis=1)
            label = np.array(one.model.classes)[found.argmin(axis=1)]
            changed = scores._replace(score=score, outputs=softmax(-found, axis=1), label=label)
            result.append(one._replace(scores=changed))
        return result


def linear_discriminants(
    pooled: Pooled,
    moments: Sequence[ClassMoments],
    units: CommonInputUnits,
    choice: Choice,
) -> Discriminants:
    """Return the discriminants of some models; the scatter of those in training is added."""
    for one in moments:
        if one.scatter is not None:
            pooled = pooled.plus(one)
    assert pooled.scatter is not None, "a model has moments only after it was fitted"
    means = np.concatenate([one.means for one in moments])
    covariance = pooled.scatter / max(pooled.n, 1.0)
    variance = float(np.trace(covariance)) / len(covariance)
    added = choice.ridge * variance * len(covariance) / max(pooled.n, 1.0)
    covariance[np.diag_indices_from(covariance)] += added or 1.0
    with one_blas_thread():
        slopes = cho_solve(cho_factor(covariance, lower=True, overwrite_a=True), means.T)
        constants = 0.5 * np.sum(means.T * slopes, axis=0)
        # Least squares, of as many samples of each class: the same, but for one small matrix.
        center = means.mean(axis=0)
        apart = slopes - slopes.mean(axis=1, keepdims=True)
        between = (means - center) @ apart
        regression = np.linalg.solve(between.T + len(means) * np.eye(len(means)), apart.T).T
        slopes += REGRESSION * regression
        constants += REGRESSION * (center @ regression)
    return Discriminants(tuple(moments), choice, units, slopes, constants)


def test_on_held_out(
    pooled: Pooled,
    moments: Sequence[ClassMoments],
    units: CommonInputUnits,
    evaluated: Sequence[Evaluated],
    X: NDArray,
    right: NDArray[np.int64],
) -> Tested:
    """Test all candidates on held-out samples, scored by the models of these moments.

    `right` is the column of each sample's model and class, among the classes of all models.
    """
    own = [np.log(np.maximum(one.scores.outputs, TINY)) for one in evaluated]
    errors = [np.log(one.scores.score)[:, None] for one in evaluated]
    answers = np.hstack(own)
    errors = np.hstack([np.tile(e, (1, o.shape[1])) for e, o in zip(errors, own, strict=True)])
    rows = np.arange(len(X))
    best = np.where(errors == errors.min(axis=1, keepdims=True), answers, -np.inf).argmax(axis=1)
    wrong = [np.count_nonzero(best != right)]
    losses = np.empty_like(pooled.losses)
    for i, ridge in enumerate(RIDGES):
        with one_blas_thread():
            linear = linear_discriminants(pooled, moments, units, Choice(ridge, 1.0, 1.0)).of(X)
        wrong.append(np.count_nonzero(linear.argmin(axis=1) != right))
        for j, weight in enumerate(WEIGHTS):
            for k, exponent in enumerate(EXPONENTS):
                evidence = -weight * linear - exponent * errors
                for m, own_weight in enumerate(ANSWERS):
                    logs = log_softmax(evidence + own_weight * answers, axis=1)
                    losses[i, j, k, m] = -logs[rows, right].sum()
    return Tested(losses, np.array(wrong, float), len(X))
