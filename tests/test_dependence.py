"""Samples that depend on those before: how many independent ones they are worth, and alarms."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.signal import lfilter

import dirad
from dirad import PREVALClassifier
from dirad.preval import flow
from dirad.preval.calibration import calibrate
from dirad.preval.dependence import Memory, autocorrelation_time, trend_time
from dirad.preval.duplicates import rival_of
from dirad.preval.settings import PRESETS
from dirad.preval.task_memory import memory_with
from dirad.storage.model_file import packed

DEFAULT = PRESETS["default"]


def autoregression(n, phi, seed, inputs=5):
    """Return inputs, each of which follows a first-order autoregression of variance 1."""
    noise = np.random.default_rng(seed).normal(size=(n, inputs)) * np.sqrt(1.0 - phi**2)
    noise[0] /= np.sqrt(1.0 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=0)


def by_a_line(X):
    return (X[:, 0] + X[:, 1] > 0).astype(int)


def bursts(n, starts, length, seed):
    """Return independent inputs, which are four times as large in some stretches."""
    X = np.random.default_rng(seed).normal(size=(n, 5))
    for start in starts:
        X[start : start + length] *= 4.0
    return X


@pytest.mark.parametrize(("phi", "n"), [(0.5, 1000), (0.9, 3000), (0.95, 10_000), (0.99, 10_000)])
def test_autocorrelation_times_of_autoregressions(phi, n):
    true = (1.0 + phi) / (1.0 - phi)
    found = [autocorrelation_time(autoregression(n, phi, seed, inputs=1)) for seed in range(10)]
    assert 0.6 * true < np.median(found) < 1.6 * true


def test_the_mean_varies_as_that_of_so_many_independent_samples():
    means = [autoregression(2000, 0.9, seed, inputs=1).mean() for seed in range(400)]
    tau = autocorrelation_time(autoregression(20_000, 0.9, 1000, inputs=1))
    assert np.var(means) == pytest.approx(tau / 2000, rel=0.35)


def test_independent_samples_are_worth_themselves():
    rng = np.random.default_rng(0)
    draws = [rng.normal, rng.standard_cauchy, rng.random, lambda size: rng.random(size) < 0.02]
    found = [autocorrelation_time(draw(size=(1000, 20)) * 1.0) for draw in draws for _ in range(50)]
    assert np.mean(np.array(found) > 1.0) < 0.02


def test_what_shows_in_spread_alone_is_found():
    X = bursts(4000, range(200, 4000, 400), 60, 0)
    assert autocorrelation_time(X) > 10.0


@pytest.mark.parametrize(
    "X", [np.zeros((500, 3)), np.zeros((500, 0)), np.zeros((0, 3)), np.full((40, 2), 1e300)]
)
def test_constant_inputs_depend_on_nothing(X):
    assert autocorrelation_time(X) == 1.0


def test_few_independent_samples_do_not_judge():
    logs, groups = np.random.default_rng(0).normal(size=100), np.zeros(100, np.int64)
    calibration = calibrate(logs, groups, 1)
    unusual = calibration.score_sum(np.full(200, 9.0), np.zeros(200, np.int64))
    assert calibration.p_value(unusual) < 1e-20
    dependent = calibration._replace(memory=Memory(100.0, 100.0, 100.0), n_learned=200)
    assert dependent.p_value(unusual) == 1.0
    assert dependent._replace(n_learned=100_000).p_value(unusual) < 0.05


def test_the_longer_the_memory_the_more_batches_are_tested_together():
    assert Memory().batches_to_test(200) == 1
    assert Memory(40.0, 20.0, 1.0).batches_to_test(200) == 1
    assert Memory(300.0, 100.0, 50.0).batches_to_test(200) == 4
    assert Memory(1e9, 1e9, 1.0).batches_to_test(200) == 16


def test_rates_of_a_whole_stream_add_up_to_what_is_promised():
    settings = DEFAULT.replace(false_alarms=0.05, false_alarms_per="stream")
    rates = [settings.batch_rate(number) for number in range(100_000)]
    assert 0.0495 < sum(rates) < 0.05
    assert DEFAULT.batch_rate(0) == DEFAULT.batch_rate(10**6) == DEFAULT.false_alarms


@pytest.mark.parametrize("phi", [0.9, 0.99])
def test_one_dependent_task_has_one_model_and_a_change_is_found(phi):
    X = autoregression(16_000, phi, 3)
    y = by_a_line(X)
    y[12_000:] = X[12_000:, 0] - X[12_000:, 1] > 0
    model = PREVALClassifier(random_state=0).partial_fit(X[:12_000], y[:12_000])
    assert len(model.models_) == 1
    assert model.partial_fit(X[12_000:], y[12_000:]).score(X[14_000:], y[14_000:]) > 0.9
    assert sum(event.kind == "opened" for event in model.events_) == 2


def test_a_burst_is_no_task_and_what_lasts_is():
    """The batch in which something unusual begins waits for the next one."""
    X = bursts(3000, [1330], 90, 0)  # over in the batch after
    model = PREVALClassifier(random_state=0).partial_fit(X, by_a_line(X))
    assert [report.kind for report in model.reports_[6:8]] == ["undecided", "known"]
    assert len(model.models_) == 1
    X[1350:] += 8.0
    y = np.where(np.arange(3000) < 1350, by_a_line(X), 2 + by_a_line(X - 8.0))
    model = PREVALClassifier(random_state=0).partial_fit(X, y)
    assert [report.kind for report in model.reports_[6:8]] == ["undecided", "new"]
    assert (model.route(X[1400:]) == 1).mean() > 0.99
    assert model.score(X[1400:], y[1400:]) > 0.95


def test_a_batch_is_tested_with_those_before_it_alone(monkeypatch):
    """Not with itself, also when it was undecided."""
    tested = []
    plain = flow.decide_with

    def recorded(system, recent, batch, *rest, **options):
        tested.append(([X.tobytes() for X, _ in recent], batch.X.tobytes()))
        return plain(system, recent, batch, *rest, **options)

    monkeypatch.setattr(flow, "decide_with", recorded)
    monkeypatch.setattr(Memory, "batches_to_test", lambda self, size: 3)
    X = np.random.default_rng(0).normal(size=(9000, 5))
    X[6350:6399] *= 10.0
    batches = [part.tobytes() for part in np.split(X, 45)]
    model = PREVALClassifier(random_state=0).partial_fit(X, by_a_line(X))
    assert "undecided" in {report.kind for report in model.reports_}
    assert max(len(recent) for recent, _ in tested) == 2
    for recent, own in tested:
        at = batches.index(own)
        assert recent == batches[at - len(recent) : at]


def test_nothing_is_lost_while_a_batch_is_undecided(tmp_path):
    X = bursts(1600, [1330], 250, 0)
    y = by_a_line(X)
    model = PREVALClassifier(random_state=0).partial_fit(X[:1400], y[:1400])
    assert model.reports_[-1].kind == "undecided"
    dirad.save(model, tmp_path / "stream.dirad")
    back = dirad.load(tmp_path / "stream.dirad")
    for one in (model, back):
        one.label([1390], [5])  # it is still there
        one.partial_fit(X[1400:], y[1400:]).finish()
    assert packed(back) == packed(model)
    ended = PREVALClassifier(random_state=0).partial_fit(X[:1400], y[:1400]).finish()
    assert ended.n_samples_seen_ == 1400


@pytest.mark.parametrize("before", [250, 350, 500, 550, 700, 900])
@pytest.mark.parametrize("shift", [3.0, 6.0])
def test_an_early_change_in_the_middle_of_a_batch_is_found(before, shift):
    """The model in training must not learn the samples after the change as its own."""
    rng = np.random.default_rng([0, before])
    X = rng.normal(size=(before + 650, 2))
    y = by_a_line(X)
    X[before:] += shift
    model = PREVALClassifier(random_state=0, n_jobs=1).partial_fit(X, y)
    opened = [event.batch for event in model.events_ if event.kind == "opened"]
    assert opened == [0, before // 200 + 1]
    route = model.route(X)
    assert (route[:before] == 0).mean() > 0.9
    assert (route[before:] == 1).mean() > 0.9


def test_a_step_in_an_undecided_batch_is_no_dependence():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), np.zeros(400, np.int64)
    model = PREVALClassifier(random_state=0, n_jobs=1).partial_fit(X, y)
    (learner,) = model._state.system.learners
    after = rng.normal(size=(400, 2)) + 6.0
    after[:100] -= 6.0
    undecided = after[:200], np.zeros(200, np.int64)
    known, classes = learner.calibration.memory, np.zeros(200, np.int64)
    assert memory_with(learner.buffer, known, after[200:], classes, undecided).independent


def test_a_trend_is_found_where_few_samples_show_no_autocorrelation():
    rng = np.random.default_rng(0)
    quiet = [trend_time(rng.normal(size=(200, 5)), 0.01) for _ in range(300)]
    assert np.mean(np.array(quiet) > 1.0) < 0.03
    rising = rng.normal(size=(200, 5))
    rising[:, 2] += np.linspace(-0.7, 0.7, 200)
    share = np.corrcoef(rising[:, 2], np.arange(200))[0, 1] ** 2
    assert trend_time(rising, 0.01) == pytest.approx(1.0 + 200 * share, rel=0.1)
    assert trend_time(rising, 0.01, tau=20.0) == 1.0  # so much trend is usual where memory is long


@pytest.mark.parametrize("seed", [6, 12])
def test_the_first_stretch_of_a_season_is_not_taken_for_a_task(seed):
    rng = np.random.default_rng([seed, 5])
    X = rng.normal(size=(2000, 5))
    X[:, 0] += 2.0 * np.sin(2.0 * np.pi * (np.arange(2000) / 1000 + rng.random()))
    model = PREVALClassifier(random_state=seed, n_jobs=1).partial_fit(X, by_a_line(X))
    assert len(model.models_) == 1


def test_a_change_that_shows_in_many_batches_alone_is_found():
    X = bursts(6000, range(300, 6000, 1200), 40, 0)
    y = by_a_line(X)
    X[3000:, 3] *= 3.0
    model = PREVALClassifier(random_state=0, n_jobs=1, buffer_size=2000).partial_fit(X, y)
    opened = [event for event in model.events_ if event.kind == "opened"]
    assert [event.batch >= 15 for event in opened] == [False, True]
    assert opened[1].evidence["inputs"][0][0] == 3


def test_a_change_that_shows_in_a_few_batches_is_not_looked_for_in_many_alone():
    delays = []
    for seed in range(3):
        X = autoregression(16_000, 0.95, seed)
        y = by_a_line(X)
        X[12_000:, 3] *= 4.0
        model = PREVALClassifier(random_state=seed, n_jobs=1).partial_fit(X, y)
        opened = [event.batch for event in model.events_ if event.kind == "opened"]
        delays.append(opened[1] - 60 + 1)
    assert min(delays) >= 1
    assert max(delays) <= 5


@pytest.mark.parametrize("tested", [1, 4, 10, 16])
@pytest.mark.parametrize("recent", [0, 3, 4, 7, 15])
def test_rates_of_all_windows_add_up_to_that_of_a_batch(tested, recent):
    system = SimpleNamespace(
        false_alarms=0.01,
        in_use=lambda: (SimpleNamespace(calibration=SimpleNamespace(memory=Memory(9.0))), 0),
        learners=[],
        latest=0,
        recent=[None] * recent,
        undecided=None,
    )
    total = 0.0
    for batch in range(12):
        system.journal = SimpleNamespace(batches=batch)
        rate, windows = flow.rates(system, tested)
        assert all(n > 1 for n, _ in windows)
        total += rate + sum(more for _, more in windows)
    assert 0.06 - 1e-12 <= total <= 0.12 + 1e-12
    assert recent < 15 or tested > 15 or total == pytest.approx(0.12)


def test_a_model_that_claims_samples_wrongly_is_a_rival():
    X, y = np.zeros((200, 1)), np.arange(200) % 2
    own = answers(np.ones(200), y)
    wrong = claimant(np.zeros(200), 1 - y)
    assert rival_of(X, y, own, [claimant(np.full(200, 2.0), 1 - y), wrong]) is wrong
    assert rival_of(X, y, own, [claimant(np.zeros(200), y)]) is None  # it is right as well
    few = np.where(np.arange(200) < 90, 0.0, 2.0)
    assert rival_of(X, y, own, [claimant(few, 1 - y)]) is None  # most samples are not claimed
    assert rival_of(X, np.full(200, -1), own, [wrong]) is None  # without labels, nothing tells
    stranger = claimant(np.zeros(200), 1 - y, classes=(2, 3))
    assert rival_of(X, y, own, [stranger]) is None  # of other classes: it has a task of its own


def answers(score, label):
    return SimpleNamespace(score=score, label=label)


def claimant(score, label, classes=(0, 1)):
    return SimpleNamespace(evaluate=lambda X: answers(score, label), frequent_classes=classes)


def test_the_model_in_use_answers_in_place_of_a_rival(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 3))
    y = (X[:, 0] > 0).astype(int)
    X[1200:] += 4.0
    model = PREVALClassifier(random_state=0, n_jobs=1).partial_fit(X, y)
    assert len(model.models_) == 2
    assert set(model.route(X[:600])) == {0}
    asked = []

    def rival(X, y, own, others):
        asked.append(np.mean(own.label == y))
        return others[0]

    monkeypatch.setattr("dirad.preval.model_in_use.rival_of", rival)
    X = rng.normal(size=(1200, 3)) + 4.0
    model.partial_fit(X, (X[:, 0] > 4.0).astype(int))
    assert len(asked) == 1
    assert asked[0] > 0.9
    assert len({one.group for one in model.models_}) == 1
    assert set(model.route(X - 4.0)) == {1}  # of a group, the model last used answers
