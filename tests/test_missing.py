"""Missing values and categories as such: the encoding, the estimators, and model files."""

import math
import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier

import dirad
from dirad import DIRADClassifier, DIRADRegressor
from dirad.encoding import Categories, fit_categories, fit_encoding
from dirad.estimators.columns import network_input_names
from dirad.inference import respond
from dirad.storage import ModelError
from dirad.storage.model_file import packed, read

QUICK = {"max_steps": 400, "settle_steps": 100, "random_state": 0}


def table(n=400, seed=0):
    """Colours, ages with gaps that mean something, and code numbers; and a target of all three."""
    rng = np.random.default_rng(seed)
    found = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "blue", None], n),
            "age": np.where(rng.uniform(size=n) < 0.2, np.nan, rng.normal(40, 10, n)),
            "code": rng.integers(1, 4, n),
        }
    )
    return found, target_of(found)


def target_of(rows):
    """10 for red; the age, or 60 where it is missing; 20 for code 2."""
    red = (rows["colour"] == "red").to_numpy()
    two = (rows["code"] == 2).to_numpy()
    return 10.0 * red + rows["age"].fillna(60.0).to_numpy() + 20.0 * two


OPTIONS = {"categorical_features": ["colour", "code"], "random_state": 0}


@pytest.fixture(scope="module")
def fitted():
    return DIRADRegressor(**OPTIONS).fit(*table())


# --- the encoding

CELLS = st.one_of(st.just(math.nan), st.integers(-3, 3).map(float), st.floats(-1e6, 1e6))


