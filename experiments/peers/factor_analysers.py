"""A mixture of factor analysers per class (Ghahramani & Hinton, 1996), fitted by EM.

Component k says that x = μₖ + Λₖ·z + noise, where z are `n_factors` standard normal numbers and the
noise of input i has the variance ψₖᵢ. So the covariance of a component is ΛₖΛₖᵀ + diag(ψₖ). The
class of the highest density answers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve, solve_triangular
from scipy.special import softmax
from sklearn.cluster import KMeans

# Chosen on MNIST of 14 × 14 pixels: see `docs/comparison-notes.md`.
COMPONENTS = 12
FACTORS = 20
LEAST_NOISE = 0.03  # variance: inputs are in [0, 1]
ITERATIONS = 15
LEAST_SAMPLES = 60  # of a component on average; fewer components where a class has too few


class Mixture(NamedTuple):
    """A mixture of factor analysers."""

    log_share: NDArray[np.float64]  # (components,)
    mean: NDArray[np.float64]  # (components, inputs) μ
    loading: NDArray[np.float64]  # (components, inputs, factors) Λ
    noise: NDArray[np.float64]  # (components, inputs) ψ

    def score(self, X: NDArray) -> NDArray[np.float64]:
        """Return the log-density of samples."""
        return np.logaddexp.reduce(log_joint(self, X), axis=1)

    @property
    def n_stored(self) -> int:
        return sum(part.size for part in self)


def fit_mixture(
    X: NDArray[np.float64],
    rng: np.random.Generator,
    n_components: int = COMPONENTS,
    n_factors: int = FACTORS,
    least_noise: float = LEAST_NOISE,
    iterations: int = ITERATIONS,
) -> Mixture:
    """Return a mixture that EM leads to from the clusters of k-means."""
    mixture = from_clusters(X, rng, n_components, n_factors, least_noise)
    for _ in range(iterations):
        mixture = em_step(mixture, X, least_noise)
    return mixture


def from_clusters(
    X: NDArray, rng: np.random.Generator, n_components: int, n_factors: int, least_noise: float
) -> Mixture:
    """Return the principal components of each cluster as its factors."""
    n = max(1, min(n_components, len(X) // LEAST_SAMPLES))
    n_factors = min(n_factors, X.shape[1] - 1)  # one direction at least is left for the noise
    seed = int(rng.integers(2**31))
    cluster = KMeans(n, max_iter=20, random_state=seed).fit_predict(X)
    shares, means, loadings, noises = [], [], [], []
    for k in range(n):
        own = X[cluster == k]
        Z = own - own.mean(axis=0)
        values, vectors = np.linalg.eigh(Z.T @ Z / len(own))
        rest = max(values[:-n_factors].mean(), least_noise)  # variance along the other directions
        lengths = np.sqrt(np.maximum(values[-n_factors:] - rest, 0.0))
        shares.append(len(own) / len(X))
        means.append(own.mean(axis=0))
        loadings.append(vectors[:, -n_factors:] * lengths)
        noises.append(np.full(X.shape[1], rest))
    return Mixture(np.log(shares), np.array(means), np.array(loadings), np.array(noises))


def log_joint(mixture: Mixture, X: NDArray) -> NDArray[np.float64]:
    """Return the log-density of samples times the share of each component: (samples, components).

    By Woodbury's identity only matrices of factors × factors are factored.
    """
    result = np.empty((len(X), len(mixture.mean)))
    for k, (log_share, mean, loading, noise) in enumerate(zip(*mixture, strict=True)):
        scaled = (X - mean) / np.sqrt(noise)
        own = loading / np.sqrt(noise)[:, None]
        lower = cholesky(own.T @ own + np.eye(own.shape[1]), lower=True)
        explained = solve_triangular(lower, own.T @ scaled.T, lower=True)
        distance = np.einsum("ni,ni->n", scaled, scaled) - (explained**2).sum(axis=0)
        log_volume = np.log(noise).sum() + 2 * np.log(np.diag(lower)).sum()
        result[:, k] = log_share - 0.5 * (distance + log_volume + X.shape[1] * np.log(2 * np.pi))
    return result


def em_step(mixture: Mixture, X: NDArray, least_noise: float) -> Mixture:
    """Return a mixture under which X is at least as likely.

    First the shares and means are set to their best values given the responsibilities, then
    loadings and noise are improved by one step for the same responsibilities.
    """
    joint = log_joint(mixture, X)
    responsibility = softmax(joint, axis=1)
    weight = responsibility.sum(axis=0) + 1e-9  # of a component, in samples
    parts = [
        _improved(X, responsibility[:, k] / weight[k], mixture.loading[k], mixture.noise[k])
        for k in range(len(weight))
    ]
    mean, loading, noise = (np.array(part) for part in zip(*parts, strict=True))
    return Mixture(np.log(weight / weight.sum()), mean, loading, np.maximum(noise, least_noise))


def _improved(
    X: NDArray, share: NDArray, loading: NDArray, noise: NDArray
) -> tuple[NDArray, NDArray, NDArray]:
    """Return mean, loading and noise of one component; `share` weighs the samples, Σ = 1."""
    mean = share @ X
    Z = X - mean
    scaled = loading / noise[:, None]
    posterior = np.linalg.inv(loading.T @ scaled + np.eye(loading.shape[1]))  # of z, its covariance
    factors = Z @ (scaled @ posterior)  # expected z: (samples, factors)
    weighted = share[:, None] * factors
    cross = Z.T @ weighted  # (inputs, factors)
    second = posterior + factors.T @ weighted
    new = solve(second, cross.T, assume_a="pos").T
    return mean, new, share @ Z**2 - (new * cross).sum(axis=1)
