"""Peers with a model per class: each is what its definition says, computed in a slower way."""

from functools import partial

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist, mahalanobis
from scipy.special import erf, logsumexp
from scipy.stats import multivariate_normal
from sklearn.datasets import load_digits

from experiments.peers import PEC, FeCAM, ModelPerClass, fit_mixture, fit_prototypes
from experiments.peers.factor_analysers import Mixture, em_step, from_clusters
from experiments.peers.prediction_error import Net, backward, blank, outputs, random_net


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def by_class(peer, X, y):
    """Teach one class after the other, in two batches each."""
    for label in np.unique(y):
        for rows in np.array_split(np.flatnonzero(y == label), 2):
            peer.learn(X[rows], y[rows])
    return peer


PEERS = {
    "FeCAM": (lambda: FeCAM(64), 0.94),
    "PEC": (lambda: PEC(64, 90, teacher_hidden=500), 0.85),
    "factor analysers": (lambda: ModelPerClass(64, fit_mixture), 0.96),
    "prototypes": (lambda: ModelPerClass(64, partial(fit_prototypes, n_prototypes=10)), 0.95),
}


@pytest.mark.parametrize("name", PEERS)
def test_it_learns_digits_class_by_class(name):
    X, y = digits()
    make, least = PEERS[name]
    peer = by_class(make(), X[::2], y[::2])
    assert np.mean(peer.predict(X[1::2]) == y[1::2]) > least


# ------------------------------------------------------------------ FeCAM


def naive_distance(x, own, powers, gammas):
    """The squared distance of one sample to the class of some samples, in loops."""
    Z = own**powers
    covariance = np.cov(Z.T)
    n = len(covariance)
    for _ in range(2):
        variance = sum(covariance[i, i] for i in range(n)) / n
        others = [covariance[i, j] for i in range(n) for j in range(n) if i != j]
        mean = sum(others) / len(others)
        covariance = np.array(
            [
                [covariance[i, j] + (gammas[0] * variance if i == j else gammas[1] * mean)
                 for j in range(n)]
                for i in range(n)
            ]
        )  # fmt: skip
    deviation = [covariance[i, i] ** 0.5 for i in range(n)]
    normalized = [[covariance[i, j] / deviation[i] / deviation[j] for j in range(n)]
                  for i in range(n)]  # fmt: skip
    z, mean = x**powers, Z.mean(axis=0)
    z, mean = z / np.linalg.norm(z), mean / np.linalg.norm(mean)
    return mahalanobis(z, mean, np.linalg.inv(normalized)) ** 2


def test_fecam_is_scipys_mahalanobis_distance():
    rng = np.random.default_rng(0)
    X, y = rng.gamma(2.0, size=(60, 4)) @ rng.random((4, 4)), rng.integers(0, 2, 60)
    peer = by_class(FeCAM(4, shrinkage=(0.5, 0.2), power=0.5), X, y)
    found = peer.distances(X[:5])
    for row, x in enumerate(X[:5]):
        for column, label in enumerate(peer.classes):
            expected = naive_distance(x, X[y == label], 0.5, (0.5, 0.2))
            assert found[row, column] == pytest.approx(expected)


# ------------------------------------------------------------------ factor analysers


def some_mixture(rng, n=3, inputs=5, factors=2):
    share = rng.dirichlet(np.ones(n))
    loading = rng.normal(size=(n, inputs, factors))
    noise = rng.uniform(0.1, 1.0, (n, inputs))
    return Mixture(np.log(share), rng.normal(0, 3, (n, inputs)), loading, noise)


def drawn(mixture, n, rng):
    k = rng.choice(len(mixture.mean), n, p=np.exp(mixture.log_share))
    z = rng.normal(size=(n, mixture.loading.shape[2]))
    noise = rng.normal(size=(n, mixture.mean.shape[1])) * np.sqrt(mixture.noise[k])
    return mixture.mean[k] + np.einsum("nif,nf->ni", mixture.loading[k], z) + noise


def test_the_density_is_that_of_a_mixture_of_dense_gaussians():
    rng = np.random.default_rng(0)
    mixture = some_mixture(rng)
    X = drawn(mixture, 20, rng)
    dense = [
        log_share + multivariate_normal(mean, loading @ loading.T + np.diag(noise)).logpdf(X)
        for log_share, mean, loading, noise in zip(*mixture, strict=True)
    ]
    np.testing.assert_allclose(mixture.score(X), logsumexp(dense, axis=0))


@pytest.mark.parametrize("least_noise", [1e-3, 0.3])  # the second binds
def test_no_step_of_em_lowers_the_likelihood(least_noise):
    rng = np.random.default_rng(1)
    X = drawn(some_mixture(rng), 400, rng)
    start = some_mixture(rng)
    found = start._replace(noise=np.maximum(start.noise, least_noise))
    likelihood = [found.score(X).mean()]
    for _ in range(60):
        found = em_step(found, X, least_noise)
        likelihood.append(found.score(X).mean())
    assert np.diff(likelihood).min() > -1e-9
    assert likelihood[-1] > likelihood[0] + 1
    assert np.exp(found.log_share).sum() == pytest.approx(1)
    assert found.noise.min() >= least_noise


def test_em_comes_close_to_the_truth_and_past_its_start():
    rng = np.random.default_rng(2)
    truth = some_mixture(rng)
    X, fresh = drawn(truth, 2000, rng), drawn(truth, 2000, rng)
    start = from_clusters(X, np.random.default_rng(0), 3, 2, 1e-3)
    fitted = fit_mixture(X, np.random.default_rng(0), 3, 2, 1e-3, 100)
    assert fitted.score(fresh).mean() > start.score(fresh).mean()
    assert fitted.score(fresh).mean() == pytest.approx(truth.score(fresh).mean(), abs=0.1)


