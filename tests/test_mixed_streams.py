"""Streams with missing values and categories: what is learned, what is new, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest

from dirad import PREVALClassifier, PREVALRegressor, load, save, watch

QUICK = {"random_state": 0, "steps_per_batch": 100, "l0": {"max_edges": 15}}
NAMES = (
    "t", "t is missing", "colour = red", "colour = blue", "colour = green", "colour = (other)",
    "colour is missing", "k", "k is missing",
)  # fmt: skip


def table(n, seed=0, *, gaps=0.1, k_gaps=0.0, new=0.0):
    """Return a table whose class depends on a number in the thousands, and on a colour."""
    rng = np.random.default_rng(seed)
    t, k = rng.normal(1000, 200, n), rng.normal(size=n)
    colour = np.tile(["red", "blue", "green"], n)[:n].astype(object)
    y = (t > 1000) ^ (colour == "red")
    t[rng.random(n) < gaps], k[rng.random(n) < k_gaps] = np.nan, np.nan
    colour[rng.random(n) < new] = "violet"
    return pd.DataFrame({"t": t, "colour": colour, "k": k}), y


def learned(X, y, calls=(200,) * 5, **options):
    model, start = PREVALClassifier(**QUICK | options), 0
    for rows in calls:
        model.partial_fit(X[start : start + rows], y[start : start + rows])
        start += rows
    return model


@pytest.fixture(scope="module")
def known():
    """A model of a stream of mixed columns; `load` and `save` give each test its own."""
    return learned(*table(1000)).finish()


def own(model, tmp_path):
    save(model, tmp_path / "m.dirad")
    return load(tmp_path / "m.dirad")


def test_the_first_batch_decides_which_inputs_there_are(known):
    assert known.encoding_.names(known.feature_names_in_) == NAMES
    X, y = table(400, 1)
    assert known.score(X, y) > 0.85
    assert known.conflicts(X).shape == X.shape
    assert known.n_features_in_ == 3


@pytest.mark.parametrize(
    ("change", "name"),
    [({"new": 1.0}, "colour = (other)"), ({"k_gaps": 1.0}, "k is missing"),
     ({"gaps": 0.6}, "t is missing")],
)  # fmt: skip
def test_a_burst_of_gaps_or_of_a_new_category_is_new(known, tmp_path, change, name):
    model = own(known, tmp_path)
    X, y = table(200, 2, **change)
    found = model.explain(X, y)
    assert name in [NAMES[one.input] for one in found.inputs]
    assert found.p < 1e-6
    assert model.novelty(X).mean() > model.novelty(table(200, 2)[0]).mean() + 0.3
    model.partial_fit(X, y)
    assert model.reports_[-1].kind in ("new", "mixed")
    model.partial_fit(*table(200, 3))  # what was known before is known again
    assert (model.reports_[-1].kind, model.reports_[-1].model) == ("known", 0)


def test_the_encoding_does_not_depend_on_the_division_into_calls(tmp_path):
    X, y = table(600)
    one = learned(X, y, (600,))
    other = learned(X, y, (1, 150, 20))
    assert other.encoding_ is None
    other = own(other, tmp_path)  # a file keeps samples that wait for the first batch
    other.partial_fit(X[171:], y[171:])
    assert other.encoding_.categories == one.encoding_.categories
    new = table(100, 5, new=0.5, k_gaps=0.5)[0]
    np.testing.assert_array_equal(one.predict_proba(new), other.predict_proba(new))


def test_a_file_goes_on_to_the_last_bit(tmp_path):
    X, y = table(450, 7, new=0.2)
    here = learned(X, y, (300,))
    there = own(here, tmp_path)
    for model in (here, there):
        model.partial_fit(X[300:], y[300:])
    new = table(50, 8)[0]
    np.testing.assert_array_equal(here.predict_proba(new), there.predict_proba(new))


def test_categories_of_the_type_are_known_without_occurring():
    X, y = table(200)
    X["colour"] = pd.Categorical(X["colour"], ["red", "green", "blue", "black"])
    model = PREVALClassifier(**QUICK).partial_fit(X, y)
    assert model.encoding_.categories[1].labels == ("red", "green", "blue", "black")


def test_arrays_of_numbers_and_codes():
    X, y = table(400)
    codes = X["colour"].map({"red": 0.0, "blue": 1.0, "green": 2.0})
    X = np.column_stack([X["t"], codes, X["k"]])
    model = PREVALClassifier(**QUICK, categorical_features=[1]).fit(X, y)
    assert model.encoding_.categories[1].labels == (0.0, 1.0, 2.0)
    other = X.copy()
    other[:, 1] = 7.0
    assert model.novelty(other).mean() > model.novelty(X).mean() + 0.5


def test_fit_knows_all_categories_of_its_table():
    X, y = table(400)
    X.loc[300:, "colour"] = "late"
    assert "late" in PREVALClassifier(**QUICK).fit(X, y).encoding_.categories[1].labels
    assert "late" not in learned(X, y, (400,)).encoding_.categories[1].labels


def test_a_stream_of_numbers_has_its_columns_as_inputs():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3))
    y = X[:, 0] > 0
    model = PREVALClassifier(**QUICK).partial_fit(X[:400], y[:400])
    assert model.encoding_.is_identity
    gap = X[400:].copy()
    gap[::2, 2] = np.nan
    with pytest.warns(UserWarning, match="column 2: values are missing for the first time"):
        model.partial_fit(gap, y[400:])
    filled = np.where(np.isnan(gap), X[:200, 2].mean(), gap)
    np.testing.assert_array_equal(model.predict_proba(gap), model.predict_proba(filled))


def test_gaps_that_are_announced_are_new_when_they_come():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 3))
    y = X[:, 0] > 0
    model = PREVALClassifier(**QUICK, missing_features=[2]).partial_fit(X, y)
    gap = rng.normal(size=(200, 3))
    y = gap[:, 0] > 0
    gap[:, 2] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(gap, y)
    assert model.reports_[-1].kind in ("new", "undecided")
    every = PREVALClassifier(**QUICK, missing_features="all").partial_fit(X[:200], y)
    assert every.encoding_.n_inputs == 6
    with pytest.raises(ValueError, match="missing_features must be 'auto', 'all', None"):
        PREVALClassifier(missing_features="some").partial_fit(X, X[:, 0] > 0)


def test_a_column_without_any_value_at_first():
    X, y = table(400)
    X.loc[:199, "k"] = np.nan
    model = learned(X, y, (200, 200))
    assert np.isfinite(model.predict_proba(X)).all()


def test_numbers_are_predicted_from_mixed_columns():
    X, _ = table(1000)
    y = np.where(np.isnan(X["t"]), 5.0, X["t"] / 100) + 3.0 * (X["colour"] == "red")
    model = PREVALRegressor(random_state=0).fit(X[:800], y[:800])
    assert model.score(X[800:], y[800:]) > 0.9
    assert np.isfinite(model.predict_interval(X[800:])).all()
    assert model.explain(X[800:], y[800:]).kind == "known"


def test_text_where_numbers_were_is_refused(known):
    X = table(5)[0]
    X["k"] = "high"
    with pytest.raises(ValueError, match=r"X, column 'k': .* name it in categorical_features"):
        known.predict(X)


def test_the_paper_takes_numbers_alone():
    X, y = table(100)
    model = PREVALClassifier(preset="paper")
    assert not model.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="column 'colour' holds categories: the preset 'paper'"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="the preset 'paper' takes no missing values"):
        model.fit(X[["t"]] / 2000, y)
    model.set_params(missing_features="all")
    with pytest.raises(ValueError, match="missing_features: the preset 'paper'"):
        model.fit(np.zeros((9, 2)), [0, 1, 0] * 3)


def test_the_detector_takes_frames():
    batches = [table(200, seed)[0] for seed in range(5)]
    batches += [table(200, seed, k_gaps=1.0)[0] for seed in (5, 6)]
    batches.append(table(200, 9)[0])
    reports = list(watch(batches, steps_per_batch=100))
    assert [one.kind for one in reports[3:6]] == ["known", "known", "new"]
    assert [one.model for one in reports[5:]] == [1, 1, 0]
    with pytest.raises(ValueError, match="batch 1 has 2 features"):
        list(watch([batches[0], batches[0][["t", "k"]]]))


def test_the_page_shows_a_mixed_stream(known, tmp_path):
    from dirad.report.page import write_page

    X, y = table(60, 4)
    write_page(known, tmp_path / "page.html", X=X, y=y)
    assert "colour = (other)" in (tmp_path / "page.html").read_text()
