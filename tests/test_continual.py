"""PREVALClassifier: the incremental contract, bad input, and what only it has."""

from collections import Counter
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from dirad import PREVALClassifier
from dirad.preval.expert import Evaluator, Expert
from dirad.preval.paper_model import PaperExpert
from streams import WIDTH, digest, samples

QUICK = {
    "default": {
        "batch_size": 50,
        "buffer_size": 600,
        "steps_per_batch": 50,
        "l0": {"max_steps": 400, "settle_steps": 50},
        "l1": {"max_steps": 300, "settle_steps": 50},
    },
    "paper": {
        "preset": "paper",
        "batch_size": 40,
        "l0": {"max_steps": 120, "patience": 20},
        "l1": {"max_steps": 60, "patience": 10},
        "T_CP": 0.2,
        "T_SV": 0.2,
    },
}


def quick(name="default", **changes):
    options = {**QUICK[name], **changes}
    clf = PREVALClassifier(random_state=0, **options)
    if name == "default":
        clf.set_params(buffer_size=2000)
    return clf


NAMES = np.array([f"digit {code}" for code in range(10)])


# L0 draws batches by position, and the stream has its order.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "weights act on the cost, not on the draw",
}


@parametrize_with_checks(
    [PREVALClassifier(random_state=0)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", QUICK)
def test_three_tasks_arrive_unannounced(name):
    clf = quick(name)
    for task in range(3):
        X, y = samples(task, 6000)
        clf.partial_fit(X, NAMES[y], classes=NAMES if name == "paper" else None).finish()
    opened = [event.batch for event in clf.events_ if event.kind == "opened"]
    assert len(opened) == len(clf.models_) >= 3
    assert set(clf.classes_) == set(NAMES if name == "paper" else NAMES[:6])
    for task in range(3):
        X, y = samples(task, 200, seed=8)
        assert clf.score(X, NAMES[y]) > (0.95 if name == "default" else 0.7)
    X = samples(1, 50, seed=8)[0]
    assert clf.predict_proba(X).shape == (50, len(clf.classes_))
    assert clf.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(50))
    assert clf.route(X).shape == clf.novelty(X).shape == (50,)
    assert clf.conflicts(X).shape == (50, WIDTH)
    assert clf.n_parameters_ > 100


@pytest.mark.parametrize("name", QUICK)
def test_each_model_evaluates_samples_once(name, monkeypatch):
    """Learning one batch, and every kind of answer, takes one evaluation per model."""
    clf = quick(name)
    for task in range(2):
        clf.partial_fit(*samples(task, 6000), classes=range(4) if name == "paper" else None)
        clf.finish()
    evaluated = Counter()
    numbers = {model.evaluator: model.number for model in clf.models_ if isinstance(model, Expert)}

    def counted(evaluator, found, scores_from=Evaluator.scores_from):
        evaluated[numbers[evaluator]] += 1
        return scores_from(evaluator, found)

    def counted_of_paper(model, X, evaluate=PaperExpert.evaluate):
        evaluated[model.number] += 1
        return evaluate(model, X)

    monkeypatch.setattr(Evaluator, "scores_from", counted)
    monkeypatch.setattr(PaperExpert, "evaluate", counted_of_paper)
    once = {model.number: 1 for model in clf.models_}
    assert len(once) >= 2
    X, y = samples(0, clf.batch_size, seed=9)
    for method in (clf.predict, clf.predict_proba, clf.route, clf.novelty, clf.conflicts):
        method(X)
        assert evaluated == once, method
        evaluated.clear()
    clf.partial_fit(X, y)
    assert evaluated == once


@cache
def uncut(name):
    """Return a stream of two tasks, and a classifier that learned it in one call."""
    X = np.concatenate([samples(task, 1500)[0] for task in (0, 1)])
    y = np.concatenate([samples(task, 1500)[1] for task in (0, 1)])
    first = {"classes": np.arange(10)} if name == "paper" else {}
    return X, y, first, quick(name).partial_fit(X, y, **first)


@settings(max_examples=10)
@given(st.lists(st.integers(1, 900), max_size=6))
def test_how_a_stream_is_cut_into_calls_changes_nothing(cuts):
    for name in QUICK:
        X, y, first, whole = uncut(name)
        parts, start = quick(name), 0
        for stop in [*np.minimum(np.cumsum(cuts), len(X) - 1).tolist(), len(X)]:
            if stop > start:
                parts.partial_fit(X[start:stop], y[start:stop], **(first if start == 0 else {}))
                start = stop
        assert digest(parts._state.system) == digest(whole._state.system)
        assert np.array_equal(parts._state.waiting[0], whole._state.waiting[0])


def test_l0_outweighs_clusters_that_do_not_tell_classes_apart():
    """Classes that differ only by a product of two inputs: all clusters predict alike."""
    X = np.random.default_rng(0).normal(size=(3000, 6))
    y = X[:, 0] * X[:, 1] > 0
    system = PREVALClassifier(random_state=0).fit(X[:2000], y[:2000])
    (model,) = system.models_
    evidence = model.evaluator.class_nll(X[2000:])
    alone = [
        np.mean(np.array(model.classes)[part.argmin(axis=1)] == y[2000:])
        for part in (evidence.answers, evidence.errors)
    ]
    assert alone[0] > 0.95
    assert alone[1] < alone[0] - 0.02
    assert system.score(X[2000:], y[2000:]) > alone[0] - 0.01


def test_new_classes_may_appear_unannounced_in_the_middle_of_a_task():
    X, y = samples(0, 3000)
    order = np.argsort(y, kind="stable")
    few, many = order[:120], np.random.default_rng(0).permutation(order[120:])
    clf = quick().partial_fit(X[few], y[few])
    assert clf.classes_.tolist() == [0]
    assert clf.predict(X[few]).tolist() == [0] * 120
    clf.partial_fit(X[many], y[many]).finish()
    assert clf.classes_.tolist() == [0, 1]
    assert clf.score(X, y) > 0.9


def test_predict_works_at_any_moment():
    clf = quick()
    X, y = samples(0, 3000)
    with pytest.raises(ValueError, match="fewer samples than one batch"):
        clf.partial_fit(X[:10], y[:10]).predict(X)
    for start in range(10, 1000, 45):
        clf.partial_fit(X[start : start + 45], y[start : start + 45])
        if start > 60:
            assert clf.predict(X[:20]).shape == (20,)
    clf.finish()
    assert clf.score(X, y) > 0.9


def test_fit_is_partial_fit_and_finish_and_forgets():
    X, y = samples(0, 1000)
    fitted = quick().fit(X, y)
    assert digest(fitted._state.system) == digest(quick().partial_fit(X, y).finish()._state.system)
    other = samples(1, 1000)
    again = fitted.fit(*other)
    assert digest(again._state.system) == digest(quick().fit(*other)._state.system)
    assert clone(fitted).get_params() == fitted.get_params()


def test_in_a_pipeline():
    X, y = samples(0, 1000)
    model = make_pipeline(MinMaxScaler(), quick("paper")).fit(50 * X, y)
    assert model.predict(50 * X).shape == y.shape


# What is wrong, and what is said of it.
BAD = {
    "Input X contains infinity": lambda X, y: (np.where(X > 0.8, np.inf, X), y),
    "X has 15 features, but PREVALClassifier is expecting 16": lambda X, y: (X[:, 1:], y),
    r"inconsistent numbers of samples: \[230, 229\]": lambda X, y: (X, y[1:]),
    "Input y contains infinity": lambda X, y: (X, np.where(y > 0, np.inf, y)),
    "Unknown label type: continuous": lambda X, y: (X, y + 0.5),
    r"Found array with 0 sample\(s\)": lambda X, y: (X[:0], y[:0]),
    "Expected 2D array, got 1D array": lambda X, y: (X[0], y[:1]),
}


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("what", BAD)
def test_bad_input_leaves_the_system_as_it_was(name, what):
    X, y = samples(0, 230)
    first = {"classes": np.arange(10)} if name == "paper" else {}
    clf = quick(name).partial_fit(X, y, **first)
    before, classes = digest(clf._state.system), clf.classes_.copy()
    with pytest.raises(ValueError, match=what):
        clf.partial_fit(*BAD[what](X, y))
    assert digest(clf._state.system) == before
    assert np.array_equal(clf.classes_, classes)
    more = samples(0, 100, seed=1)
    fresh = quick(name).partial_fit(X, y, **first).partial_fit(*more)
    assert digest(clf.partial_fit(*more)._state.system) == digest(fresh._state.system)


def test_one_sample_and_one_class():
    X, y = samples(0, 300)
    clf = quick().partial_fit(X[:1], y[:1])
    clf.partial_fit(X[1:], np.zeros(299, int)).finish()
    assert set(clf.predict(X)) <= {0, y[0]}
    assert quick().fit(X[:1], y[:1]).predict(X).tolist() == [y[0]] * 300


def test_the_paper_wants_all_classes_at_once():
    X, y = samples(0, 100)
    with pytest.raises(ValueError, match="in the first call"):
        quick("paper").partial_fit(X, y)
    with pytest.raises(ValueError, match="did not name"):
        quick("paper").partial_fit(X, y, classes=[0])
    clf = quick("paper").partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="class 7"):
        clf.partial_fit(X, y + 7)


