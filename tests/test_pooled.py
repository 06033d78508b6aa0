"""The covariance that models share: what it adds up, when it counts, and when it is given up."""

import copy
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import Ridge

import dirad
from dirad import PREVALClassifier
from dirad.export import to_python
from dirad.preval import pooled as pooled_evidence
from dirad.preval.answers import Evaluated
from dirad.preval.class_moments import ClassMoments, class_moments
from dirad.preval.clusters import find_clusters
from dirad.preval.expert import Scores
from dirad.preval.input_units import CommonInputUnits
from dirad.preval.pooled import (
    ANSWERS,
    CANDIDATES,
    ENOUGH_TESTED,
    EXPONENTS,
    RIDGES,
    WEIGHTS,
    Choice,
    Discriminants,
    Pooled,
    linear_discriminants,
    new_pooled,
)
from dirad.preval.settings import PRESETS
from dirad.storage.errors import ModelError
from dirad.storage.experts import check_units

N_INPUTS, PER_CLASS, N_TASKS = 220, 150, 4


def features(seed=0, n_classes=2 * N_TASKS):
    """Return samples of classes that all vary alike, along directions that all inputs share."""
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(40, N_INPUTS)) * np.geomspace(3.0, 0.3, 40)[:, None]
    means = rng.normal(size=(n_classes, N_INPUTS)) * 0.28
    y = np.repeat(np.arange(n_classes), 2 * PER_CLASS)
    X = (
        means[y]
        + rng.normal(size=(len(y), 40)) @ mixing
        + 0.5 * rng.normal(size=(len(y), N_INPUTS))
    )
    test = np.arange(len(y)) % 2 == 1
    return X[~test], y[~test], X[test], y[test]


