"""Data that nobody should send: learned, or refused by name, and never at the cost of what was."""

import os
import pickle
import warnings

import joblib
import numpy as np
import pytest

import dirad
from dirad import DIRADClassifier, DIRADRegressor, ModelError, PREVALClassifier, watch
from dirad.core.magnitudes import OutOfRange, check_range, mean_and_std
from dirad.export import to_c
from dirad.preval import events
from dirad.preval.system import System

QUICK = {
    "l0": {"max_steps": 300, "settle_steps": 40},
    "l1": {"settle_steps": 30},
    "modes": 2,
    "batch_size": 50,
    "buffer_size": 400,
    "begin": 100,
    "steps_per_batch": 50,
    "random_state": 0,
    "n_jobs": 1,
}
MARKERS = [1e20, -3.4028235e38, 9.96921e36, 1.7976931348623157e308, -1.7976931348623157e308]
SCALES = [1e-290, 1e-200, 1e-100, 1e100, 1e155, 1e200, 1e300]
OFFSETS = [1e6, 1e10, 1e12, 1e14]


def samples(n, seed=0, shift=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X + shift, (X[:, 0] + X[:, 1] > 0).astype(int)


def same_state(model, content):
    """Is a continual classifier what it was when it was pickled?"""
    return pickle.dumps(model) == content


# ------------------------------------------------------------------ magnitudes


@pytest.mark.parametrize("scale", [1.0, *SCALES])
@pytest.mark.parametrize("offset", [0.0, 3.0, 1e7])
def test_center_and_spread_at_any_scale(scale, offset):
    X = (np.random.default_rng(0).normal(size=(500, 3)) + offset) * scale
    center, spread = mean_and_std(X)
    exact = X / scale  # ordinary numbers, whose mean and spread NumPy computes well
    np.testing.assert_allclose(center / scale, exact.mean(axis=0), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(spread / scale, exact.std(axis=0), rtol=1e-6)


def test_ordinary_numbers_have_numpys_own_mean_and_spread():
    X = np.random.default_rng(0).normal(2.0, 3.0, (500, 4))
    center, spread = mean_and_std(X)
    assert np.array_equal(center, X.mean(axis=0))
    assert np.array_equal(spread, X.std(axis=0))


def test_rounding_errors_are_no_spread():
    X = np.full((100, 1), 0.3)
    X[::2] = 0.1 * 3
    assert mean_and_std(X)[1].tolist() == [0.0]


@pytest.mark.parametrize("marker", MARKERS)
@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.7])
def test_markers_of_missing_data_are_out_of_range(marker, share):
    X, _ = samples(1000)
    rows = np.random.default_rng(1).permutation(1000)[: int(1000 * share)]
    X[rows, 2] = marker
    with pytest.raises(
        OutOfRange, match=rf"^X, row {rows.min()}, column 2: {marker:.8g}".replace("+", r"\+")
    ):
        check_range(X)


@pytest.mark.parametrize(
    "X",
    [
        np.random.default_rng(0).standard_cauchy((5000, 2)),
        np.random.default_rng(0).normal(size=(500, 2)) * 1e200,
        10.0 ** -np.random.default_rng(0).uniform(0, 300, (500, 2)),  # kernels, likelihoods
        np.where(np.random.default_rng(0).random((500, 2)) < 0.01, 1.0, 1e-17),  # rounding errors
        np.where(np.random.default_rng(0).random((500, 2)) < 0.5, 1e300, 0.0),  # two values
        np.full((500, 2), 1e306),
    ],
    ids=["heavy tails", "large", "small", "noise", "two values", "constant"],
)
def test_other_numbers_are_in_range(X):
    check_range(X)


