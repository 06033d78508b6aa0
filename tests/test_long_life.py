"""Difficult streams: early changes of task, missing and late labels, many models."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dirad import PREVALClassifier, watch
from dirad.inference import respond
from dirad.preval import preselection
from dirad.preval import system as system_module
from dirad.preval.buffer import UNLABELLED
from dirad.preval.choice import new_system
from dirad.preval.expert import Expert
from dirad.preval.frozen_base import grow_on_top_of
from streams import SETTINGS, WIDTH, learned, samples, system_of

NOTHING = np.zeros((0, WIDTH)), np.zeros(0, np.int64)


def system_with(**changes):
    return new_system(WIDTH, 0, SETTINGS["default"].replace(**changes))


def kinds(system):
    return [(e.kind, e.model) for e in system.journal.events if "stable" not in e.kind]


def joined_samples(*parts):
    X, y = zip(*parts, strict=True)
    return np.concatenate(X), np.concatenate(y)


def accuracy(system, task):
    X, y = samples(task, 300, seed=50 + task)
    return np.mean(system.answer(X).outputs.argmax(axis=1) == y)


# ------------------------------------------------------------------ changes


def test_a_change_of_task_before_its_model_is_stable_is_detected_at_once():
    system = system_with()
    for task in range(3):
        system.learn(*samples(task, 300))
    assert [r.kind for r in system.journal.reports].count("new") >= 2
    assert [e.batch for e in system.journal.events if e.kind == "opened"] == [0, 6, 12]
    system.finish(*NOTHING)
    assert all(accuracy(system, task) > 0.9 for task in range(3))


def test_changes_of_task_are_detected_without_labels():
    system = system_with()
    for task in (0, 1, 0):
        X = samples(task, 300, seed=task)[0]
        system.learn(X, np.full(300, UNLABELLED))
    assert kinds(system) == [("opened", 0), ("opened", 1), ("chosen", 0)]
    assert not any(model.classes for model in system.models)
    assert system.answer(samples(0, 10)[0]).outputs.shape == (10, 0)


def test_a_stray_batch_ends_no_training_and_its_model_is_removed():
    system = system_with()
    system.learn(*samples(0, 250))
    system.learn(*samples(1, 50))  # a single batch of something else
    system.learn(*samples(0, 250, seed=1))
    assert kinds(system) == [("opened", 0), ("opened", 1), ("chosen", 0)]
    assert system.model(0).phase == "L0"  # still open for more
    system.finish(*NOTHING)
    assert kinds(system)[-1] == ("removed", 1)
    assert [model.number for model in system.models] == [0]


def test_the_model_of_stray_samples_is_removed_after_some_batches():
    system = system_with(buffer_size=2000)
    system.learn(*samples(0, 250))
    system.learn(*samples(1, 50))
    system.learn(*samples(0, 1500, seed=1))
    assert ("removed", 1) in kinds(system)
    assert [model.number for model in system.models] == [0]


def test_a_batch_of_two_tasks_is_split():
    system = learned("default", [0])
    rng = np.random.default_rng(0)
    a, b = samples(0, 30, seed=7), samples(1, 20, seed=7)
    order = rng.permutation(50)
    X, y = joined_samples(a, b)
    system.learn(X[order], y[order])
    assert system.journal.reports[-1].kind == "mixed"
    young = system.adapting
    assert set(young.buffer.y) <= {2, 3}
    assert len(young.buffer) == 20


def test_a_mixture_of_known_tasks_is_not_new():
    system = learned("default", [0, 1])
    rng = np.random.default_rng(0)
    X, y = joined_samples(samples(0, 200, seed=7), samples(1, 200, seed=7))
    order = rng.permutation(400)
    for labels in (y[order], np.full(400, UNLABELLED)):
        system.learn(X[order], labels)
        assert {report.kind for report in system.journal.reports[-8:]} == {"mixed"}
    assert len(system.models) == 2


def test_a_batch_of_one_class_of_a_known_task_is_known():
    system = learned("default", [0, 1])
    X, y = samples(0, 400, seed=9)
    only = X[y == 1][:100]
    verdict = system.judge(only)[0]
    assert verdict.validated
    assert verdict.p > 1e-3


# ------------------------------------------------------------------ labels


def test_known_inputs_with_other_labels_are_detected_and_the_latest_rule_answers():
    system = learned("default", [0])
    X, y = samples(0, 1200, seed=3)
    system.learn(X, 1 - y)  # the rule is turned round
    assert kinds(system)[-1] == ("opened", 1)
    assert system.models[1].group == 0
    test, right = samples(0, 300, seed=4)
    assert np.mean(system.answer(test).outputs.argmax(axis=1) == 1 - right) > 0.9
    system.learn(*samples(0, 200, seed=5))  # and back again: no new model
    assert kinds(system)[-1] == ("chosen", 0)
    assert np.mean(system.answer(test).outputs.argmax(axis=1) == right) > 0.9


RULES = [  # three ways to label the same inputs
    lambda X: (X[:, 0] > 0).astype(int),
    lambda X: (X[:, 0] <= 0).astype(int),
    lambda X: (X[:, 1] > 0).astype(int),
]


def follow_rules(order, batches, size=100, **options):
    """Return the accuracy of answers before learning in the second half of each part."""
    clf = PREVALClassifier(batch_size=size, random_state=0, **options)
    rng = np.random.default_rng(0)
    found = []
    for rule in order:
        scores = []
        for _ in range(batches):
            X = rng.normal(size=(size, 5)) * [1, 10, 100, 1, 1]
            y = RULES[rule](X)
            if hasattr(clf, "_state"):
                scores.append(clf.score(X, y))
            clf.partial_fit(X, y)
        found.append(float(np.mean(scores[-batches // 2 :])))
    return clf, found


def test_a_rule_that_changes_while_its_model_adapts():
    clf, accuracy_in = follow_rules([0, 1, 0, 1], 12)
    assert min(accuracy_in) > 0.9
    assert len(clf.models_) == 2
    assert clf.models_[0].group == clf.models_[1].group


def test_a_third_rule_is_no_mixture_of_two():
    clf, accuracy_in = follow_rules([0, 1, 2, 0, 2], 12)
    assert min(accuracy_in) > 0.85
    assert len(clf.models_) == 3


def test_a_model_that_adapts_answers_its_own_samples():
    """Its linear predictor has larger errors than an old model's L1; novelty decides."""
    rng = np.random.default_rng(0)

    def part(task, n):
        X = rng.normal(size=(n, 6))
        X[:, 5] += 4.0 * task
        X[:, 1:5] += 0.8 * X[:, :1]  # inputs that L1 can predict
        return X, (X[:, task] > 0).astype(int)

    clf = PREVALClassifier(random_state=0).partial_fit(*part(0, 2000))
    clf.partial_fit(*part(1, 2000))
    assert clf.models_[1].phase != "stable"
    X, y = part(1, 1000)
    assert np.mean(clf.route(X) == 1) > 0.9
    assert clf.score(X, y) > 0.9


