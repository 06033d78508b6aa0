"""PREVALRegressor: rules that change and come back, intervals, and the incremental contract."""

import json
import pickle
from functools import cache
from threading import Thread

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as serialized
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

import dirad
from commands import run
from dirad import DIRADRegressor, PREVALRegressor
from dirad.preval.dependence import change_point
from dirad.preval.residuals import calibrate_residuals
from dirad.storage.model_file import HEADER, digest_of, packed
from dirad.tables.writer import write_table
from streams import digest

ORDERS = ((0, 1, 2, 3, 4), (3, 4, 0, 1, 2), (2, 0, 4, 1, 3))  # inputs of the three regimes
QUICK = {
    "batch_size": 100,
    "buffer_size": 2000,
    "steps_per_batch": 200,
    "l0": {"max_steps": 1000, "settle_steps": 100},
}


# L0 draws batches by position, and the stream has its order.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": "weights act on the cost, not on the draw",
}


@parametrize_with_checks(
    [PREVALRegressor(random_state=0)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def friedman(regime, n, seed=0):
    """Return samples of Friedman's first function, whose inputs have other roles by regime."""
    rng = np.random.default_rng((regime, seed))
    X = rng.uniform(size=(n, 10))
    a, b, c, d, e = X[:, ORDERS[regime]].T
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return X, y + rng.normal(size=n)


def lines(slope, n, seed=0, low=0.0):
    """Return samples of a linear rule with noise 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(low - 1, low + 1, (n, 2))
    return X, slope * X[:, 0] + X[:, 1] + rng.normal(0, 0.1, n)


def quick(**options):
    return PREVALRegressor(random_state=0, **QUICK | options)


def fingerprint(model):
    """Return every number that the models hold, what was said of each batch, and some answers."""
    system = model._state.system
    X = lines(1, 50, seed=1)[0]
    reports = [str(report) for report in model.reports_]
    waiting = [part.tobytes() for part in model._state.waiting]
    return digest(system), reports, waiting, model.predict_interval(X).tobytes()


def opened(model):
    return [event.batch for event in model.events_ if event.kind == "opened"]


def rmse(model, X, y):
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)))


# ------------------------------------------------------------------ rules that change


@cache
def recurring():
    """Return a model that saw three regimes twice, 2,000 samples each."""
    model = PREVALRegressor(random_state=0)
    for visit in range(2):
        for regime in range(3):
            model.partial_fit(*friedman(regime, 2000, seed=visit))
    return model


def test_recurring_regimes_are_recognized_at_once():
    model = recurring()
    assert opened(model) == [0, 10, 20]
    assert len(model.models_) == 3
    assert [report.model for report in model.reports_] == [
        k for k in (0, 1, 2) * 2 for _ in range(10)
    ]
    again = {report.kind for report in model.reports_[30:]}
    assert again == {"known"}
    assert {one.group for one in model.models_} == {0}  # the same inputs


def test_a_regime_is_predicted_as_well_as_by_a_network_of_its_own():
    for regime in range(3):
        model = pickle.loads(pickle.dumps(recurring()))
        before = [one.network.n_edges for one in model.models_[:2]]
        model.partial_fit(*friedman(regime, 200, seed=7))  # it comes back
        test = friedman(regime, 2000, seed=8)
        alone = DIRADRegressor(random_state=0).fit(*friedman(regime, 2000))
        assert rmse(model, *test) < 1.05 * rmse(alone, *test) + 0.02
        assert (model.route(test[0]) == regime).all()
        assert [one.network.n_edges for one in model.models_[:2]] == before  # not relearned


def test_one_rule_opens_one_model():
    for seed in range(3):
        model = PREVALRegressor(random_state=seed, steps_per_batch=200)
        model.partial_fit(*friedman(0, 8000, seed=seed))
        assert opened(model) == [0]
        assert {report.kind for report in model.reports_[1:]} == {"known"}


def test_the_same_rule_with_a_shift_of_the_target_is_new():
    X, y = lines(1, 2000)
    model = quick().partial_fit(X, y).partial_fit(X[:500], y[:500] + 0.2)
    assert opened(model) == [0, 20]


def test_other_inputs_open_a_model_of_another_group():
    model = quick().partial_fit(*lines(1, 1000)).partial_fit(*lines(-1, 1000, low=9)).finish()
    assert [one.group for one in model.models_] == [0, 1]
    both = [lines(1, 50, seed=5), lines(-1, 50, seed=6, low=9)]
    assert [np.unique(model.route(X)).tolist() for X, _ in both] == [[0], [1]]
    assert all(rmse(model, *part) < 0.15 for part in both)
    assert not model.is_known([[50.0, 50.0]])[0]
    assert model.novelty([[50.0, 50.0]])[0] > model.novelty([[0.0, 0.0]])[0]


def test_samples_of_two_known_tasks_in_one_batch():
    model = quick().partial_fit(*lines(1, 1000)).partial_fit(*lines(-1, 1000, low=9)).finish()
    parts = lines(1, 50, seed=5), lines(-1, 50, seed=6, low=9)
    order = np.random.default_rng(0).permutation(100)
    X, y = (np.concatenate(part)[order] for part in zip(*parts, strict=True))
    model.partial_fit(X, y)
    assert model.reports_[-1].kind == "mixed"
    assert len(model.models_) == 2


def test_a_change_within_a_batch():
    """Samples before the change stay with their model; a known rule is recognized after it."""
    model = quick()
    for slope, n in ((1, 1050), (-2, 1000), (1, 1050)):
        model.partial_fit(*lines(slope, n, seed=n))
    assert opened(model) == [0, 10]
    kinds = [report.kind for report in model.reports_]
    assert kinds[10] == kinds[20] == "mixed"
    assert [report.model for report in model.reports_] == [0] * 10 + [1] * 10 + [0] * 11
    assert rmse(model, *lines(1, 500, seed=9)) < 0.12


def test_change_point():
    scores = np.concatenate([np.zeros(30), np.full(70, 3.0)]) + np.tile([0.1, -0.1], 50)
    at, z = change_point(scores)
    assert at == 30
    assert z == pytest.approx(3.0 / np.sqrt(1 / 30 + 1 / 70), rel=0.05)
    assert change_point(np.zeros(1)) == (0, 0.0)


def test_removed_models_are_learned_again():
    model = quick().partial_fit(*lines(1, 600)).partial_fit(*lines(-2, 600)).finish()
    model.remove(0).partial_fit(*lines(1, 600, seed=3))
    assert [one.number for one in model.models_] == [1, 2]
    with pytest.raises(ValueError, match="there is no model 0"):
        model.remove(0)


# ------------------------------------------------------------------ residuals and intervals


def test_p_values_of_residuals_are_uniform():
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        held_out = calibrate_residuals(rng.standard_t(3, 200), 1.0)
        found.append(held_out.p_value(rng.standard_t(3, 100)))
    for level in (0.01, 0.05, 0.2):
        assert np.mean(np.array(found) < level) < level + 3 * np.sqrt(level / 400)
    assert np.mean(np.array(found) < 0.5) > 0.4


def test_residuals_that_are_larger_or_shifted_are_unusual():
    rng = np.random.default_rng(0)
    held_out, batch = calibrate_residuals(rng.normal(size=200), 1.0), rng.normal(size=100)
    assert held_out.p_value(3 * batch) < 1e-6
    assert held_out.p_value(batch + 1) < 1e-6
    assert held_out.p_value(batch - 1) < 1e-6
    assert held_out.p_value(0.1 * batch) > 0.01  # those of samples that were learned
    assert calibrate_residuals(rng.normal(size=19), 1.0).p_value(9 * batch) == 1.0  # too few
    assert calibrate_residuals(np.zeros(0), 1.0) is None


def test_half_width_is_the_finite_sample_quantile():
    held_out = calibrate_residuals(np.arange(-9, 10) * 1.0, 1.0)  # 19 residuals
    sizes = np.sort(np.abs(np.arange(-9, 10)))
    assert held_out.half_width(0.9) == sizes[17]  # ⌈20 · 0.9⌉ = 18
    assert held_out.half_width(0.95) == sizes[18]
    assert held_out.half_width(0.96) == np.inf


def test_intervals_have_the_promised_coverage():
    """The mean over many models and samples is the promise; heavy tails do not matter."""
    inside, widths = {0.5: [], 0.9: []}, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.uniform(-1, 1, (1200, 2))
        y = X[:, 0] + 0.1 * rng.standard_t(2, 1200)
        model = PREVALRegressor(random_state=seed, **QUICK).fit(X[:700], y[:700])
        for coverage, found in inside.items():
            low, high = model.predict_interval(X[700:], coverage).T
            found.append(np.mean((low <= y[700:]) & (y[700:] <= high)))
            assert (low < model.predict(X[700:])).all()
        widths.append(float(high[0] - low[0]))
    for coverage, found in inside.items():
        error = np.std(found) / np.sqrt(len(found))
        assert coverage - 3 * error < np.mean(found) < coverage + 0.02 + 3 * error
    assert max(widths) < 2


def test_intervals_of_few_samples_are_infinite():
    model = quick().partial_fit(*lines(1, 1000))
    assert np.isinf(model.predict_interval([[0.0, 0.0]], 0.9999)).all()
    assert quick().partial_fit(*lines(1, 100)).predict_interval([[0.0, 0.0]]).tolist() == [
        [-np.inf, np.inf]
    ]
    with pytest.raises(ValueError, match="coverage must be between 0 and 1"):
        model.predict_interval([[0.0, 0.0]], 1.0)


# ------------------------------------------------------------------ the incremental contract


@cache
def uncut():
    X = np.concatenate([lines(slope, 650)[0] for slope in (1, -2, 1)])
    y = np.concatenate([lines(slope, 650)[1] for slope in (1, -2, 1)])
    y[::5] = np.nan
    return X, y, quick().partial_fit(X, y)


@pytest.mark.parametrize("sizes", [(1,), (37,), (400, 3, 100)])
def test_the_result_does_not_depend_on_the_division_into_calls(sizes):
    X, y, whole = uncut()
    model, start = quick(), 0
    while start < len(X):
        for size in sizes:
            if start < len(X):
                model.partial_fit(X[start : start + size], y[start : start + size])
            start += size
    assert fingerprint(model) == fingerprint(whole)


def test_the_result_does_not_depend_on_the_number_of_threads():
    X, y, whole = uncut()
    assert fingerprint(quick(n_jobs=2).partial_fit(X, y)) == fingerprint(whole)


@pytest.mark.parametrize("stop", [50, 350, 800, 1500])
def test_a_saved_stream_goes_on_bit_for_bit(stop, tmp_path):
    X, y, whole = uncut()
    model = quick().partial_fit(X[:stop], y[:stop])
    dirad.save(model, tmp_path / "stream.dirad")
    loaded = dirad.load(tmp_path / "stream.dirad")
    assert packed(loaded) == packed(model)
    assert fingerprint(loaded.partial_fit(X[stop:], y[stop:])) == fingerprint(whole)
    finished = pickle.loads(pickle.dumps(whole)).finish()
    assert fingerprint(loaded.finish()) == fingerprint(finished)


def test_a_saved_stream_answers_the_same(tmp_path):
    X, _, whole = uncut()
    dirad.save(whole, tmp_path / "stream.dirad")
    loaded = dirad.load(tmp_path / "stream.dirad")
    for method in ("predict", "predict_interval", "route", "novelty", "is_known", "conflicts"):
        assert np.array_equal(getattr(loaded, method)(X), getattr(whole, method)(X))


def in_every(name, value):
    """Return a change of a file's description: every field of this name gets the value."""

    def change(part):
        if isinstance(part, list):
            return [change(one) for one in part]
        if not isinstance(part, dict):
            return part
        return {key: value if key == name else change(one) for key, one in part.items()}

    return change


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("targets", "classes", "numbers|classes|kind|scaling"),
        ("targets", "colours", "none of classes, numbers"),
        ("target_scaling", None, "scaling of targets is missing|only numbers have residuals"),
        ("target_scaling", {"offset": 0.0, "spread": 0.0}, "no spread"),
        ("n_classes", 2, "numbers have no classes"),
    ],
)
def test_files_that_make_no_sense_are_refused(name, value, message, tmp_path):
    path = tmp_path / "forged.dirad"
    path.write_bytes(packed(uncut()[2]))
    with safe_open(path, "np") as file:
        found = json.loads(file.metadata()[HEADER])
        arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    for part in ("tree", "shared"):
        found[part] = in_every(name, value)(found[part])
    found["digest"] = digest_of(found, arrays)
    path.write_bytes(serialized(arrays, metadata={HEADER: json.dumps(found)}))
    with pytest.raises(dirad.ModelError, match=message):
        dirad.load(path)