@pytest.mark.parametrize("scale", SCALES)
def test_inputs_of_any_scale_are_learned(scale):
    X, y = samples(600)
    X_new, y_new = samples(300, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = DIRADClassifier(random_state=0, max_edges=8).fit(X * scale, y)
        assert one.score(X_new * scale, y_new) > 0.97
        many = PREVALClassifier(**QUICK).fit(X * scale, y)
        assert many.score(X_new * scale, y_new) > 0.93
    assert len(many.models_) == 1


@pytest.mark.parametrize("offset", OFFSETS)
def test_inputs_far_from_zero_are_learned(offset):
    X, y = samples(600, shift=offset)
    X_new, y_new = samples(300, seed=1, shift=offset)
    assert DIRADClassifier(random_state=0, max_edges=8).fit(X, y).score(X_new, y_new) > 0.97
    assert PREVALClassifier(**QUICK).fit(X, y).score(X_new, y_new) > 0.93


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e200, 1e300])
def test_targets_of_any_scale_are_learned(tmp_path, scale):
    X, _ = samples(400)
    y = (X[:, 0] + X[:, 1] * X[:, 2]) * scale
    model = DIRADRegressor(random_state=0).fit(X, y)
    dirad.save(model, tmp_path / "m")
    again = dirad.load(tmp_path / "m").predict(X)
    assert np.corrcoef(again / scale, y / scale)[0, 1] > 0.99


@pytest.mark.parametrize("weight", [1e-300, 1e100, 1e300])
def test_only_ratios_of_sample_weights_count(weight):
    X, y = samples(300)
    given = np.where(y == 1, 2.0, 1.0)
    plain = DIRADClassifier(random_state=0, max_steps=300).fit(X, y, given * 2.0**30)
    model = DIRADClassifier(random_state=0, max_steps=300).fit(
        X, y, given * 2.0 ** int(np.log2(weight))
    )
    assert np.array_equal(plain.predict_proba(X), model.predict_proba(X))


def test_a_negative_sample_weight_is_refused():
    X, y = samples(50)
    weight = np.ones(50)
    weight[7] = -0.5
    for model in (DIRADClassifier(), DIRADRegressor()):
        with pytest.raises(ValueError, match=r"sample_weight, row 7: -0\.5 is negative"):
            model.fit(X, y, sample_weight=weight)


def test_class_weights_are_checked_too():
    X, y = samples(50)
    with pytest.raises(ValueError, match=r"class_weight, row \d+: -1 is negative"):
        DIRADClassifier(class_weight={0: 1.0, 1: -1.0}).fit(X, y)
    large = DIRADClassifier(class_weight={0: 1e300, 1: 1e300}, random_state=0, max_edges=4)
    assert large.fit(X, y).score(X, y) > 0.9


def test_inputs_that_hardly_vary_are_named():
    X, y = samples(100)
    with pytest.raises(ValueError, match="X, column 0: varies by less than 1e-300"):
        DIRADClassifier().fit(X * 1e-308, y)
    with pytest.warns(UserWarning, match="X, column 2: the values differ by rounding errors alone"):
        DIRADClassifier(max_edges=2, random_state=0).fit(X + np.array([0, 0, 1e16, 0]), y)


def test_a_fit_that_diverges_says_so():
    X, y = samples(100)
    with pytest.raises(ValueError, match=r"diverged.*scale the inputs to \[0, 1\]"):
        DIRADRegressor(preset="paper", random_state=0, gamma=1e200, max_steps=50).fit(X, y)


# ------------------------------------------------------------------ refusals that cost nothing


@pytest.mark.parametrize("marker", MARKERS)
def test_a_refused_batch_changes_nothing(tmp_path, marker):
    model = PREVALClassifier(**QUICK).partial_fit(*samples(330))
    content, file = pickle.dumps(model), tmp_path / "m"
    dirad.save(model, file)
    before = file.read_bytes()
    X, y = samples(100, seed=3)
    X[40:60:2, 1] = marker
    with pytest.raises(ValueError, match="X, row 40, column 1: "):
        model.partial_fit(X, y + 5)
    assert same_state(model, content)
    dirad.save(model, file)
    assert file.read_bytes() == before