def learned(pooled=True, seed=0):
    """Return a model that learned two classes at a time, and a test of all."""
    X, y, X_test, y_test = features(seed)
    model = PREVALClassifier(random_state=0, batch_size=50, begin=100, pooled=pooled)
    rng = np.random.default_rng(1)
    for task in range(N_TASKS):
        own = rng.permutation(np.flatnonzero(y // 2 == task))
        model.partial_fit(X[own], y[own])
    return model.finish(), X_test, y_test


@pytest.fixture(scope="module")
def with_and_without():
    return learned(), learned(pooled=False)


def as_they_are():
    """Return units in which inputs are what they are."""
    units = CommonInputUnits()
    units.set_once(np.ones(N_INPUTS))
    return units


def system_of(model):
    return model._stream.system


def test_features_that_vary_alike_are_told_apart_better(with_and_without):
    (model, X, y), (without, _, _) = with_and_without
    assert system_of(model).discriminants is not None
    assert system_of(without).pooled is None
    assert len(model.models_) == len(without.models_) == N_TASKS
    assert model.score(X, y) > without.score(X, y) + 0.03


def test_what_is_pooled_is_the_scatter_of_all_samples(with_and_without):
    """Those that were held out count too, after what is pooled was tested on them."""
    (model, _, _), _ = with_and_without
    system = system_of(model)
    pooled = system.pooled
    assert pooled.n + 2 * N_TASKS == len(features()[0])
    X, y, _, _ = features()
    means = np.concatenate([one.moments.means for one in system.models])
    expected = np.array([X[y == label].mean(axis=0) for label in np.unique(y)]) / system.units.unit
    by_first_input = [one[one[:, 0].argsort()] for one in (means, expected)]
    assert by_first_input[0] == pytest.approx(by_first_input[1])
    assert all(one.moments.scatter is None for one in system.models)
    assert pooled.n_tested >= ENOUGH_TESTED
    kept = sum(one.n_parameters for one in system.models)
    assert system.n_parameters >= kept + N_INPUTS * (N_INPUTS + 1) // 2


def test_a_model_never_changes(with_and_without):
    """Evidence is added to answers: errors, by which batches are tested, are those of L1 alone."""
    (model, X, _), (without, _, _) = with_and_without
    for one, other in zip(model.models_, without.models_, strict=True):
        assert np.array_equal(one.evaluate(X).log_error, other.evaluate(X).log_error)


def test_the_model_of_the_most_probable_class_answers():
    """Two classes of one model that are less probable each do not outweigh it together."""
    likelihoods = np.array([1.0, 1.0, 0.8])  # −ln
    models = [SimpleNamespace(classes=(0, 1)), SimpleNamespace(classes=(2,))]
    moments = [ClassMoments(9, 9.0, np.zeros((len(one.classes), N_INPUTS))) for one in models]
    linear = Discriminants(
        tuple(moments),
        Choice(0.1, 1.0, 1.0, answers=0.0),
        as_they_are(),
        np.zeros((N_INPUTS, 3)),
        likelihoods,
    )
    X = np.zeros((1, N_INPUTS))
    evaluated = [
        Evaluated(one, np.zeros(1, int), Scores(*np.ones((4, 1)), np.ones((1, len(one.classes)))))
        for one in models
    ]
    found = linear.applied(evaluated, X)
    assert [one.scores.score[0] for one in found] == [1.0, 0.8]
    assert [one.scores.label[0] for one in found] == [0, 2]


def skewed_features():
    """Return features of rectified units: of many samples 0, and else far from symmetric."""
    X, y, X_test, y_test = features()
    return np.maximum(X + 1.0, 0.0) ** 2, y, np.maximum(X_test + 1.0, 0.0) ** 2, y_test


def test_of_skewed_inputs_the_root_is_taken():
    X, y, X_test, y_test = skewed_features()
    X, X_test = np.hstack([X, -X[:, :1]]), np.hstack([X_test, -X_test[:, :1]])
    units, plain = CommonInputUnits(), CommonInputUnits()
    units.fit_once(X[:200])
    plain.set_once(units.unit)
    with np.errstate(invalid="ignore"):
        expected = np.where(X >= 0, np.sqrt(X / units.unit), X / units.unit)
    assert np.array_equal(units.symmetric(X), expected)  # the last input is negative
    assert np.array_equal(units.symmetric(-X)[:, :5], -expected[:, :5])
    right = []
    for one in (units, plain):
        moments = class_moments(one.symmetric(X), y, range(2 * N_TASKS), np.unique(y))
        pooled = new_pooled(X.shape[1], PRESETS["default"])
        found = linear_discriminants(pooled, [moments], one, Choice(0.1, 1.0, 1.0)).of(X_test)
        right.append(np.mean(found.argmin(axis=1) == y_test))
    assert right[0] > right[1] + 0.02


def test_symmetric_inputs_and_few_inputs_are_left_as_they_are():
    rng = np.random.default_rng(0)
    for X in (
        rng.normal(size=(300, 210)),
        rng.uniform(size=(300, 210)),
        rng.exponential(size=(300, 200)),
    ):
        units = CommonInputUnits()
        units.fit_once(X)
        assert np.array_equal(units.symmetric(X), X / units.unit)


def test_discriminants_are_those_of_scikit_learn(monkeypatch):
    monkeypatch.setattr(pooled_evidence, "REGRESSION", 0.0)
    X, y, X_test, _ = features()
    moments = [
        class_moments(X[y // 2 == task], y[y // 2 == task], [2 * task, 2 * task + 1], np.unique(y))
        for task in range(N_TASKS)
    ]
    pooled = new_pooled(N_INPUTS, PRESETS["default"])
    for one in moments:
        pooled = pooled.plus(one)
    kept = [ClassMoments(one.n_fitted, one.n, one.means) for one in moments]
    found = linear_discriminants(pooled, kept, as_they_are(), Choice(1e-9, 1.0, 1.0)).of(X_test)
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(X, y)
    shift = found + theirs.decision_function(X_test) * (pooled.n / len(X))
    assert np.ptp(shift, axis=1) == pytest.approx(0.0, abs=1e-3)


def test_regression_is_that_of_scikit_learn(monkeypatch):
    """Of classes of equal size, with the ridge that is added to the covariance."""
    X, y, X_test, _ = features()
    units, k = as_they_are(), 2 * N_TASKS
    moments = class_moments(X, y, range(k), np.unique(y))
    pooled = replace(new_pooled(N_INPUTS, PRESETS["default"]).plus(moments), n=float(len(X)))
    found = []
    for weight in (0.0, 2.0):
        monkeypatch.setattr(pooled_evidence, "REGRESSION", weight)
        kept = [replace(moments, scatter=None)]
        found.append(linear_discriminants(pooled, kept, units, Choice(0.3, 1.0, 1.0)).of(X_test))
    penalty = 0.3 * np.trace(pooled.scatter) / len(X)
    theirs = Ridge(alpha=penalty).fit(X, np.eye(k)[y]).predict(X_test)
    assert (found[0] - found[1]) / 2.0 == pytest.approx(theirs - 1 / k, abs=1e-9)


def test_the_scatter_of_a_model_in_training_counts():
    X, y, _, _ = features()
    first = class_moments(X[y < 2], y[y < 2], [0, 1], np.arange(2))
    second = class_moments(X[y == 2], y[y == 2], [2], np.arange(3))
    pooled, choice = new_pooled(N_INPUTS, PRESETS["default"]), Choice(0.1, 1.0, 1.0)
    units = as_they_are()
    apart = linear_discriminants(pooled, [first, second], units, choice)
    both = linear_discriminants(
        pooled.plus(first).plus(second),
        [ClassMoments(one.n_fitted, one.n, one.means) for one in (first, second)],
        units,
        choice,
    )
    assert np.allclose(apart.slopes, both.slopes)


def test_a_rare_class_has_the_mean_of_all():
    X, y = np.arange(12.0).reshape(6, 2), np.array([0, 0, 0, 1, 1, 7])
    found = class_moments(X, y, [0, 1, 7], np.array([0, 1]))
    assert found.means[2] == pytest.approx(X[:5].mean(axis=0))
    assert found.n == 5 - 2
    assert class_moments(X, np.full(6, -1), [], np.zeros(0, int)) is None


def with_results(n_tested, gain, own_errors, l1_errors):
    """Return what is pooled after a test with these results."""
    losses = np.full(CANDIDATES, 100.0)
    losses[1, 3, 2, 0] -= gain
    errors = np.array([l1_errors, *[own_errors] * len(RIDGES)], float)
    return Pooled(np.eye(3), losses, errors, 10.0, n_tested)


def test_it_counts_only_where_it_helps():
    assert with_results(500, 10, 20, 30).choice == (RIDGES[1], WEIGHTS[3], EXPONENTS[2], ANSWERS[0])
    assert with_results(50, 10, 20, 30).choice is None  # too few samples
    assert with_results(500, 1, 20, 30).choice is None  # too little gain
    assert with_results(500, 10, 31, 30).choice is None  # L1 errs less often
    assert not with_results(500, 1, 33, 30).is_useless
    assert with_results(500, 10, 60, 30).is_useless


def test_few_inputs_pool_nothing():
    default = PRESETS["default"]
    assert new_pooled(200, default) is None
    assert new_pooled(201, default) is not None
    assert new_pooled(5000, default) is None
    assert new_pooled(201, default.replace(pooled=False)) is None
    assert new_pooled(201, PRESETS["paper"]) is None


def test_classes_that_vary_differently_give_it_up():
    """Each class lies near a sphere of its own radius: means say nothing."""
    rng = np.random.default_rng(0)
    y = np.arange(2400) % 4
    X = rng.normal(size=(len(y), 230)) * (1.0 + 0.5 * y)[:, None]
    model = PREVALClassifier(random_state=0, batch_size=100)
    for task in range(2):
        own = y // 2 == task
        model.partial_fit(X[own][:900], y[own][:900])
    model.finish()
    assert system_of(model).pooled is None
    assert all(one.moments is None for one in model.models_)


def test_without_labels_nothing_is_pooled():
    X, _, X_test, _ = features(n_classes=2)
    model = PREVALClassifier(random_state=0, batch_size=50, begin=100)
    for shift in (0.0, 20.0):
        model.partial_fit(X + shift)
    model.finish()
    assert len(model.models_) == 2
    assert all(one.moments is None for one in model.models_)
    assert len(set(model.route(np.concatenate([X_test, X_test + 20.0])).tolist())) == 2


@pytest.mark.parametrize(
    ("n_inputs", "distance", "expected"), [(210, 0, 1), (210, 9, 2), (9, 0, 2)]
)
def test_many_inputs_are_clustered_only_where_clusters_are_apart(n_inputs, distance, expected):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, n_inputs))
    X[:200, 0] += distance
    found = find_clusters(X, np.zeros(400, int), 2, 30, seed=0)
    assert len(found) == expected


def test_copies_and_files_answer_alike(with_and_without, tmp_path):
    (model, X, _), _ = with_and_without
    dirad.save(model, tmp_path / "model.dirad")
    for same in (
        dirad.load(tmp_path / "model.dirad"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        assert np.array_equal(same.predict_proba(X), model.predict_proba(X))
        assert system_of(same).pooled.choice == system_of(model).pooled.choice


def test_a_stream_goes_on_from_a_file_as_if_it_had_not_stopped(tmp_path):
    X, y, X_test, _ = features()
    order = np.random.default_rng(0).permutation(np.flatnonzero(y < 4))
    order = order[np.argsort(y[order] // 2, kind="stable")]
    models = [PREVALClassifier(random_state=0, batch_size=50, begin=100) for _ in range(2)]
    for model in models:
        model.partial_fit(X[order[:450]], y[order[:450]])
    dirad.save(models[1], tmp_path / "model.dirad")
    models[1] = dirad.load(tmp_path / "model.dirad")
    for model in models:
        model.partial_fit(X[order[450:]], y[order[450:]]).finish()
    assert system_of(models[0]).pooled is not None
    assert np.array_equal(models[0].predict_proba(X_test), models[1].predict_proba(X_test))
    assert np.array_equal(*(system_of(model).pooled.scatter for model in models))


def test_it_is_not_exported(with_and_without):
    (model, _, _), (without, _, _) = with_and_without
    with pytest.raises(ValueError, match="learn with pooled=False"):
        to_python(model)
    assert "def " in to_python(without)


def test_roots_of_other_inputs_are_no_units():
    units = as_they_are()
    units._rooted = np.ones(N_INPUTS + 1, bool)
    with pytest.raises(ModelError, match="roots are taken of other inputs"):
        check_units(units)