def test_late_targets():
    """Targets that come late teach a model, and show a rule that changed, as others do."""
    X, y = lines(1, 1000)
    model = quick().partial_fit(X)
    with pytest.raises(ValueError, match="no target was seen yet"):
        model.predict(X)
    model.label(np.arange(500, 1000), y[500:])
    model.partial_fit(X[:450], y[:450])
    assert rmse(model, *lines(1, 300, seed=4)) < 0.15
    before, waiting = model._state, model._state.waiting[1].copy()
    model.label([1449], [99.0])  # it waits for its batch; the state before does not change
    assert model._state.waiting[1][-1] == 99.0
    assert np.array_equal(before.waiting[1], waiting)
    model.label([1449], y[449:450])
    model.finish()
    with pytest.warns(UserWarning, match="2 of 2 labels came too late"):
        model.label([0, 1], y[:2])
    assert model.n_late_labels_ == 2
    for numbers, late, message in (
        ([9999], [1.0], "no sample has the number 9999"),
        ([1, 2], [1.0], "2 samples and 1 labels"),
        ([0.5], [1.0], "must be whole numbers"),
        ([1], [np.nan], "leave out what is not known yet"),
    ):
        with pytest.raises(ValueError, match=message):
            model.label(numbers, late)


def test_without_any_target_other_inputs_are_detected_and_recognized():
    parts = [lines(1, 1000, seed, low)[0] for seed, low in enumerate((0.0, 3.0, 0.0))]
    model = quick().partial_fit(np.concatenate(parts)).finish()
    assert [e.kind for e in model.events_ if e.kind != "stable"] == ["opened", "opened", "chosen"]
    assert set(model.route(parts[0])) == {0}
    assert set(model.route(parts[1])) == {1}
    with pytest.raises(ValueError, match="no target was seen yet"):
        model.predict(parts[0])


