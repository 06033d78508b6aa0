"""Exports against the models they come from, over 10,000 random inputs."""

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
import sympy

from dirad import DIRADClassifier, PREVALClassifier
from dirad.export import formula_text, to_dot, to_formula, to_onnx, to_python, to_svg
from dirad.export.onnx import onnx_ends
from exported_models import ALONE, NETWORKS, SYSTEMS, answers, inputs, line_with_name, model, task

CLOSE = 1e-6


def run_python(kind: str) -> dict:
    module: dict = {}
    exec(to_python(model(kind)), module)
    return module


@pytest.mark.parametrize("kind", NETWORKS + ALONE + SYSTEMS)
def test_python_says_what_the_model_says(kind):
    module, X = run_python(kind), inputs(kind).astype(float)
    own = module.get("predict_proba", module["predict"])
    found = np.array([np.ravel(own(row)) for row in X.tolist()])
    assert np.abs(found - answers(kind)).max() < CLOSE
    if hasattr(model(kind), "classes_"):
        some = X[:200]
        expected = model(kind).predict(some).tolist()
        assert [module["predict"](row) for row in some.tolist()] == expected


@pytest.mark.parametrize("kind", SYSTEMS)
def test_python_routes_as_the_system_does(kind):
    module, X = run_python(kind), inputs(kind).astype(float)[::20]
    assert len(model(kind).models_) == 2
    assert [module["route"](row) for row in X.tolist()] == model(kind).route(X).tolist()


def test_python_module_needs_nothing_of_ours(tmp_path):
    file = tmp_path / "alone.py"
    file.write_text(to_python(model("binary")))
    code = "import sys, alone; print(alone.predict([0.9, 0.1, 0.5])); print('dirad' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert run.stdout.split() == ["odd", "False"]
    assert re.findall(r"^import .*|^from .*", file.read_text(), re.MULTILINE) == ["import math"]


@pytest.mark.parametrize("kind", NETWORKS + ALONE + SYSTEMS)
def test_onnx_says_what_the_model_says(kind):
    session = onnxruntime.InferenceSession(to_onnx(model(kind)))
    X = inputs(kind).astype(float)
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(None, {"X": X}), strict=True))
    values = found["probabilities" if "probabilities" in found else "variable"]
    assert np.abs(values - answers(kind)).max() < CLOSE
    if "label" in found:
        assert found["label"].tolist() == model(kind).predict(X).tolist()
    assert ("model" in found) == (kind in SYSTEMS)
    if kind in SYSTEMS:
        assert found["model"].tolist() == model(kind).route(X).tolist()


def test_onnx_is_read_by_runtimes_of_2021():
    made = onnx.load_from_string(to_onnx(model("softmax")))
    assert (made.ir_version, made.opset_import[0].version) == (8, 15)


def test_onnx_tells_names_and_types():
    for kind, ends in [
        ("binary", ["float64, samples × 3", "string, samples", "float64, samples × 2"]),
        ("softmax", ["float64, samples × 4", "int64, samples", "float64, samples × 3"]),
        ("regressor", ["float64, samples × 10", "float64, samples × 1"]),
    ]:
        assert list(onnx_ends(to_onnx(model(kind))).values()) == ends
    session = onnxruntime.InferenceSession(to_onnx(model("binary")))
    names = session.get_modelmeta().custom_metadata_map
    assert {key: json.loads(text) for key, text in names.items()} == {
        "inputs": ["x0", "x1", "x2"],
        "classes": ["even", "odd"],
    }
    made = onnx.load_from_string(to_onnx(line_with_name("größe, cm")))
    assert {p.key: json.loads(p.value) for p in made.metadata_props} == {"inputs": ["größe, cm"]}


@pytest.mark.parametrize("kind", NETWORKS)
def test_formula_says_what_the_model_says(kind):
    formula, X = to_formula(model(kind)), inputs(kind).astype(float)
    found = np.stack([np.broadcast_to(a, len(X)) for a in formula.function()(*X.T)], axis=1)
    assert np.abs(found - answers(kind)).max() < CLOSE


def test_formula_text_is_read_back_exactly():
    formula = to_formula(model("binary"))
    names = {str(symbol): symbol for symbol in formula.symbols}
    right = formula.text.splitlines()[1].split(" = ", 1)[1]
    point = dict(zip(formula.symbols, (0.3, 0.7, 0.1), strict=True))
    read = sympy.sympify(right, locals=names)
    assert float(read.subs(point)) == float(formula.expressions[1].subs(point))
    assert formula.latex(3).startswith("\\begin{aligned}\np_{\\mathrm{even}} &= 1 - p_")
    assert len(formula.latex(3)) < len(formula.latex())


