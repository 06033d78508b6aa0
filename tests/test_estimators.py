"""The scikit-learn contract, and input that is bad, odd or large."""

import re

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification, make_moons, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dirad import DIRADClassifier, DIRADRegressor, Params
from dirad.inference import respond
from networks import FixedSeed

QUICK = {"max_steps": 400, "settle_steps": 100}

# As for SGDClassifier: batches are drawn by position, so repeating a sample is not weighting it.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "weights act on the cost, not on the draw",
    "check_sample_weight_equivalence_on_sparse_data": "weights act on the cost, not on the draw",
}


@parametrize_with_checks(
    [DIRADClassifier(random_state=0), DIRADRegressor(random_state=0)],
    expected_failed_checks=lambda _: EXPECTED_FAILURES,
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def two_classes():
    return make_classification(300, 8, n_informative=5, random_state=0)


def test_grid_search_and_pipeline(two_classes):
    X, y = two_classes
    model = make_pipeline(MinMaxScaler(), DIRADClassifier(random_state=0, **QUICK))
    search = GridSearchCV(model, {"diradclassifier__max_edges": [2, 6]}, cv=2).fit(X, y)
    assert search.best_params_["diradclassifier__max_edges"] == 6
    assert search.best_estimator_[-1].n_edges_ <= 6


def test_every_constant_is_a_parameter():
    names = DIRADClassifier().get_params()
    assert set(vars(Params())) <= set(names)
    assert clone(DIRADClassifier(R1=3.0, delta_min=0.02)).get_params()["R1"] == 3.0
    with pytest.raises(TypeError, match="R3"):
        DIRADClassifier(R3=1)


def test_constants_reach_the_network(two_classes):
    X, y = two_classes
    model = DIRADClassifier(preset="paper", R1=7.0, max_steps=30, random_state=0).fit(X, y)
    assert model.params_.R1 == 7.0
    assert model.n_steps_ <= 30
    with pytest.raises(ValueError, match="preset must be one of"):
        DIRADClassifier(preset="papers").fit(X, y)
    with pytest.raises(ValueError, match="gamma must be positive"):
        DIRADClassifier(gamma=0.0).fit(X, y)


def test_string_labels_and_class_weight():
    X, y = make_classification(400, 6, weights=[0.9], flip_y=0.2, random_state=1)
    names = np.array(["common", "rare"])[y]
    plain = DIRADClassifier(random_state=0, **QUICK).fit(X, names)
    balanced = DIRADClassifier(random_state=0, class_weight="balanced", **QUICK).fit(X, names)
    assert set(plain.predict(X)) <= {"common", "rare"}
    assert (balanced.predict(X) == "rare").sum() > (plain.predict(X) == "rare").sum()


@pytest.mark.parametrize("preset", ["paper", "default"])
def test_limits_are_kept(two_classes, preset):
    X, y = two_classes
    model = DIRADClassifier(
        preset=preset, max_edges=7, max_hidden=1, random_state=0, max_steps=600, settle_steps=100
    ).fit(X, y)
    assert model.n_edges_ <= 7
    assert model.n_hidden_ <= 1


@pytest.mark.parametrize("max_edges", [1, 2, 5, 13])
def test_a_limit_is_used_up_where_the_data_ask_for_more(max_edges):
    X, y = make_classification(2000, 30, n_informative=20, random_state=0)
    model = DIRADClassifier(max_edges=max_edges, random_state=0).fit(X, y)
    assert model.n_edges_ == max_edges


def test_fitted_network_takes_raw_inputs(two_classes):
    X, y = two_classes
    X = X * np.logspace(-3, 3, X.shape[1]) + 10.0
    model = DIRADClassifier(random_state=0, **QUICK).fit(X, y)
    np.testing.assert_array_equal(respond(model.network_, X)[:, 0], model.predict_proba(X)[:, 1])
    assert model.score(X, y) > 0.8


def test_units_of_the_inputs_do_not_matter(two_classes):
    X, y = two_classes
    scale = np.logspace(-6, 6, X.shape[1])
    plain = DIRADClassifier(random_state=0, **QUICK).fit(X, y)
    scaled = DIRADClassifier(random_state=0, **QUICK).fit(X * scale, y)
    assert plain.n_edges_ == scaled.n_edges_
    np.testing.assert_allclose(
        plain.predict_proba(X), scaled.predict_proba(X * scale), rtol=0, atol=1e-3
    )


def test_importances_find_the_informative_inputs():
    X, y = make_regression(500, 10, n_informative=2, coef=False, random_state=3)
    model = DIRADRegressor(random_state=0).fit(X, y)
    correlated = np.argsort(-np.abs(np.corrcoef(X.T, y)[-1, :-1]))[:2]
    assert set(np.argsort(-model.feature_importances_)[:2]) == set(correlated)
    assert model.feature_importances_.sum() == pytest.approx(1.0)


def test_products_are_learned_by_the_regressor():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 5))
    y = 3.0 * X[:, 1] * X[:, 3] + X[:, 0] + 5.0
    assert DIRADRegressor(random_state=0).fit(X[:1500], y[:1500]).score(X[1500:], y[1500:]) > 0.95