@st.composite
def coded_tables(draw):
    """Columns of numbers and of codes with gaps, and which hold codes."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 4))
    columns, categories = [], {}
    for j in range(d):
        if draw(st.booleans()):
            k, other = draw(st.integers(1, 3)), draw(st.booleans())
            categories[j] = Categories(tuple("abc"[:k]), other)
            cell = st.sampled_from([math.nan, -1.0, *map(float, range(k + other))])
        else:
            cell = CELLS
        columns.append(draw(st.lists(cell, min_size=n, max_size=n)))
    return np.array(columns).T, categories


@given(coded_tables())
def test_inputs_are_what_their_names_say(case):
    X, categories = case
    encoding = fit_encoding(X, categories)
    names = encoding.names([f"c{j}" for j in range(X.shape[1])])
    found = encoding.encode(X)
    assert found.shape == (len(X), len(names)) == (len(X), encoding.n_inputs)
    assert len(set(names)) == len(names)
    for name, values in zip(names, found.T, strict=True):
        column = X[:, int(name[1])]
        gone = np.isnan(column)
        if name.endswith(" is missing"):
            expected = gone.astype(float)
        elif " = " in name:
            of = categories[int(name[1])]
            code = {**{s: i for i, s in enumerate(of.labels)}, "(other)": len(of.labels)}
            expected = (column == code[name.split(" = ")[1]]).astype(float)
        else:
            known = column[~gone].tolist()
            mean = math.fsum(known) / len(known) if known else 0.0
            expected = np.where(gone, mean, column)
        np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-9)
    for j in range(X.shape[1]):
        some, every = np.isnan(X[:, j]).any(), np.isnan(X[:, j]).all()
        assert (f"c{j} is missing" in names) == (some and not every)


@given(st.lists(st.sampled_from(["a", "b", "c", 1.0, 2.5, None]), max_size=250))
def test_rare_categories_share_a_code(values):
    categories = fit_categories(values)
    counts = Counter(value for value in values if value is not None)
    least = 10 if len(values) >= 200 else len(values) / 20
    frequent = {label for label, n in counts.items() if n >= least}
    assert set(categories.labels) == frequent
    assert categories.other == (len(frequent) < len(counts) or not counts)
    for value, code in zip(values, categories.codes(values).tolist(), strict=True):
        if value is None:
            assert math.isnan(code)
        else:
            expected = value if value in frequent else "(other)"
            name = categories.names[int(code)]
            assert name == (expected if isinstance(expected, str) else f"{expected:g}")
    assert categories.codes(["new"]).tolist() == [len(frequent) if categories.other else -1]


def test_without_gaps_and_categories_nothing_is_encoded():
    X = np.random.default_rng(0).normal(size=(50, 3))
    encoding = fit_encoding(X, {})
    assert encoding.is_identity
    assert encoding.encode(X) is X
    gap = np.array([[np.nan, 1.0, 2.0]])
    assert encoding.encode(gap).tolist() == [[pytest.approx(X[:, 0].mean()), 1.0, 2.0]]


# --- the estimators


def test_gaps_and_categories_are_learned(fitted):
    new, y = table(seed=1)
    assert fitted.score(new, y) > 0.999
    assert network_input_names(fitted) == (
        "colour = blue", "colour = green", "colour = red", "colour is missing",
        "age", "age is missing",
        "code = 1", "code = 2", "code = 3",
    )  # fmt: skip
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["colour", "age", "code"]
    assert fitted.network_.n_inputs == 9
    assert len(fitted.input_spread_) == 9
    assert fitted.feature_importances_.sum() == pytest.approx(1.0)
    assert (fitted.feature_importances_ > 0.05).all()
    assert any("age is missing" in line for line in fitted.network_.equations(NAMES))


NAMES = ["blue", "green", "red", "no colour", "age", "age is missing", "1", "2", "3"]


def test_the_network_takes_encoded_inputs(fitted):
    rows, _ = table(50)
    coded = np.column_stack(
        [
            rows["colour"].map({"blue": 0.0, "green": 1.0, "red": 2.0}),
            rows["age"],
            rows["code"] - 1.0,
        ]
    )
    inputs = fitted.encoding_.encode(coded)
    np.testing.assert_array_equal(respond(fitted.network_, inputs)[:, 0], fitted.predict(rows))


@pytest.mark.parametrize("kind", ["array", "list", "mask", "strings", "nullable"])
def test_the_same_table_in_other_forms(fitted, kind):
    X, y = table()
    options = OPTIONS | {"categorical_features": [0, 2]}
    match kind:
        case "array":
            X = X.to_numpy(object)
        case "list":
            X = X.to_numpy(object).tolist()
        case "mask":
            options["categorical_features"] = np.array([True, False, True])
        case "strings":
            options["categorical_features"] = "from_dtype"
            X = X.assign(colour=X["colour"].astype("string"), code=X["code"].astype("category"))
        case "nullable":
            X = X.assign(code=X["code"].astype("Int64"), age=X["age"].astype("Float64"))
    model = DIRADRegressor(**options).fit(X, y)
    np.testing.assert_array_equal(model.predict(X), fitted.predict(table()[0]))


def test_text_is_a_category_by_itself_and_numbers_are_not():
    X, y = table()
    X["mixed"] = np.array([1, 2.5, None, 4] * 100, object)  # numbers only
    model = DIRADRegressor(**QUICK).fit(X, y)
    assert list(model.encoding_.categories) == [0]
    assert network_input_names(model)[-2:] == ("mixed", "mixed is missing")


def test_what_fit_did_not_see_is_answered(fitted):
    row = pd.DataFrame({"colour": ["blue"], "age": [40.0], "code": [1]})
    coded = [0.0, 40.0, -1.0]  # a category that is none of those known: no input is 1
    expected = respond(fitted.network_, fitted.encoding_.encode(np.array([coded])))[0, 0]
    assert fitted.predict(row.assign(code=99))[0] == expected
    assert fitted.predict(row.assign(code=None))[0] == expected  # no code was missing in fit
    plain = DIRADRegressor(**QUICK).fit([[i] for i in range(50)], [2.0 * i for i in range(50)])
    assert plain.predict([[np.nan]]) == plain.predict([[24.5]])


def test_a_gap_where_fit_saw_none_is_the_mean():
    X = np.random.default_rng(0).normal(5, 1, (100, 2))
    y = X @ [1.0, 2.0]
    X[:20, 0] = np.nan
    model = DIRADRegressor(**QUICK).fit(X, y)
    assert network_input_names(model) == ("x0", "x0 is missing", "x1")
    gap, mean = [[4.0, np.nan]], [[4.0, X[:, 1].mean()]]
    assert model.predict(gap) == pytest.approx(model.predict(mean), rel=1e-12)


def test_rare_and_unseen_categories_are_treated_alike():
    rng = np.random.default_rng(0)
    kinds = rng.choice(["a", "b"], 400).astype(object)
    kinds[:12] = [f"rare {i}" for i in range(12)]
    y = (kinds == "b") + 5.0 * np.array([str(kind).startswith("rare") for kind in kinds])
    model = DIRADRegressor(random_state=0).fit(pd.DataFrame({"kind": kinds}), y)
    assert network_input_names(model) == ("kind = a", "kind = b", "kind = (other)")
    found = model.predict(pd.DataFrame({"kind": ["rare 3", "new", "a", "b"]}))
    np.testing.assert_allclose(found, [5, 5, 0, 1], atol=0.1)


def test_values_missing_at_random_cost_little():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    X[rng.uniform(size=X.shape) < 0.3] = np.nan
    model = DIRADClassifier(random_state=0).fit(X[:1000], y[:1000])
    other = HistGradientBoostingClassifier(random_state=0).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > other.score(X[1000:], y[1000:]) - 0.01


def test_columns_without_values_are_not_used():
    X = np.random.default_rng(0).normal(size=(60, 3))
    y = X[:, 0] > 0
    X[:, 1] = np.nan
    empty = pd.DataFrame(X).assign(text=np.array([None] * 60, object)).rename(columns=str)
    for rows in (X, empty):
        model = DIRADClassifier(**QUICK).fit(rows, y)
        assert model.feature_importances_[1] == 0.0
        assert model.score(rows, y) > 0.9
    nothing = DIRADClassifier(**QUICK).fit(np.full((20, 1), np.nan), np.arange(20) % 2)
    assert nothing.n_edges_ == 0


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        (["size"], "no column 'size'"),
        ([3], "no column 3, it has 3"),
        ([-1], "no column -1"),
        ([True, False], "2 entries for 3 columns"),
        ("all", "'from_dtype', None"),
        ([0.5], "a mask, indices or names"),
        (None, r"column 'colour': could not convert .*; .* name it in categorical_features"),
    ],
)
def test_a_wrong_choice_of_categories_is_named(chosen, message):
    with pytest.raises(ValueError, match=message):
        DIRADRegressor(categorical_features=chosen).fit(*table(20))


def test_what_is_neither_number_nor_category_is_named():
    X, y = table(20)
    with pytest.raises(ValueError, match=r"column 0: could not .* name it in categorical_features"):
        DIRADRegressor().fit(X.to_numpy(object), y)
    X["colour"] = [{"a": 1}] * 20
    with pytest.raises(ValueError, match=r"column 'colour': .* neither number nor text"):
        DIRADRegressor(categorical_features=["colour"]).fit(X, y)
    with pytest.raises(TypeError, match=r"column 'colour': .*dict"):
        DIRADRegressor().fit(X, y)
    infinite, y = table(20)
    infinite.loc[3, "age"] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        DIRADRegressor().fit(infinite, y)


def test_a_marker_beside_gaps_is_named_by_its_own_row():
    X = np.random.default_rng(0).normal(size=(60, 2))
    X[:20, 1] = np.nan
    X[40, 1] = 1e30
    with pytest.raises(ValueError, match="row 40, column 1"):
        DIRADClassifier().fit(X, X[:, 0] > 0)


def test_the_preset_paper_takes_no_gaps():
    X = np.random.default_rng(0).uniform(size=(40, 2))
    y, gap = X[:, 0] > 0.5, X.copy()
    gap[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"NaN.*preset 'paper'"):
        DIRADClassifier(preset="paper").fit(gap, y)
    model = DIRADClassifier(preset="paper", max_steps=100, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"NaN.*preset 'paper'"):
        model.predict(gap)
    assert not model.__sklearn_tags__().input_tags.allow_nan


def test_a_refused_fit_changes_nothing(fitted):
    model = pickle.loads(pickle.dumps(fitted))
    before = vars(model).copy()
    X, y = table(100)
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y[:50])
    assert vars(model) == before


def test_clone_pickle_and_weights(fitted):
    X, y = table()
    assert clone(fitted).get_params() == fitted.get_params()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    weights = np.where(X["age"].isna(), 0.0, 1.0)
    y = np.where(X["age"].isna(), 1000.0, y)
    model = DIRADRegressor(**OPTIONS).fit(X, y, sample_weight=weights)
    assert model.score(X[weights > 0], y[weights > 0]) > 0.99


def test_a_fit_with_gaps_goes_on_after_it_was_saved(fitted, tmp_path):
    X, y = table()
    model = DIRADRegressor(**OPTIONS).fit(X, y, steps=40)
    while not model.is_stable_:
        dirad.save(model, tmp_path / "model.dirad")
        model = dirad.load(tmp_path / "model.dirad").resume(X, y, steps=400)
    np.testing.assert_array_equal(model.predict(X), fitted.predict(X))


# --- model files


def test_files_keep_the_encoding(fitted, tmp_path):
    dirad.save(fitted, tmp_path / "model.dirad")
    again = dirad.load(tmp_path / "model.dirad")
    new, _ = table(seed=3)
    new.loc[0, "colour"] = "pink"
    np.testing.assert_array_equal(again.predict(new), fitted.predict(new))
    assert again.encoding_.categories == fitted.encoding_.categories
    assert network_input_names(again) == network_input_names(fitted)


def test_files_without_an_encoding_refuse_gaps(tmp_path):
    model = DIRADRegressor(**QUICK).fit([[i] for i in range(50)], [2.0 * i for i in range(50)])
    model.encoding_ = None  # as of a file of an earlier version
    dirad.save(model, tmp_path / "model.dirad")
    again = dirad.load(tmp_path / "model.dirad")
    assert again.predict([[3.0]]) == model.predict([[3.0]])
    with pytest.raises(ValueError, match=r"NaN: this model is of an earlier dirad"):
        again.predict([[np.nan]])
    del model.encoding_  # as of an older pickle
    assert model.predict([[3.0]]) == again.predict([[3.0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fill": np.zeros(2)}, "others have 2"),
        ({"fill": np.array([0, np.nan, 0])}, "NaN"),
        ({"indicated": np.array([True, True, True])}, "the network has other inputs"),
        ({"categories": {0: Categories(("a",) * 3), 2: Categories(("a", "b", "c"))}}, "categories"),
        ({"categories": {3: Categories(("a",))}}, "categories of no column"),
        ({"categories": {0: Categories(()), 2: Categories(("a",))}}, "no categories"),
        ({"categories": {0: Categories((1, 2, True)), 2: Categories(("a",))}}, "categories"),
        ({"fill": np.zeros(4), "indicated": np.zeros(4, bool)}, "the encoding has other columns"),
    ],
)
def test_crafted_encodings_are_refused(fitted, tmp_path, changes, message):
    crafted = pickle.loads(pickle.dumps(fitted))
    parts = {name: getattr(fitted.encoding_, name) for name in ("fill", "indicated", "categories")}
    crafted.encoding_ = type(fitted.encoding_)(**parts | changes)
    path = tmp_path / "model.dirad"
    path.write_bytes(packed(crafted))
    with pytest.raises(ModelError, match=message):
        read(path)