@pytest.mark.parametrize("kind", ["softmax", "binary", "regressor"])
def test_numbers_of_a_formula_are_short_and_exact(kind):
    """Every number is a double of the network, or K, and is written as Python writes it.

    In a softmax, the constants of two outputs may be subtracted; and a node whose term 0 is a
    constant contributes this constant times the weight of its edge.
    """
    network, formula = model(kind).network_, to_formula(model(kind))
    written = set(re.findall(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?(?!\w)", formula.text))
    assert written == {repr(float(text)) for text in written}
    own = [network.edges["weight"], network.bias.ravel(), network.units["gain"]]
    known = {abs(number) for array in own for number in array.tolist()}
    biases = network.bias[:, 0].tolist()
    combined = [abs(w * b) for w in network.edges["weight"].tolist() for b in biases]
    combined += [abs(a - b) for a in biases for b in biases]
    numbers = {float(text) for text in written}
    if kind != "regressor":  # the scale of its targets is folded in
        for number in numbers - known:
            assert np.isclose(combined, number, rtol=1e-15, atol=0).any()
        numbers &= known
    latex = re.sub(r" \\cdot 10\^\{(-?\d+)\}", r"e\1", formula.latex())
    shown = set(re.findall(r"(?<![\w.])\d+\.\d+(?:e-?\d+)?", latex))
    assert {float(text) for text in shown} == numbers


def test_scores_of_a_softmax_are_written_once():
    formula = to_formula(model("softmax"))
    latex = formula.latex()
    assert "e^{0}" not in latex
    assert "exp(0)" not in formula.text
    lines = latex.splitlines()[1:-1]
    assert [line.split(" &= ")[0] for line in lines] == [
        "z_{1}", "z_{2}", "z_{3}", "p_{0}", "p_{1}", "p_{2}",
    ]  # fmt: skip
    assert lines[4] == "p_{1} &= \\frac{e^{z_{2}}}{\\sum_{j=1}^{3} e^{z_{j}}} \\\\"
    X = inputs("softmax").astype(float)[:100]
    z = sympy.lambdify(formula.symbols, formula.scores, "numpy")(*X.T)
    powers = np.exp(np.stack([np.broadcast_to(one, len(X)) for one in z], axis=1))
    assert np.allclose(powers / powers.sum(axis=1, keepdims=True), answers("softmax")[:100])


def test_names_in_latex_are_words():
    for name, word in [
        ("alcalinity_of_ash", r"\mathrm{alcalinity\_of\_ash}"),
        ("max temp", r"\mathrm{max\ temp}"),
        ("region=east, hills", r"\left[\text{region=east, hills}\right]"),
        ("50 % {a}^b\\", r"\left[\text{50 \% \{a\}\textasciicircum{}b\textbackslash{}}\right]"),
        ("x0", "x_{0}"),
    ]:
        latex = to_formula(line_with_name(name)).latex()
        assert re.search(rf"^y &= [\d.]+ {re.escape(word)} \+ [\d.]+$", latex, re.MULTILINE), latex


def test_names_in_equations_are_quoted_where_they_could_be_misread():
    network = line_with_name("a").network_
    for name in ("region=east, hills", "a + b", "12", "h1", "weight (kg)"):
        assert f'·"{name}" +' in formula_text(network, [name])
    assert "·max temp +" in formula_text(network, ["max temp"])


def test_formula_of_a_system_has_the_scale_in_its_weights():
    text = to_formula(model("system"), number=0).text
    assert re.search(r"\d\*x\d", text)
    assert not re.search(r"\(x\d [-+] \d", text)  # no input is standardized first


def test_formula_of_a_system_is_one_l0():
    clf = model("system")
    X = inputs("system").astype(float)[:500]
    first = clf.models_[0]
    formula = to_formula(clf, number=first.number)
    found = np.stack([np.broadcast_to(a, len(X)) for a in formula.function()(*X.T)], axis=1)
    assert np.abs(found - first.l0_outputs(X)).max() < CLOSE
    with pytest.raises(ValueError, match=r"one of \[0, 1\], got None"):
        to_formula(clf)
    with pytest.raises(ValueError, match="one network"):
        to_formula(model("binary"), number=0)


def test_symbols_have_the_names_of_the_features():
    regressor = line_with_name("max temp")
    assert "max_temp" in str(to_formula(regressor))
    assert 'label="max temp"' in to_dot(regressor)
    assert "'max temp'" in to_python(regressor)


def test_formula_text_needs_no_sympy():
    assert formula_text(model("binary").network_, "abc").startswith("y0 = logistic(")


def test_drawing_shows_what_is_there():
    network, dot = model("binary").network_, to_dot(model("binary"))
    edges = network.edges[network.edges["source"] >= 0]
    assert dot.count(" -> ") == network.n_edges
    assert dot.count("arrowhead=tee") == np.count_nonzero(edges["term"] % 2)
    assert dot.count("shape=circle") == network.n_hidden
    assert dot.count("shape=box") == len({s for s in edges["source"] if s < network.n_inputs})
    assert 'label="odd", shape=ellipse' in dot
    assert 'label="even"' not in dot  # one output answers for two classes
    assert dot.count("#b2182b") == np.count_nonzero(edges["weight"] < 0)


def test_svg_is_drawn():
    svg = to_svg(model("system"), number=1)
    assert svg.count('class="edge"') == model("system").models_[1].network.n_edges


@pytest.mark.parametrize("export", [to_python, to_onnx, to_dot])
def test_the_same_model_gives_the_same_bytes(export):
    assert export(model("softmax")) == export(model("softmax"))


def test_what_cannot_leave_says_why():
    clf = PREVALClassifier(random_state=0).partial_fit(*task(0, 0, 400))
    with pytest.raises(ValueError, match=r"model 0 is still adapting .* finish\(\)"):
        to_python(clf)
    with pytest.raises(TypeError, match="got dict"):
        to_python({})  # type: ignore[arg-type]
    network = model("binary").network_.copy()
    network.edges["weight"][0] = np.nan
    broken = DIRADClassifier(random_state=0).fit([[0], [1]], [0, 1])
    broken.__dict__.update({**model("binary").__dict__, "network_": network})
    with pytest.raises(ValueError, match="not finite"):
        to_onnx(broken)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    with pytest.raises(ImportError, match="pip install sympy"):
        to_formula(model("binary"))


def test_a_missing_program_is_named(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="needs the program `dot` of Graphviz"):
        to_svg(model("binary"))