def test_labels_of_another_type_are_refused_and_harm_nothing():
    X, y = samples(0, 300)
    clf = quick().partial_fit(X, y)
    with pytest.raises(ValueError, match="of another type, such as"):
        clf.partial_fit(X, NAMES[y])
    assert set(clf.partial_fit(X, y).predict(X)) <= {0, 1}
    with pytest.raises(ValueError, match="of another type"):
        quick().partial_fit(X, NAMES[y]).partial_fit(X, y)


def test_nothing_can_be_asked_before_the_first_sample():
    for ask in ("route", "novelty", "conflicts", "predict", "predict_proba"):
        with pytest.raises(NotFittedError):
            getattr(PREVALClassifier(), ask)([[0.0]])
    for name in ("events_", "models_", "n_parameters_"):
        assert not hasattr(PREVALClassifier(), name)
    with pytest.raises(NotFittedError):
        PREVALClassifier().finish()


def test_it_prints_its_models():
    X, y = samples(0, 1000)
    text = str(quick().fit(X, y))
    assert "Model 0 (stable): L0 with" in text
    assert str(PREVALClassifier()) == "PREVALClassifier()"


def test_a_small_buffer_begins_earlier():
    X, y = samples(0, 600)
    clf = PREVALClassifier(buffer_size=300, batch_size=50, random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.9
    with pytest.raises(ValueError, match="only preset='paper'"):
        PREVALClassifier(buffer_size=0).fit(X, y)


def test_unknown_settings():
    X, y = samples(0, 100)
    with pytest.raises(ValueError, match="preset"):
        PREVALClassifier(preset="best").fit(X, y)
    with pytest.raises(TypeError, match="gama"):
        PREVALClassifier(l0={"gama": 1}).fit(X, y)
    for bad in ({"T_CP": -1}, {"false_alarms": 2}, {"steps_per_batch": 0}, {"held_out": 1.5}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            PREVALClassifier(**bad).fit(X, y)


def test_labels_that_come_too_late_are_told():
    X, y = samples(0, 400)
    model = quick().partial_fit(X).finish()
    with pytest.warns(UserWarning, match="400 of 400 labels came too late"):
        model.label(np.arange(400), y)
    assert model.n_late_labels_ == 400


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"false_alarms": "x"}, "false_alarms must be a number, got 'x'"),
        ({"max_models": 1.5}, "max_models must be a whole number, got 1.5"),
        ({"modes": "a"}, "modes must be a number, got 'a'"),
        ({"l0": 3}, "l0 must be a dict of constants, got 3"),
    ],
)
def test_settings_of_the_wrong_type_are_named(options, said):
    X, y = samples(0, 100)
    with pytest.raises((TypeError, ValueError), match=said):
        PREVALClassifier(**options).fit(X, y)
