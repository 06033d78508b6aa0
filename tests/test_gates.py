"""Gates: the scan of thresholds against brute force, neutrality, and what growth does with them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from dirad.core.order import build_plan
from dirad.core.propagate import forward
from dirad.growth.adapt import adapt, new_data
from dirad.growth.evidence import residual_score
from dirad.growth.gate_scan import (
    GAIN,
    GATE,
    N_COLUMNS,
    SIGN,
    SOURCE,
    STEP_GAIN,
    STEP_GATE,
    STEP_SIGN,
    STEP_THRESHOLD,
    THRESHOLD,
    best_corner,
    best_gated_edge,
    best_step,
    collect,
    sort_into_bins,
)
from dirad.growth.gates import (
    apply_gate,
    edges_for_gate,
    feature_evidence,
    units_for_gate,
    write_feature,
)
from dirad.growth.state import new_state
from dirad.history import KIND_NAMES, TRIMMING
from dirad.inference import respond
from dirad.params import preset
from networks import cases, edges_of, new_log, random_case, run_passes, state_of


def evidence(feature, delta, own):
    """Return G of a feature whose variance is projected on the rows `own`."""
    weighted = own * delta**2
    fisher, cross = weighted @ own.T, weighted @ feature
    left = np.sum((feature * delta) ** 2)
    if len(own):
        left -= cross @ np.linalg.solve(fisher, cross)
    return naive.evidence(feature @ delta, left, len(delta))


def in_bins(x, n_thresholds, scores, squares):
    thresholds = np.sort(x)[np.linspace(5, len(x) - 6, n_thresholds).astype(int)] + 1e-9
    bins = (x[:, None] > thresholds).sum(axis=1).astype(np.uint8)
    sums = np.empty((32, 2))
    collect(bins, scores, squares, len(x), sums)
    return thresholds, sums


@pytest.mark.parametrize("seed", range(10))
def test_the_best_step_is_the_best_of_all_thresholds(seed):
    rng = np.random.default_rng(seed)
    x, delta = rng.normal(size=200), rng.normal(size=200)
    thresholds, sums = in_bins(x, 9, delta, delta**2)
    # The score of a step below its threshold is that above it with the other sign, where Σδ = 0.
    every_below = [evidence((x <= t) * 1.0, delta, np.ones((1, 200))) for t in thresholds]
    G, place = best_step(sums, 9, 200)
    assert pytest.approx(max(every_below), rel=1e-9) == G
    assert np.argmax(every_below) == place
    delta -= delta.mean()
    thresholds, sums = in_bins(x, 9, delta, delta**2)
    every = [evidence((x > t) * 1.0, delta, np.ones((1, 200))) for t in thresholds]
    assert best_step(sums, 9, 200)[0] == pytest.approx(max(every), rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_gated_edge_is_the_best_of_all_thresholds_and_signs(seed):
    rng = np.random.default_rng(seed)
    x, a, delta = rng.normal(size=(3, 200))
    thresholds, sums = in_bins(x, 7, a * delta, (a * delta) ** 2)
    every = {
        (i, sign): evidence(a * np.where(sign * (x - t) > 0, 3.0, -1.0), delta, np.zeros((0, 200)))
        for i, t in enumerate(thresholds)
        for sign in (-1.0, 1.0)
    }
    G, place, sign = best_gated_edge(sums, 7, 200)
    assert pytest.approx(max(every.values()), rel=1e-9) == G
    assert every[place, sign] == pytest.approx(G, rel=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_the_best_corner_is_the_best_of_all_thresholds_and_signs(seed):
    rng = np.random.default_rng(seed)
    delta = rng.normal(size=300)
    rows, columns = rng.integers(0, 4, 300), rng.integers(0, 6, 300)
    sums = np.zeros((8, 8, 2))
    np.add.at(sums, (rows, columns), np.stack([delta, delta**2], axis=1))
    every = {}
    for r in range(3):
        for c in range(5):
            for step_sign in (-1.0, 1.0):
                for sign in (-1.0, 1.0):
                    for gate_is_row in (False, True):
                        gate, step = rows - r, columns - c
                        if not gate_is_row:
                            gate, step = step, gate
                        one = np.where(sign * (gate - 0.5) > 0, 3.0, -1.0)
                        one *= step_sign * (step - 0.5) > 0
                        found = evidence(one, delta, np.ones((1, 300)))
                        every[r, c, step_sign, sign, gate_is_row] = found
    G, found = best_corner(sums, 3, 5, 300)
    assert pytest.approx(max(every.values()), rel=1e-6) == G
    assert every[found] == pytest.approx(G, rel=1e-6)


def test_bins_count_the_thresholds_below():
    rng = np.random.default_rng(0)
    states = np.stack([rng.normal(size=500), np.full(500, 2.0), rng.integers(0, 2, 500)])
    bins = sort_into_bins(states, np.arange(3), 500)
    assert bins.n_thresholds.tolist() == [31, 0, 1]
    for s in range(3):
        thresholds = bins.thresholds[s, : bins.n_thresholds[s]]
        assert (np.diff(thresholds) > 0).all()
        assert np.array_equal(bins.bins[s], (states[s][:, None] > thresholds).sum(axis=1))


def drawn_gate(case, seed):
    """Return a random candidate for the first output."""
    rng = np.random.default_rng(seed)
    one = np.zeros(N_COLUMNS)
    one[[GATE, THRESHOLD, SIGN, GAIN]] = rng.integers(case.plain.n_inputs), 0.3, 1.0, 2.0
    one[[SOURCE, STEP_GATE]] = -1.0
    one[SIGN] = rng.choice([-1.0, 1.0])
    kind = seed % 3
    if kind == 1:
        one[SOURCE] = rng.integers(case.plain.n_inputs)
    if kind == 2:
        one[STEP_GATE] = rng.integers(case.plain.n_inputs)
        one[[STEP_THRESHOLD, STEP_SIGN, STEP_GAIN]] = -0.2, rng.choice([-1.0, 1.0]), 3.0
    return one


@given(cases(), st.integers(0, 1000))
def test_a_gate_is_neutral_and_has_the_state_that_was_scored(case, seed):
    before = respond(case.network, case.X)
    gate = drawn_gate(case, seed)
    found = run_passes(case)
    feature, scratch = np.zeros((2, found.work.state.shape[1]))
    write_feature(found.work, gate, feature, scratch)
    edges = set(edges_of(case.network))
    state, plan, log = state_of(case.network), build_plan(case.network), new_log()
    n_hidden = state.network.n_hidden
    apply_gate(state, plan, log, 0, gate, preset("default").constants())
    net = state.network
    new = set(edges_of(net)) - edges
    assert len(new) == edges_for_gate(gate)
    assert net.n_hidden - n_hidden == units_for_gate(gate)
    kinds = [KIND_NAMES[kind] for kind in log.events["kind"][: log.written[0]]]
    assert kinds.count("gate") == units_for_gate(gate)
    assert kinds.count("edge") == len(new)
    (last,) = [e for e in new if net.edges["term"][e] == 0]
    assert net.edges["weight"][last] == 0
    np.testing.assert_array_equal(respond(net, case.X), before)
    again = run_passes(case._replace(network=net))
    forward(net, again.plan, again.work)
    n = len(case.X)
    np.testing.assert_allclose(
        again.work.state[net.edges["source"][last], :n], feature[:n], rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_evidence_of_a_feature_is_projected_on_bias_and_source(seed):
    case = random_case(seed, n_inputs=4, n_hidden=1, n_samples=60)
    found = run_passes(case)
    score = residual_score(case.network, found.plan, found.work, 0, True)
    delta, square = score.residual[:60], score.square[:60]
    feature = np.random.default_rng(seed).normal(size=found.work.state.shape[1])
    own = np.stack([np.ones(60), case.X[:, 1]])
    cross = (own * square) @ feature[:60]
    for rows in (1, 2):
        fisher = (own[:rows] * square) @ own[:rows].T
        left = feature[:60] ** 2 @ square - cross[:rows] @ np.linalg.solve(fisher, cross[:rows])
        expected = naive.evidence(feature[:60] @ delta, left, 60)
        assert feature_evidence(found.work, score, feature, 1 if rows == 2 else -1) == (
            pytest.approx(expected, rel=1e-6)
        )


# ------------------------------------------------------------------ growth with gates


def moons(n, rng):
    angle, side = rng.uniform(0, np.pi, n), rng.integers(0, 2, n)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    X = np.where(side[:, None] == 1, [1.0, 0.5] - X, X) + rng.normal(0, 0.1, (n, 2))
    return X, side


def checkerboard(n, rng):
    X = rng.uniform(0, 4, (n, 2))
    return X, np.floor(X).sum(axis=1) % 2


def sine(n, rng):
    X = rng.uniform(-3, 3, (n, 1))
    return X, np.sin(2 * X[:, 0]) + rng.normal(0, 0.1, n)


def fitted(problem, seed, **changes):
    """Return state and history after growth on 1,400 samples, and the share explained of 600."""
    X, y = problem(2000, np.random.default_rng(seed))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    regression = problem is sine
    params = preset("default", cost="squared" if regression else "cross-entropy", **changes)
    state = new_state(X.shape[1], 1, transfer=1 if regression else 0, seed=seed, n_samples=1400)
    state, history = adapt(state, new_data(X[:1400], y[:1400], params), params)
    answers = respond(state.network, X[1400:])[:, 0]
    if regression:
        return state, history, 1 - np.mean((answers - y[1400:]) ** 2) / y[1400:].var()
    return state, history, np.mean((answers > 0.5) == y[1400:])


@pytest.mark.parametrize(
    ("problem", "least", "most_edges"),
    [(moons, 0.98, 20), (checkerboard, 0.97, 60), (sine, 0.95, 30)],
)
def test_growth_does_not_stall_where_no_product_helps(problem, least, most_edges):
    for seed in (2, 3):
        state, history, score = fitted(problem, seed)
        assert score > least
        assert state.network.n_edges <= most_edges
        assert history.topology() == edges_of(state.network)
        assert any(phase == TRIMMING for phase, *_ in history.phases())
    without = [fitted(problem, seed, gates=False)[2] for seed in range(4)]
    assert min(without) < least  # by luck, a sine may be found from products alone


def test_trimming_removes_edges_that_do_not_pay():
    trimmed, _, score = fitted(moons, 0)
    untrimmed, _, other = fitted(moons, 0, edge_price=0.0)
    assert trimmed.network.n_edges < untrimmed.network.n_edges
    assert score > other - 0.02