def test_labels_may_be_left_out_of_detection():
    system = new_system(WIDTH, 0, SETTINGS["default"].replace(labels_in_detection=False))
    system.learn(*samples(0, 12_000), stop_when_stable=True)
    X, y = samples(0, 200, seed=3)
    system.learn(X, 1 - y)
    assert len(system.models) == 1


def test_few_labels_are_enough():
    system = system_with()
    X, y = samples(0, 600)
    few = np.where(np.random.default_rng(0).random(600) < 0.1, y, UNLABELLED)
    system.learn(X, few)
    system.finish(*NOTHING)
    assert accuracy(system, 0) > 0.9


def test_late_labels_are_learned_as_well_as_prompt_ones():
    X, y = samples(0, 600)
    late = system_with()
    for start in range(0, 600, 50):
        late.learn(X[start : start + 50], np.full(50, UNLABELLED))
        if start >= 100:
            due = np.arange(start - 100, start - 50)
            late.label(due, y[due])
    late.finish(*NOTHING)
    assert sorted(late.models[0].classes) == [0, 1]
    assert accuracy(late, 0) > 0.9


def test_labels_that_come_after_training_are_learned():
    """Once by a model that had none at all, once by one that had seen too few."""
    system = system_with()
    X, y = samples(0, 600)
    system.learn(X, np.full(600, UNLABELLED))
    system.finish(*NOTHING)
    assert not system.models[0].classes
    system.learn(*samples(0, 600, seed=1))
    system.finish(*NOTHING)
    assert accuracy(system, 0) > 0.9
    late = system_with(buffer_size=2000)
    first = np.where(np.arange(600) < 5, y, UNLABELLED)
    late.learn(X, first)
    late.label(np.arange(600), y)
    late.finish(*NOTHING)
    assert accuracy(late, 0) > 0.9


