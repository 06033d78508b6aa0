"""New classes among unlabelled samples, by a mixture of known and new densities."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from dirad.streams import novel_classes
from dirad.streams.novel_classes import NovelClassDetector


def known_samples(n, seed):
    """Return samples of two wide classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, 3)) + np.where(y, 2.0, -2.0)[:, None], y


def new_samples(n, seed):
    """Return samples of a narrow class that lies within the known ones."""
    return 0.2 * np.random.default_rng(seed).normal(size=(n, 3)) + [-2.0, -2.5, -1.5]


def test_a_class_within_known_ones_is_found_and_the_promise_kept():
    detector = NovelClassDetector().fit(*known_samples(1000, 0))
    for seed in range(5):
        detector.partial_fit(np.concatenate([known_samples(150, 10 + seed)[0],
                                             new_samples(50, seed)]))  # fmt: skip
    assert detector.is_new(new_samples(300, 99)).mean() > 0.8
    assert detector.is_new(known_samples(2000, 99)[0]).mean() < 0.08


def test_where_nothing_is_new_little_is_called_new():
    detector = NovelClassDetector().fit(*known_samples(1000, 0))
    assert not detector.is_new(known_samples(100, 1)[0]).any()
    for seed in range(5):
        detector.partial_fit(known_samples(200, 10 + seed)[0])
    assert detector.is_new(known_samples(2000, 99)[0]).mean() < 0.08


@pytest.mark.parametrize(("held_out", "rate"), [(100, 0.05), (19, 0.05), (18, 0.05), (9, 0.5)])
def test_the_promised_share_holds_with_few_held_out_samples(held_out, rate, monkeypatch):
    """Of n + 1 samples that can be exchanged, at most the promised share is called new."""
    evidence = 1.0 + np.random.default_rng(0).permutation(held_out + 1).astype(float)
    monkeypatch.setattr(NovelClassDetector, "_evidence", lambda self, Z: Z[:, 0])
    detector = NovelClassDetector(false_new=rate).fit(*known_samples(200, 0))
    detector.new_ = detector.densities_
    detector.offset_, detector.scale_ = np.zeros(3), np.ones(3)
    called = 0
    for left_out in range(held_out + 1):
        detector.held_out_ = np.repeat(np.delete(evidence, left_out)[:, None], 3, axis=1)
        called += detector.is_new(np.full((1, 3), evidence[left_out])).sum()
    assert called == int((held_out + 1) * rate)


def test_densities_are_those_of_scipy():
    rng = np.random.default_rng(0)
    X, mean = rng.normal(size=(20, 3)), rng.normal(size=(2, 3))
    root = rng.normal(size=(2, 3, 3))
    covariance = root @ np.swapaxes(root, 1, 2) + np.eye(3)
    found = novel_classes.normal_log_densities(X, mean, covariance)
    for k in range(2):
        for s, scale in enumerate(novel_classes.SCALES):
            right = multivariate_normal(mean[k], scale * covariance[k]).logpdf(X)
            np.testing.assert_allclose(found[:, k, s], right)


def test_expectation_maximization_is_that_of_plain_loops():
    rng = np.random.default_rng(0)
    X, known = rng.normal(size=(30, 2)), rng.normal(size=30)
    start = novel_classes.first_mixture(X, 2, 0.3, rng)
    found, total = novel_classes.fitted(start, X, known, 1)
    scales = novel_classes.SCALES
    weights, known_weights, logs = np.zeros((30, 2, len(scales))), np.zeros(30), 0.0
    before = start.components
    for i in range(30):
        parts = np.zeros((2, len(scales)))
        for k in range(2):
            for s, scale in enumerate(scales):
                density = multivariate_normal(before.mean[k], scale * before.covariance[k])
                parts[k, s] = before.share[k] * before.scale_share[s] * density.pdf(X[i])
        of_known = start.known * np.exp(known[i])
        weights[i] = parts / (parts.sum() + of_known)
        known_weights[i] = of_known / (parts.sum() + of_known)
        logs += np.log(parts.sum() + of_known)
    assert total == pytest.approx(logs)
    assert found.known == pytest.approx(known_weights.mean())
    for s in range(len(scales)):
        right = weights[:, :, s].sum() / weights.sum()
        assert found.components.scale_share[s] == pytest.approx(right)
    for k in range(2):
        own = sum(weights[:, k, s] / scale for s, scale in enumerate(scales))
        mean = sum(own[i] * X[i] for i in range(30)) / own.sum()
        np.testing.assert_allclose(found.components.mean[k], mean)
        assert found.components.share[k] == pytest.approx(weights[:, k].sum() / 30)
        spread = sum(own[i] * np.outer(X[i] - mean, X[i] - mean) for i in range(30))
        spread = spread / weights[:, k].sum() + 1e-4 * np.eye(2)
        np.testing.assert_allclose(found.components.covariance[k], spread)
    more = novel_classes.fitted(start, X, known, 10)[1]
    assert more > total


def test_a_component_may_have_a_sharp_peak():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3)) * np.where(np.arange(400) % 2, 1.0, 0.1)[:, None]
    nothing_known = np.full(len(X), -np.inf)
    mixture = novel_classes.best_fitted(X, nothing_known, (1, 1.0), (1, 60), rng)
    assert mixture.components.scale_share[-1] > 0.4
    np.testing.assert_allclose(mixture.components.covariance[0], np.eye(3), atol=0.25)


def test_the_same_seed_gives_the_same_answers_and_odd_input_is_told():
    X, y = known_samples(300, 0)
    first = NovelClassDetector(random_state=3).fit(X, y).partial_fit(new_samples(200, 0))
    again = clone(first).fit(X, y).partial_fit(new_samples(200, 0))
    np.testing.assert_array_equal(first.evidence(X), again.evidence(X))
    with pytest.raises(NotFittedError):
        NovelClassDetector().is_new(X)
    with pytest.raises(ValueError, match="X has 2 inputs, fitted to 3"):
        first.is_new(X[:, :2])
    with pytest.raises(ValueError, match="false_new must be between 0 and 1, got 2"):
        NovelClassDetector(false_new=2).fit(X, y)


def test_few_samples_and_constant_inputs():
    X = np.column_stack([np.arange(12.0), np.ones(12)])
    y = np.array([0] * 11 + [1])
    detector = NovelClassDetector().fit(X, y).partial_fit(X[:3])
    assert detector.is_new(X).shape == (12,)
    assert np.isfinite(detector.evidence(X)).all()
