"""L1 in closed form: forward regression, neighbours, and the predictors of clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirad import PREVALClassifier
from dirad.core import sparse_regression
from dirad.core.sparse_regression import Covariance, forward_regression
from dirad.growth.state import new_state
from dirad.preval import exact_l1, learner, source_selection
from dirad.preval.clusters import (
    ENOUGH_SAMPLES,
    SAMPLES_AROUND,
    enlarged,
    far_apart,
    find_clusters,
)
from dirad.preval.exact_l1 import (
    LEAST_SHARE,
    RIDGE_DOUBLING_SAMPLES,
    fit_exact_l1,
)
from dirad.preval.predictor import fit_state_scaling
from dirad.preval.settings import PRESETS
from dirad.preval.source_selection import forbid_neighbours

SEEDS = st.integers(0, 2**20)


def naive_selection(covariance, target, allowed, most, ridge, least_gain):
    """Choose sources one by one, each time solving the whole system again."""
    penalized = covariance + ridge * np.eye(len(covariance))

    def explained(sources):
        own = covariance[target, sources]
        return own @ np.linalg.solve(penalized[np.ix_(sources, sources)], own) if sources else 0.0

    chosen: list[int] = []
    while len(chosen) < most:
        now = explained(chosen)
        rest = [j for j in np.flatnonzero(allowed) if j not in chosen]
        gains = [explained([*chosen, j]) - now for j in rest]
        if not rest or max(gains) <= least_gain * (covariance[target, target] - now):
            break
        chosen.append(rest[int(np.argmax(gains))])
    return chosen, np.linalg.solve(penalized[np.ix_(chosen, chosen)], covariance[target, chosen])


@pytest.mark.parametrize("held", [4096, 1])
@given(SEEDS, st.integers(1, 6), st.sampled_from([0.0, 0.05, 0.3]))
def test_forward_regression_equals_a_naive_twin(held, seed, most, least_gain):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    X = rng.normal(size=(60, n)) @ rng.normal(size=(n, n))
    covariance = np.cov(X.T, bias=True)
    targets = rng.permutation(n)[: n - 1]
    allowed = (rng.random((len(targets), n)) < 0.8) & (targets[:, None] != np.arange(n))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_regression, "MAX_MATRIX", held)
        sources, weights = forward_regression(
            Covariance(X), targets, allowed, most, 0.3, least_gain
        )
    assert sources.shape == weights.shape == (len(targets), most)
    for i, target in enumerate(targets):
        chosen, expected = naive_selection(covariance, target, allowed[i], most, 0.3, least_gain)
        count = len(chosen)
        assert sources[i, :count].tolist() == chosen
        assert weights[i, :count] == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert not weights[i, count:].any()


def test_copies_of_a_source_are_chosen_once():
    rng = np.random.default_rng(0)
    own = rng.normal(size=200)
    X = np.stack([own, own, own, own + rng.normal(size=200)], axis=1)
    covariance = np.cov(X.T, bias=True)
    allowed = np.array([[True, True, True, False]])
    sources, weights = forward_regression(Covariance(X), np.array([3]), allowed, 3, 0.0)
    assert np.count_nonzero(weights) == 1
    assert sources[0, 0] == 0
    assert weights[0, 0] == pytest.approx(covariance[0, 3] / covariance[0, 0])


@given(SEEDS, st.floats(0.05, 0.9), st.sampled_from([1.0, 3.0, 6.0]))
def test_neighbours_are_the_most_correlated_inputs(seed, near, noise):
    """Where the typical input is correlated with none by a half, there are no neighbours."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, 5)) @ rng.normal(size=(5, 20)) + noise * rng.normal(size=(100, 20))
    allowed = np.ones((16, 20), bool)  # four are hidden nodes
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_selection, "FEW_INPUTS", 4)
        patch.setattr(source_selection, "TARGETS_AT_ONCE", 7)
        forbid_neighbours(allowed, Covariance(X), 16, near)
    correlation = np.abs(np.corrcoef(X[:, :16].T)) - np.eye(16)
    if np.median(correlation.max(axis=0)) < 0.5:
        assert allowed.all()
        return
    for row, target in zip(allowed, range(16), strict=True):
        like = {j: correlation[target, j] for j in range(16) if j != target}
        related = [j for j in like if like[j] > np.sqrt(2 * np.log(16) / 100)]
        count = min(int(near * 12), len(related) // 2)
        assert set(np.flatnonzero(~row)) == set(sorted(like, key=lambda j: -like[j])[:count])


def test_few_inputs_have_no_neighbours():
    allowed = np.ones((200, 200), bool)
    forbid_neighbours(allowed, Covariance(np.arange(400.0).reshape(2, 200)), 200, 0.9)
    assert allowed.all()
    with pytest.raises(ValueError, match=r"near must be in \[0, 1\)"):
        PRESETS["default"].replace(near=1.0)


def fitted(X, classes, **changes):
    """Return the L1 of an L0 that has only inputs."""
    network = new_state(X.shape[1], 0, seed=0).network
    states = fit_state_scaling(network, X, standardize=True)
    settings = PRESETS["default"].replace(**changes)
    return fit_exact_l1(states, X, settings, 0, classes), settings


def test_each_cluster_has_the_ridge_regression_of_its_own_samples():
    rng = np.random.default_rng(0)
    classes = np.repeat([3, 5], 200)
    X = rng.normal(size=(400, 4))
    X[classes == 3, 3] = 2.0 * X[classes == 3, 0] - X[classes == 3, 1]
    X[classes == 5, 3] = 4.0 - X[classes == 5, 2]
    l1, settings = fitted(X, classes, modes=1)
    assert l1.clusters is not None
    assert l1.clusters.classes.tolist() == [3, 5]
    predicted = l1.cluster_predictions(X)
    for cluster, label in enumerate((3, 5)):
        own = X[classes == label]
        mean, n = own.mean(axis=0), len(own)
        covariance = (own - mean).T @ (own - mean) / n
        ridge = settings.ridge * (1 + (RIDGE_DOUBLING_SAMPLES * X.shape[1] ** 0.5 / n) ** 2)
        for target in range(4):
            allowed = np.arange(4) != target
            sources, weights = naive_selection(covariance, target, allowed, 12, ridge, LEAST_SHARE)
            expected = mean[target] + (X[:, sources] - mean[sources]) @ weights
            assert predicted[:, cluster, target] == pytest.approx(expected, abs=1e-9)


def test_a_mixture_follows_the_cluster_that_predicts_better():
    rng = np.random.default_rng(1)
    classes = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 8))
    X[:, 4:] = np.where(classes[:, None] == 0, X[:, :4], -X[:, :4])
    l1, _ = fitted(X, classes, modes=1)
    weights = l1.cluster_weights(X)
    assert weights.sum(axis=1) == pytest.approx(np.ones(600))
    assert np.mean(weights.argmax(axis=1) == classes) > 0.95
    best = l1.cluster_predictions(X)[np.arange(600), classes]
    assert np.mean(l1.residuals(X) ** 2) < 1.1 * np.mean((best - X) ** 2)


