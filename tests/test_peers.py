"""The peers: right on what they can do, and the same from one batch as from many."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from dirad.experiments.metrics import forgetting, novelty_auroc, novelty_fpr95, purity
from dirad.experiments.peers import (
    ClassGaussians,
    Gaussian,
    Moments,
    NearestMean,
    RandomFeatures,
    StreamingLDA,
    TaskGaussians,
)

PEERS = {
    "nearest mean": (NearestMean, 0.88),
    "class Gaussians": (ClassGaussians, 0.95),
    "streaming LDA": (StreamingLDA, 0.93),
    "random features": (lambda n: RandomFeatures(n, 500), 0.93),
}


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_moments_of_batches_are_those_of_all(sizes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(sum(sizes), 3)) * [1, 2, 3] + [5, 0, -1]
    moments, start = Moments(3), 0
    for size in sizes:
        moments.add(X[start : start + size])
        start += size
    if len(X) > 1:
        assert moments.mean == pytest.approx(X.mean(axis=0))
        assert moments.covariance(0.0) == pytest.approx(np.cov(X.T), abs=1e-9)


def test_a_gaussian_is_surprised_as_its_density_says():
    from scipy.stats import multivariate_normal

    rng = np.random.default_rng(0)
    moments = Moments(3)
    moments.add(rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)))
    X = rng.normal(size=(20, 3))
    density = multivariate_normal(moments.mean, moments.covariance(0.1)).logpdf(X)
    constant = 3 * np.log(2 * np.pi)
    assert Gaussian(moments, 0.1).surprise(X) + constant == pytest.approx(-2 * density)


@pytest.mark.parametrize("name", PEERS)
def test_one_class_after_the_other_is_no_harder_than_all_at_once(name):
    X, y = digits()
    fit, held = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    make, least = PEERS[name]
    sorted_, together = make(64), make(64)
    together.learn(X[fit], y[fit])
    for digit in range(10):
        some = fit[y[fit] == digit]
        sorted_.learn(X[some[:40]], y[some[:40]])
        sorted_.learn(X[some[40:]], y[some[40:]])
    answers = sorted_.predict(X[held])
    assert np.mean(answers == together.predict(X[held])) > 0.999
    assert np.mean(answers == y[held]) > least
    assert sorted_.n_stored == together.n_stored > 64


def test_streaming_lda_is_lda():
    X, y = digits()
    ours = StreamingLDA(64, shrinkage=1e-6)
    ours.learn(X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(10, 0.1)).fit(X, y)
    assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.995


def test_a_gaussian_per_task_finds_the_tasks():
    rng = np.random.default_rng(0)
    peer = TaskGaussians(8)
    shifts = rng.normal(0, 3, (3, 2, 8))
    for task in (0, 1, 2, 0):
        for _ in range(20):
            y = rng.integers(0, 2, 100)
            peer.learn(shifts[task, y] + rng.normal(size=(100, 8)), y + 2 * task)
    assert peer.opened == [0, 20, 40]
    for task in range(3):
        y = rng.integers(0, 2, 200)
        X = shifts[task, y] + rng.normal(size=(200, 8))
        assert np.mean(peer.route(X) == task) > 0.95
        assert np.mean(peer.predict(X) == y + 2 * task) > 0.9


def test_metrics_at_their_edges():
    assert np.isnan(forgetting([[1.0]]))
    assert purity([0, 1], [4, 4]) == 0.5
    rng = np.random.default_rng(0)
    known, new = rng.normal(size=3000), rng.normal(2, size=3000)
    assert novelty_auroc(known, new) == pytest.approx(0.921, abs=0.01)
    assert novelty_fpr95(known, new) == pytest.approx(0.361, abs=0.04)
    assert novelty_fpr95(new, known) > 0.99