def test_several_targets():
    X, y = make_regression(300, 6, n_targets=2, random_state=0)
    model = DIRADRegressor(random_state=0).fit(X, y)
    assert model.predict(X).shape == (300, 2)
    assert model.score(X, y) > 0.99


def test_paper_regressor_stays_in_the_range_seen():
    X, y = make_regression(300, 4, random_state=0)
    model = DIRADRegressor(preset="paper", random_state=0, max_steps=300).fit(X / 5, y)
    answers = model.predict(X)
    assert answers.min() >= y.min() - 1e-9
    assert answers.max() <= y.max() + 1e-9


def test_noise_grows_next_to_nothing():
    rng = np.random.default_rng(0)
    grown = [
        DIRADClassifier(random_state=0, **QUICK)
        .fit(rng.normal(size=(3000, 20)), rng.integers(0, 2, 3000))
        .n_edges_
        for _ in range(10)
    ]
    assert np.mean(grown) <= 2


def test_validation_keeps_a_network_within_the_limit():
    X, y = load_iris(return_X_y=True)
    model = DIRADClassifier(validation_fraction=0.2, max_edges=8, random_state=0, **QUICK)
    assert model.fit(X, y).n_edges_ <= 8
    assert cross_val_score(model, X, y, cv=3).mean() > 0.85
    with pytest.raises(ValueError, match="validation_fraction"):
        DIRADClassifier(validation_fraction=1.5).fit(X, y)


def test_what_is_printed(two_classes):
    X, y = two_classes
    model = DIRADClassifier(max_edges=3, random_state=0, **QUICK)
    assert str(model) == repr(model)
    model.fit(X, y)
    assert re.search(r"8 inputs → 1 output · .* · 3 edges", str(model))
    assert "3 edges" in repr(model.network_)
    assert "<code>y0 = logistic(" in model.network_._repr_html_()


def test_progress_bar_goes_to_stderr(two_classes, capfd):
    DIRADClassifier(random_state=0, verbose=1, **QUICK).fit(*two_classes)
    out, err = capfd.readouterr()
    assert out == ""
    assert "steps" in err


# --- bad, odd and large input


@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_infinite_values(two_classes, bad):
    X, y = two_classes
    broken = X.copy()
    broken[3, 2] = bad
    with pytest.raises(ValueError, match="infinity"):
        DIRADClassifier().fit(broken, y)
    model = DIRADClassifier(random_state=0, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="infinity"):
        model.predict(broken)


def test_one_class_only(two_classes):
    with pytest.raises(ValueError, match="only the class 'a'"):
        DIRADClassifier().fit(two_classes[0], np.full(300, "a"))


def test_a_single_sample():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        DIRADRegressor().fit([[1.0, 2.0]], [1.0])


def test_constant_features(two_classes):
    X, y = two_classes
    constant = np.hstack([X, np.full((len(X), 2), 0.1)])
    model = DIRADClassifier(random_state=0, **QUICK).fit(constant, y)
    assert model.feature_importances_[-2:].tolist() == [0.0, 0.0]
    nothing = DIRADClassifier(random_state=0, **QUICK).fit(np.ones((20, 3)), np.arange(20) % 2)
    assert nothing.n_edges_ == 0
    np.testing.assert_allclose(nothing.predict_proba(np.ones((1, 3))), 0.5, atol=1e-6)