def test_a_constant_state_is_predicted_by_its_mean():
    X = np.random.default_rng(0).normal(size=(300, 3))
    X[:, 1] = 7.0
    X[:, 2] = 1e-4 * X[:, 0]  # nearly constant
    l1, _ = fitted(X, np.zeros(300, int), modes=1)
    assert l1.scaled_predictions(X)[:, 1] == pytest.approx(np.full(300, 7.0))
    assert len(np.unique(l1.cluster_predictions(X)[:, 0, 2])) == 1
    assert np.isfinite(l1.residuals(X)).all()


def test_without_labels_all_samples_are_one_class():
    X = np.random.default_rng(0).normal(size=(300, 3))
    l1, _ = fitted(X, np.full(300, -1), modes=2)
    assert l1.clusters is not None
    assert set(l1.clusters.classes.tolist()) == {-1}


@pytest.mark.parametrize("n_own", [1, 20, ENOUGH_SAMPLES - 1, ENOUGH_SAMPLES, 120])
def test_few_samples_are_joined_by_the_closest_ones(n_own):
    rng = np.random.default_rng(n_own)
    X = rng.normal(size=(200, 2))
    own = sorted(rng.permutation(200)[:n_own].tolist())
    center = [sum(X[i, j] for i in own) / len(own) for j in range(2)]
    others = [i for i in range(200) if i not in own]
    others.sort(key=lambda i: sum((X[i, j] - center[j]) ** 2 for j in range(2)))
    expected = own + others[: max(ENOUGH_SAMPLES - len(own), 0)]
    assert enlarged(X, np.array(own)).tolist() == sorted(expected)