def test_few_samples_make_few_components():
    X = np.random.default_rng(0).random((130, 6))
    fitted = fit_mixture(X, np.random.default_rng(0), n_components=12, n_factors=2)
    assert len(fitted.mean) == 2
    assert fitted.n_stored == 2 * (1 + 6 + 12 + 6)


# ------------------------------------------------------------------ prototypes


def test_the_nearest_prototype_answers():
    X, y = digits()
    peer = by_class(ModelPerClass(64, partial(fit_prototypes, n_prototypes=7)), X, y)
    peer.end()
    centres = np.concatenate([peer.models[label].centres for label in range(10)])
    nearest = np.repeat(np.arange(10), 7)[cdist(X, centres).argmin(axis=1)]
    np.testing.assert_array_equal(peer.predict(X), nearest)
    few = fit_prototypes(X[:5], np.random.default_rng(0), 7)
    np.testing.assert_array_equal(few.centres, X[:5])


# ------------------------------------------------------------------ samples until a model is fitted


class Mean:
    """A model of a class that shows what it was fitted to."""

    n_stored = 3

    def __init__(self, X, rng):
        self.X = X

    def score(self, X):
        return -((X - self.X.mean(axis=0)) ** 2).sum(axis=1)


def test_samples_are_forgotten_once_a_class_has_its_model():
    X = np.arange(40, dtype=float)[:, None]
    y = np.arange(40) // 20
    peer = ModelPerClass(1, Mean, capacity=12)
    peer.learn(X[:10], y[:10])
    assert (peer.n_samples_stored, peer.n_integers) == (10, 10)
    early = peer.predict(X[:1])
    assert early == 0
    assert peer.n_stored == 10 + 3
    peer.learn(X[10:30], y[10:30])  # two of them fill the first class
    np.testing.assert_array_equal(peer.models[0].X[:, 0], np.arange(12))
    assert peer.n_samples_stored == 10
    peer.learn(X[:5], y[:5])  # too late
    assert peer.n_samples_stored == 10
    peer.end()
    assert (peer.n_samples_stored, peer.n_stored) == (0, 6)
    assert peer.predict(np.array([[3.0], [28.0]])).tolist() == [0, 1]


# ------------------------------------------------------------------ PEC


def in_double(net: Net, values) -> Net:
    ends = np.cumsum([view.size for view in net[1:]])[:-1]
    parts = np.split(values, ends)
    return Net(values, *(p.reshape(v.shape) for p, v in zip(parts, net[1:], strict=True)))


def test_the_gradient_of_a_student_is_that_of_finite_differences():
    rng = np.random.default_rng(0)
    net = random_net(4, 5, 3, rng)
    net.gain[:], net.shift[:] = rng.normal(1, 0.3, 5), rng.normal(0, 0.3, 5)
    X, targets = rng.normal(size=(6, 4)), rng.normal(size=(6, 3))

    def loss(values):
        return np.mean((outputs(in_double(net, values), X) - targets) ** 2)

    gradient = blank(4, 5, 3)
    backward(net, X, targets, gradient)
    expected = approx_fprime(net.values.astype(float), loss, 1e-7)
    np.testing.assert_allclose(gradient.values, expected, atol=1e-5)


def test_a_network_of_pec_in_loops():
    rng = np.random.default_rng(1)
    net = random_net(3, 4, 2, rng)
    x = rng.normal(size=3)
    sums = [sum(x[i] * net.first[i, j] for i in range(3)) + net.first_bias[j] for j in range(4)]
    mean = sum(sums) / 4
    variance = sum((s - mean) ** 2 for s in sums) / 4
    white = [(s - mean) / (variance + 1e-5) ** 0.5 for s in sums]
    hidden = [z * (1 + erf(z / 2**0.5)) / 2 for z in white]
    expected = [sum(hidden[j] * net.second[j, k] for j in range(4)) + net.second_bias[k]
                for k in range(2)]  # fmt: skip
    np.testing.assert_allclose(outputs(net, x[None])[0], expected, rtol=1e-5)


def test_a_class_trains_its_student_alone_and_students_start_alike():
    X, y = digits()
    peer = PEC(64, 100, teacher_hidden=200)
    teacher = peer.teacher.values.copy()
    for label in (3, 5):
        peer.learn(X[y == label][:1], y[y == label][:1])
    assert all(one.steps == 1 for one in peer.students.values())
    before = peer.students[5].net.values.copy()
    peer.learn(X[y == 3][1:80], y[y == 3][1:80])
    np.testing.assert_array_equal(peer.students[5].net.values, before)
    np.testing.assert_array_equal(peer.teacher.values, teacher)
    assert np.abs(before - peer.start.values).max() == pytest.approx(0.01, rel=1e-3)  # one step
    fresh, targets = X[y == 3][80:], outputs(peer.teacher, X[y == 3][80:].astype(np.float32))
    errors = [((outputs(one.net, fresh) - targets) ** 2).mean() for one in peer.students.values()]
    assert errors[0] < 0.5 * errors[1]
    student = 64 * 10 + 3 * 10 + 10 * 99 + 99
    assert peer.n_stored - peer.n_reproducible == 2 * (3 * student + 1)
    answers = peer.predict(X)
    peer.end()
    assert peer.n_stored - peer.n_reproducible == 2 * (student + 1)
    np.testing.assert_array_equal(peer.predict(X), answers)