def interrupted(name, after):
    """Return a method of the system that fails when it has been called so many times."""
    real, calls = getattr(System, name), []

    def method(system, *arguments):
        calls.append(1)
        real(system, *arguments)
        if len(calls) > after:
            raise KeyboardInterrupt

    return method


def test_an_interrupted_call_changes_nothing(monkeypatch):
    """Classes that it met keep no code, samples are not learned twice."""
    model = PREVALClassifier(**QUICK).partial_fit(*samples(330))
    alone = PREVALClassifier(**QUICK).partial_fit(*samples(330))
    content = pickle.dumps(model)
    X, y = samples(200, seed=1, shift=9.0)
    with monkeypatch.context() as patch:
        patch.setattr(System, "complete_and_evict", interrupted("complete_and_evict", 2))
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(X, y + 20)
        with pytest.raises(KeyboardInterrupt):
            model.finish()
    assert same_state(model, content)
    for one in (model, alone):
        one.partial_fit(X, y + 60).finish()
    assert model.classes_.tolist() == [0, 1, 60, 61]
    assert np.array_equal(model.predict_proba(X), alone.predict_proba(X))
    assert model.n_samples_seen_ == 530


def test_a_refused_label_changes_nothing():
    X, y = samples(85)
    model = PREVALClassifier(preset="paper", batch_size=40, random_state=0)
    model.partial_fit(np.clip(X, 0, 1), y, classes=[0, 1])
    content = pickle.dumps(model)
    with pytest.raises(ValueError, match="keep no samples"):
        model.label([3, 84], [1 - y[3], 1 - y[84]])
    assert same_state(model, content)


@pytest.mark.parametrize("row", [0, 1, 60])
@pytest.mark.parametrize("begin", [100, 200])
def test_a_marker_among_the_very_first_samples_does_no_harm(row, begin):
    """One sample at a time: there may be nothing yet to compare the marker with."""
    X, y = samples(400)
    clean = X.copy()
    X[row, 1] = 1e300
    model = PREVALClassifier(**QUICK | {"begin": begin})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(400):
            try:
                model.partial_fit(X[i : i + 1], y[i : i + 1])
            except OutOfRange:
                assert i == row
                told.append(None)
    assert len(told) == 1
    assert model.finish().score(clean, y) > 0.93


def test_a_later_task_may_be_much_larger(tmp_path):
    first, second = samples(500), samples(500, seed=1, shift=4.0)
    larger = second[0] * 1e9
    model = PREVALClassifier(**QUICK).partial_fit(*first).partial_fit(larger, second[1] + 2)
    dirad.save(model.finish(), tmp_path / "m")
    model = dirad.load(tmp_path / "m")
    assert len(model.models_) == 2
    assert model.score(*first) > 0.93
    assert model.score(larger, second[1] + 2) > 0.93


def test_a_refused_fit_leaves_the_estimator_as_it_was():
    X, y = samples(200)
    bad = X[:, :2].copy()
    bad[3, 1] = 1e300
    for model in (DIRADClassifier(random_state=0, max_steps=50), PREVALClassifier(**QUICK)):
        before = model.fit(X, y).predict_proba(X)
        with pytest.raises(ValueError, match="X, row 3, column 1: 1e"):
            model.fit(bad, y)
        assert model.n_features_in_ == 4
        assert np.array_equal(model.predict_proba(X), before)


def test_watch_refuses_what_is_masked():
    masked = np.ma.masked_array(samples(100)[0], mask=False)
    masked.mask[3, 1] = True
    with pytest.raises(ValueError, match="batch 0 has masked values, the first at row 3"):
        list(watch([masked], begin=100))


def test_watch_names_the_batch():
    batches = [samples(100)[0] for _ in range(3)]
    batches[2][5, 1] = 9.96921e36
    with pytest.raises(ValueError, match=r"batch 2, row 5, column 1: 9\.96921e"):
        list(watch(batches, begin=100, steps_per_batch=10))


# ------------------------------------------------------------------ files


