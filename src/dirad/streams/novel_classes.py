"""Classes that nobody labelled, found among unlabelled samples of known and new ones.

A new class may lie within the range of known ones: none of its samples is unusual by itself, but
together they raise the density there. The samples of a stream are therefore modelled as draws from
a mixture: the density of the known classes, which stays as it is, and components for what is new,
fitted to the latest samples by expectation maximization.

A component has elliptical contours and a profile of its own: it is itself a mixture of normal
densities, with one mean and one covariance at several scales. So it may have a sharp peak, heavy
tails or both; few samples of a new class suffice where they crowd around a peak.
"""

from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y

HELD_OUT = 5  # one of so many labelled samples is held out, to keep the promise
SAMPLES_PER_COMPONENT = 20  # of a known class, at least
MIN_VARIANCE = 1e-4  # of a component, in the units of the standardized inputs
FIRST_SPREAD = 0.1  # variance of components at the start, as a share of that of all samples
FIRST_SHARE = 0.3  # of new samples at the start
SCALES = np.array([1.0, 1 / 8, 1 / 64])  # of the covariance of a component
STARTS, FIRST_ROUNDS, ROUNDS = 6, 30, 5  # of expectation maximization: at first, and per batch
KNOWN_STARTS, KNOWN_ROUNDS = 3, 60  # for the known classes
TINY = 1e-12  # share of a component, below which it is taken for this


class Components(NamedTuple):
    """Components of a mixture, each with the same shares of the scales."""

    share: NDArray[np.float64]  # (components,) of all samples
    scale_share: NDArray[np.float64]  # (scales,)
    mean: NDArray[np.float64]  # (components, inputs)
    covariance: NDArray[np.float64]  # (components, inputs, inputs)

    def log_density(self, X: NDArray) -> NDArray[np.float64]:
        """Return ln(share · density) of each sample by all components together."""
        return np.asarray(logsumexp(self.log_joint(X), axis=(1, 2)))

    def log_joint(self, X: NDArray) -> NDArray[np.float64]:
        """Return ln(share · density) of each sample: (samples, components, scales)."""
        shares = np.log(self.share + TINY)[:, None] + np.log(self.scale_share + TINY)
        return shares + normal_log_densities(X, self.mean, self.covariance)


class Mixture(NamedTuple):
    """Known samples, whose density stays as it is, and components."""

    known: float  # share of known samples
    components: Components


def normal_log_densities(X: NDArray, mean: NDArray, covariance: NDArray) -> NDArray[np.float64]:
    """Return the logarithm of normal densities: (samples, components, scales)."""
    root = np.linalg.cholesky(covariance)  # (components, inputs, inputs)
    offset = np.moveaxis(X[:, None] - mean, 0, -1)  # (components, inputs, samples)
    squares = np.square(np.linalg.solve(root, offset)).sum(axis=1).T
    log_volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    constant = log_volume[:, None] + 0.5 * X.shape[1] * np.log(2.0 * np.pi * SCALES)
    return -0.5 * squares[:, :, None] / SCALES - constant


def first_mixture(X: NDArray, n: int, share: float, rng: np.random.Generator) -> Mixture:
    """Return a mixture whose components are around samples drawn at random."""
    spread = np.diag(FIRST_SPREAD * X.var(axis=0) + MIN_VARIANCE)
    mean = X[rng.choice(len(X), n, replace=len(X) < n)]
    scales = np.full(len(SCALES), 1.0 / len(SCALES))
    components = Components(np.full(n, share / n), scales, mean, np.tile(spread, (n, 1, 1)))
    return Mixture(1.0 - share, components)


def fitted(
    mixture: Mixture, X: NDArray, known: NDArray[np.float64], rounds: int
) -> tuple[Mixture, float]:
    """Return a mixture after some rounds of expectation maximization, and the ln(likelihood).

    `known` is the logarithm of the density of the known samples at each sample.
    """
    total, floor = 0.0, MIN_VARIANCE * np.eye(X.shape[1])
    for _ in range(rounds):
        joint = mixture.components.log_joint(X)
        of_known = np.log(mixture.known + TINY) + known
        of_sample = np.logaddexp(of_known, np.asarray(logsumexp(joint, axis=(1, 2))))
        total = float(np.sum(of_sample))
        weight = np.exp(joint - of_sample[:, None, None])  # (samples, components, scales)
        size = weight.sum(axis=(0, 2)) + TINY
        scale_size = weight.sum(axis=(0, 1)) + TINY
        precise = (weight / SCALES).sum(axis=2)  # samples of a small scale tell more of the mean
        mean = precise.T @ X / (precise.sum(axis=0) + TINY)[:, None]
        offset = X - mean[:, None]  # (components, samples, inputs)
        covariance = np.einsum("nk,kni,knj->kij", precise, offset, offset, optimize=True)
        covariance = covariance / size[:, None, None] + floor
        shares = size / len(X), scale_size / scale_size.sum()
        known_share = float(np.exp(of_known - of_sample).mean())
        mixture = Mixture(known_share, Components(*shares, mean, covariance))
    return mixture, total


def best_fitted(
    X: NDArray,
    known: NDArray[np.float64],
    start: tuple[int, float],
    tries: tuple[int, int],
    rng: np.random.Generator,
) -> Mixture:
    """Return the likeliest of several mixtures: `start` has the components and their share.

    `tries` are how many, and the rounds of each.
    """
    n, rounds = tries
    made = [fitted(first_mixture(X, *start, rng), X, known, rounds) for _ in range(n)]
    return max(made, key=lambda one: one[1])[0]


class NovelClassDetector(BaseEstimator):
    """Distinguish samples of new classes from those of known ones without labels.

    Parameters
    ----------
    false_new
        Share of the samples of known classes that may be called new.
    components
        Components of each known class.
    new_components
        Components of what is new.
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
        rng = np.random.default_rng([self.random_state, 0])
        self.densities_ = [self._density(Z[~held][y[~held] == one], rng) for one in labels]
        self.log_shares_ = np.log(counts / counts.sum())
        self.held_out_ = Z[held]
        self.n_features_in_, self.n_seen_ = X.shape[1], 0
        self.recent_ = np.zeros((0, X.shape[1]))
        self.new_: Mixture | None = None
        return self

    def _density(self, Z: NDArray, rng: np.random.Generator) -> Components:
        n = max(min(self.components, len(Z) // SAMPLES_PER_COMPONENT), 1)
        nothing_known = np.full(len(Z), -np.inf)
        tries = KNOWN_STARTS, KNOWN_ROUNDS
        return best_fitted(Z, nothing_known, (n, 1.0), tries, rng).components

    def _log_known(self, Z: NDArray) -> NDArray[np.float64]:
        """Return the logarithm of the density of all known classes together."""
        joint = np.column_stack([one.log_density(Z) for one in self.densities_])
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
            start = self.new_components, FIRST_SHARE
            self.new_ = best_fitted(self.recent_, known, start, (STARTS, FIRST_ROUNDS), rng)
        self.new_ = fitted(self.new_, self.recent_, known, ROUNDS)[0]
        return self

    def evidence(self, X: Any) -> NDArray[np.float64]:
        """Return ln(probability that a sample is new / that it is known); −inf at first."""
        return self._evidence(self._standardized(X))

    def _evidence(self, Z: NDArray) -> NDArray[np.float64]:
        if self.new_ is None:
            return np.full(len(Z), -np.inf)
        known = np.log(self.new_.known + TINY) + self._log_known(Z)
        return self.new_.components.log_density(Z) - known

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