def test_few_targets_are_enough():
    X, y = lines(1, 3000)
    y[np.random.default_rng(0).uniform(size=3000) > 0.1] = np.nan
    model = quick().partial_fit(X, y).finish()
    assert len(model.models_) == 1
    assert rmse(model, *lines(1, 300, seed=4)) < 0.15


def test_targets_may_be_of_any_magnitude():
    X, y = lines(1, 1000)
    usual = quick().fit(X, y).predict(X)
    for offset, factor in ((1e9, 1.0), (0.0, 1e200), (0.0, 1e-200), (-3e5, 1e3)):
        found = quick().fit(X, offset + factor * y).predict(X)
        assert (found - offset) / factor == pytest.approx(usual, abs=0.02)
    constant = quick().fit(X, np.full(1000, 3.0))
    assert constant.predict(X) == pytest.approx(np.full(1000, 3.0))


def test_bad_input_is_refused_and_changes_nothing():
    X, y = lines(1, 300)
    model = quick().partial_fit(X, y)
    before = packed(model)
    hole = X.copy()
    hole[3, 1] = np.nan
    for given, target, message in (
        (np.where(np.isnan(hole), np.inf, hole), y, "Input X contains infinity"),
        (X, np.stack([y, y], axis=1), "y has 2 columns, and PREVALRegressor predicts one number"),
        (X, np.where(y > 0, np.inf, y), "Input y contains infinity"),
        (X, np.full(300, "a"), "y holds texts"),
        (X, y[:-1], "inconsistent numbers of samples"),
        (X[:, :1], y, "expecting 2 features"),
        (X, np.where(np.arange(300) == 7, 1e200, y), "y, row 7"),
    ):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(given, target)
    with pytest.raises(ValueError, match="Input X contains infinity"):
        model.predict(np.where(np.isnan(hole), np.inf, hole))
    assert packed(model) == before
    with pytest.raises(ValueError, match="contains NaN alone"):
        quick().fit(X, np.full(300, np.nan))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