@given(SEEDS, st.integers(1, 8))
def test_centers_far_apart_equal_a_naive_twin(seed, n):
    X = np.random.default_rng(seed).normal(size=(20, 3))

    def distance(a, b):
        return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))

    mean = [sum(column) / 20 for column in X.T]
    expected = [min(range(20), key=lambda i: distance(X[i], mean))]
    while len(expected) < n:
        nearest = [min(distance(X[i], X[j]) for j in expected) for i in range(20)]
        expected.append(nearest.index(max(nearest)))
    assert far_apart(X, n) == expected


@pytest.mark.parametrize(
    ("n_inputs", "n", "overlap"),
    [
        (120, 300, True),
        (120, 300, False),
        (120, 501, True),
        (120, 119, True),
        (100, 300, True),
    ],
)
def test_clusters_of_few_samples_of_many_inputs_overlap(n_inputs, n, overlap):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2 * n, n_inputs))
    classes = np.tile([0, 1], n)
    found = find_clusters(X, classes, 20, 30, seed=0, overlap=overlap)
    assert all(len(set(classes[own])) == 1 for own in found)
    if (n_inputs, n, overlap) == (120, 300, True):
        assert [len(own) for own in found] == [SAMPLES_AROUND] * 40
        assert len(np.unique(np.concatenate(found))) > n
    else:
        assert len(found) == 2 * min(20, n // 30)
    again = find_clusters(X, classes, 20, 30, seed=0, overlap=overlap)
    assert all(np.array_equal(*pair) for pair in zip(found, again, strict=True))


@pytest.mark.parametrize(
    ("n_inputs", "n", "everything"), [(120, 400, 1), (60, 400, 0), (120, 1200, 0)]
)
def test_few_samples_of_many_inputs_are_all_fitted_in_the_end(monkeypatch, n_inputs, n, everything):
    fits = []

    def noted(states, X, settings, seed, classes, threads, memory, *, overlap):
        fits.append((len(X), overlap))
        return fit_exact_l1(states, X, settings, seed, classes, threads, memory, overlap=overlap)

    monkeypatch.setattr(learner, "fit_exact_l1", noted)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n, n_inputs)), np.arange(n) % 2
    X[:, 0] += 3.0 * y
    model = PREVALClassifier(order_matters=False, random_state=0)
    for start in range(0, n, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100], classes=[0, 1])
    before = list(fits)
    model.finish()
    assert not any(overlap for _, overlap in before)
    assert all(len_ < 0.93 * n for len_, _ in fits[: len(before) + 1])  # some are held out
    assert fits[len(before) :] == [fits[len(before)]] + everything * [(n, True)]
    assert model.models_[0].calibration.samples.sum() == n - fits[len(before)][0]


def test_clusters_that_overlap_have_edges_that_explain_less(monkeypatch):
    rng = np.random.default_rng(0)
    X, classes = rng.normal(size=(300, 120)), np.arange(300) % 2
    states = fit_state_scaling(new_state(120, 0, seed=0).network, X, standardize=True)
    edges = []
    for share in (exact_l1.WHERE_THEY_OVERLAP, exact_l1.LEAST_SHARE_TIMES_SAMPLES):
        monkeypatch.setattr(exact_l1, "WHERE_THEY_OVERLAP", share)
        l1 = fit_exact_l1(states, X, PRESETS["default"], 0, classes, overlap=True)
        assert l1.network is not None
        edges.append(l1.network.n_edges / l1.n_clusters)
    assert edges[0] > 1.2 * edges[1] > 0
