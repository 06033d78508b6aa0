"""Exports of streams with missing values and categories, against the models they come from."""

import json
import shutil

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import sympy

from dirad import PREVALClassifier
from dirad.export import to_c, to_dot, to_formula, to_onnx, to_python
from test_export_c import run

GAPS = ("t", "colour", "k")
COLOURS = ["red", "blue", "green", "(other)"]


def table(n, seed, *, k_gaps=0.0):
    rng = np.random.default_rng(seed)
    t, k = rng.normal(10, 2, n).astype(np.float32), rng.normal(size=n).astype(np.float32)
    colour = np.tile(["red", "blue", "green"], n)[:n].astype(object)
    y = (t > 10) ^ (colour == "red")
    t[rng.random(n) < 0.2], k[rng.random(n) < k_gaps] = np.nan, np.nan
    return pd.DataFrame({"t": t, "colour": colour, "k": k}), y


@pytest.fixture(scope="module")
def model():
    """Two models: of a stream, and of the same stream when one column was missing."""
    model = PREVALClassifier(random_state=0, steps_per_batch=100, l0={"max_edges": 15})
    model.partial_fit(*table(800, 0))
    model.partial_fit(*table(600, 1, k_gaps=1.0)).finish()
    assert len(model.models_) == 2
    return model


@pytest.fixture(scope="module")
def given():
    """New rows, and the same as numbers."""
    rows = pd.concat([table(150, 2)[0], table(150, 3, k_gaps=1.0)[0]], ignore_index=True)
    rows.loc[::7, "colour"], rows.loc[::11, "colour"] = "violet", None
    codes = {name: float(code) for code, name in enumerate(COLOURS)} | {"violet": 3.0}
    return rows, rows.assign(colour=rows["colour"].map(codes)).to_numpy(np.float64)


def test_python_says_what_the_models_say(model, given):
    module: dict = {}
    exec(to_python(model), module)
    rows, X = given
    found = np.array([module["predict_proba"](row) for row in X.tolist()])
    assert np.abs(found - model.predict_proba(rows)).max() < 1e-9
    assert [module["route"](row) for row in X.tolist()] == model.route(rows).tolist()
    assert set(model.route(rows)) == {0, 1}
    assert module["MAY_BE_MISSING"] == GAPS
    assert module["CATEGORIES"] == {"colour": tuple(COLOURS)}


def test_onnx_says_what_the_models_say(model, given):
    rows, X = given
    session = onnxruntime.InferenceSession(to_onnx(model))
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    assert np.abs(found["probabilities"] - model.predict_proba(rows)).max() < 1e-9
    about = session.get_modelmeta().custom_metadata_map
    assert json.loads(about["categories"]) == {"colour": COLOURS}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
def test_c_says_what_the_models_say(model, given, tmp_path):
    rows, X = given
    source = to_c(model)
    found = run(source, tmp_path, X, 2, "-O2")
    assert np.abs(found - model.predict_proba(rows)).max() < 1e-5
    assert "Inputs that may be missing: t, colour, k\n" in source
    assert "compile without -ffast-math" in source


def test_fixed_point_says_that_it_cannot(model):
    with pytest.raises(ValueError, match="streams with categories or gaps need: export in float"):
        to_c(model, fixed=16)


def test_a_formula_and_a_drawing_of_one_model(model, given):
    formula = to_formula(model, number=0)
    assert formula.categories == {"colour": tuple(COLOURS)}
    named = {str(one) for own in formula.expressions for one in sympy.sympify(own).free_symbols}
    assert named <= {"t", "colour", "k"}
    assert 'label="colour = red"' in to_dot(model, number=0)
