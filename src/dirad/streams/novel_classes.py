"""Classes that nobody labelled, found among unlabelled samples of known and new ones.

A new class may lie within the range of known ones: none of its samples is unusual by itself, but
together they raise the density there. The samples of a stream are therefore modelled as draws from
a mixture: the density of the known classes, which stays as it is, and normal components for
what is new, fitted to the latest samples by expectation maximization.
"""

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

HELD_OUT = 5  # one of so many labelled samples is held out, to keep the promise
SAMPLES_PER_COMPONENT = 20  # of a known class, at least
MIN_VARIANCE = 1e-4  # of a component, in the units of the standardized inputs
FIRST_SPREAD = 0.1  # variance of new components at the start, as a share of that of all samples
FIRST_SHARE = 0.3  # of new samples at the start
STARTS, FIRST_ROUNDS, ROUNDS = 6, 30, 5  # of expectation maximization: at first, and per batch
TINY = 1e-12  # share of a component, below which it is taken for this


class NewComponents(NamedTuple):
    """The part of the mixture that is new."""

    known: float  # share of samples of known classes
    share: NDArray[np.float64]  # (components,) of all samples
    mean: NDArray[np.float64]  # (components, inputs)
    covariance: NDArray[np.float64]  # (components, inputs, inputs)

    def log_density(self, X: NDArray) -> NDArray[np.float64]:
        """Return ln(share · density) of each sample by all new components together."""
        return np.asarray(logsumexp(self.log_joint(X), axis=1))

    def log_joint(self, X: NDArray) -> NDArray[np.float64]:
        """Return ln(share · density) of each sample by each component."""
        return np.log(self.share + TINY) + normal_log_density(X, self.mean, self.covariance)


def normal_log_density(X: NDArray, mean: NDArray, covariance: NDArray) -> NDArray[np.float64]:
    """Return the logarithm of normal densities: (samples, components)."""
    root = np.linalg.cholesky(covariance)  # (components, inputs, inputs)
    offset = np.moveaxis(X[:, None] - mean, 0, -1)  # (components, inputs, samples)
    squares = np.square(np.linalg.solve(root, offset)).sum(axis=1)
    log_volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    constant = log_volume + 0.5 * X.shape[1] * np.log(2.0 * np.pi)
    return -0.5 * squares.T - constant


def first_components(X: NDArray, n: int, rng: np.random.Generator) -> NewComponents:
    """Return components around samples drawn at random."""
    spread = np.diag(FIRST_SPREAD * X.var(axis=0) + MIN_VARIANCE)
    mean = X[rng.choice(len(X), n, replace=len(X) < n)]
    share = np.full(n, FIRST_SHARE / n)
    return NewComponents(1.0 - FIRST_SHARE, share, mean, np.tile(spread, (n, 1, 1)))


def fitted(
    new: NewComponents, X: NDArray, known: NDArray[np.float64], rounds: int
) -> tuple[NewComponents, float]:
    """Return components after some rounds of expectation maximization, and the ln(likelihood).

    `known` is the logarithm of the density of the known classes at each sample.
    """
    total = 0.0
    for _ in range(rounds):
        joint = np.column_stack([np.log(new.known + TINY) + known, new.log_joint(X)])
        of_sample = np.asarray(logsumexp(joint, axis=1))
        total = float(np.sum(of_sample))
        weight = np.exp(joint - of_sample[:, None])  # (samples, 1 + components)
        size = weight.sum(axis=0) + TINY
        mean = weight[:, 1:].T @ X / size[1:, None]
        offset = X - mean[:, None]  # (components, samples, inputs)
        covariance = np.einsum("nk,kni,knj->kij", weight[:, 1:], offset, offset, optimize=True)
        covariance = covariance / size[1:, None, None] + MIN_VARIANCE * np.eye(X.shape[1])
        share = size / len(X)
        new = NewComponents(float(share[0]), share[1:], mean, covariance)
    return new, total


