"""A layer shared by all outputs, and its thinning to a given number of edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from dirad.core.network import MODULATORY, SOFTMAX
from dirad.core.order import build_plan
from dirad.core.propagate import load_batch, new_workspace
from dirad.core.random import INPUT_NOISE
from dirad.growth.adapt import adapt, new_data, with_doubled_capacity
from dirad.growth.shared_layer import (
    build_shared_layer,
    count_layer_edges,
    count_shared_nodes,
    has_significant_source,
    wants_shared_layer,
)
from dirad.growth.state import PHASE, new_state
from dirad.growth.thinning import (
    add_input_noise,
    add_most_evident,
    are_largest,
    edge_evidences,
    fade_least_magnitudes,
    is_thinning_round,
    kth_largest,
    noise_factor,
)
from dirad.growth.update import learning_rate
from dirad.history import SETTLING, STABLE, THINNING
from dirad.inference import respond
from dirad.params import preset
from networks import cases, edges_of, new_log, random_case, run_passes, state_of

SHORT = preset("default", max_edges=200, thinning_steps=1500, max_steps=2000, shared_nodes=20)
CONSTANTS = SHORT.constants()


def many_inputs(n=2000, inputs=60, classes=4, seed=0):
    """Return classes that are nonlinear functions of a few of many inputs, and one-hot targets."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, inputs))
    scores = np.tanh(X[:, :8] @ rng.normal(size=(8, 6))) @ rng.normal(size=(6, classes))
    return X, np.eye(classes)[scores.argmax(axis=1)]


def fresh_state(inputs=60, outputs=4, n_samples=2000):
    return new_state(inputs, outputs, transfer=SOFTMAX, seed=3, n_samples=n_samples)


def with_layer(params=SHORT):
    """Return a state with a new layer, its log and its plan."""
    state = fresh_state()
    while len(state.network.edges) < count_layer_edges(state.network, params.constants()):
        state = with_doubled_capacity(state)
    plan, log = build_plan(state.network), new_log(10_000)
    before = respond(state.network, many_inputs()[0])
    build_shared_layer(state, plan, log, params.constants())
    return state, before


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.integers(0, 59))
def test_kth_largest(values, place):
    k = place % len(values) + 1
    assert kth_largest(np.array(values, float), k) == sorted(values, reverse=True)[k - 1]


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=60), st.integers(0, 60))
def test_the_largest_are_marked(values, count):
    k = min(count, len(values))
    order = sorted(range(len(values)), key=lambda i: (-values[i], i))
    assert set(np.flatnonzero(are_largest(np.array(values, float), k))) == set(order[:k])


@given(cases(n_samples=(8, 13, 261)), st.integers(0, 30))
def test_the_edges_of_the_least_magnitude_fade(case, keep):
    state, found = state_of(case.network), run_passes(case)
    first = next(iter(case.plain.edges), None)
    fading = set() if first is None else {first}
    state.edge_life["fading"][list(fading)] = 1
    spread = found.work.state[:, : len(case.X)].std(axis=1)
    wanted = naive.edges_left(case.plain, spread, keep, fading)
    left = fade_least_magnitudes(state, found.work, keep)
    assert left == len(wanted)
    edges = {e for e in case.plain.edges if not state.edge_life["fading"][e]}
    assert len(edges) == len(wanted)

    def magnitudes(chosen):
        return sorted(
            abs(case.plain.edges[e].weight) * spread[case.plain.edges[e].source] for e in chosen
        )

    assert magnitudes(edges) == pytest.approx(magnitudes(wanted), rel=1e-9, abs=1e-12)


