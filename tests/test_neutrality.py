"""No process changes what existing nodes answer, nor the gradients they receive."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import naive
from dirad.core.network import MODULATORY, OUTPUT, with_capacity
from dirad.core.order import build_plan
from dirad.growth.edge_generation import generate_edge
from dirad.growth.enc import convert_edge
from dirad.growth.gain import apply_best, grow_by_gain, new_choice
from dirad.growth.priority import grow_in_v1_order, grow_unrestricted
from dirad.growth.products import apply_product
from dirad.growth.removal import (
    is_always_zero,
    prune_zero_edges_and_dead_units,
    remove_childless_unit,
    remove_edge,
)
from dirad.growth.simplification import replace_linear_nodes
from dirad.history import History
from dirad.inference import respond
from dirad.params import Params, preset
from networks import (
    PAIRS,
    cases,
    edges_of,
    new_log,
    plain,
    random_case,
    run_passes,
    scratch_of,
    state_of,
    written,
)

# Both presets, as far as a process depends on them.
PRESETS = st.sampled_from([preset("paper"), preset("default", precision="float64")])


def rows_of(case, *, without=()):
    """Return states of all nodes and deltas of all terms, those of some units left out."""
    work, net, n = run_passes(case).work, case.plain, len(case.X)
    rows = {}
    for u in net.units:
        if u not in without:
            rows["state", u] = work.state[net.n_inputs + u, :n].copy()
            for t in naive.terms_of(net, u):
                rows["delta", t] = work.delta[t, :n].copy()
    return rows


def assert_unchanged(before, after):
    """Compare rows of nodes that are in both, up to rounding of sums."""
    for key, row in before.items():
        if key in after:
            scale = 1.0 + np.abs(row).max()
            assert np.abs(after[key] - row).max() <= 1e-12 * scale, key


def pick(case, seed, wanted=lambda edge: True):
    """Return the number of some edge."""
    edges = [e for e, edge in case.plain.edges.items() if wanted(edge)]
    assume(edges)
    return edges[seed % len(edges)]


@given(cases(), st.integers(0, 1000))
def test_generating_an_edge(case, seed):
    net, before = case.plain, rows_of(case)
    state, plan = state_of(case.network), build_plan(case.network)
    terms = [t for u in net.units for t in naive.terms_of(net, u)]
    t = terms[seed % len(terms)]
    sources = list(range(net.n_inputs))
    sources += [net.n_inputs + u for u in net.units if not naive.reaches(net, t // 2, u)]
    source = sources[seed // len(terms) % len(sources)]
    e = generate_edge(state, plan, new_log(), source, t, 0.0, 5)
    assert case.network.edges["weight"][e] == 0
    after = rows_of(case)
    assert before.keys() == after.keys()
    assert_unchanged(before, after)


@given(cases(), st.integers(0, 3), st.integers(0, 1000))
def test_replacing_linear_nodes(case, n_kept, seed):
    """One node loses its modulation, and all but a few of its in-edges."""
    net = case.plain
    hidden = [u for u, unit in net.units.items() if unit.kind == "modulatory"]
    assume(hidden)
    u = hidden[seed % len(hidden)]
    edges = case.network.edges
    edges["source"][edges["term"] == 2 * u + 1] = -1
    edges["source"][np.flatnonzero(edges["term"] == 2 * u)[n_kept:]] = -1
    before = respond(case.network, case.X)
    state, plan, log = state_of(case.network), build_plan(case.network), new_log()
    start, n_edges = edges_of(case.network), case.network.n_edges
    replaced = replace_linear_nodes(state, plan, log, preset("default").constants())
    np.testing.assert_allclose(respond(state.network, case.X), before, rtol=1e-9, atol=1e-9)
    assert state.network.n_edges <= n_edges - replaced
    history = History(log.events[: log.written[0]])
    effects = list(history.effects(start))  # of one dictionary, which is updated
    assert not replaced or effects[-1][1] == edges_of(state.network)
    n_out = len(naive.out_edges(net, u))
    if n_kept == 0 and n_out and all(net.edges[e].term % 2 == 0 for e in naive.out_edges(net, u)):
        assert replaced


@given(cases(), PRESETS, st.sampled_from([1.0, 2.0, 0.3]), st.integers(0, 1000))
def test_converting_an_edge(case, params, k_w, seed):
    e = pick(case, seed, lambda edge: edge.weight != 0 or params.gate_floor > 0)
    params = params.replace(k_w=k_w)
    before = rows_of(case)
    state, plan = state_of(case.network), build_plan(case.network)
    convert_edge(state, plan, new_log(), e, params.constants())
    after = rows_of(case)
    assert before.keys() < after.keys()
    assert_unchanged(before, after)


@given(cases(), PRESETS, st.floats(-3, 3), st.sampled_from([1.0, 2.0]), st.integers(0, 1000))
def test_the_deltas_of_a_new_gate_are_the_gradients_of_the_edge(case, params, weight, k_w, seed):
    """δ_{k,1} = aᵢ·δⱼ = ∂Cᵐ/∂w_ij, sample by sample; in `default` at weight 0 as well."""
    assume(abs(weight) > 1e-9 or params.gate_floor > 0)
    e = pick(case, seed)
    case.network.edges["weight"][e] = weight
    work, n = run_passes(case).work, len(case.X)
    edge = plain(case.network).edges[e]
    gradient = work.state[edge.source, :n] * work.delta[edge.term, :n]
    state, plan = state_of(case.network), build_plan(case.network)
    k = convert_edge(state, plan, new_log(), e, params.replace(k_w=k_w).constants())
    assert case.network.n_inputs + k == case.network.edges["source"][e]
    delta = run_passes(case).work.delta[2 * k + 1, :n]
    assert delta == pytest.approx(gradient, rel=1e-9, abs=1e-12)


def test_the_deltas_of_a_gate_on_an_edge_of_weight_0():
    """The one weight that chance seldom draws."""
    params = preset("default", precision="float64")
    case = random_case(0)
    for e, edge in case.plain.edges.items():
        network = case.network.copy()
        network.edges["weight"][e] = 0.0
        now = case._replace(network=network)
        work = run_passes(now).work
        gradient = work.state[edge.source, :13] * work.delta[edge.term, :13]
        k = convert_edge(state_of(network), build_plan(network), new_log(), e, params.constants())
        assert run_passes(now).work.delta[2 * k + 1, :13] == pytest.approx(gradient, abs=1e-12)
        assert network.edges["weight"][e] == 1.0
        assert np.abs(run_passes(now).work.term_1[k, :13]).max() < 1e-15


@given(cases(), PRESETS, st.integers(0, 1000), st.integers(2, 4))
def test_building_a_product(case, params, seed, length):
    """A chain of conversions is neutral; the gradient at its end is Σ ∏aδ of all its sources."""
    params = params.replace(gate_floor=1.0)
    rng = np.random.default_rng(seed)
    before, work, n = rows_of(case), run_passes(case).work, len(case.X)
    term = 2 * int(rng.integers(case.network.n_outputs))
    sources = rng.integers(case.network.n_inputs, size=length)
    pull = np.prod(work.state[sources, :n], axis=0) * work.delta[term, :n]
    state, plan, log = state_of(case.network), build_plan(case.network), new_log()
    apply_product(state, plan, log, term, sources.copy(), length, params.constants())
    assert_unchanged(before, rows_of(case))
    last = log.events[log.written[0] - 1]["part"]
    assert case.network.edges["weight"][last] == 0
    gradient = run_passes(case).potential.edges["gradient"][last]
    scale = np.abs(pull).sum() / case.weight.sum() + 1e-3
    assert gradient == pytest.approx(pull.sum() / case.weight.sum(), abs=1e-9 * scale)


@given(cases(), st.integers(0, 1000))
def test_removing_an_edge_of_weight_0(case, seed):
    e = pick(case, seed)
    case.network.edges["weight"][e] = 0.0
    before = rows_of(case)
    state, plan = state_of(case.network), build_plan(case.network)
    remove_edge(state, plan, new_log(), e)
    assert e not in plain(case.network).edges
    after = rows_of(case)
    assert before.keys() == after.keys()
    assert_unchanged(before, after)


@given(cases(min_hidden=1))
def test_removing_a_childless_node(case):
    net = case.plain
    childless = [
        u
        for u, unit in net.units.items()
        if unit.kind == "modulatory" and not naive.out_edges(net, u)
    ]
    assume(childless)
    before = rows_of(case)
    state, plan = state_of(case.network), build_plan(case.network)
    remove_childless_unit(state, plan, new_log(), childless[0])
    left = plain(case.network)
    assert set(net.units) - set(left.units) == {childless[0]}
    assert all(edge.term // 2 != childless[0] for edge in left.edges.values())
    assert_unchanged(before, rows_of(case))


@given(cases(min_hidden=1), st.integers(0, 10))
def test_removing_all_that_is_useless(case, seed):
    """Zero weights, childless nodes, and the out-edges of nodes whose state is 0."""
    network, plan = case.network, build_plan(case.network)
    hidden = np.flatnonzero(network.units["kind"] == MODULATORY)
    silent = [int(u) for u in hidden if is_always_zero(network, plan, u)]
    # Nobody asks what a silent node receives: nothing enters its term 0.
    before = rows_of(case, without=silent)
    state = state_of(network, seed=seed)
    for step in range(100, 110):
        state.clock[0] = step
        prune_zero_edges_and_dead_units(state, plan, new_log(), Params().constants())
        assert not naive.has_cycle(plain(network))
        silent += [int(u) for u in hidden if is_always_zero(network, plan, u)]
        assert_unchanged(
            {k: v for k, v in before.items() if k[1] // (2 - (k[0] == "state")) not in silent},
            rows_of(case),
        )
    assert all(edge.weight != 0 for edge in plain(network).edges.values())


@given(cases(n_samples=(8, 13)), st.sampled_from(["v1", "unrestricted"]), PRESETS)
def test_a_round_of_the_papers_growth(case, ordering, params):
    params = params.replace(R1=0.5, ordering=ordering)
    case = case._replace(network=with_capacity(case.network, 200, 400))
    before, state = rows_of(case), state_of(case.network)
    scratch = scratch_of(state, run_passes(case, 0.01, 0.01), params)
    grow_kernel = {"v1": grow_in_v1_order, "unrestricted": grow_unrestricted}[ordering]
    grow_kernel(state, scratch, params.constants())
    assert not naive.has_cycle(plain(case.network))
    assert_unchanged(before, rows_of(case))


def grow_once(case, room, quota, **changes):
    """Return how many edges a round of our own growth adds, and what it did."""
    params = preset("default", significance=0.3, precision="float64", **changes)
    found, log = run_passes(case, 0.01), new_log()
    args = found.plan, found.work, log, params.constants(), room, quota
    return grow_by_gain(state_of(case.network), *args), written(log)


def with_a_product_to_find(case):
    """Return the case with a first target that a product of inputs tells."""
    case.y[:, 0] = case.X[:, 0] * case.X[:, -1] > 0.3
    return case._replace(network=with_capacity(case.network, 200, 400))


@given(
    cases(pairs=PAIRS[:3], n_samples=(40, 261)),
    st.booleans(),
    st.integers(1, 200),
    st.integers(1, 20),
)
def test_a_round_of_our_own_growth(case, outputs_as_sources, room, quota):
    case = with_a_product_to_find(case)
    net, before = case.plain, rows_of(case)
    added, _ = grow_once(case, room, quota, outputs_as_sources=outputs_as_sources)
    after = plain(case.network)
    assert len(after.edges) - len(net.edges) == added <= room
    assert not naive.has_cycle(after)
    assert_unchanged(before, rows_of(case))


def test_rounds_of_our_own_growth_meet_every_process():
    """The property above would be worth little if nothing happened."""
    kinds = set()
    for seed in range(30):
        case = with_a_product_to_find(random_case(seed, n_samples=261))
        kinds |= {tuple(event[0] for event in grow_once(case, 200, 1)[1])}
    assert ("edge",) in kinds
    assert ("ENC", "edge") in kinds  # a product with a source that feeds already
    assert ("edge", "ENC", "edge") in kinds
    assert any(kind.count("edge") > 2 for kind in kinds)  # all significant sources at once


def test_two_products_of_one_round_close_no_cycle():
    """With outputs as sources: the first output into the second, and the second into the first."""
    case = random_case(0, n_hidden=0, n_outputs=2, density=0.0, spare=20)
    network = case.network
    params = preset("default", outputs_as_sources=True, precision="float64")
    state, plan = state_of(network), build_plan(network)
    assert network.units["kind"][:2].tolist() == [OUTPUT] * 2
    choice = new_choice(4, network.n_inputs + 2)
    choice.products[0, :2] = network.n_inputs + 1, 0
    choice.products[2, :2] = network.n_inputs + 0, 1
    choice.gain[:], choice.length[:] = [2.0, 0, 1.0, 0], [2, 0, 2, 0]
    apply_best(state, plan, new_log(), params.constants(), 100, 100, choice)
    assert not naive.has_cycle(plain(network))
