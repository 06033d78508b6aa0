"""Exports of models with missing values and categories, against the models they come from."""

import json
import math
import shutil
from functools import cache

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from dirad import DIRADClassifier, DIRADRegressor
from dirad.export import (
    Fixed,
    c_size,
    fixed_bound,
    formula_text,
    to_c,
    to_dot,
    to_formula,
    to_onnx,
    to_python,
)
from exported_models import model as plain_model
from test_export_c import run

GAPS = ("age", "colour", "length")
KINDS = ("two classes", "three classes", "numbers")
COLOURS, SIZES = ["blue", "green", "red"], ["large", "small"]
gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")


def rows(n, seed):
    """A table with gaps, and with categories of which some are rare or unseen."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "age": rng.normal(40, 10, n).astype(np.float32),
            "colour": rng.choice([*COLOURS, None], n),
            "length": rng.uniform(-1, 1, n).astype(np.float32),
            "size": rng.choice([*SIZES, *(f"rare {i}" for i in range(50))], n, p=SHARES),
        }
    )
    for name in ("age", "length"):
        table.loc[rng.uniform(size=n) < 0.3, name] = np.nan
    return table


SHARES = [0.45, 0.45] + [0.002] * 50


def signal(table):
    """A value that depends on all columns and on what is missing."""
    value = np.where(table["age"].isna(), 1.0, (table["age"] - 40) / 10)
    value = value + np.where(table["colour"] == "red", 2.0, 0.0) - table["colour"].isna()
    value = value + np.where(table["size"] == "small", 2 * table["length"].fillna(0.5), 0.0)
    return (value + table["size"].str.startswith("rare")).to_numpy(float)


@cache
def model(kind):
    table = rows(600, 0)
    z = signal(table)
    if kind == "numbers":
        return DIRADRegressor(random_state=0, max_edges=20).fit(table, z)
    y = np.where(z > 0.5, "high", "low") if kind == "two classes" else np.digitize(z, [0, 2])
    return DIRADClassifier(random_state=0, max_edges=20).fit(table, y)


@cache
def given():
    """New rows, and the same as numbers."""
    table = rows(2000, 1)
    table.loc[5, "colour"] = "pink"
    codes = {
        "colour": {name: float(i) for i, name in enumerate(COLOURS)} | {"pink": -1.0},
        "size": {"large": 0.0, "small": 1.0},
    }
    coded = table.assign(
        colour=table["colour"].map(codes["colour"]), size=table["size"].map(codes["size"]).fillna(2)
    )
    return table, coded.to_numpy(np.float32)


def answers(kind):
    own, (table, _) = model(kind), given()
    found = own.predict_proba(table) if hasattr(own, "predict_proba") else own.predict(table)
    return found.reshape(len(table), -1)


def test_the_models_use_gaps_and_categories():
    for kind in KINDS:
        used = to_dot(model(kind))
        for name in ("age is missing", "colour = red", "size = "):
            assert f'label="{name}' in used, kind


@pytest.mark.parametrize("kind", KINDS)
def test_python_says_what_the_model_says(kind):
    module: dict = {}
    exec(to_python(model(kind)), module)
    own = module.get("predict_proba", module["predict"])
    found = np.array([np.ravel(own(row)) for row in given()[1].astype(float).tolist()])
    assert np.abs(found - answers(kind)).max() < 1e-9
    assert module["CATEGORIES"] == {"colour": tuple(COLOURS), "size": (*SIZES, "(other)")}
    assert module["MAY_BE_MISSING"] == GAPS
    assert "float('nan') if it is missing" in module["__doc__"]


@pytest.mark.parametrize("kind", KINDS)
def test_onnx_says_what_the_model_says(kind):
    session = onnxruntime.InferenceSession(to_onnx(model(kind)))
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": given()[1].astype(float)}), strict=True))
    values = found["variable" if kind == "numbers" else "probabilities"]
    assert np.abs(values - answers(kind)).max() < 1e-9
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["may_be_missing"]) == list(GAPS)
    assert json.loads(about["categories"]) == {"colour": COLOURS, "size": [*SIZES, "(other)"]}


@gcc
@pytest.mark.parametrize("kind", KINDS)
def test_float_is_close(kind, tmp_path):
    source = to_c(model(kind))
    expected = answers(kind)
    found = run(source, tmp_path, given()[1], expected.shape[1], "-O2")
    assert np.abs(found - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())
    assert "Inputs that may be missing: age, colour, length\n" in source
    assert "colour is a category, given by its number: 0 blue, 1 green, 2 red\n" in source


@gcc
@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wide", [True, False])
def test_whole_numbers_keep_their_bound(kind, bits, wide, tmp_path):
    """Also where a range does not contain the mean, which replaces missing values."""
    table, X = given()
    own = model(kind)
    low, high = np.nanmin(X, axis=0), np.nanmax(X, axis=0)
    if not wide:  # the range of categories is always all of them
        low, high = np.array([45.0, 0.0, 0.5, 0.0]), np.array([60.0, 1.0, 0.75, 0.0])
        table = table.assign(age=table["age"].clip(45, 60), length=table["length"].clip(0.5, 0.75))
    fixed = Fixed(bits, low.tolist(), high.tolist())
    expected = own.predict_proba(table) if kind != "numbers" else own.predict(table)[:, None]
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    source = to_c(own, fixed=fixed)
    off = np.abs(run(source, tmp_path, X, expected.shape[1], *traps) - expected).max()
    bound = fixed_bound(own, fixed)
    assert off <= bound
    assert bound < (0.1 if bits == 16 else 1e-4) * max(1.0, np.abs(expected).max())
    assert "#define MODEL_MISSING INT32_MIN" in source


@gcc
def test_a_mean_far_beyond_the_range_still_fits(tmp_path):
    table, X = given()
    fixed = Fixed(32, [0.0, 0.0, -1.0, 0.0], [0.01, 1.0, 1.0, 0.0])  # ages: the mean is about 40
    own = model("numbers")
    expected = own.predict(table.assign(age=table["age"].clip(0.0, 0.01)))
    traps = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
    found = run(to_c(own, fixed=fixed), tmp_path, X, 1, *traps)[:, 0]
    assert np.abs(found - expected).max() <= fixed_bound(own, fixed) < 0.001


@gcc
def test_one_range_for_all_is_widened_for_categories(tmp_path):
    fixed = Fixed(32, -100.0, 100.0)
    found = run(to_c(model("two classes"), fixed=fixed), tmp_path, given()[1], 2)
    bound = fixed_bound(model("two classes"), fixed)
    assert np.abs(found - answers("two classes")).max() <= bound < 0.01


@gcc
@pytest.mark.parametrize("fixed", [None, 16])
def test_size_counts_the_constants_of_the_encoding(fixed, tmp_path):
    source = to_c(model("numbers"), fixed=fixed and Fixed(fixed, -100.0, 100.0))
    size = c_size(model("numbers"), fixed=fixed and Fixed(fixed, -100.0, 100.0))
    assert f"Flash: {size.flash} bytes of constants" in source
    assert ("NAN stands for" in source) == (fixed is None)


@pytest.mark.parametrize("kind", KINDS)
def test_formula_says_what_the_model_says(kind):
    formula, X = to_formula(model(kind)), given()[1].astype(float)
    found = np.stack([np.broadcast_to(a, len(X)) for a in formula.function()(*X.T)], axis=1)
    assert np.abs(found - answers(kind)).max() < 1e-9
    assert formula.inputs == ("age", "colour", "length", "size")
    assert formula.categories["colour"] == tuple(COLOURS)
    assert "missing(age)" in formula.text
    assert "filled(size" not in formula.text
    assert r"\operatorname{equals}" in formula.latex(3)


def test_equations_name_the_inputs_of_the_network():
    own = model("numbers")
    text = formula_text(own.network_, own.encoding_.names(own.feature_names_in_))
    assert '"colour = red"' in text
    assert "·age is missing" in text


def test_names_of_categories_cannot_break_the_source(tmp_path):
    nasty = ['*/ "a"\\ ??/ {name}', "'''\n\"\"\"{x}"]
    table = pd.DataFrame({"c": nasty * 20})
    own = DIRADRegressor(random_state=0, max_edges=3).fit(table, np.arange(40) % 2)
    module: dict = {}
    exec(to_python(own), module)
    assert module["CATEGORIES"] == {"c": tuple(sorted(nasty))}
    assert math.isclose(module["predict"]([0.0]), own.predict(pd.DataFrame({"c": [min(nasty)]}))[0])
    to_onnx(own)
    if shutil.which("gcc"):
        found = run(to_c(own), tmp_path, np.array([[0.0], [1.0]]), 1)
        assert np.abs(found[:, 0] - own.predict(pd.DataFrame({"c": sorted(nasty)}))).max() < 1e-5


def test_models_without_gaps_are_exported_as_before():
    for kind in ("binary", "softmax", "regressor"):
        own = plain_model(kind)
        assert own.encoding_.is_identity
        for text in (to_python(own), to_c(own), to_c(own, fixed=16) if kind != "regressor" else ""):
            assert "missing" not in text.lower()
            assert "CATEGORIES" not in text
