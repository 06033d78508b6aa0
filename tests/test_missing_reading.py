"""Missing values and categories in explanations, equations, displays and the report."""

import json
import pickle
import re

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot

from dirad import DIRADClassifier, DIRADRegressor, explain
from dirad.core.edits import new_edge, new_unit
from dirad.core.network import LINEAR, new_network
from dirad.estimators.columns import network_input_names, network_inputs
from dirad.inference import node_states
from dirad.plot import (
    ExplanationDisplay,
    GrowthDisplay,
    NetworkDisplay,
    PartialDependenceDisplay,
)
from dirad.report.page import write_page

mpl.use("agg")

NAMES = (
    "colour = dark blue", "colour = green", "colour = red", "colour is missing",
    "income", "income is missing", "age",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def table(n=400, seed=0):
    """Words and numbers, both with gaps, and a number without; and a target of all three."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "colour": rng.choice(["red", "green", "dark blue", None], n, p=[0.4, 0.3, 0.2, 0.1]),
            "income": np.where(rng.uniform(size=n) < 0.2, np.nan, rng.lognormal(1, 0.6, n)),
            "age": rng.normal(40, 12, n),
        }
    )
    red, gap = X["colour"] == "red", X["income"].isna()
    y = 0.2 * X["age"] + 4.0 * red + 8.0 * gap + np.where(X["income"] > 3, 5.0, 0.0)
    return X, y.to_numpy()


@pytest.fixture(scope="module")
def models():
    X, y = table()
    options = {"max_edges": 14, "random_state": 0}
    return {
        "values": DIRADRegressor(**options).fit(X, y),
        "two classes": DIRADClassifier(**options).fit(X, np.where(y > 13, "high", "low")),
        "three classes": DIRADClassifier(**options).fit(X, np.digitize(y, [11, 16])),
    }


KINDS = pytest.mark.parametrize("kind", ["values", "two classes", "three classes"])


def texts(display):
    display.figure_.canvas.draw()
    return {t.get_text() for t in display.figure_.findobj(mpl.text.Text) if t.get_text()}


def predicted(model, X):
    """Return values, or probabilities, in columns; with two classes, those of the second."""
    if not hasattr(model, "classes_"):
        return model.predict(X)[:, None]
    found = model.predict_proba(X)
    return found[:, 1:] if found.shape[1] == 2 else found


def gated(model):
    """Return a model whose only gate is an if: income above 3."""
    network = new_network(7, 1, LINEAR, unit_capacity=2, edge_capacity=3)
    gate = new_unit(network, 4.0, 0.0)
    new_edge(network, 4, 2 * gate + 1, 5.0)
    network.bias[gate] = 1.0, -15.0
    new_edge(network, network.n_inputs + gate, 0, 2.0)
    new_edge(network, 2, 0, 1.0)
    copy = pickle.loads(pickle.dumps(model))
    copy.network_ = network
    return copy


# --- explanations and equations


@KINDS
def test_contributions_add_up_to_the_activation(models, kind):
    model, (X, _) = models[kind], table(seed=1)
    for by in ("path", "input"):
        found = explain(model, X, by=by)
        total = found.bias + found.contributions.sum(axis=2)
        assert total == pytest.approx(found.activation, abs=1e-9)
        sources = {source for source in found.sources if source >= 0}
        for name, source in zip(found.names, found.sources, strict=True):
            assert source < 0 or name.startswith(network_input_names(model)[source])
        assert network_input_names(model) == NAMES
        assert {2, 5} <= sources | {m for each in found.modulators for m in each}
    activation = found.activation
    if kind == "values":
        assert activation[:, 0] == pytest.approx(model.predict(X))
    elif kind == "two classes":
        assert 1 / (1 + np.exp(-activation)) == pytest.approx(predicted(model, X), abs=1e-9)
    else:
        powers = np.exp(activation - activation.max(axis=1, keepdims=True))
        shares = powers / powers.sum(axis=1, keepdims=True)
        assert shares == pytest.approx(predicted(model, X), abs=1e-9)


def test_the_reference_is_of_the_inputs_of_the_network(models):
    model, (X, _) = models["values"], table(20)
    other = explain(model, X, reference=np.zeros(7))
    assert other.bias + other.contributions.sum(axis=2) == pytest.approx(other.activation)
    with pytest.raises(ValueError, match="but the network has 7 inputs"):
        explain(model, X, reference=np.zeros(3))


def test_a_gap_itself_contributes_nothing_by_its_number(models):
    model, (X, _) = models["values"], table()
    found = explain(model, X[X["income"].isna()], by="input")
    for place, source in enumerate(found.sources):
        if source == NAMES.index("income"):
            assert found.contributions[..., place] == pytest.approx(0.0, abs=1e-9)


@KINDS
def test_equations_name_the_inputs_of_the_network(models, kind):
    text = "\n".join(models[kind].equations())
    assert '·"colour = red"' in text
    assert "·income is missing" in text
    assert not re.search(r"·x\d", text)
    assert "3 if income above 3.00" in "\n".join(gated(models["values"]).equations())


# --- displays


def test_networks_are_drawn_with_the_names_of_their_inputs(models):
    model = models["values"]
    assert {"colour = red", "income is missing"} <= texts(NetworkDisplay.from_estimator(model))
    display = NetworkDisplay.from_estimator(model, input_names=["paint", "wage", "years"])
    assert {"paint = red", "wage is missing"} <= texts(display)
    with pytest.raises(ValueError, match="7 input names for 3 inputs"):
        NetworkDisplay.from_estimator(model, input_names=list(NAMES))
    GrowthDisplay.from_estimator(model)


@KINDS
def test_dependence_is_drawn_per_column_with_categories_and_gaps(models, kind):
    model, (X, _) = models[kind], table(200)
    display = PartialDependenceDisplay.from_estimator(model, X, ["colour", "income", "age"])
    colour, income, age = display.responses
    assert colour.categories == ("dark blue", "green", "red", "(missing)")
    for place, name in enumerate(colour.categories):
        varied = X.assign(colour=None if name == "(missing)" else name)
        expected = predicted(model, varied).mean(axis=0)
        assert colour.mean[:, place] == pytest.approx(expected)
    assert income.categories == age.categories == ()
    assert np.isnan(income.grid[-1])
    assert not np.isnan(income.grid[:-1]).any()
    assert not np.isnan(age.grid).any()
    gap = predicted(model, X.assign(income=np.nan)).mean(axis=0)
    assert income.mean[:, -1] == pytest.approx(gap)
    some = predicted(model, X.assign(income=income.grid[7])).mean(axis=0)
    assert income.mean[:, 7] == pytest.approx(some)
    assert {"dark blue", "green", "red", "(missing)", "missing", "income", "age"} <= texts(display)
    with pytest.raises(ValueError, match="X has no column 'income is missing'"):
        PartialDependenceDisplay.from_estimator(model, X, ["income is missing"])


def test_thresholds_are_those_of_the_number_of_a_column(models):
    model, (X, _) = gated(models["values"]), table(200)
    display = PartialDependenceDisplay.from_estimator(model, X, ["colour", "income", "age"])
    colour, income, age = display.responses
    assert [gate.value for gate in income.thresholds] == [3.0]
    assert colour.thresholds == age.thresholds == ()
    assert "3.00" in texts(display)


def test_the_most_important_columns_are_drawn(models):
    model, (X, _) = models["values"], table(200)
    assert len(model.feature_importances_) == 3
    order = np.argsort(-model.feature_importances_)
    display = PartialDependenceDisplay.from_estimator(model, X)
    assert [one.name for one in display.responses] == [X.columns[i] for i in order]


def test_a_column_without_any_value_is_drawn(models):
    X, _ = table(30)
    display = PartialDependenceDisplay.from_estimator(
        models["values"], X.assign(income=np.nan), ["income"]
    )
    (one,) = display.responses
    mean = table()[0]["income"].mean()
    assert one.grid[0] == pytest.approx(mean)
    assert np.isnan(one.grid[1])


def test_only_the_categories_with_most_samples_are_drawn():
    rng = np.random.default_rng(0)
    kinds = rng.choice([f"k{i:02}" for i in range(20)], 1000)
    X = pd.DataFrame({"kind": kinds})
    model = DIRADRegressor(max_edges=5, random_state=0).fit(X, (kinds > "k10").astype(float))
    (one,) = PartialDependenceDisplay.from_estimator(model, X).responses
    assert one.categories == tuple(sorted(X["kind"].value_counts().index[:12]))


@KINDS
def test_bars_of_a_sample_say_what_it_is(models, kind):
    model, (X, _) = models[kind], table(100)
    gap = int(np.flatnonzero(X["income"].isna() & (X["colour"] == "red"))[0])
    red = int(np.flatnonzero(X["income"].notna() & (X["colour"] == "red"))[0])
    words = " ".join(ExplanationDisplay.from_estimator(model, X, sample=gap).names)
    assert "income is missing" in words
    assert "income = " not in words
    words = " ".join(ExplanationDisplay.from_estimator(model, X, sample=red).names)
    assert "colour = red" in words
    assert f"income = {X['income'][red]:.4g}" in words
    words = " ".join(ExplanationDisplay.from_estimator(model, X).names)
    assert "colour = red" in words


# --- the report


def data_of(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1]), text


@KINDS
def test_the_page_takes_words_and_gaps(models, kind, tmp_path):
    model, (X, y) = models[kind], table(120)
    if kind != "values":
        y = np.where(y > 13, "high", "low") if kind == "two classes" else np.digitize(y, [11, 16])
    data, text = data_of(write_page(model, tmp_path / "page.html", X=X, y=y))
    score = "accuracy" if hasattr(model, "classes_") else "R²"
    assert f"<dd>{model.score(X, y):.4g}</dd><dt>{score} on 120 samples</dt>" in text
    assert "3 of 3</dd><dt>columns used" in text
    assert data["names"] == list(NAMES)
    samples, shown = data["samples"], data["models"][0]
    some = X.iloc[samples["rows"]]
    answers = model.predict(some)
    assert samples["answers"] == [f"{a:.4g}" if kind == "values" else str(a) for a in answers]
    inputs = network_inputs(model, some)
    for row, states in zip(inputs, samples["states"][0], strict=True):
        for node, state in zip(shown["ids"], states, strict=True):
            if state is not None:
                expected = node_states(model.network_, row[None, :], np.array([node]))[0, 0]
                assert state == pytest.approx(expected, rel=1e-3, abs=1e-9)
    for one in samples["contributions"]:
        total = one["bias"] + sum(size for _, size in one["bars"])
        assert total == pytest.approx(one["total"], rel=1e-2, abs=2e-2)
    by_name = {one["name"]: one for one in data["responses"]["inputs"]}
    assert by_name["colour"]["grid"] == ["dark blue", "green", "red", "(missing)"]
    assert by_name["colour"]["categorical"]
    assert by_name["income"]["grid"][-1] is None
    assert not by_name["income"]["categorical"]
    assert "Most important columns" in text
    assert "income is missing" in text


def test_the_page_takes_other_names_of_columns(models, tmp_path):
    X, y = table(50)
    names = ["paint", "wage", "years"]
    page = write_page(models["values"], tmp_path / "page.html", X=X, y=y, input_names=names)
    data, text = data_of(page)
    assert "paint = red" in data["names"]
    assert "wage is missing" in text
    assert "income" not in json.dumps(data)
    assert "income is missing" not in text


def test_the_page_draws_no_image_of_pixels_with_gaps(models, tmp_path):
    with pytest.raises(ValueError, match="no pixels alone"):
        write_page(models["values"], tmp_path / "page.html", shape=(1, 3))
    assert not list(tmp_path.iterdir())