def test_constant_target():
    model = DIRADRegressor(random_state=0, **QUICK).fit(np.arange(10.0)[:, None], np.full(10, 3.0))
    assert model.predict([[100.0]]) == pytest.approx(3.0)
    assert model.n_edges_ == 0


def test_other_types(two_classes):
    X, y = two_classes
    whole = np.round(X * 10)
    expected = DIRADClassifier(random_state=0, **QUICK).fit(whole, y).predict_proba(whole)
    for other in (whole.astype(np.float32), whole.astype(np.int32), np.asfortranarray(whole)):
        model = DIRADClassifier(random_state=0, **QUICK).fit(other, y)
        np.testing.assert_array_equal(model.predict_proba(other), expected)


def test_sparse_input_is_refused(two_classes):
    sparse = pytest.importorskip("scipy.sparse")
    X, y = two_classes
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        DIRADClassifier().fit(sparse.csr_matrix(X), y)


def test_a_million_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 1_000_000)).astype(np.float32)
    y = (X[:, 123_456] > 0).astype(int)
    y[:2] = 0, 1
    model = DIRADClassifier(random_state=0, max_steps=120, settle_steps=20).fit(X, y)
    assert model.score(X, y) == 1.0


def test_wrong_width(two_classes):
    X, y = two_classes
    model = DIRADClassifier(random_state=0, **QUICK).fit(X, y)
    with pytest.raises(ValueError, match="8 features"):
        model.predict(X[:, :5])


@pytest.mark.parametrize("settle_steps", [0, 1])
def test_a_short_settling_still_keeps_the_limit(two_classes, settle_steps):
    X, y = two_classes
    model = DIRADClassifier(max_edges=4, settle_steps=settle_steps, random_state=0).fit(X, y)
    assert model.n_edges_ <= 4


def two_products(seed=5):
    X = np.random.default_rng(seed).normal(size=(4000, 6))
    return X, X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3]


def test_growth_without_a_limit_ends_when_it_does_not_pay():
    """Once answers are nearly perfect every edge seems to explain something, and none does."""
    X, z = two_products()
    classifier = DIRADClassifier(random_state=0).fit(X[:3000], z[:3000] > 0)
    assert classifier.score(X[3000:], z[3000:] > 0) > 0.97
    assert classifier.n_edges_ < 100
    assert classifier.history_.edges.max() < 500  # nor was it ever larger on its way
    noisy = z + np.random.default_rng(0).normal(size=4000)
    regressor = DIRADRegressor(random_state=0).fit(X[:3000], noisy[:3000])
    assert regressor.score(X[3000:], noisy[3000:]) > 0.6  # of the 2/3 that are not noise
    assert regressor.n_edges_ < 100


def test_a_committee_is_the_average_of_its_networks():
    X, y = make_moons(300, noise=0.3, random_state=0)
    committee = DIRADClassifier(random_state=0, committee=3, **QUICK).fit(X, y)
    seeds = np.random.RandomState(0).randint(2**31, size=3)
    logits = 0.0
    for seed in seeds:
        alone = DIRADClassifier(**QUICK)
        alone.random_state = FixedSeed(int(seed))
        p = alone.fit(X, y).predict_proba(X)[:, 1]
        logits = logits + np.log(p / (1 - p)) / 3
    np.testing.assert_allclose(
        committee.predict_proba(X)[:, 1], 1 / (1 + np.exp(-logits)), rtol=1e-6
    )
    edges = committee.network_.edges
    assert committee.n_edges_ == len(committee.history_.topology()) == (edges["source"] >= 0).sum()


def test_a_committee_that_was_stopped_goes_on_as_if_it_had_not():
    X, y = make_moons(300, noise=0.3, random_state=0)
    options = {"random_state": 0, "committee": 2, **QUICK}
    whole = DIRADClassifier(**options).fit(X, y)
    halted = DIRADClassifier(**options).fit(X, y, steps=130)
    stops = 0
    while not halted.is_stable_:
        halted.resume(X, y, steps=130)
        stops += 1
    assert stops > 4
    assert np.array_equal(halted.predict_proba(X), whole.predict_proba(X))


def test_a_committee_has_a_member():
    with pytest.raises(ValueError, match="committee must be at least 1, got 0"):
        DIRADClassifier(committee=0).fit([[0.0], [1.0]], [0, 1])
