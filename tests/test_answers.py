"""Answers of a system: independent of the other rows of a call, of the magnitude, of the file."""

import gc
import sys
import weakref

import joblib
import numpy as np

from dirad import PREVALClassifier
from dirad.core.compilation import PendingKernel
from dirad.preval import system as system_module
from dirad.preval.choice import new_system
from streams import SETTINGS, WIDTH, learned, samples


def test_a_row_is_answered_alike_alone_and_with_others(monkeypatch):
    """Also where only the likeliest experts evaluate a sample."""
    system = learned("default", range(4))
    monkeypatch.setattr(system_module, "MIN_EXPERTS", 1)
    monkeypatch.setattr(system_module, "EXPERTS_PER_SAMPLE", 1)
    for model in system.models[1:]:  # one group: the one last used answers
        object.__setattr__(model, "group", system.models[0].group)
    X = np.concatenate([samples(task, 10, seed=5)[0] for task in range(4)])
    whole = system.answer(X)
    for i, row in enumerate(X):
        alone = system.answer(row[None])
        assert alone.route[0] == whole.route[i]
        assert np.array_equal(alone.outputs[0], whole.outputs[i])


def test_other_models_answer_for_one_without_classes(monkeypatch):
    system = learned("default", range(2))
    monkeypatch.setattr(system_module, "MIN_EXPERTS", 1)
    monkeypatch.setattr(system_module, "EXPERTS_PER_SAMPLE", 1)
    mute = system.models[0]
    object.__setattr__(mute.evaluator, "classes", ())
    vars(mute.evaluator).pop("program", None)
    X = samples(0, 5, seed=5)[0]
    assert (system.answer(X).route == mute.number).all()
    expected = system.models[1].evaluate(X).outputs
    found = system.answer(X).outputs[:, list(system.models[1].classes)]
    assert np.array_equal(found, expected)


def test_novelty_grows_with_the_distance_without_bound():
    system = learned("default", range(1))
    far = np.array([np.full(WIDTH, size) for size in (1e2, 1e7, 1e9, 1e50)])
    novelty = system.novelty(system.clipped_to_float64(far))
    assert np.isfinite(novelty).all()
    assert (np.diff(novelty) > 1).all()


def test_the_share_of_conflicts_as_score_with_clusters():
    settings = SETTINGS["default"].replace(score="conflicts", mode_samples=40)
    system = new_system(WIDTH, 2, settings, seed=0)
    X, y = samples(0, 400)
    system.learn(X, y)
    system.finish(X[:0], y[:0])
    (expert,) = system.experts
    assert expert.l1.clusters.n > 1
    found = expert.evaluate(X).score
    assert np.array_equal(np.unique(found * len(expert.l1.targets) % 1).round(6) % 1, [0.0])
    assert np.mean(system.answer(X).outputs.argmax(axis=1) == y) > 0.9


def test_a_mapped_file_can_be_written_again(tmp_path):
    X, y = samples(0, 400)
    model = PREVALClassifier(random_state=0, begin=100, buffer_size=300, batch_size=50)
    model.partial_fit(X, y).finish()
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    joblib.dump(mapped, tmp_path / "model")
    again = joblib.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_experts_are_freed_with_their_system():
    system = learned("default", range(1))
    system.answer(samples(0, 5)[0])
    expert = weakref.ref(system.models[0])
    del system
    gc.collect()
    assert expert() is None


def test_kernels_load_beside_a_forbidden_module(monkeypatch):
    monkeypatch.setitem(sys.modules, "dirad.forbidden", None)
    one = PendingKernel(lambda x: x + 1, {})
    one.options["nopython"] = True
    monkeypatch.setattr("dirad.core.compilation.CACHE_FOLDER", "")
    assert one(1) == 2