def test_a_single_label_that_is_held_out_ends_nothing():
    system = system_with()
    X, y = samples(0, 150)
    system.learn(X, np.full(150, UNLABELLED))
    held = np.flatnonzero(system.models[0].buffer.held_out)[:1]
    system.label(held, y[held])
    system.finish(*NOTHING)
    assert system.models[0].phase == "stable"


def test_a_rule_that_changes_in_the_middle_of_a_batch():
    system = learned("default", [0])
    X, y = samples(0, 1220, seed=3)
    y[20:] = 1 - y[20:]
    system.learn(X[:1200], y[:1200])
    assert system.models[1].group == 0
    test, right = samples(0, 300, seed=4)
    assert np.mean(system.answer(test).outputs.argmax(axis=1) == 1 - right) > 0.9
    before = len(system.models)
    system.learn(samples(0, 3000, seed=5)[0], np.full(3000, UNLABELLED))
    assert len(system.models) == before  # rules are not merged


# ------------------------------------------------------------------ many models


def test_the_least_recently_used_model_is_removed():
    system = system_with(max_models=2)
    for i, task in enumerate((0, 1, 0, 2)):
        system.learn(*samples(task, 300, seed=i))
    system.finish(*NOTHING)
    assert ("removed", 1) in kinds(system)
    assert sorted(model.number for model in system.models) == [0, 2]
    assert accuracy(system, 0) > 0.9
    assert accuracy(system, 2) > 0.9


def test_a_model_can_be_removed_and_the_others_stay():
    system = learned("default", [0, 1, 2])
    X = samples(0, 100)[0]
    before = [system.model(n).evaluate(X).score.tobytes() for n in (0, 2)]
    system.remove(1)
    assert [system.model(n).evaluate(X).score.tobytes() for n in (0, 2)] == before
    with pytest.raises(ValueError, match="no model 1"):
        system.model(1)
    assert set(system.answer(samples(1, 50)[0]).route) <= {0, 2}
    system.learn(*samples(1, 300, seed=3))
    assert kinds(system)[-1] == ("opened", 3)  # numbers are not given twice


def test_duplicates_are_merged_when_the_new_one_is_finished():
    system = learned("default", [0])
    system.open_model()  # as a false alarm would
    X, y = samples(0, 300, seed=2)
    young = system.models[1]
    young.buffer.add(X, y, np.arange(300))
    system.finish(*NOTHING)
    merged = [event for event in system.journal.events if event.kind == "merged"]
    assert [(e.model, e.evidence["model"]) for e in merged] == [(0, 1)]
    assert len(system.models) == 1
    system.learn(*samples(0, 100, seed=4))
    assert len(system.models) == 1


def test_duplicates_that_are_both_finished_are_merged_after_some_batches():
    never = system_with(merge_after=0)
    never.learn(*samples(0, 12_000), stop_when_stable=True)
    never.open_model()
    never.models[1].buffer.add(*samples(0, 300, seed=2), np.arange(300))
    never.finish(*NOTHING)
    assert len(never.models) == 2
    never.settings = never.settings.replace(merge_after=300)
    never.learn(*samples(0, 400, seed=6))
    assert len(never.models) == 1


def test_single_samples_merge_nothing():
    system = learned("default", [0, 1])
    for X in (samples(0, 40, seed=5)[0], samples(1, 40, seed=5)[0]):
        for row in X:
            system.learn_batch(row[None], np.full(1, UNLABELLED))
    assert len(system.models) == 2


def test_one_stray_batch_removes_no_model():
    system = system_with(max_models=1)
    system.learn(*samples(0, 300))
    system.learn(*samples(1, 50))
    system.learn(*samples(0, 100, seed=1))
    system.finish(*NOTHING)
    assert [model.number for model in system.models] == [0]


def test_inputs_that_never_change_raise_no_alarm():
    system = system_with()
    system.learn(np.ones((800, WIDTH)), np.zeros(800, np.int64))
    assert len(system.models) == 1
    assert {report.kind for report in system.journal.reports} <= {"learning", "known"}


