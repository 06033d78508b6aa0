"""The model in use follows slow changes; what was learned stays."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import dirad
from dirad import PREVALClassifier, PREVALRegressor
from dirad.export.system import finished_models
from dirad.preval import refinement
from dirad.preval.input_units import InputScaling
from dirad.preval.refinement import RIDGE, Answered, least_squares, logistic
from dirad.storage.model_file import packed


def turning_rule(n, seed):
    """Return samples of a line that turns slowly by a third of a circle."""
    X = np.random.default_rng(seed).normal(size=(n, 3))
    angle = np.linspace(0.0, 2.0 * np.pi / 3.0, n)
    return X, (np.cos(angle) * X[:, 0] + np.sin(angle) * X[:, 1] > 0).astype(int)


def predict_then_learn(model, X, y):
    """Return the answers to each batch before it is learned, from the second on."""
    answers, size = [], 200
    for start in range(0, len(X), size):
        if start:
            answers.append(model.predict(X[start : start + size]))
        model.partial_fit(X[start : start + size], y[start : start + size])
    return np.concatenate(answers)


def test_logistic_regression_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = (X @ [[1.0, -1.0, 0.0], [0.0, 1.0, 1.0], [0.5, 0.0, -1.0]]).argmax(axis=1)
    weights = np.zeros((3, 3))
    for _ in range(20):  # each goes on from the last
        weights = logistic(X, y.astype(float), np.zeros((500, 3)), weights)
    theirs = LogisticRegression(C=1.0 / RIDGE, fit_intercept=False, tol=1e-10, max_iter=10_000)
    theirs.fit(X, y)
    assert weights.T == pytest.approx(theirs.coef_, abs=2e-3)


def test_the_correction_of_numbers_is_ridge_regression():
    rng = np.random.default_rng(0)
    Z, answers = rng.normal(size=(50, 4)), rng.normal(size=(50, 1))
    y = rng.normal(size=50)
    found = least_squares(Z, y, answers, np.zeros((4, 1)))
    gradient = Z.T @ (answers + Z @ found - y[:, None]) + RIDGE * found
    assert np.abs(gradient).max() < 1e-10


def test_a_rule_that_turns_slowly_is_followed():
    X, y = turning_rule(16_000, 0)
    model = PREVALClassifier(random_state=0)
    right = predict_then_learn(model, X, y) == y[200:]
    assert right[-4000:].mean() > 0.95
    assert sum(event.kind == "opened" for event in model.events_) == 1  # it is one task


def test_recurring_numbers_that_drift_are_followed():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 3))
    y = X[:, 0] * np.linspace(1.0, 2.0, 6000) + 0.1 * rng.normal(size=6000)
    found = predict_then_learn(PREVALRegressor(random_state=0), X, y)
    assert np.sqrt(np.mean((found[-1000:] - y[-1000:]) ** 2)) < 0.2


def test_one_unchanging_rule_is_answered_as_well_as_by_the_model():
    X = np.random.default_rng(1).normal(size=(6000, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # no linear function of the inputs
    model = PREVALClassifier(random_state=0)
    refined = predict_then_learn(model, X, y)
    models_own = model.finish().predict(X[3000:])
    assert np.mean(refined[-3000:] == y[3000:]) > np.mean(models_own == y[3000:]) - 0.01


def test_what_other_models_answer_is_not_refined():
    X, y = turning_rule(2000, 0)
    y = (X[:, 0] > 0).astype(int)
    model = PREVALClassifier(random_state=0).partial_fit(X, y).finish()
    before = model.predict_proba(X)
    model.partial_fit(X + 20.0, y + 2)
    first = model.route(X) == 0
    assert first.mean() > 0.95
    assert np.array_equal(model.predict_proba(X[first])[:, :2], before[first])


def test_a_saved_stream_goes_on_with_its_refinement(tmp_path):
    X, y = turning_rule(3000, 0)
    model = PREVALClassifier(random_state=0).partial_fit(X[:2000], y[:2000])
    assert model._state.system.refinement is not None
    dirad.save(model, tmp_path / "stream.dirad")
    back = dirad.load(tmp_path / "stream.dirad")
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    for one in (model, back):
        one.partial_fit(X[2000:], y[2000:])
    assert packed(back) == packed(model)


def test_a_refinement_cannot_be_exported():
    X, y = turning_rule(1200, 0)
    model = PREVALClassifier(random_state=0, buffer_size=600).partial_fit(X, y)
    assert {one.phase for one in model.models_} == {"stable"}
    with pytest.raises(ValueError, match=r"call finish\(\) first"):
        finished_models(model)


@pytest.mark.parametrize(("n_inputs", "expected"), [(5, [0, 1, 2, 3, 4, 5]), (120, [0, 4])])
def test_corrections_of_many_inputs_that_do_not_help_are_fitted_less_often(
    n_inputs, expected, monkeypatch
):
    fitted = []
    monkeypatch.setattr(
        refinement, "logistic", lambda Z, y, answers, start: fitted.append(number) or start
    )
    rng = np.random.default_rng(0)
    scaling = InputScaling(np.zeros(n_inputs), np.ones(n_inputs))
    evaluator = SimpleNamespace(target_scaling=None, scaling=scaling)
    model = SimpleNamespace(number=0, classes=(0, 1), evaluator=evaluator, versions=())
    known = None
    for number in range(6):
        X = rng.normal(size=(40, n_inputs))
        y = (X[:, 0] > 0).astype(np.int64)
        batch = Answered(X, y, np.eye(2)[y] * 0.98 + 0.01)
        known = refinement.refined(known, model, batch, 0, number)
    windows = len(refinement.WINDOWS)
    assert fitted == [number for number in expected for _ in range(windows)]


def test_the_fit_of_two_classes_is_that_of_any_number():
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(200, 4))
    answers = np.log(rng.dirichlet([1.0, 1.0], size=200))
    y = (rng.random(200) < 0.5 + 0.4 * np.tanh(Z[:, 0])).astype(float)
    found = refinement.logistic(Z, y, answers, np.zeros((4, 2)))
    # A third class that is all but impossible does not change the others.
    third = np.column_stack([answers, np.full(200, -40.0)])
    expected = refinement.logistic(Z, y, third, np.zeros((4, 3)))
    assert found == pytest.approx(expected[:, :2], abs=1e-3)
    assert found[:, 0] == pytest.approx(-found[:, 1])
