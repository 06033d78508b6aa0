"""Regimes that recur in a stream without labels."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_t
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dirad.streams import regimes
from dirad.streams.regimes import RegimeTracker
from experiments.metrics import mutual_information


def planted(seed: int, inputs: int = 4):
    """Return three normal distributions in turn, 50 samples each."""
    y = np.repeat(np.tile([0, 1, 2], 15), 50)
    centres = np.zeros((3, inputs))
    centres[1, 0] = centres[2, 1] = 5.0
    return centres[y] + np.random.default_rng(seed).normal(size=(len(y), inputs)), y


def test_planted_regimes_are_found_and_recognized():
    for seed in range(3):
        X, y = planted(seed)
        tracker = RegimeTracker().partial_fit(X)
        late = slice(len(y) // 2, None)
        assert len(np.unique(tracker.predict(X))) == 3
        assert mutual_information(y, tracker.predict(X)) > 0.97
        assert mutual_information(y[late], tracker.labels_[late]) > 0.9


def test_an_unchanging_normal_stream_is_one_regime():
    for seed in range(3):
        X = np.random.default_rng(seed).normal(size=(2000, 5))
        assert len(RegimeTracker().partial_fit(X).regimes_) == 1


def test_the_size_of_calls_and_the_units_of_inputs_do_not_matter():
    X, _ = planted(0)
    whole, parts, scaled = RegimeTracker(), RegimeTracker(), RegimeTracker()
    whole.partial_fit(X)
    found = [parts.partial_fit(part).labels_ for part in np.array_split(X, 37)]
    np.testing.assert_array_equal(np.concatenate(found), whole.labels_)
    scaled.partial_fit(1000.0 * X - 50.0)
    np.testing.assert_array_equal(scaled.labels_, whole.labels_)
    copy: Any = clone(whole)
    again = copy.fit(X)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))


def test_forgotten_segments_stay_in_the_moments_of_their_regimes():
    X, y = planted(1)
    tracker = RegimeTracker(memory=5).partial_fit(X)
    assert len(tracker._segments) < 12  # the kept ones, and those not yet clustered
    assert mutual_information(y, tracker.predict(X)) > 0.9
    assert len(RegimeTracker(max_regimes=2).partial_fit(X).regimes_) <= 2


def test_moments_of_groups():
    X = np.random.default_rng(0).normal(size=(12, 3))
    parts = regimes.stacked(
        [regimes.moments(X[:4]), regimes.moments(X[4:5]), regimes.moments(X[5:])]
    )
    both = parts.grouped(np.array([1, 0, 1]), 2)
    own = np.concatenate([X[:4], X[5:]])
    for found in (both.at(1), parts.at(0).plus(parts.at(2))):
        assert found.n == 11
        np.testing.assert_allclose(found.mean, own.mean(axis=0))
        np.testing.assert_allclose(found.scatter, 11 * np.cov(own.T, bias=True))


def test_the_evidence_is_the_product_of_predictive_densities():
    rng = np.random.default_rng(1)
    X, mean, root = rng.normal(size=(6, 3)), rng.normal(size=3), rng.normal(size=(3, 3))
    scale = root @ root.T + np.eye(3)
    student: Any = multivariate_t
    total = 0.0
    for i, x in enumerate(X):  # each sample, given those before it
        before, n = X[:i], regimes.MEAN_WEIGHT + i
        centre = (regimes.MEAN_WEIGHT * mean + before.sum(axis=0)) / n
        inner = regimes.EXTRA * scale + regimes.MEAN_WEIGHT * np.outer(mean, mean)
        inner = inner + before.T @ before - n * np.outer(centre, centre)
        freedom = regimes.EXTRA + 2 + i
        shape = inner * (n + 1) / (n * freedom)
        total += student(centre, shape, freedom).logpdf(x)
    found = regimes.log_evidence(regimes.stacked([regimes.moments(X)]), mean, scale)
    assert found[0] == pytest.approx(total)


def test_odd_input():
    tracker = RegimeTracker().partial_fit(
        np.column_stack([np.arange(300.0) // 60 % 2, np.ones(300)])
    )
    assert np.unique(tracker.predict([[0.0, 1.0], [1.0, 1.0]])).size >= 1
    with pytest.raises(ValueError, match="X has 3 inputs, fitted to 2"):
        tracker.partial_fit(np.ones((2, 3)))
    with pytest.raises(ValueError, match="X has 1 inputs, fitted to 2"):
        tracker.predict([[1.0]])
    with pytest.raises(ValueError, match="NaN"):
        tracker.partial_fit([[np.nan, 1.0]])
    with pytest.raises(NotFittedError):
        RegimeTracker().predict([[1.0]])
    with pytest.raises(ValueError, match="memory must be at least 1, got 0"):
        RegimeTracker(memory=0).partial_fit([[1.0]])
