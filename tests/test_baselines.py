"""Each baseline on small synthetic data: the sizes hold, the signal is found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, softmax

from dirad.demo.baselines import greedy_logistic, newton, parity_mlp
from experiments.baselines import logistic, perceptron
from experiments.baselines.pruned_mlp import pruned_mlp
from experiments.baselines.tree import decision_tree


def two_labels(n=2000, n_features=12, seed=0):
    """Labels drawn from a logistic model on features 2, 5 and 7 alone."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    logits = 3 * X[:, 2] - 2 * X[:, 5] + 1.5 * X[:, 7] + 0.5
    return X, np.where(rng.random(n) < expit(logits), "yes", "no")


def three_rings(n=900, seed=0):
    """Three classes by distance from the centre: no linear model separates them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 6))
    return X, np.digitize(np.abs(X[:, :2]).max(axis=1), [0.55, 0.8]) * 10


def accuracy(model, X, y):
    return float((model.predict(X) == y).mean())


@pytest.mark.parametrize("select", [greedy_logistic, logistic.l1_logistic])
def test_few_feature_logistic_finds_the_informative_features(select):
    X, y = two_labels()
    fitted = select(X, y, [1, 3, 6])
    assert list(fitted) == [1, 3, 6]
    assert all(1 <= model.n_weights <= size for size, model in fitted.items())
    assert fitted[1].features.tolist() == [2]
    assert sorted(fitted[3].features.tolist()) == [2, 5, 7]
    X_new, y_new = two_labels(seed=1)
    assert accuracy(fitted[3], X_new, y_new) > 0.84 > accuracy(fitted[1], X_new, y_new)


def test_greedy_looks_past_a_feature_that_repeats_a_chosen_one():
    """Alone, the noisy copy beats the weak feature; given its original, it adds nothing."""
    X, y = two_labels()
    X[:, 0] = X[:, 2] + 0.3 * np.random.default_rng(3).normal(size=len(X))
    chosen = greedy_logistic(X, y, [3])[3].features.tolist()
    assert chosen == [2, 5, 7]


def test_greedy_sees_a_feature_that_tells_only_beside_a_chosen_one():
    """Feature 1 says nothing of y, but cleans feature 0; feature 2 says less than both."""
    rng = np.random.default_rng(0)
    signal, clutter, other = rng.normal(size=(3, 4000))
    X = np.column_stack([signal + clutter, clutter, other])
    y = rng.random(4000) < expit(3 * signal + 1.85 * other)
    assert greedy_logistic(X, y, [2])[2].features.tolist() == [0, 1]


def test_greedy_choice_is_the_best_single_addition():
    """Each feature added is the one whose full refit lowers the loss most.

    All features share a large part, so that what one adds shows only beside the others.
    """
    X, y = two_labels(n=600)
    X = X + 2 * np.random.default_rng(5).normal(size=(600, 1))
    t = (y == "yes").astype(float)

    def loss(features):
        Z = np.column_stack([np.ones(len(X)), X[:, features]])
        logits = Z @ newton(Z, t, np.zeros(Z.shape[1]), 0.1)
        return np.logaddexp(0, logits).sum() - t @ logits

    chosen = greedy_logistic(X, y, [4])[4].features.tolist()
    for size in range(4):
        losses = [loss([*chosen[:size], j]) for j in range(12) if j not in chosen[:size]]
        assert loss(chosen[: size + 1]) == pytest.approx(min(losses), abs=0.5)


def test_newton_reaches_a_stationary_point_even_on_separable_data():
    X = np.linspace(-1, 1, 40)[:, None]
    Z, t = np.column_stack([np.ones(40), X]), (X[:, 0] > 0.5).astype(float)
    beta = newton(Z, t, np.zeros(2), 0.1)
    slope = Z.T @ (t - expit(Z @ beta)) - np.array([0, 0.1]) * beta
    assert np.abs(slope).max() < 1e-3
    assert np.isfinite(beta).all()


def test_l1_fit_meets_its_optimality_conditions():
    X, y = two_labels(n=500)
    Z, t = np.column_stack([np.ones(len(X)), X]), (y == "yes").astype(float)
    penalty = 20.0
    beta = logistic._l1_fit(Z, t, np.zeros(13), penalty)
    slope = Z.T @ (t - expit(Z @ beta))
    kept = np.flatnonzero(beta[1:]) + 1
    assert 0 < len(kept) < 12
    assert abs(slope[0]) < 0.5
    np.testing.assert_allclose(slope[kept], penalty * np.sign(beta[kept]), atol=0.5)
    assert np.abs(slope[1:]).max() < penalty + 0.5


def test_sizes_beyond_the_features_give_the_full_model():
    X, y = two_labels(n=300)
    assert sorted(greedy_logistic(X, y, [50])[50].features) == list(range(12))
    assert logistic.l1_logistic(X, y, [50])[50].n_weights <= 12


def test_full_logistic_counts_every_coefficient():
    X, y = two_labels()
    model = logistic.full_logistic(X, y)
    assert model.n_weights == 12
    assert accuracy(model, *two_labels(seed=1)) > 0.84


def test_decision_tree_size_is_its_number_of_splits():
    X, y = three_rings()
    fitted = decision_tree(X, y, [2, 8])
    assert {size: model.n_weights for size, model in fitted.items()} == {2: 2, 8: 8}
    assert set(fitted[8].features) == {0, 1}
    assert accuracy(fitted[8], *three_rings(seed=1)) > 0.95


def test_parity_mlp_solves_xor_and_counts_edges():
    runs = [parity_mlp(2, 4, seed) for seed in range(5)]
    assert all(run.solved for run in runs)
    assert {run.n_edges for run in runs} == {12}


def test_parity_mlp_reports_failure(monkeypatch):
    monkeypatch.setattr("dirad.demo.baselines.PARITY_STEPS", 300)
    assert parity_mlp(3, 1, 0) == (False, 4)


def test_pruned_mlp_keeps_exactly_the_edges_asked_for():
    X, y = three_rings()
    X_new, y_new = three_rings(seed=1)
    fitted = pruned_mlp(X, y, X_new, [20, 60], 0, hidden=(8, 16))
    assert {size: model.n_weights for size, model in fitted.items()} == {20: 20, 60: 60}
    for model in fitted.values():
        np.testing.assert_array_equal(model.labels, model.predict(X_new))
    assert accuracy(fitted[60], X_new, y_new) > 0.85  # the most frequent class: 0.4


def test_pruned_mlp_is_repeatable_and_needs_one_output_for_two_classes():
    X, y = two_labels(n=600)
    first, again = (pruned_mlp(X, y, X, [6], 4, hidden=(3,))[6] for _ in range(2))
    np.testing.assert_array_equal(first.network.values, again.network.values)
    assert first.network.output_weights.shape == (3, 1)
    assert first.n_weights == 6
    assert accuracy(first, X, y) > 0.8


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_mlp_gradient_agrees_with_finite_differences(n_outputs):
    rng = np.random.default_rng(0)
    network = perceptron.start(4, 5, n_outputs, rng)
    gradient = perceptron.blank(4, 5, n_outputs)
    X = rng.normal(size=(30, 4)).astype(np.float32)
    codes = rng.integers(0, max(2, n_outputs), 30)
    targets = codes[:, None] if n_outputs == 1 else np.eye(n_outputs)[codes]

    def loss(values):
        W, V, b, c = (
            part.reshape(like.shape)
            for part, like in zip(
                np.split(values, np.cumsum([view.size for view in network[1:5]])[:-1]),
                network[1:5],
                strict=True,
            )
        )
        logits = np.maximum(X @ W + b, 0) @ V + c
        if n_outputs == 1:
            return -np.log(expit(np.where(targets == 1, logits, -logits))).mean()
        return -np.log(softmax(logits, axis=1)[np.arange(30), codes]).mean()

    perceptron.backward(network, X, targets.astype(np.float32), gradient)
    expected = approx_fprime(network.values.astype(np.float64), loss, 1e-7)
    np.testing.assert_allclose(gradient.values, expected, atol=1e-4)


def test_tuned_linear_fits_both_tasks():
    X, y = two_labels(n=400)
    assert accuracy(logistic.tuned_linear("classification").fit(X, y), X, y) > 0.85
    target = X @ np.arange(12.0) + 3
    assert logistic.tuned_linear("regression").fit(X, target).score(X, target) > 0.999


def test_bad_requests_name_the_fault():
    X, y = two_labels(n=100)
    with pytest.raises(ValueError, match="two labels"):
        greedy_logistic(X, np.arange(100) % 3, [2])
    with pytest.raises(ValueError, match="positive"):
        logistic.l1_logistic(X, y, [0])
    with pytest.raises(ValueError, match="500 edges"):
        pruned_mlp(X, y, X, [500], 0, hidden=(4,))
    with pytest.raises(ValueError, match="clustering"):
        logistic.tuned_linear("clustering")
