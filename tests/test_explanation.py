"""Explanations: contributions that add up to the activation, by path and by input."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from dirad import DIRADClassifier, DIRADRegressor, PREVALClassifier, explain
from dirad.core.describe import if_conditions
from dirad.core.edits import new_edge, new_unit
from dirad.core.network import LINEAR, new_network
from dirad.explanation import TooManyPaths, _explained, _Subject, activations
from networks import cases


def whole(found):
    return found.bias + found.contributions.sum(axis=2)


def logit(p):
    return np.log(p / (1 - p))


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"age": rng.normal(40, 12, 800), "income": rng.lognormal(1, 0.6, 800)})
    y = 0.3 * X["age"] * np.where(X["income"] > 3.4, 1, -0.4) + rng.normal(0, 1, 800)
    return DIRADRegressor(random_state=0, n_init=1).fit(X, y), X


def slow_paths(network, x, reference):
    """Return {(output, source, nodes): contribution} of one sample, by walking all paths."""
    edges = [e for e in network.edges.tolist() if e[0] >= 0]

    def state(node):
        if node < network.n_inputs:
            return x[node]
        unit = node - network.n_inputs
        assert network.units["kind"][unit] == 2
        return term(2 * unit) * factor(unit)

    def term(number):
        into = [e for e in edges if e[1] == number]
        return network.bias[number // 2, number % 2] + sum(w * state(s) for s, _, w, _ in into)

    def factor(unit):
        return 4 / (1 + np.exp(-network.units["gain"][unit] * term(2 * unit + 1))) - 1

    found = {}

    def walk(unit, scale, nodes, output):
        """Go back from a unit; `nodes` lie between it and the output."""
        if unit != output:
            scale, nodes = scale * factor(unit), (unit, *nodes)
        constant = network.bias[unit, 0]
        for source, number, weight, _ in edges:
            if number != 2 * unit:
                continue
            if source < network.n_inputs:
                key = (output, source, nodes)
                found[key] = found.get(key, 0) + scale * weight * (x[source] - reference[source])
                constant += weight * reference[source]
            else:
                walk(source - network.n_inputs, scale * weight, nodes, output)
        key = (output, -1, nodes)
        found[key] = found.get(key, 0) + scale * constant

    for unit in np.flatnonzero(network.units["kind"] == 1).tolist():
        walk(unit, 1.0, (), unit)
    return found


@given(cases(n_samples=(3,), min_hidden=1))
def test_paths_of_any_network_add_up(case):
    network, rng = case.network, np.random.default_rng(0)
    spread, reference = np.ones(network.n_inputs), rng.normal(size=network.n_inputs)
    X = rng.normal(size=(4, network.n_inputs))
    conditions = if_conditions(network, None, spread)
    subject = _Subject(network, None, ("y",) * network.n_outputs, conditions)
    for by in ("path", "input"):
        found = _explained(subject, X, reference, by)
        assert whole(found) == pytest.approx(found.activation, rel=1e-9, abs=1e-9)
        assert len(set(found.names)) == len(found.names)


def small_network():
    """Return y0 = h1 + x0 + 2, h1 = (x0 + h2 + 0.5) · σ₁(x1), h2 = (x1 − 1) · σ₁(x0 + x2)."""
    network = new_network(3, 1, LINEAR, unit_capacity=3, edge_capacity=10)
    first, second = new_unit(network, 2.0, 0.1), new_unit(network, 1.5, -0.2)
    network.bias[:, 0] = [2.0, 0.5, -1.0]
    for source, term, weight in [
        (0, 0, 1.0),
        (3 + first, 0, 0.7),
        (0, 2 * first, 1.1),
        (3 + second, 2 * first, -0.6),
        (1, 2 * first + 1, 1.3),
        (1, 2 * second, 0.9),
        (0, 2 * second + 1, 0.4),
        (2, 2 * second + 1, -0.8),
    ]:
        new_edge(network, source, term, weight)
    return network


def test_every_path_has_the_contribution_that_walking_it_gives():
    network, rng = small_network(), np.random.default_rng(1)
    X, reference = rng.normal(size=(5, 3)), np.array([0.5, -1.0, 2.0])
    names = ["a", "b", "c"]
    subject = _Subject(network, names, ("y",), if_conditions(network, names, np.ones(3)))
    found = _explained(subject, X, reference, "path")
    assert found.names == (
        "a",
        "constant → h1 [b]",
        "a → h1 [b]",
        "constant → h2 [a, c] → h1 [b]",
        "b → h2 [a, c] → h1 [b]",
    )
    for row, x in enumerate(X):
        slow = slow_paths(network, x, reference)
        assert slow.pop((0, -1, ())) == pytest.approx(found.bias[0], abs=1e-12)
        expected = [slow[key] for key in ((0, 0, ()), (0, -1, (1,)), (0, 0, (1,)))]
        expected += [slow[(0, -1, (2, 1))], slow[(0, 1, (2, 1))]]
        assert found.contributions[row, 0] == pytest.approx(expected, abs=1e-12)
    groups = _explained(subject, X, reference, "input")
    assert groups.names == ("a", "b", "a [b]", "a × b × c", "b [a, c]")
    # The constant that b alone modulates counts as b.
    assert groups.contributions[:, 0, 1] == pytest.approx(found.contributions[:, 0, 1])
    assert groups.modulators == ((), (), (1,), (0, 1, 2), (0, 2))


def test_a_regressor_is_explained_by_its_prediction(planted):
    model, X = planted
    for by in ("path", "input"):
        found = explain(model, X, by=by)
        assert whole(found)[:, 0] == pytest.approx(model.predict(X), rel=1e-9, abs=1e-9)
    assert any("income above 3." in name for name in explain(model, X).names)


def test_contributions_are_measured_from_the_mean(planted):
    model, X = planted
    center = explain(model, X.mean().to_frame().T)
    from_inputs = [i for i, source in enumerate(center.sources) if source >= 0]
    assert center.contributions[..., from_inputs] == pytest.approx(0.0, abs=1e-9)
    raw = explain(model, X, reference=np.zeros(2))
    assert whole(raw) == pytest.approx(whole(explain(model, X)))
    with pytest.raises(ValueError, match="reference has shape"):
        explain(model, X, reference=[0.0])


def test_names_follow_the_columns(planted):
    model, X = planted
    y = model.predict(X)
    swapped = DIRADRegressor(random_state=0).fit(X[["income", "age"]], y)
    found = explain(swapped, X[["income", "age"]], by="input")
    for name, source in zip(found.names, found.sources, strict=True):
        if source >= 0:
            assert name.split(" [")[0] == ["income", "age"][source]
    with pytest.raises(ValueError, match="feature names"):
        explain(swapped, X)


def test_two_classes_are_explained_by_their_log_odds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = DIRADClassifier(max_edges=6, random_state=0).fit(X, y)
    found = explain(model, X)
    p = model.predict_proba(X)[:, 1]
    inner = (p > 1e-6) & (p < 1 - 1e-6)
    assert whole(found)[inner, 0] == pytest.approx(logit(p[inner]), abs=1e-6)
    assert whole(found) == pytest.approx(found.activation, abs=1e-9)
    assert found.outputs == ("same",)
    assert found.importances.shape == (1, len(found.names))


def test_more_classes_are_explained_by_the_scores_of_the_softmax():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = DIRADClassifier(max_edges=6, random_state=0).fit(X, y)
    found = explain(model, X)
    powers = np.exp(whole(found))
    assert powers / powers.sum(axis=1, keepdims=True) == pytest.approx(model.predict_proba(X))
    assert found.outputs == ("0", "1", "2")
    relative = found.relative()
    assert whole(relative) == pytest.approx(relative.activation, abs=1e-9)
    assert relative.activation.sum(axis=1) == pytest.approx(0.0, abs=1e-9)
    powers = np.exp(relative.activation)
    assert powers / powers.sum(axis=1, keepdims=True) == pytest.approx(model.predict_proba(X))


def test_unsuitable_models_are_refused(planted):
    model, X = planted
    with pytest.raises(TypeError, match="PREVALClassifier"):
        explain(PREVALClassifier(), X)
    with pytest.raises(ValueError, match="by must be"):
        explain(model, X, by="node")


def test_too_many_paths_are_refused(monkeypatch):
    monkeypatch.setattr("dirad.explanation.MAX_PATHS", 4)
    subject = _Subject(small_network(), None, ("y",), {})
    with pytest.raises(TooManyPaths, match="6 paths"):
        _explained(subject, np.zeros((1, 3)), np.zeros(3), "path")
    with pytest.raises(TooManyPaths, match="more than 4 different contributions"):
        _explained(subject, np.zeros((1, 3)), np.zeros(3), "input")


def test_activations_come_before_the_transfer():
    network = new_network(1, 1, edge_capacity=1)  # logistic
    new_edge(network, 0, 0, 2.0)
    assert activations(network, np.array([[3.0]])).tolist() == [[6.0]]
