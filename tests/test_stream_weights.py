"""Weights of the samples of a stream."""

import numpy as np
import pytest

from dirad import PREVALClassifier, PREVALRegressor, load, save

QUICK = {"random_state": 0, "steps_per_batch": 100, "l0": {"max_edges": 15}}


def samples(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + 0.5 * X[:, 1] > 0, rng


@pytest.mark.parametrize("kind", [PREVALClassifier, PREVALRegressor])
def test_weight_0_leaves_a_sample_out(kind):
    X, y, rng = samples(500)
    y = y if kind is PREVALClassifier else X[:, 0] * 2
    weight = (rng.random(500) < 0.7).astype(float)
    here = weight > 0
    with_weights = kind(**QUICK).partial_fit(X[:100], y[:100], sample_weight=weight[:100])
    with_weights.partial_fit(X[100:], y[100:], sample_weight=weight[100:])
    without = kind(**QUICK).partial_fit(X[here], y[here])
    assert with_weights.n_samples_seen_ == without.n_samples_seen_ == here.sum()
    np.testing.assert_array_equal(with_weights.predict(X), without.predict(X))
    fitted = [kind(**QUICK).fit(X, y, sample_weight=weight), kind(**QUICK).fit(X[here], y[here])]
    np.testing.assert_array_equal(*(model.predict(X) for model in fitted))
    for model in (with_weights, without):
        model.finish()
    np.testing.assert_array_equal(with_weights.predict(X), without.predict(X))


def test_labels_of_samples_that_are_left_out_are_not_learned():
    X, y, _ = samples(300)
    names = np.where(y, "high", "low").astype(object)
    names[:20], names[20:30] = "broken", None
    weight = np.ones(300)
    weight[:25] = 0
    model = PREVALClassifier(**QUICK).fit(X, names, sample_weight=weight)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.n_samples_seen_ == 275


def test_equal_weights_change_nothing():
    X, y, _ = samples(400)
    models = [
        PREVALClassifier(**QUICK).partial_fit(X, y, sample_weight=weight)
        for weight in (None, np.ones(400))
    ]
    np.testing.assert_array_equal(*(model.predict_proba(X) for model in models))


def test_weights_count_as_repetitions_in_what_is_learned():
    """Of two contradicting sets of labels, those that weigh three times as much win."""
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(500, 2)), 2, axis=0)
    y = np.where(np.arange(1000) % 2, 1.0, 0.0) + X[:, 0]  # one answer of 0 and one of 1 more
    weight = np.where(np.arange(1000) % 2, 3.0, 1.0)
    repeated = np.repeat(np.arange(1000), weight.astype(int))
    weighted = PREVALRegressor(random_state=0).fit(X, y, sample_weight=weight)
    by_copies = PREVALRegressor(random_state=0).fit(X[repeated], y[repeated])
    alike = PREVALRegressor(random_state=0).fit(X, y)
    found = [np.mean(model.predict(X) - X[:, 0]) for model in (weighted, by_copies, alike)]
    assert found == pytest.approx([0.75, 0.75, 0.5], abs=0.05)


def test_tests_count_samples_and_not_weights():
    X, y, _ = samples(1200)
    model = PREVALClassifier(**QUICK).partial_fit(X[:1000], y[:1000])
    heavy = PREVALClassifier(**QUICK).partial_fit(X[:1000], y[:1000])
    model.partial_fit(X[1000:], y[1000:])
    heavy.partial_fit(X[1000:], y[1000:], sample_weight=np.full(200, 50.0))
    assert model.reports_[-1].p == heavy.reports_[-1].p


def test_a_file_keeps_the_weights(tmp_path):
    X, y, rng = samples(700)
    weight = rng.uniform(0.1, 3.0, 700)
    here = PREVALClassifier(**QUICK).partial_fit(X[:450], y[:450], sample_weight=weight[:450])
    save(here, tmp_path / "m.dirad")
    there = load(tmp_path / "m.dirad")
    for model in (here, there):
        model.partial_fit(X[450:], y[450:])
    np.testing.assert_array_equal(here.predict_proba(X), there.predict_proba(X))
    buffer = there._state.system.models[0].buffer
    np.testing.assert_array_equal(np.unique(buffer.weight[450:]), [1.0])
    np.testing.assert_array_equal(buffer.weight[:450], weight[:450])


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(9), r"sample_weight.shape == \(9,\), expected \(10,\)"),
        (np.ones((10, 2)), "Sample weights must be 1D"),
        (np.full(10, np.nan), "contains NaN"),
        (np.r_[np.ones(9), -1.0], "sample_weight, row 9: -1 is negative"),
        (np.r_[np.ones(9), 1e9], "row 9: 1e.09 is neither 0 nor between 1e-06 and 1e.06"),
    ],
)
@pytest.mark.parametrize("kind", [PREVALClassifier, PREVALRegressor])
def test_weights_that_are_refused(kind, weight, message):
    X, y, _ = samples(10)
    for learn in (kind().fit, kind().partial_fit):
        with pytest.raises(ValueError, match=message):
            learn(X, y, sample_weight=weight)


def test_nothing_to_learn_is_refused():
    X, y, _ = samples(10)
    with pytest.raises(ValueError, match="sample_weight is zero for all samples"):
        PREVALClassifier().fit(X, y, sample_weight=np.zeros(10))
    model = PREVALClassifier().partial_fit(X, y, sample_weight=np.zeros(10))
    assert model.n_samples_seen_ == 0
    with pytest.raises(ValueError, match="it takes no sample_weight"):
        PREVALClassifier(preset="paper").fit(X / 10, y, sample_weight=np.ones(10))