@given(cases(n_samples=(8, 13, 261)))
def test_evidence_of_every_edge_that_may_be_added(case):
    case.network.usable[0] = False
    found = run_passes(case)
    every = edge_evidences(case.network, found.plan, found.work)
    all_states = found.work.state[:, : len(case.X)].T
    all_deltas = found.work.delta[:, : len(case.X)].T
    wanted = np.zeros(every.shape)
    for (s, t), G in naive.possible_edges(case.plain, all_states, all_deltas).items():
        wanted[t, s] = G
    assert every == pytest.approx(wanted, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_the_edges_with_the_most_evidence_are_added_with_weight_0(seed):
    case = random_case(seed, n_samples=100, density=0.2)
    state, found = state_of(case.network), run_passes(case)
    before, old = respond(case.network, case.X), edges_of(case.network)
    every = edge_evidences(case.network, found.plan, found.work)
    log = new_log()
    assert add_most_evident(state, found.plan, found.work, log, 4, CONSTANTS) == 4
    new = {e: pair for e, pair in edges_of(case.network).items() if e not in old}
    assert sorted(every[t, s] for s, t in new.values()) == sorted(np.sort(every.ravel())[-4:])
    assert np.array_equal(respond(case.network, case.X), before)


@pytest.mark.parametrize("n", [5, 64, 100])
def test_input_noise_is_a_sign_per_sample_of_given_size(n):
    state = fresh_state(inputs=3)
    state.clock[PHASE] = THINNING
    rng = np.random.default_rng(0)
    work = new_workspace(state.network, n)
    X = rng.normal(size=(n, 3)) * (1.0, 5.0, 0.0)
    load_batch(work, X, np.zeros((n, 4)))
    add_input_noise(state, work, CONSTANTS)
    for s in range(3):
        size = SHORT.input_noise * X[:, s].std()
        wanted = naive.noisy(X[:, s], size, 3, INPUT_NOISE, 0, s)
        assert work.state[s, :n] == pytest.approx(np.array(wanted), rel=1e-12)
    state.clock[PHASE] = SETTLING  # no noise in other phases
    load_batch(work, X, np.zeros((n, 4)))
    add_input_noise(state, work, CONSTANTS)
    assert np.array_equal(work.state[:3, :n], X.T)


def test_schedules_of_thinning():
    state = fresh_state()
    state.clock[PHASE] = THINNING
    rounds, noise, rates = [], [], []
    for step in range(1500):
        state.clock[0] = step
        noise.append(noise_factor(state, CONSTANTS))
        rates.append(learning_rate(state, CONSTANTS))
        if is_thinning_round(state, CONSTANTS):
            rounds.append(step + 1)
    assert rounds == [*range(100, 1125, 100), 1125]
    assert noise[:1125] == [1.0] * 1125
    assert noise[1125:] == pytest.approx([(1500 - step) / 375 for step in range(1125, 1500)])
    assert rates[0] == SHORT.thinning_gamma
    assert rates[750] == pytest.approx(SHORT.thinning_gamma / 2)
    assert rates == sorted(rates, reverse=True)


def test_a_new_layer_changes_no_response():
    state, before = with_layer()
    net = state.network
    assert np.array_equal(respond(net, many_inputs()[0]), before)
    assert net.n_hidden == count_shared_nodes(CONSTANTS) == 200 // 16
    assert net.n_edges == count_layer_edges(net, CONSTANTS) == 12 * (2 * 60 + 4) + 60 * 4
    edges = net.edges[: net.n_edges]
    into_outputs = edges["term"] < 8
    assert (edges["weight"][into_outputs] == 0).all()
    for t, spread in enumerate((0.5, 1.0)):
        weights = edges["weight"][~into_outputs & (edges["term"] % 2 == t)]
        assert weights.std() * np.sqrt(60) == pytest.approx(spread, rel=0.1)
    assert (net.bias[net.units["kind"] == MODULATORY] == (1.0, 0.0)).all()


@pytest.mark.parametrize(
    ("changes", "shape", "wanted"),
    [
        ({}, {}, True),
        ({"shared_nodes": 0}, {}, False),
        ({"max_edges": 1_000_000}, {}, False),
        ({"max_edges": 199}, {}, False),
        ({"max_hidden": 0}, {}, False),
        ({"max_steps": 1000}, {}, False),
        ({}, {"n_samples": 999}, False),
        ({}, {"inputs": 49}, False),
        ({}, {"outputs": 2}, False),
        ({}, {"outputs": 11}, False),
    ],
)
def test_where_a_network_begins_with_a_layer(changes, shape, wanted):
    assert wants_shared_layer(fresh_state(**shape), SHORT.replace(**changes).constants()) == wanted


@pytest.mark.parametrize("informative", [True, False])
def test_no_layer_where_inputs_tell_nothing(informative):
    X, y = many_inputs()
    if not informative:
        y = y[np.random.default_rng(1).permutation(len(y))]
    network = fresh_state().network
    case = random_case(0)._replace(network=network, X=X, y=y, weight=np.ones(len(X)), cost=1)
    assert has_significant_source(network, run_passes(case).work) == informative


def test_thinning_ends_at_max_edges_and_learns():
    X, y = many_inputs(4000)
    state, history = adapt(fresh_state(), new_data(X[:2000], y[:2000], SHORT), SHORT)
    net = state.network
    phases = [phase for phase, *_ in history.phases()]
    assert THINNING in phases
    assert state.clock[PHASE] == STABLE
    assert net.n_edges <= 200
    assert history.topology() == edges_of(net)
    answers = respond(net, X[2000:]).argmax(axis=1)
    assert np.mean(answers == y[2000:].argmax(axis=1)) > 0.8
    # Nodes feed several outputs.
    source = net.edges["source"][net.edges["source"] >= net.n_inputs]
    assert len(source) > 1.5 * net.n_hidden


def test_thinning_can_stop_and_go_on_at_any_step():
    X, y = many_inputs()
    data = new_data(X, y, SHORT)
    whole, _ = adapt(fresh_state(), data, SHORT, until=700)
    part, _ = adapt(fresh_state(), data, SHORT, until=333)
    part, _ = adapt(part.copy(), new_data(X, y, SHORT), SHORT, until=700)
    assert edges_of(whole.network) == edges_of(part.network)
    n = whole.network.counts[2]
    assert np.array_equal(whole.network.edges[:n], part.network.edges[:n])