def test_missing_targets_may_be_none_or_masked():
    X, y = lines(1, 300)
    hole = np.arange(300) % 3 == 0
    with_nan = quick().partial_fit(X, np.where(hole, np.nan, y))
    listed = [None if gone else value for gone, value in zip(hole, y.tolist(), strict=True)]
    assert packed(quick().partial_fit(X, listed)) == packed(with_nan)
    assert packed(quick().partial_fit(X, np.ma.array(y, mask=hole))) == packed(with_nan)


def test_other_threads_predict_while_one_learns():
    X, y = lines(1, 3000)
    model = quick().partial_fit(X[:500], y[:500])
    expected, found = model.predict(X), []
    learner = Thread(target=model.partial_fit, args=(X[500:], y[500:]))
    learner.start()
    while learner.is_alive():
        found.append(model.predict(X))
    learner.join()
    after = model.predict(X)
    assert found
    for one in found:
        assert np.array_equal(one, expected) or np.array_equal(one, after)


# ------------------------------------------------------------------ the command line


def test_commands_learn_predict_and_inspect_numbers(capfdbinary, tmp_path):
    path = tmp_path / "plant.dirad"
    for name, slope, seed in (("day1", 1, 0), ("day2", -2, 1), ("day3", 1, 2)):
        X, y = lines(slope, 800, seed=seed)
        load = [None if row == 5 else value for row, value in enumerate(y.tolist())]
        write_table(tmp_path / f"{name}.csv", {"a": X[:, 0], "b": X[:, 1], "load": load})
    fit = ("fit", tmp_path / "day1.csv", "--target", "load", "--continual", "-o", path, "--json")
    code, text, _ = run(capfdbinary, *fit)
    assert code == 0
    assert json.loads(text)["Answers before learning"]["RMSE"] < 0.2
    code, text, _ = run(capfdbinary, "learn", path, tmp_path / "day2.csv", "--json")
    assert code == 0
    assert {row["model"] for row in json.loads(text)["What was recognized"]} == {1}
    code, text, _ = run(capfdbinary, "learn", path, tmp_path / "day3.csv", "--finish", "--json")
    first, *rest = [row["taken for"] for row in json.loads(text)["What was recognized"]]
    assert (first, set(rest)) == ("back", {"known"})
    assert [row["model"] for row in json.loads(text)["Models"]] == [0, 1]
    code, _, message = run(capfdbinary, "predict", path, tmp_path / "day3.csv", "--novelty")
    assert code == 0
    assert float(message.split()[-1]) < 0.11  # the noise is 0.1
    assert "PREVALRegressor" in run(capfdbinary, "inspect", path)[1]
    assert run(capfdbinary, "report", path, "-o", tmp_path / "page.html")[0] == 0
    code, _, message = run(capfdbinary, "export", path, "--to", "c", "-o", tmp_path / "m.h")
    assert code == 2
    assert "cannot be exported" in message


