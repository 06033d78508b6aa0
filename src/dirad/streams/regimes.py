"""Regimes of a stream that recur, found without labels.

A regime lasts for some time, then another begins, and after a while the first may come back. What
varies within a visit to a regime is often small beside what varies from one visit to the next: a
person sits still, but never twice alike. So visits, not samples, are the units of a regime. The
stream is cut where its mean changes; segments are clustered, each counted once, into as many
normal distributions as their evidence asks for; and a hidden Markov model of these regimes, whose
state most probably stays as it is, assigns each sample as it comes.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.optimize import linear_sum_assignment
from scipy.special import gammaln, multigammaln  # type: ignore[attr-defined]
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

LATEST = 100  # samples among which a change is looked for
FIRST = 20  # samples before the first change is looked for: fewer do not tell variances
SETTLED = 5  # samples of the current segment, before it is clustered with the others
SHORTEST = 2  # samples of a segment that is clustered: a single one may be an outlier
SPREAD = 0.01  # expected covariance of a regime's segments, as a share of that of all samples,
NOISE = 3.0  # and beside it so many times the covariance due to the shortness of segments
EXTRA = 2.0  # segments for which these expectations count
MEAN_WEIGHT = 0.01  # segments for which the overall mean counts as the expected mean of a regime
SHRINKAGE = 10.0  # samples per input for which the covariance within all regimes counts in each
MIN_VARIANCE = 1e-3  # of a regime, as a share of that of all samples
TINY = 1e-6  # the same of differences within segments, whose matrix is inverted
COARSE = 2  # so many times as many groups as regimes are compared by their evidence
GROWTH = 0.1  # share of new segments after which they are clustered again


class Moments(NamedTuple):
    """Number, mean and scatter of samples, or of many groups of them along the first axis."""

    n: NDArray[np.float64]  # (...)
    mean: NDArray[np.float64]  # (..., inputs)
    scatter: NDArray[np.float64]  # (..., inputs, inputs), sums of products of deviations

    def plus(self, other: "Moments") -> "Moments":
        """Return the moments of both together."""
        n = self.n + other.n
        share = other.n / np.maximum(n, 1.0)
        offset = other.mean - self.mean
        between = (self.n * share)[..., None, None] * offset[..., :, None] * offset[..., None, :]
        mean = self.mean + share[..., None] * offset
        return Moments(n, mean, self.scatter + other.scatter + between)

    def at(self, index: Any) -> "Moments":
        """Return the moments of some of the groups."""
        return Moments(self.n[index], self.mean[index], self.scatter[index])

    def grouped(self, group: NDArray[np.int64], n: int) -> "Moments":
        """Return the moments of `n` groups, where `group` says to which each of these belongs."""
        member = np.zeros((n, len(group)))
        member[group, np.arange(len(group))] = 1.0
        size = member @ self.n
        mean = member @ (self.n[:, None] * self.mean) / np.maximum(size, 1.0)[:, None]
        offset = self.mean - mean[group]
        total = self.scatter + self.n[:, None, None] * offset[:, :, None] * offset[:, None, :]
        return Moments(size, mean, np.einsum("gk,kij->gij", member, total, optimize=True))


def moments(X: NDArray) -> Moments:
    """Return the moments of samples."""
    mean = X.mean(axis=0) if len(X) else np.zeros(X.shape[1])
    return Moments(np.array(float(len(X))), mean, (X - mean).T @ (X - mean))


def stacked(parts: list[Moments]) -> Moments:
    """Return the moments of several groups as one record."""
    return Moments(*(np.stack(some) for some in zip(*parts, strict=True)))


def log_evidence(groups: Moments, mean: NDArray, scale: NDArray) -> NDArray[np.float64]:
    """Return ln(probability density) of the members of each group, if they are normal.

    Mean and covariance are integrated out, over a normal-inverse-Wishart distribution around `mean`
    and `scale` (Murphy, 2007, "Conjugate Bayesian analysis of the Gaussian distribution", 9).
    """
    d, n = scale.shape[0], groups.n
    before, weight = d + 1.0 + EXTRA, MEAN_WEIGHT + n
    offset = groups.mean - mean
    pull = (MEAN_WEIGHT * n / weight)[:, None, None] * offset[:, :, None] * offset[:, None, :]
    after = np.linalg.slogdet(EXTRA * scale + groups.scatter + pull)[1]
    return (
        -0.5 * n * d * np.log(np.pi)
        + multigammaln(0.5 * (before + n), d)
        - multigammaln(0.5 * before, d)
        + 0.5 * before * np.linalg.slogdet(EXTRA * scale)[1]
        - 0.5 * (before + n) * after
        + 0.5 * d * np.log(MEAN_WEIGHT / weight)
    )


def merged(groups: Moments, mean: NDArray, scale: NDArray, most: int) -> NDArray[np.int64]:
    """Return the cluster of each group: two are merged while this makes the segments more probable.

    Clusters have the probabilities of a Dirichlet process of concentration 1. More than `most` are
    merged in any case.
    """
    cluster = np.arange(len(groups.n))
    evidence = log_evidence(groups, mean, scale)
    gain = np.full((len(cluster), len(cluster)), -np.inf)  # [i, j], i < j, of merging i and j

    def gains(one: int, others: NDArray[np.int64]) -> NDArray[np.float64]:
        both = groups.at(others).plus(groups.at(np.full(len(others), one)))
        chance = gammaln(both.n) - gammaln(groups.n[one]) - gammaln(groups.n[others])
        return log_evidence(both, mean, scale) - evidence[one] - evidence[others] + chance

    for one in range(len(cluster) - 1):
        gain[one, one + 1 :] = gains(one, np.arange(one + 1, len(cluster)))
    for left in range(len(cluster), 1, -1):
        i, j = np.unravel_index(int(np.argmax(gain)), gain.shape)
        if gain[i, j] <= 0.0 and left <= most:
            break
        for part, new in zip(groups, groups.at(i).plus(groups.at(j)), strict=True):
            part[i] = new
        evidence[i] = log_evidence(groups.at([i]), mean, scale)[0]
        cluster[cluster == j] = i
        gain[j], gain[:, j] = -np.inf, -np.inf
        rest = np.unique(cluster)
        rest = rest[rest != i]
        found = gains(int(i), rest)
        gain[rest[rest < i], i], gain[i, rest[rest > i]] = found[rest < i], found[rest > i]
    return np.unique(cluster, return_inverse=True)[1]


class Densities(NamedTuple):
    """What the samples of each regime look like: normal densities."""

    share: NDArray[np.float64]  # (regimes,) of all samples
    mean: NDArray[np.float64]  # (regimes, inputs)
    whitener: NDArray[np.float64]  # (regimes, inputs, inputs), inverse of the covariance's root
    log_volume: NDArray[np.float64]  # (regimes,) of this root: the logarithm of its determinant

    def log_density(self, X: NDArray) -> NDArray[np.float64]:
        """Return the logarithm of each density but for a common constant: (samples, regimes)."""
        offset = X[:, None] - self.mean
        z = np.einsum("kij,nkj->nki", self.whitener, offset, optimize=True)
        return -0.5 * np.square(z).sum(axis=2) - self.log_volume


def densities(regimes: Moments, variances: NDArray) -> Densities:
    """Return normal densities with covariances shrunk to that within all regimes."""
    weight = SHRINKAGE * len(variances)
    within = regimes.scatter.sum(axis=0) / regimes.n.sum()
    covariance = (regimes.scatter + weight * within) / (regimes.n + weight)[:, None, None]
    root = np.linalg.cholesky(covariance + MIN_VARIANCE * np.diag(variances))
    log_volume = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    share = regimes.n / regimes.n.sum()
    return Densities(share, regimes.mean, np.linalg.inv(root), log_volume)


class RegimeTracker(BaseEstimator):
    """Follow a stream without labels, and recognize regimes that recur.

    Parameters
    ----------
    max_regimes
        No more regimes than this are distinguished at a time.
    memory
        Latest segments that are kept one by one and clustered again; of older ones, each regime
        keeps their moments. A segment takes 8 · inputs² bytes.

    Attributes
    ----------
    labels_
        Regimes of the samples that were learned last, each assigned when the sample came.
    regimes_
        Numbers of the present regimes. A number is not used again.
    n_opened_, n_segments_
        Regimes that were ever opened, and segments so far.

    Notes
    -----
    Regimes may be merged or split when more segments have been seen, so that `labels_` and what
    `predict` says later about the same samples may differ. Nothing is drawn at random. There is no
    promise about the number of regimes: heavy tails, strong autocorrelation and few segments give
    some too many.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2)) + np.repeat(np.tile([0.0, 8.0], 6), 50)[:, None]
    >>> tracker = RegimeTracker().partial_fit(X)
    >>> tracker.predict(X)[[25, 75, 125, 175]]
    array([0, 2, 0, 2])
    """

    regimes_: NDArray[np.int64]
    labels_: NDArray[np.int64]

    def __init__(self, *, max_regimes: int = 20, memory: int = 1000) -> None:
        self.max_regimes = max_regimes
        self.memory = memory

    def fit(self, X: Any, y: Any = None) -> "RegimeTracker":
        """Forget everything, then follow these samples."""
        X = check_array(X, dtype="float64")
        self._begin(X.shape[1])
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> "RegimeTracker":
        """Assign each sample to a regime as it comes (`labels_`), and learn it."""
        X = check_array(X, dtype="float64")
        if not hasattr(self, "regimes_"):
            self._begin(X.shape[1])
        self._check_width(X)
        self.labels_ = np.array([self._follow(x) for x in X], np.int64)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the regimes of samples in time order: the most probable course of all of them."""
        check_is_fitted(self, "regimes_")
        X = check_array(X, dtype="float64")
        self._check_width(X)
        if self._densities is None:
            return np.full(len(X), self.regimes_[0])
        log_density, log_share = self._densities.log_density(X), np.log(self._densities.share)
        stay, leave = np.log(1.0 - self._chance_to_leave()), np.log(self._chance_to_leave())
        came = np.zeros(log_density.shape, np.int64)  # from which regime, by that of the sample
        best = log_share + log_density[0]
        for t in range(1, len(X)):
            likeliest = int(np.argmax(best))
            moved = best[likeliest] + leave + log_share
            came[t] = np.where(moved > best + stay, likeliest, np.arange(len(best)))
            best = np.maximum(best + stay, moved) + log_density[t]
        path = np.full(len(X), int(np.argmax(best)))
        for t in range(len(X) - 1, 0, -1):
            path[t - 1] = came[t, path[t]]
        return self.regimes_[path]

    def _check_width(self, X: NDArray) -> None:
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} inputs, fitted to {self.n_features_in_}")

    def _begin(self, d: int) -> None:
        for name in ("max_regimes", "memory"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)!r}")
        self.n_features_in_, self.n_segments_, self.n_opened_ = d, 0, 1
        self.regimes_ = np.zeros(1, np.int64)
        nothing = moments(np.zeros((0, d)))
        self._all = nothing  # moments of all samples
        self._jumps = np.zeros((d, d))  # sum of products of differences of successive samples
        self._last: NDArray | None = None
        self._whitener = np.eye(d)
        # The current segment: its latest samples one by one, and those before them.
        self._before, self._latest = nothing, np.zeros((0, d))
        self._segments: list[Moments] = []
        self._places: list[int] = []  # of the segments, in regimes_; -1: not yet clustered
        # Of each regime: its segments that are no longer kept, and the samples in these.
        self._old_segments, self._old_samples = stacked([nothing]), stacked([nothing])
        self._densities: Densities | None = None
        self._belief = np.ones(1)  # probability of each regime now
        self._due = 0  # number of segments with which they are clustered again

    def _follow(self, x: NDArray) -> int:
        """Learn a sample, and return its regime."""
        self._all = self._all.plus(moments(x[None]))
        n = int(self._all.n)
        if self._last is not None:
            self._jumps += np.outer(x - self._last, x - self._last)
        self._last = x
        if n <= 2 * LATEST or n % LATEST == 0:
            self._whiten()
        self._latest = np.concatenate([self._latest, x[None]])
        if len(self._latest) > LATEST:
            self._before = self._before.plus(moments(self._latest[:1]))
            self._latest = self._latest[1:]
        cut = self._change()
        if cut is not None:
            self._close(cut)
        length = self._before.n + len(self._latest)
        # A change is waited out; at the next one more segments are due, and nothing waits longer.
        settled = length == SETTLED or (cut is not None and length > SETTLED)
        late = cut is not None and self.n_segments_ > self._due
        if self._segments and self.n_segments_ >= self._due and (settled or late):
            self._cluster()
            self._due = self.n_segments_ + max(1, int(GROWTH * len(self._segments)))
        self._belief = self._next_belief(x)
        return int(self.regimes_[np.argmax(self._belief)])

    # --- segments -------------------------------------------------------------------------------

    def _variances(self) -> NDArray[np.float64]:
        variances = np.diagonal(self._all.scatter) / self._all.n
        return np.where(variances > 0.0, variances, 1.0)

    def _within(self) -> NDArray[np.float64]:
        """Return the covariance within segments, by differences of successive samples."""
        return self._jumps / (2.0 * max(float(self._all.n) - 1.0, 1.0))

    def _whiten(self) -> None:
        n, d, within = float(self._all.n), self.n_features_in_, self._within()
        # Of few samples, only the variances are known.
        within = (n * within + d * np.diag(np.diagonal(within))) / (n + d)
        within += TINY * np.diag(self._variances())
        self._whitener = np.linalg.cholesky(np.linalg.inv(within))

    def _change(self) -> int | None:
        """Return with which of the latest samples a new segment began, if any.

        Two means instead of one must pay for the numbers that they add, as by Schwarz's criterion.
        """
        before, latest = self._before, self._latest
        n = float(before.n) + len(latest)
        if self._all.n <= FIRST or n < 2.0:
            return None
        origin = latest.mean(axis=0)
        parts = np.concatenate([before.n * (before.mean - origin)[None], latest - origin])
        sums = np.cumsum(parts @ self._whitener, axis=0)
        first = 0 if before.n else 1  # the left side must not be empty
        left = (float(before.n) + np.arange(len(latest)))[first:]
        left_sums, total = sums[first:-1], sums[-1]
        apart = left_sums / left[:, None] - (total - left_sums) / (n - left)[:, None]
        gain = left * (n - left) / n * np.square(apart).sum(axis=1)
        best = int(np.argmax(gain))
        if gain[best] <= (self.n_features_in_ + 1) * np.log(self._all.n):
            return None
        return best + first

    def _close(self, cut: int) -> None:
        """End the current segment before one of the latest samples."""
        segment = self._before.plus(moments(self._latest[:cut]))
        self._before, self._latest = moments(self._latest[:0]), self._latest[cut:]
        self.n_segments_ += 1
        if segment.n >= SHORTEST:
            self._segments.append(segment)
            self._places.append(-1)

    # --- regimes --------------------------------------------------------------------------------

    def _cluster(self) -> None:
        """Cluster all segments into regimes, and fit their densities."""
        current = self._before.plus(moments(self._latest))
        settled = float(current.n) >= SETTLED
        segments = stacked([*self._segments, current] if settled else self._segments)
        old = np.flatnonzero(self._old_segments.n > 0)
        place, old_place = self._clusters(segments, self._old_segments.at(old))
        n = int(max(place.max(), old_place.max(initial=0))) + 1
        # A regime keeps its number if most samples do.
        shared = np.zeros((n, len(self.regimes_)))  # samples of a new regime in an old one
        before = np.array(self._places)
        known = np.flatnonzero(before >= 0)
        np.add.at(shared, (place[known], before[known]), segments.n[known])
        shared[old_place, old] += self._old_samples.n[old]
        if self._densities is None:
            shared[place[0], 0] += 1.0  # until now all were in one regime
        self._renumber(shared)
        self._old_segments = self._old_segments.at(old).grouped(old_place, n)
        self._old_samples = self._old_samples.at(old).grouped(old_place, n)
        samples = self._old_samples.plus(segments.grouped(place, n))
        self._densities = densities(samples, self._variances())
        self._belief = np.zeros(n)
        self._belief[place[-1]] = 1.0
        if not settled:
            for x in self._latest[:-1]:
                self._belief = self._next_belief(x)
        self._places = place[: len(self._segments)].tolist()
        self._forget()

    def _clusters(
        self, segments: Moments, old: Moments
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the clusters of segments, and those of groups of older segments."""
        variances, d = self._variances(), self.n_features_in_
        group = np.zeros(len(segments.n), np.int64)
        if len(group) > 1:
            tree = linkage(segments.mean / np.sqrt(variances), "ward")
            found = fcluster(tree, COARSE * self.max_regimes, "maxclust")
            group = np.unique(found, return_inverse=True)[1]
        alone = Moments(np.ones(len(group)), segments.mean, np.zeros((len(group), d, d)))
        groups = alone.grouped(group, int(group.max()) + 1)
        everything = Moments(*(np.concatenate(pair) for pair in zip(groups, old, strict=True)))
        # Half of the expected covariance is diagonal, so that few samples leave it regular.
        spread = 0.5 * (self._all.scatter / self._all.n + np.diag(variances))
        noise = float(np.mean(1.0 / segments.n)) * self._within()
        scale = SPREAD * spread + NOISE * noise
        cluster = merged(everything, self._all.mean, scale, self.max_regimes)
        return cluster[group], cluster[len(groups.n) :]

    def _renumber(self, shared: NDArray[np.float64]) -> None:
        """Give each new regime the number of the old one with which it shares most samples."""
        numbers = np.full(len(shared), -1, np.int64)
        for new, was in zip(*linear_sum_assignment(-shared), strict=True):
            if shared[new, was] > 0.0:
                numbers[new] = self.regimes_[was]
        opened = np.flatnonzero(numbers < 0)
        numbers[opened] = self.n_opened_ + np.arange(len(opened))
        self.n_opened_ += len(opened)
        self.regimes_ = numbers

    def _forget(self) -> None:
        """Keep only the latest segments one by one; each regime keeps the moments of the others."""
        d = self.n_features_in_
        while len(self._segments) > self.memory:
            segment, place = self._segments.pop(0), self._places.pop(0)
            alone = Moments(np.array(1.0), segment.mean, np.zeros((d, d)))
            for kept, added in ((self._old_segments, alone), (self._old_samples, segment)):
                for part, value in zip(kept, kept.at(place).plus(added), strict=True):
                    part[place] = value

    def _chance_to_leave(self) -> float:
        return float((self.n_segments_ + 1.0) / (self._all.n + 2.0))

    def _next_belief(self, x: NDArray) -> NDArray[np.float64]:
        """Return the probability of each regime after one more sample."""
        if self._densities is None:
            return self._belief
        leave = self._chance_to_leave()
        prior = (1.0 - leave) * self._belief + leave * self._densities.share
        log = np.log(prior) + self._densities.log_density(x[None])[0]
        weight = np.exp(log - log.max())
        return weight / weight.sum()