def test_a_finished_system_holds_no_sample():
    system = system_with()
    X, y = samples(0, 300)
    system.learn(X, y)
    assert X[7].tobytes() in pickle.dumps(system.models[0])
    system.finish(*NOTHING)
    assert isinstance(system.models[0], Expert)
    content = pickle.dumps(system)
    assert not any(row.tobytes() in content for row in X)


def test_inputs_far_from_zero():
    system = system_with()
    for task in range(2):
        X, y = samples(task, 400)
        system.learn(1e8 + X, y)
    assert [e.batch for e in system.journal.events if e.kind == "opened"] == [0, 8]


# ------------------------------------------------------------------ shared networks


def test_a_network_grown_on_top_leaves_the_old_answers_to_the_last_bit():
    separate, shared = system_with(), system_with(models="shared")
    for system in (separate, shared):
        for task in range(3):
            system.learn(*samples(task, 300))
        system.finish(*NOTHING)
        assert all(accuracy(system, task) > 0.9 for task in range(3))
    X = samples(1, 100)[0]
    first, last = shared.models[0], shared.models[-1]
    whole = respond(last.network, last.network_inputs(X))
    assert np.array_equal(whole[:, : len(first.classes)], first.l0_outputs(X))
    assert last.network.n_outputs == 6
    assert last.inherited == shared.models[1].network.n_parameters
    assert len(last.l1.states.earlier) == 2
    start = grow_on_top_of(first.network, 0).network
    assert np.array_equal(respond(start, first.network_inputs(X)), first.l0_outputs(X))


def test_a_removed_model_that_others_are_built_on_is_still_counted():
    system = system_with(models="shared")
    for task in range(3):
        system.learn(*samples(task, 300))
    system.finish(*NOTHING)
    before = system.n_parameters
    X = samples(2, 50)[0]
    score = system.model(2).evaluate(X).score
    system.remove(0)
    assert system.n_parameters == before
    assert np.array_equal(system.model(2).evaluate(X).score, score)


# ------------------------------------------------------------------ predictors other than L1


@pytest.mark.parametrize("prediction", ["linear", "mean"])
def test_predictors_other_than_L1_work_and_are_counted(prediction):
    system = system_with(prediction=prediction)
    for task in range(2):
        system.learn(*samples(task, 300))
    system.finish(*NOTHING)
    assert [model.phase for model in system.models] == ["stable", "stable"]
    assert accuracy(system, 0) > 0.9
    least = WIDTH * WIDTH if prediction == "linear" else WIDTH
    assert system.models[0].n_parameters > least


# ------------------------------------------------------------------ detector and estimators


def test_the_detector_says_known_or_new():
    stream = [samples(task, 60, seed=i)[0] for i, task in enumerate([0] * 12 + [1] * 12 + [0] * 3)]
    said = list(watch(stream, begin=100))
    assert [report.model for report in said] == [0] * 12 + [1] * 12 + [0] * 3
    assert said[12].kind == "new"
    assert str(said[-1]).startswith("known: 0 (p = ")
    pairs = [samples(task, 60, seed=i) for i, task in enumerate([0] * 6 + [1])]
    assert [report.kind for report in watch(pairs, begin=100)][-1] == "new"
    with pytest.raises(ValueError, match="batch 1 has 3 features"):
        list(watch([stream[0], stream[1][:, :3]]))
    with pytest.raises(ValueError, match="batch 0 holds infinity"):
        list(watch([stream[0] * np.inf]))
    with pytest.raises(TypeError, match="false_alarm"):
        list(watch(stream, false_alarm=0.1))


def quick(**options):
    return PREVALClassifier(
        batch_size=50, buffer_size=2000, begin=100, steps_per_batch=50, random_state=0, **options
    )


def test_labels_may_be_missing_in_every_way():
    X, y = samples(0, 400)
    words = np.array(["no", "yes"])[y].astype(object)
    words[::3] = None
    clf = quick().partial_fit(X[:200], words[:200]).partial_fit(X[200:])
    assert clf.classes_.tolist() == ["no", "yes"]
    assert clf.n_samples_seen_ == 400
    clf.label(np.arange(200, 400), np.array(["no", "yes"])[y[200:]]).finish()
    assert clf.score(X, np.array(["no", "yes"])[y]) > 0.9
    floats = y.astype(float)
    floats[5:40] = np.nan
    assert quick().partial_fit(X, floats).finish().classes_.tolist() == [0, 1]


