"""Gates for subsets of categories, and for numbers with gaps: search, growth, reading, exports."""

import itertools
import re
import shutil

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dirad
from dirad import DIRADClassifier, DIRADRegressor, explain
from dirad.conditions import gate_conditions
from dirad.core.edits import new_edge, new_unit
from dirad.core.input_groups import InputGroups
from dirad.core.network import LINEAR, new_network
from dirad.encoding import fit_categories, fit_encoding, one_hot_groups
from dirad.estimators.columns import network_inputs
from dirad.export import to_c, to_onnx, to_python
from dirad.growth.wide import Samples
from dirad.growth.wide.bins import Bins, sums_with_gap
from dirad.growth.wide.gate import summed
from dirad.growth.wide.scan import Search
from dirad.growth.wide.subsets import (
    Sources,
    best_cuts,
    category_orders,
    chance_gain,
    cut_gains,
    find_subsets,
)
from dirad.report.page import write_page
from test_export_c import run
from test_wide import start


def one_hot(codes, n_categories):
    """Return standardized indicators, one column per category."""
    found = (np.asarray(codes)[:, None] == np.arange(n_categories)).astype(float)
    return (found - found.mean(axis=0)) / found.std(axis=0)


def naive_gain(feature, g, h, decay, explained=None):
    """Return u²/(v + decay), summed over outputs, after a regression on the row `explained`."""
    total = 0.0
    for o in range(g.shape[1]):
        rest = feature
        if explained is not None:
            slope = (feature * explained * h[:, o]).sum() / (explained**2 * h[:, o]).sum()
            rest = feature - slope * explained
        total += (rest @ g[:, o]) ** 2 / ((rest**2) @ h[:, o] + decay)
    return total