class NovelClassDetector(BaseEstimator):
    """Distinguish samples of new classes from those of known ones without labels.

    Parameters
    ----------
    false_new
        Share of the samples of known classes that may be called new.
    components
        Normal components of each known class.
    new_components
        Normal components of what is new.
    window
        Latest unlabelled samples to which the new components are fitted.
    random_state
        Seed of the first components.

    Notes
    -----
    New components may take over samples of known classes, so that the share of new samples is not
    estimated; held-out samples of the known classes keep the promise.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X, y = rng.normal(size=(400, 2)), np.arange(400) % 2
    >>> X[y == 1] += 6.0
    >>> detector = NovelClassDetector().fit(X, y)
    >>> new = np.array([3.0, 3.0]) + 0.3 * rng.normal(size=(100, 2))
    >>> float(detector.is_new(new).mean())  # nothing is new before it was seen
    0.0
    >>> bool(detector.partial_fit(np.concatenate([X[:100], new])).is_new(new).mean() > 0.9)
    True
    """

    def __init__(
        self,
        *,
        false_new: float = 0.05,
        components: int = 8,
        new_components: int = 6,
        window: int = 2000,
        random_state: int = 0,
    ) -> None:
        self.false_new = false_new
        self.components = components
        self.new_components = new_components
        self.window = window
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> "NovelClassDetector":
        """Learn the densities of the known classes from labelled samples."""
        if not 0.0 < self.false_new < 1.0:
            raise ValueError(f"false_new must be between 0 and 1, got {self.false_new!r}")
        X, y = check_X_y(X, y, dtype="float64", ensure_min_samples=2 * HELD_OUT)
        self.offset_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        self.scale_[self.scale_ == 0.0] = 1.0
        Z = (X - self.offset_) / self.scale_
        held = np.arange(len(Z)) % HELD_OUT == 0
        labels, counts = np.unique(y[~held], return_counts=True)
        self.densities_ = [self._density(Z[~held][y[~held] == one]) for one in labels]
        self.log_shares_ = np.log(counts / counts.sum())
        self.held_out_ = Z[held]
        self.n_features_in_, self.n_seen_ = X.shape[1], 0
        self.recent_ = np.zeros((0, X.shape[1]))
        self.new_: NewComponents | None = None
        return self

    def _density(self, Z: NDArray) -> GaussianMixture:
        n = max(min(self.components, len(Z) // SAMPLES_PER_COMPONENT), 1)
        if len(Z) == 1:
            Z = np.repeat(Z, 2, axis=0)  # a mixture needs two samples
        mixture = GaussianMixture(n, reg_covar=MIN_VARIANCE, random_state=self.random_state)
        return mixture.fit(Z)

    def _log_known(self, Z: NDArray) -> NDArray[np.float64]:
        """Return the logarithm of the density of all known classes together."""
        joint = np.column_stack([one.score_samples(Z) for one in self.densities_])
        return np.asarray(logsumexp(joint + self.log_shares_, axis=1))

    def partial_fit(self, X: Any) -> "NovelClassDetector":
        """Fit the new components to the latest samples, of which these are the last."""
        Z = self._standardized(X)
        self.n_seen_ += len(Z)
        self.recent_ = np.concatenate([self.recent_, Z])[-self.window :]
        known = self._log_known(self.recent_)
        # Twice as many samples show components that were not seen in fewer.
        if self.new_ is None or self.n_seen_ >= 2 * self.n_at_start_:
            self.n_at_start_ = self.n_seen_
            rng = np.random.default_rng([self.random_state, self.n_seen_])
            starts = [first_components(self.recent_, self.new_components, rng)
                      for _ in range(STARTS)]  # fmt: skip
            tries = [fitted(one, self.recent_, known, FIRST_ROUNDS) for one in starts]
            self.new_ = max(tries, key=lambda one: one[1])[0]
        self.new_ = fitted(self.new_, self.recent_, known, ROUNDS)[0]
        return self

    def evidence(self, X: Any) -> NDArray[np.float64]:
        """Return ln(probability that a sample is new / that it is known); −inf at first."""
        return self._evidence(self._standardized(X))

    def _evidence(self, Z: NDArray) -> NDArray[np.float64]:
        if self.new_ is None:
            return np.full(len(Z), -np.inf)
        return self.new_.log_density(Z) - self._log_known(Z) - np.log(self.new_.known + TINY)

    def is_new(self, X: Any) -> NDArray[np.bool_]:
        """Return which samples are more probably new than known, as far as the promise allows.

        A sample of a known class is called new with a probability of at most `false_new`: its
        evidence must exceed that of the ⌈(n + 1)·(1 − false_new)⌉-th of n held-out samples.
        """
        Z = self._standardized(X)
        if self.new_ is None:
            return np.zeros(len(Z), bool)
        known = np.sort(self._evidence(self.held_out_))
        place = ceil((len(known) + 1) * (1.0 - self.false_new))
        limit = known[place - 1] if place <= len(known) else np.inf
        return self._evidence(Z) > max(float(limit), 0.0)

    def _standardized(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self)
        X = check_array(X, dtype="float64")
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} inputs, fitted to {self.n_features_in_}")
        return (X - self.offset_) / self.scale_