def test_labels_may_be_words_and_nan_in_one_list():
    X, y = samples(0, 200)
    words = [float("nan") if i % 2 else ("no", "yes")[label] for i, label in enumerate(y)]
    assert quick().partial_fit(X, words).classes_.tolist() == ["no", "yes"]


def test_every_row_of_probabilities_adds_up():
    """Also while the model that knows the samples has no classes, or no model has any."""
    X, y = samples(0, 400)
    clf = quick().partial_fit(X, y).partial_fit(samples(1, 400)[0])
    probabilities = clf.predict_proba(samples(1, 50)[0])
    assert probabilities.sum(axis=1) == pytest.approx(np.ones(50))
    first = quick().partial_fit(X[:50], y[:50])
    assert first.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(400))


def test_labels_of_a_task_that_is_over_are_learned_when_they_come():
    clf = quick().partial_fit(*samples(0, 400))
    first = clf.n_samples_seen_
    X, y = samples(1, 400)
    clf.partial_fit(X).partial_fit(*samples(0, 100, seed=1))
    clf.label(np.arange(first, first + 400), y)
    assert clf.score(X, y) > 0.9


def test_invalid_late_labels_are_errors():
    X, y = samples(0, 120)
    clf = quick().partial_fit(X)
    with pytest.raises(ValueError, match="no sample has the number 120"):
        clf.label([120], [1])
    with pytest.raises(ValueError, match="2 samples and 1 labels"):
        clf.label([1, 2], [1])
    for bad in (np.ones(120, bool), [1.7]):
        with pytest.raises(ValueError, match="whole numbers"):
            clf.label(bad, y[: len(bad)])
    clf.label(np.arange(120), y)  # twenty of them still wait for a batch
    assert (clf._state.waiting[1] >= 0).all()


def test_known_samples_are_known_at_the_promised_rate():
    fresh = samples(0, 2000, seed=100)[0]
    strange = []
    for seed in range(8):  # one of them has only 80 held-out samples
        clf = quick().partial_fit(*samples(0, 1500, seed=seed)).finish()
        strange.append(np.mean(~clf.is_known(fresh, 0.05)))
    assert np.mean(strange) == pytest.approx(0.05, abs=0.02)
    assert np.mean(clf.is_known(samples(1, 200)[0])) < 0.2
    with pytest.raises(ValueError, match="false_alarms"):
        clf.is_known(fresh, 0)


def test_removing_and_limiting_models():
    clf = quick(max_models=2)
    for task in range(3):
        clf.partial_fit(*samples(task, 400))
    clf.finish()
    assert [model.number for model in clf.models_] == [1, 2]
    assert {report.kind for report in clf.reports_} == {"learning", "known", "new"}
    clf.remove(1)
    with pytest.raises(ValueError, match="no model 1"):
        clf.remove(1)
    assert set(clf.predict(samples(2, 20)[0])) <= {4, 5}


def test_embeddings_may_be_inputs():
    """Features of some other network: unbounded, correlated, many."""
    X, y = load_digits(return_X_y=True)
    weights = np.random.default_rng(0).normal(size=(64, 96)) / 8
    embedded = np.maximum(X @ weights, 0.0)
    clf = PREVALClassifier(batch_size=50, begin=150, random_state=0)
    rng = np.random.default_rng(1)
    for classes in ([0, 1], [2, 3], [4, 5]):
        own = rng.permutation(np.flatnonzero(np.isin(y, classes)))[:300]
        clf.partial_fit(embedded[own], y[own])
    clf.finish()
    assert len(clf.models_) == 3
    known = y < 6
    assert clf.score(embedded[known], y[known]) > 0.95


