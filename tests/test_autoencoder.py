"""The autoencoder of a class: its gradient, its likelihood, and what training does to them."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import approx_fprime
from scipy.stats import bernoulli, norm
from sklearn.datasets import load_digits

from experiments.peers import ModelPerClass, fit_autoencoder
from experiments.peers.autoencoder import (
    Autoencoder,
    Design,
    Net,
    backward,
    blank,
    minibatches,
    random_net,
)

SMALL = Design(n_hidden=30, n_latent=4, rate=0.01, minibatch=40, steps=300, draws=10)
VARIANCES = pytest.mark.parametrize("variance", [None, 0.2])


def in_double(net, values):
    parts = np.split(values, np.cumsum([view.size for view in net[1:]])[:-1])
    return Net(values, *(p.reshape(v.shape) for p, v in zip(parts, net[1:], strict=True)))


def decoded(net, z):
    """The outputs for one z, in plain sums."""
    hidden = [max(0.0, sum(z * net.decoder[:, j]) + net.decoder_bias[j]) for j in range(5)]
    return np.array([sum(hidden * net.output[:, i]) + net.output_bias[i] for i in range(3)])


def log_density(x, outputs, variance):
    if variance is None:
        p = 1 / (1 + np.exp(-outputs))
        return sum(x * np.log(p) + (1 - x) * np.log(1 - p))
    return norm.logpdf(x, outputs, variance**0.5).sum()


def negative_bound(net, X, noise, variance):
    """The mean negative evidence lower bound, sample by sample."""
    total = 0.0
    for x, e in zip(X, noise, strict=True):
        hidden = np.maximum(x @ net.encoder + net.encoder_bias, 0)
        code = hidden @ net.code + net.code_bias
        mean, deviation = code[: len(e)], np.exp(code[len(e) :] / 2)
        divergence = sum((mean**2 + deviation**2 - 1) / 2 - np.log(deviation))
        total += divergence - log_density(x, decoded(net, mean + deviation * e), variance)
    return total / len(X)


@VARIANCES
def test_the_gradient_is_that_of_finite_differences(variance):
    rng = np.random.default_rng(0)
    net, gradient = random_net(3, 5, 2, rng), blank(3, 5, 2)
    for bias in (net.encoder_bias, net.code_bias, net.decoder_bias, net.output_bias):
        bias[:] = rng.normal(0, 0.3, bias.shape)
    X, noise = rng.random((6, 3)), rng.normal(size=(6, 2))
    backward(net, X, noise, variance, gradient)

    def bound(values):
        return negative_bound(in_double(net, values), X, noise, variance)

    expected = approx_fprime(net.values.astype(float), bound, 1e-7)
    np.testing.assert_allclose(gradient.values, expected, atol=2e-5)


@VARIANCES
def test_importance_sampling_finds_the_integral_over_z(variance):
    rng = np.random.default_rng(1)
    net = random_net(3, 5, 1, rng)
    net.output_bias[:] = rng.normal(0, 0.5, 3)
    net.code[:] *= 0.2
    net.code_bias[:] = (0.3, 1.0)  # wider than the prior: no weight is large
    X = rng.random((4, 3)).round() if variance is None else rng.random((4, 3))
    found = Autoencoder(net, variance, 20_000).score(X)

    def joint(z, x):
        outputs = decoded(net, np.array([z]))
        if variance is None:
            p = bernoulli.pmf(x, 1 / (1 + np.exp(-outputs))).prod()
        else:
            p = norm.pdf(x, outputs, variance**0.5).prod()
        return p * norm.pdf(z)

    expected = [np.log(quad(joint, -9, 9, (x,), limit=200)[0]) for x in X]
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_scores_do_not_depend_on_what_is_asked_together(monkeypatch):
    X = load_digits().data[:60] / 16
    model = fit_autoencoder(X, np.random.default_rng(0), design=SMALL)
    together = model.score(X)
    np.testing.assert_allclose(model.score(X[:7]), together[:7], rtol=1e-5)
    monkeypatch.setattr("experiments.peers.autoencoder.MOST_AT_ONCE", 64 * 10 * 3)
    np.testing.assert_allclose(model.score(X), together, rtol=1e-5)


def test_training_makes_unseen_samples_likelier():
    X, y = load_digits(return_X_y=True)
    own = X[y == 3] / 16
    few, many = (
        fit_autoencoder(own[:120], np.random.default_rng(0), None, SMALL._replace(steps=steps))
        for steps in (5, 300)
    )
    assert many.score(own[120:]).mean() > few.score(own[120:]).mean() + 2


def test_minibatches_pass_over_all_samples_again_and_again():
    design = Design(minibatch=4, steps=5)
    parts = list(minibatches(10, design, np.random.default_rng(0)))
    assert [len(part) for part in parts] == [4, 3, 3, 4, 3]
    assert sorted(np.concatenate(parts[:3])) == list(range(10))
    assert parts[0].tolist() != parts[3].tolist()


@pytest.mark.parametrize(("variance", "least"), [(None, 0.93), (0.05, 0.9)])
def test_autoencoders_learn_digits_class_by_class(variance, least):
    X, y = load_digits(return_X_y=True)
    X = X / 16

    def fit(some, rng):
        return fit_autoencoder(some, rng, variance, SMALL)

    peer = ModelPerClass(64, fit)
    for label in range(10):
        peer.learn(X[::2][y[::2] == label], y[::2][y[::2] == label])
    peer.end()
    assert np.mean(peer.predict(X[1::2]) == y[1::2]) > least
    one = 64 * 30 + 30 + 30 * 8 + 8 + 4 * 30 + 30 + 30 * 64 + 64
    assert peer.n_stored == 10 * one