def test_a_file_that_could_not_be_read_is_not_written(tmp_path):
    model = DIRADClassifier(random_state=0, max_steps=50).fit(*samples(100))
    path = tmp_path / "m"
    dirad.save(model, path)
    before = path.read_bytes()
    model.network_.bias[0, 0] = np.inf
    with pytest.raises(ModelError, match=r"m is not written: .*bias holds NaN or infinity"):
        dirad.save(model, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["m"]


def test_long_labels_come_back(tmp_path):
    X, _ = samples(2000)
    names = np.array(["a" * 20_000, *(f"class {i}" for i in range(1, 1000))])
    model = DIRADClassifier(random_state=0, max_steps=2).fit(X, names[np.arange(2000) % 1000])
    dirad.save(model, tmp_path / "m")
    assert np.array_equal(dirad.load(tmp_path / "m").classes_, model.classes_)


def test_a_pipe_is_no_model_file(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(ModelError, match="pipe: this is not a regular file"):
        dirad.load(path)


@pytest.mark.parametrize("kind", [DIRADClassifier, PREVALClassifier])
def test_a_model_mapped_into_memory_goes_on(tmp_path, kind):
    X, y = samples(400)
    if kind is DIRADClassifier:
        model = kind(random_state=0).fit(X, y, steps=20)
    else:
        model = kind(**QUICK).partial_fit(X, y)
    joblib.dump(model, tmp_path / "m")
    mapped = joblib.load(tmp_path / "m", mmap_mode="r")
    assert np.array_equal(mapped.predict_proba(X), model.predict_proba(X))
    for one in (model, mapped):
        if kind is DIRADClassifier:
            one.resume(X, y, steps=20)
        else:
            one.partial_fit(*samples(200, seed=1)).finish()
    assert np.array_equal(mapped.predict_proba(X), model.predict_proba(X))


# ------------------------------------------------------------------ answers


EXTREME = np.array(
    [
        [1e308, 0.0, 0.0, 0.0],
        [-1e308, -1e308, -1e308, -1e308],
        [1e308, -1e308, 1e308, -1e308],
        [1e200, 1e155, -1e77, 1.0],
    ]
)


def test_extreme_inputs_have_answers():
    X, y = samples(300)
    for labels in (y, np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])):
        model = DIRADClassifier(random_state=0, max_edges=8).fit(X, labels)
        chances = model.predict_proba(EXTREME)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        assert (chances >= 0).all()
        assert model.predict(EXTREME[:2]).tolist() == [labels.max(), 0]


def test_a_regressor_names_the_row_whose_answer_it_cannot_hold():
    X, _ = samples(300)
    model = DIRADRegressor(random_state=0).fit(X, 100.0 * X[:, 0])
    with pytest.raises(ValueError, match="X, row 2: the answer is beyond float64"):
        model.predict(np.vstack([X[:2], EXTREME]))


@pytest.mark.parametrize("preset", ["default", "paper"])
def test_one_extreme_row_does_not_stop_the_others(preset):
    X, y = samples(400)
    if preset == "default":
        model = PREVALClassifier(**QUICK).partial_fit(X, y).partial_fit(*samples(200, 2, 5.0))
    else:
        X = (X - X.min()) / np.ptp(X)
        settings = {"l0": {"max_steps": 60}, "l1": {"max_steps": 40}, "batch_size": 40}
        model = PREVALClassifier(preset="paper", random_state=0, **settings).fit(X, y)
    asked = np.vstack([X[:5], EXTREME])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        chances, models = model.predict_proba(asked), model.route(asked)
        novelty, known = model.novelty(asked), model.is_known(asked)
    assert np.array_equal(chances[:5], model.predict_proba(X[:5]))
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    assert np.isin(models, [one.number for one in model.models_]).all()
    assert np.isfinite(novelty).all()
    assert not known[5:].any()


def test_labels_that_wait_for_their_batch_are_equally_probable():
    X, y = samples(130)
    model = PREVALClassifier(**QUICK).partial_fit(X[:100]).partial_fit(X[100:], y[100:])
    assert model.predict_proba(X[:3]).tolist() == [[0.5, 0.5]] * 3