def test_river_learns_sample_by_sample():
    pytest.importorskip("river")
    from river import evaluate, metrics, stream

    from dirad.estimators.river import RiverPREVAL

    model = RiverPREVAL(batch_size=50, buffer_size=600, begin=100, random_state=0)
    X, y = joined_samples(samples(0, 400), samples(1, 400))
    assert model.predict_one({0: 1.0}) is None
    found = evaluate.progressive_val_score(
        stream.iter_array(X, y.tolist()), model, metrics.Accuracy()
    )
    assert found.get() > 0.6
    assert len(model.classifier.models_) == 2
    row = dict(enumerate(X[0]))
    assert model.predict_one(row) == y[0]
    assert model.novelty_one(dict(enumerate(samples(3, 1)[0][0]))) > model.novelty_one(row)
    with pytest.raises(ValueError, match="too many or missing: extra"):
        model.learn_one({**row, "extra": 1.0}, 0)


def test_the_work_of_river_for_a_sample_is_bounded(monkeypatch):
    """It learns a whole batch at once, or nothing; what waits is less than a batch."""
    pytest.importorskip("river")
    from dirad.estimators.river import RiverPREVAL

    learned, learn = [], system_module.System.learn
    monkeypatch.setattr(
        system_module.System,
        "learn",
        lambda self, X, *rest: learned.append(len(X)) or learn(self, X, *rest),
    )
    model = RiverPREVAL(batch_size=50, buffer_size=600, begin=100, random_state=0)
    X, y = samples(0, 1230)
    kept = []
    for x, label in zip(X, y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), label)
        kept.append(len(model.classifier._state.waiting[0]))
    assert learned == [50] * 24
    assert max(kept) == 49
    assert not model.classifier._state.system.learners  # which would hold samples


def test_of_many_experts_only_the_likely_ones_are_evaluated(monkeypatch):
    """Answers are those of the full evaluation; most experts are not evaluated at all."""
    system = learned("default", range(5))
    X = np.concatenate([samples(task, 40, seed=9)[0] for task in range(5)])
    expected = system.answer(X)
    evaluated = []
    evaluate = Expert.evaluate
    monkeypatch.setattr(system_module, "MIN_EXPERTS", 2)
    monkeypatch.setattr(system_module, "EXPERTS_PER_SAMPLE", 2)
    monkeypatch.setattr(preselection, "EXPERTS_PER_SAMPLE", 2)
    monkeypatch.setattr(
        Expert, "evaluate", lambda model, X: evaluated.append(len(X)) or evaluate(model, X)
    )
    found = system.answer(X)
    assert sum(evaluated) == 2 * len(X)
    assert np.array_equal(found.route, expected.route)
    assert np.array_equal(found.novelty, expected.novelty)
    assert np.array_equal(found.outputs, expected.outputs)
    monkeypatch.setattr(system_module, "EXPERTS_PER_BATCH", 2)
    before = len(system.models)
    assert str(system.learn_batch(*samples(3, 50, seed=11))).startswith("back to 3")
    assert len(system.models) == before


def test_a_class_of_two_tasks_is_told_apart_by_its_inputs():
    """After "a" or "b" come "a" or "c", and the new "a" has other inputs: it is of the new task."""
    rng = np.random.default_rng(0)

    def task(low, other):
        y = rng.integers(0, 2, 1200)
        return rng.normal(low + 2 * y[:, None], 1, (1200, 4)), np.array(["a", other])[y]

    model = PREVALClassifier(random_state=0)
    for low, other in ((0, "b"), (-12, "c")):
        model.partial_fit(*task(low, other)).finish()
    X, y = task(-12, "c")
    assert len(model.models_) == 2
    assert {model._state.labels[code] for code in model.models_[1].classes} == {"a", "c"}
    assert np.mean(model.predict(X) == y) > 0.9
    assert np.mean(model.route(X) == 1) > 0.99


@pytest.mark.parametrize("seed", range(3))
def test_a_task_that_gradually_replaces_another_is_not_another_rule(seed):
    """The new model has seen stray samples of the old classes, which the old one still predicts."""
    system = system_of("default", seed=seed)
    rng = np.random.default_rng(seed)
    system.learn(*samples(0, 400, seed=seed))
    for k in range(1, 21):
        new = round(50 * k / 21)
        parts = samples(0, 50 - new, seed=100 * seed + k), samples(1, new, seed=200 * seed + k)
        X, y = (np.concatenate(pair) for pair in zip(*parts, strict=True))
        order = rng.permutation(50)
        system.learn_batch(X[order], y[order])
    system.learn(*samples(1, 400, seed=300 + seed))
    assert [str(r.kind) for r in system.journal.reports].count("new") <= 1
    assert len(system.models) == 2