def drawn(seed, n_outputs, n=120, n_categories=5):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(n_categories), rng.integers(0, n_categories, n)])
    n = len(codes)
    states = rng.normal(size=(n, 2))
    g, h = rng.normal(size=(n, n_outputs)), rng.uniform(0.1, 1, (n, n_outputs))
    return codes, states, g, h


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([1, 3]))
def test_gains_of_cuts_are_those_of_their_features(seed, n_outputs):
    codes, states, g, h = drawn(seed, n_outputs)
    inputs = one_hot(codes, 5)
    subsets = find_subsets(inputs, [range(5)], np.ones(5, bool), np.arange(len(codes)))
    sources = Sources(states, np.array([True, False]), np.ones(2, int))
    order, below, above = cut_gains(subsets, sources, g, h, 0.7)
    for s, c in itertools.product(range(2), range(4)):
        inside, source = np.isin(codes, order[s, 0, : c + 1]), states[:, s]
        if s == 0:
            wanted = naive_gain(source * inside, g, h, 0.7, source)
            assert below[s, 0, c] == pytest.approx(wanted, rel=1e-6)
        else:
            for found, is_open in ((below, inside), (above, ~inside)):
                wanted = naive_gain(source * np.where(is_open, 0.75, -0.25), g, h, 0.7)
                assert found[s, 0, c] == pytest.approx(wanted, rel=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_the_order_contains_the_best_of_all_subsets(seed):
    """With one output and equal curvatures, as for the splits of trees (Fisher 1958)."""
    codes, _, g, _ = drawn(seed, 1)
    source, h = np.ones(len(codes)), np.ones((len(codes), 1))
    inputs = one_hot(codes, 5)
    subsets = find_subsets(inputs, [range(5)], np.ones(5, bool), np.arange(len(codes)))
    sources = Sources(source[:, None], np.array([True]), np.zeros(1, int))
    _, gains, _ = cut_gains(subsets, sources, g, h, 0.0)
    every = [
        naive_gain(source * np.isin(codes, some), g, h, 0.0, source)
        for size in (1, 2)
        for some in itertools.combinations(range(5), size)
    ]
    assert gains[0, 0, :4].max() == pytest.approx(max(every), rel=1e-5)


def test_the_order_follows_the_direction_in_which_categories_differ():
    g = np.zeros((3, 1, 1, 6))
    along = np.array([3.0, -2.0, 1.0, -1.0, 2.0, -3.0])
    g[:, 0, 0] = np.outer([1.0, -2.0, 1.0], along)
    order = category_orders(g, np.ones_like(g), np.array([6]), 0.1)[0, 0].tolist()
    expected = np.argsort(along).tolist()
    assert order in (expected, expected[::-1])
    fewer = category_orders(g, np.ones_like(g), np.array([4]), 0.1)[0, 0].tolist()
    assert set(fewer[:4]) == set(range(4))


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_what_ordering_gains_in_noise_is_subtracted(n_outputs):
    """On average the best cut of noise gains what the best threshold of k ordered bins does."""
    rng, k = np.random.default_rng(0), 12
    codes, best = np.arange(240) % k, []
    inputs = one_hot(codes, k)
    subsets = find_subsets(inputs, [range(k)], np.ones(k, bool), np.arange(240))
    sources = Sources(np.ones((240, 1)), np.array([True]), np.zeros(1, int))
    for _ in range(200):
        g = rng.normal(size=(240, n_outputs))
        best.append(cut_gains(subsets, sources, g, np.ones_like(g), 0.0)[1].max())
    left = np.mean(best) - chance_gain(np.array([k]), n_outputs)[0]
    assert 0.0 < left < 3.0 + n_outputs


def test_the_smaller_side_of_a_cut_is_listed():
    codes = np.repeat(np.arange(5), 40)
    inputs = one_hot(codes, 5)
    subsets = find_subsets(inputs, [range(5)], np.ones(5, bool), np.arange(200))
    g = np.where(np.isin(codes, [1, 4]), 1.0, -1.0)[:, None]
    ones = np.ones((200, 1))
    sources = Sources(ones, np.array([False]), np.zeros(1, int))
    (cut,) = best_cuts(subsets, sources, g, ones, 1.0, 1)
    assert cut.members.tolist() == [1, 4]
    gate, threshold = subsets.gate(0, cut.members)
    inside = summed(gate, inputs) - threshold
    assert np.unique(inside.round(9)).tolist() == [-0.5, 0.5]
    assert np.array_equal(inside > 0, np.isin(codes, [1, 4]))
    edges = 2 + 1  # into the gate, and to the output
    feature = np.where(np.isin(codes, [1, 4]) == cut.opens, 0.75, -0.25)
    wanted = naive_gain(feature, g, ones, 1.0) - chance_gain(np.array([5]), 1)[0]
    assert cut.rate * edges == pytest.approx(wanted, rel=1e-6)


def test_columns_of_few_categories_are_left_out_and_rare_ones_are_not_ordered():
    rng = np.random.default_rng(0)
    inputs = np.hstack([one_hot(rng.integers(0, 2, 900), 2), one_hot(np.arange(900) % 40, 40)])
    columns = [range(2), range(2, 42)]
    subsets = find_subsets(inputs, columns, np.ones(42, bool), np.arange(900))
    assert [len(one) for one in subsets.inputs] == [32]
    usable = np.ones(42, bool)
    usable[4:] = False
    assert not find_subsets(inputs, columns, usable, np.arange(900)).inputs


def subset_draft():
    """Return a draft whose residuals show that a number counts for three of eight categories."""
    rng = np.random.default_rng(0)
    codes, x = rng.integers(0, 8, 600), rng.normal(size=600)
    inputs = np.column_stack([one_hot(codes, 8), x])
    y = x * np.isin(codes, [1, 4, 6]) + 0.1 * rng.normal(size=600)
    samples = Samples(inputs, y[:, None], np.ones(600))
    draft = start(samples, LINEAR, 1.0, np.ones(9, bool))
    return draft, Bins(samples, draft.usable, 0, InputGroups((tuple(range(8)),), ()))


def test_a_subset_is_found_and_inserted_without_effect():
    draft, bins = subset_draft()
    draft.solve(10, 0.0)
    (best,) = Search(draft, bins).best(1)
    (gate,) = best.gates
    assert [node for node, _ in gate.gate] == [1, 4, 6]
    assert gate.source == 8
    before = draft.activations_of(draft.samples.inputs)
    cost = draft.cost(draft.activation)
    draft.add(gate, feeds_outputs=True)
    assert np.array_equal(draft.activations_of(draft.samples.inputs), before)
    draft.solve(10, 0.0)
    gain = best.rate * (gate.n_edges + 1) + best.chance  # twice the drop of the cost, with noise
    assert 2 * (cost - draft.cost(draft.activation)) == pytest.approx(gain, rel=1e-3)


def test_missing_numbers_count_as_the_lowest_or_highest():
    inputs = np.array([[1.0, -0.5], [5.0, -0.5], [3.0, 2.0], [2.0, -0.5]])
    low, high = (summed(one, inputs) for one in sums_with_gap(inputs, 0, 1))
    assert (low - low[0]).tolist() == pytest.approx([0.0, 4.0, 0.0, 1.0])
    assert (high - high[0]).tolist() == pytest.approx([0.0, 4.0, 4.0, 1.0])
    assert sums_with_gap(inputs[:2], 0, 1) == []


def table(n=1500, seed=0):
    """Return categories, numbers and gaps; the effect of a number depends on a subset."""
    rng = np.random.default_rng(seed)
    kinds = [f"k{i:02}" for i in range(20)]
    X = pd.DataFrame({"kind": rng.choice(kinds, n), "age": rng.normal(40, 12, n)})
    X["income"] = rng.lognormal(1, 0.6, n)
    inside = X["kind"].isin(kinds[1::2])
    y = 0.1 * (X["age"] - 40) * (1.0 * inside + 1.0 * (X["income"] > 3.0))
    X.loc[(X["income"] > 3.0) & (rng.uniform(size=n) < 0.5), "income"] = np.nan
    return X, (y + 0.1 * rng.normal(size=n)).to_numpy()


ODD = " or ".join(f"k{i:02}" for i in range(1, 20, 2))
EVEN = " or ".join(f"k{i:02}" for i in range(0, 20, 2))


@pytest.fixture(scope="module")
def model():
    return DIRADRegressor(structure="wide", random_state=0).fit(*table())


def test_a_wide_network_finds_the_subset_and_reads_as_an_if(model):
    text = "\n".join(model.equations())
    either, neither = (
        (ODD, EVEN),
        (f"neither {one.replace(' or ', ' nor ')}" for one in (ODD, EVEN)),
    )
    assert any(f"kind is {words}" in text for words in (*either, *neither))
    assert " or missing" in text or " and not missing" in text
    X, y = table(seed=1)
    assert model.score(X, y) > 0.97
    assert any("kind is " in name for name in explain(model, X[:3]).names)


def test_conditions_are_those_under_which_the_factor_is_3(model):
    """Evaluated from the data: the condition in words must agree with the states."""
    X, _ = table(300, seed=2)
    found = gate_conditions(model.network_, model.encoding_, tuple(X.columns), model.input_spread_)
    inputs, network = network_inputs(model, X), model.network_
    assert any(" is " in text for text in found.values())
    for unit, text in found.items():
        edges = network.edges[network.edges["term"] == 2 * unit + 1]
        z = network.bias[unit, 1] + inputs[:, edges["source"]] @ edges["weight"]
        column, _, words = text.partition(" is ")
        if words:
            others = words.startswith(("not ", "neither "))
            listed = re.split(" n?or ", words.split(" ", 1)[1] if others else words)
            own = X[column].fillna("missing").isin(listed) != others
            assert np.array_equal(own, network.units["gain"][unit] * z > 0)
        else:
            gap = X[text.split(" ")[0]].isna().to_numpy()
            opens = network.units["gain"][unit] * z > 0
            assert gap.any()
            assert (opens[gap] == text.endswith("or missing")).all()


def reading_of(network, columns=("colour", "income")):
    """Return how the only gate of a network of colours and incomes, both with gaps, reads."""
    colours = fit_categories(["blue", "green", "red"] * 10)
    X = np.column_stack([np.arange(30) % 3, np.linspace(1, 5, 30)])
    X[-2, 0] = X[-1, 1] = np.nan
    encoding = fit_encoding(X, {0: colours})
    spread = encoding.encode(X).std(axis=0)
    return gate_conditions(network, encoding, columns, spread).get(1)


@pytest.mark.parametrize(
    ("weights", "bias", "text"),
    [
        ({0: 10, 2: 10}, -5, "colour is blue or red"),
        ({0: -10, 2: -10}, 5, "colour is neither blue nor red"),
        ({1: -10}, 5, "colour is not green"),
        ({1: 10, 3: 10}, -5, "colour is green or missing"),
        ({0: 3, 2: 10}, -5, None),  # for blue it is neither open nor closed
        ({4: 30, 5: 90}, -90, "income above 3.00 ± 0.07 or missing"),
        ({4: 30, 5: -90}, -90, "income above 3.00 ± 0.07 and not missing"),
        ({5: 10}, -5, "income is missing"),
        ({4: 30}, -90, None),  # a threshold of one input, which is read elsewhere
        ({0: 10, 4: 10}, -5, None),  # of two columns
    ],
)
def test_conditions_in_words(weights, bias, text):
    network = new_network(6, 1, LINEAR, unit_capacity=2, edge_capacity=4)
    unit = new_unit(network, 1.0, bias)
    for source, weight in weights.items():
        new_edge(network, source, 2 * unit + 1, weight)
    assert reading_of(network) == text


def test_models_survive_files(model, tmp_path):
    X, _ = table(60, seed=3)
    dirad.save(model, tmp_path / "model.dirad")
    loaded = dirad.load(tmp_path / "model.dirad")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.equations() == model.equations()
    write_page(model, tmp_path / "page.html", X=X)
    assert "kind is " in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_exports_say_what_the_model_says(model, tmp_path):
    X, _ = table(200, seed=3)
    expected = model.predict(X)
    labels = model.encoding_.categories[0].labels
    coded = X.assign(kind=[float(labels.index(one)) for one in X["kind"]]).to_numpy(float)
    module: dict = {}
    exec(to_python(model), module)
    found = [float(np.ravel(module["predict"](row))[0]) for row in coded.tolist()]
    assert np.abs(found - expected).max() < 1e-9
    session = onnxruntime.InferenceSession(to_onnx(model))
    (values,) = session.run(["variable"], {"X": coded})
    assert np.abs(np.ravel(values) - expected).max() < 1e-9
    if shutil.which("gcc"):
        answers = run(to_c(model), tmp_path, coded.astype(np.float32), 1, "-O2")
        assert np.abs(answers[:, 0] - expected).max() < 1e-4 * np.abs(expected).max()


def test_the_comment_of_exported_c_reads_subsets():
    X, y = table()
    small = DIRADRegressor(structure="wide", random_state=0).fit(X[["kind", "age"]], y)
    if small.n_edges_ <= 60:
        assert "kind is " in to_c(small).split("#ifndef")[0]


def test_fits_are_the_same_to_the_last_bit_with_any_number_of_threads():
    from threadpoolctl import threadpool_limits

    X, y = table(500)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            fitted = DIRADClassifier(structure="wide", random_state=0).fit(
                X, np.digitize(y, [0, 2])
            )
        answers.append(fitted.predict_proba(X))
    assert np.array_equal(*answers)


def test_columns_that_are_one_hot_are_a_column_of_categories():
    """As files give them, and tables that users encoded themselves."""
    rng = np.random.default_rng(0)
    codes, other = rng.integers(0, 9, 300), rng.integers(0, 4, 300)
    numbers = rng.normal(size=(300, 2))
    flags = rng.integers(0, 2, (300, 3)).astype(float)  # several of them may be 1
    X = np.hstack([np.eye(9)[codes], numbers, np.eye(4)[other], flags])
    assert one_hot_groups(X) == [tuple(range(9)), tuple(range(11, 15))]
    rare = np.eye(9)[codes] * (rng.random((300, 1)) < 0.3)
    assert one_hot_groups(rare) == []  # most rows have none
    assert one_hot_groups(np.eye(9)[codes][:, :2]) == []
    y = np.isin(codes, [1, 4, 5, 8]) ^ np.isin(other, [0, 2])
    model = DIRADClassifier(structure="wide", random_state=0).fit(X, y)
    edges = model.network_.edges[model.network_.edges["term"] % 2 == 1]
    per_gate = np.unique(edges["term"], return_counts=True)[1]
    assert per_gate.max() >= 2  # of several categories
    assert model.score(X, y) > 0.95
