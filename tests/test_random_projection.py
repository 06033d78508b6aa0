"""RanPAC and RanDumb: their sums over a stream give what all samples at once would."""

import numpy as np
import pytest
from sklearn.covariance import OAS
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel

from experiments.peers import RanDumb, RanPAC
from experiments.peers.random_projection import oas_shrinkage


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def by_class(peer, X, y):
    """Teach one class after the other, the last one first, in two batches each."""
    for label in np.unique(y)[::-1]:
        for rows in np.array_split(np.flatnonzero(y == label), 2):
            peer.learn(X[rows], y[rows])
    return peer


def test_sums_over_a_stream_give_ridge_regression_on_all_samples():
    X, y = digits()
    peer = by_class(RanPAC(64, 80, penalty=10.0, seed=1), X, y)
    peer.predict(X[:1])
    H = peer.features(X).astype(float)
    assert H.min() == 0  # rectified
    theirs = Ridge(alpha=10.0, fit_intercept=False).fit(H, np.eye(10)[y]).coef_.T
    order = np.argsort(peer.readout.labels)
    np.testing.assert_allclose(peer.readout.weights[:, order], theirs, atol=1e-4)
    assert np.mean(peer.predict(X) == y) > 0.9


def test_the_shared_covariance_is_that_of_discriminant_analysis():
    X, y = digits()
    peer = by_class(RanDumb(64, 60, shrinkage=0.0, seed=2), X, y)
    theirs = LinearDiscriminantAnalysis(solver="lsqr", priors=np.full(10, 0.1))
    theirs.fit(peer.features(X).astype(float), y)
    assert np.mean(peer.predict(X) == theirs.predict(peer.features(X))) > 0.998


def test_products_of_fourier_features_approach_the_kernel():
    X = np.random.default_rng(0).normal(size=(30, 4))
    peer = RanDumb(4, 2000, width=0.5)
    peer.learn(X, np.zeros(30, int))
    assert peer.gamma == pytest.approx(0.5 / (4 * X.var()))
    H = peer.features(X)
    np.testing.assert_allclose(H @ H.T, rbf_kernel(X, gamma=peer.gamma), atol=0.1)


def test_the_shrinkage_is_the_oracle_approximation():
    rng = np.random.default_rng(0)
    for n in (5, 40, 400):
        Z = rng.normal(size=(n, 12)) * np.arange(1, 13)
        theirs = OAS(assume_centered=True).fit(Z).shrinkage_
        assert oas_shrinkage(Z.T @ Z / n, n) == pytest.approx(theirs)


@pytest.mark.parametrize("make", [RanPAC, RanDumb])
def test_a_new_batch_changes_answers_and_a_new_seed_the_features(make):
    X, y = digits()
    peer = make(64, 100, seed=3)
    peer.learn(X[y < 5], y[y < 5])
    assert set(peer.predict(X)) <= set(range(5))
    peer.learn(X[y >= 5], y[y >= 5])
    assert np.mean(peer.predict(X) == y) > 0.85
    assert (peer.weights == make(64, 100, seed=3).weights).all()
    assert (peer.weights != make(64, 100, seed=4).weights).all()


def test_what_is_kept():
    X, y = digits()
    ranpac, randumb = (by_class(make(64, 100), X, y) for make in (RanPAC, RanDumb))
    sums = 100 * 101 // 2 + 10 * 101
    assert (ranpac.n_stored, ranpac.n_reproducible) == (6400 + sums, 6400)
    assert (randumb.n_stored, randumb.n_reproducible) == (6500 + sums + 1, 6500)