@pytest.mark.parametrize(("scale", "offset"), [(1e200, 0.0), (1e-200, 0.0), (1.0, 1e10)])
@pytest.mark.parametrize("continual", [False, True])
def test_what_float_cannot_tell_apart_is_not_exported_as_float(scale, offset, continual):
    X, y = samples(400)
    model = PREVALClassifier(**QUICK) if continual else DIRADClassifier(random_state=0, max_edges=8)
    to_c(model.fit(X, y))
    with pytest.raises(ValueError, match="float cannot distinguish the inputs of this model"):
        to_c(model.fit(X * scale + offset, y))


# ------------------------------------------------------------------ masks, large whole numbers


def test_masked_values_are_refused():
    X, y = samples(60)
    masked = np.ma.masked_array(X, mask=np.zeros(X.shape, bool))
    assert DIRADClassifier(random_state=0, max_steps=20).fit(masked, y).n_features_in_ == 4
    masked.mask[7, 2] = True
    for model in (DIRADClassifier(), DIRADRegressor(), PREVALClassifier()):
        with pytest.raises(ValueError, match="X has masked values, the first at row 7, column 2"):
            model.fit(masked, y)
    hidden = np.ma.masked_array(X[:, 0], mask=y == 1)
    with pytest.raises(ValueError, match=f"y has masked values, the first at row {np.argmax(y)}"):
        DIRADRegressor().fit(X, hidden)


def test_masked_labels_are_unknown():
    X, y = samples(200)
    hidden = np.ma.masked_array(np.where(np.arange(200) % 2, y, 7), mask=np.arange(200) % 2 == 0)
    model = PREVALClassifier(**QUICK).partial_fit(X, hidden)
    assert model.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("missing", [False, True])
def test_large_whole_numbers_stay_different_labels(tmp_path, missing):
    X, y = samples(200)
    labels = [2**63 + int(code) if i else 5 for i, code in enumerate(y)]
    model = PREVALClassifier(**QUICK).partial_fit(X, [*labels[:-1], None] if missing else labels)
    assert model.classes_.tolist() == [5, 2**63, 2**63 + 1]
    dirad.save(model, tmp_path / "m")
    assert dirad.load(tmp_path / "m").classes_.tolist() == [5, 2**63, 2**63 + 1]
    if not missing:
        grown = DIRADClassifier(random_state=0, max_steps=20).fit(X, labels)
        assert grown.classes_.tolist() == [5, 2**63, 2**63 + 1]


def test_labels_of_more_than_64_bits_are_refused():
    X, _ = samples(20)
    for model in (DIRADClassifier(), PREVALClassifier()):
        with pytest.raises(ValueError, match="from -1 to 9223372036854775808: labels must fit"):
            model.fit(X, [-1, 2**63] * 10)
    model = PREVALClassifier(**QUICK).partial_fit(X, [-1] * 20)
    with pytest.raises(ValueError, match="labels must fit into 64 bits"):
        model.partial_fit(X, np.full(20, 2**63, np.uint64))
    assert model.classes_.tolist() == [-1]


# ------------------------------------------------------------------ long lives


def test_of_many_reports_and_events_the_last_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "MAX_RECORDS", 6)
    model = PREVALClassifier(**QUICK)
    for turn in range(6):
        model.partial_fit(*samples(150, seed=turn, shift=8.0 * (turn % 2)))
    assert len(model.reports_) == len(model.events_) == 6
    assert [report.batch for report in model.reports_] == list(range(12, 18))
    dirad.save(model, tmp_path / "m")
    again = dirad.load(tmp_path / "m")
    assert [str(e) for e in again.events_] == [str(e) for e in model.events_]
    assert [e.evidence for e in again.events_] == [e.evidence for e in model.events_]


def test_the_number_of_models_is_limited_by_default():
    model = PREVALClassifier(**QUICK).partial_fit(*samples(100))
    assert model._state.system.settings.max_models == 100