def test_river_learns_numbers_sample_by_sample():
    pytest.importorskip("river")
    from river import evaluate, metrics, stream

    from dirad.estimators.river import RiverPREVALRegressor

    model = RiverPREVALRegressor(batch_size=50, buffer_size=600, begin=100, random_state=0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = 2.0 * X[:, 0] - X[:, 1] + 0.1 * rng.normal(size=800)
    row = dict(enumerate(X[0]))
    assert model.predict_one({0: 1.0}) == 0.0
    assert model.predict_interval_one(row) == (-np.inf, np.inf)
    assert np.isnan(model.novelty_one(row))
    found = evaluate.progressive_val_score(stream.iter_array(X, y.tolist()), model, metrics.RMSE())
    assert found.get() < 0.6 * y.std()
    same = PREVALRegressor(batch_size=50, buffer_size=600, begin=100, random_state=0)
    same.partial_fit(X, y)
    assert model.predict_one(row) == pytest.approx(same.predict(X[:1])[0])
    low, high = model.predict_interval_one(row, 0.8)
    assert [low, high] == pytest.approx(same.predict_interval(X[:1], 0.8)[0].tolist())
    assert model.novelty_one({0: 20.0, 1: 20.0, 2: -20.0}) > model.novelty_one(row)
    model.learn_one(row, None)  # the target is not known
    with pytest.raises(ValueError, match="too many or missing: extra"):
        model.learn_one({**row, "extra": 1.0}, 0.0)
    assert repr(model.clone()) == repr(model)
