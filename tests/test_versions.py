"""Corrections that were good for long are kept as versions, and recognized when they return."""

import numpy as np
import pytest

import dirad
from dirad import PREVALClassifier, PREVALRegressor
from dirad.preval.versions import Version, is_better, with_one_more
from dirad.storage.model_file import packed
from experiments.streams import seasons

SIZE = 200
STAY, DRIFT = 15, 20  # batches


def season(cycles, seed=0):
    """Return samples of a rule that drifts away slowly and comes back at once, again and again."""
    away = np.concatenate([np.zeros(STAY * SIZE), np.linspace(0, 1, DRIFT * SIZE)])
    turn = np.concatenate([away, np.ones(STAY * SIZE)] * cycles + [np.zeros(5 * SIZE)])
    X = np.random.default_rng(seed).normal(size=(len(turn), 3))
    return X, np.cos(turn) * X[:, 0] + np.sin(turn) * X[:, 1]


@pytest.fixture(scope="module")
def followed():
    X, z = season(2)
    model = PREVALClassifier(random_state=0, buffer_size=2000)
    answers = []
    for i in range(0, len(X), SIZE):
        part = slice(i, i + SIZE)
        answers.append(model.predict(X[part]) if i else (z[part] > 0).astype(int))
        model.partial_fit(X[part], (z[part] > 0).astype(int))
    return model, X, np.concatenate(answers) == (z > 0)


def test_a_rule_that_returns_is_recognized_at_once_and_opens_no_model(followed):
    model, _, right = followed
    assert [event.kind for event in model.events_].count("opened") == 1
    returns = [event.batch for event in model.events_ if event.kind == "returned"]
    cycle = 2 * STAY + DRIFT
    assert returns == [cycle, 2 * cycle]
    assert model.reports_[cycle].verdict == "back"
    assert str(model.reports_[cycle]).startswith("back to 0 (")
    after = right.reshape(-1, SIZE).mean(axis=1)[[cycle + 1, 2 * cycle + 1]]
    assert after.min() > 0.95


def test_what_was_good_for_long_is_kept_and_named(followed):
    model, _, _ = followed
    kept = [event for event in model.events_ if event.kind == "refined"]
    assert kept
    assert str(kept[0]).endswith("model 0 refined (version 1)")
    (one,) = model.models_
    assert [version.number for version in one.versions][:1] == [1]
    last = kept[-1].batch + 1
    assert ", version " in str(model.reports_[last])


def test_versions_outlive_finish_and_files(followed, tmp_path):
    model, _, _ = followed
    dirad.save(model, tmp_path / "m.dirad")
    again = dirad.load(tmp_path / "m.dirad")
    assert repr(again.reports_) == repr(model.reports_)
    more, z = season(1, seed=1)
    y = (z > 0).astype(int)
    again.partial_fit(more[:6000], y[:6000])
    direct = dirad.load(tmp_path / "m.dirad").partial_fit(more[:6000], y[:6000])
    assert packed(again) == packed(direct)
    n = len(again.models_[0].versions)
    assert n
    assert len(again.finish().models_[0].versions) == n


def test_a_version_that_returns_is_recognized(followed, tmp_path):
    model, _, _ = followed
    dirad.save(model, tmp_path / "m.dirad")
    again = dirad.load(tmp_path / "m.dirad").finish()
    turn = 2 * STAY + DRIFT
    X, z = season(1, seed=2)
    top = slice((turn - 5) * SIZE, (turn - 4) * SIZE)
    y = (z[top] > 0).astype(int)
    before = (again.predict(X[top]) == y).mean()
    again.partial_fit(X[top], y)
    report = again.reports_[-1]
    assert (report.verdict, report.model) == ("back", 0)
    assert report.version >= 1
    assert (again.predict(X[top]) == y).mean() > before + 0.1


def test_a_regressor_returns_to_its_rule():
    X, z = season(1)
    z = z + np.random.default_rng(1).normal(0.0, 0.5, len(z))
    model = PREVALRegressor(random_state=0, buffer_size=2000).partial_fit(X, z)
    assert [event.kind for event in model.events_].count("opened") == 1
    assert [event.kind for event in model.events_ if event.kind == "returned"] == ["returned"]
    error = model.predict(X[-400:]) - z[-400:]
    assert np.sqrt(np.mean(error**2)) < 0.6


def test_the_oldest_of_many_versions_is_dropped():
    versions = ()
    for i in range(6):
        versions = with_one_more(versions, np.full((2, 2), float(i)), 4)
    assert [one.number for one in versions] == [3, 4, 5, 6]
    assert isinstance(versions[0], Version)


def test_without_versions_a_rule_that_returns_opens_a_model():
    X, z = season(1)
    y = (z > 0).astype(int)
    model = PREVALClassifier(random_state=0, buffer_size=2000, max_versions=0).partial_fit(X, y)
    assert [event.kind for event in model.events_ if event.kind in ("opened", "refined")] == [
        "opened",
        "opened",
    ]


def test_better_means_by_more_than_chance():
    assert is_better(0.5, 1.0, 10, numeric=True)
    assert not is_better(0.9, 1.0, 10_000, numeric=True)
    assert not is_better(0.0, 0.0, 100, numeric=False)


@pytest.mark.parametrize("returns", seasons.RETURNS)
def test_the_course_of_a_season(returns):
    where, back, there = seasons.course(returns)
    batches = where.reshape(-1, seasons.BATCH_SIZE)
    assert all(np.all(batches[batch] == 0.0) for batch in back)
    assert all(np.all(batches[batch] == 1.0) for batch in there)
    before = [batches[batch - 1].mean() for batch in back]
    assert all(one == 1.0 if returns == seasons.AT_ONCE else one < 0.1 for one in before)


def test_table_of_seasons():
    runs = [
        seasons.Run(seasons.AT_ONCE, 4, 8, 0, 0.9, 0.95, 0.9, []),
        seasons.Run(seasons.AT_ONCE, 4, 0, 0, 0.9, 0.85, 0.9, [65, 115]),
    ]
    kept, none = seasons.section(runs).rows
    assert (kept["versions kept"], kept["false regimes"]) == (8, 0)
    assert (none["versions kept"], none["false regimes"]) == ("none", 2)
