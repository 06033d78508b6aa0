"""The flat arrays and the order derived from them, against brute force."""

import numpy as np
import pytest
from hypothesis import given

import naive
from dirad.core.edits import copy_into, free_edge, free_unit, new_edge, new_unit
from dirad.core.network import (
    FREE,
    MODULATORY,
    N_EDGES,
    N_UNITS,
    new_network,
    with_capacity,
)
from dirad.core.order import LENGTH, build_plan, fill_reachability, mark_ancestors, mark_descendants
from networks import cases, edges_of, random_case


def test_a_new_network_has_inputs_and_outputs_alone():
    network = new_network(3, 2)
    assert (network.n_inputs, network.n_outputs) == (3, 2)
    assert (network.n_edges, network.n_hidden) == (0, 0)
    assert not network.bias.any()


def test_parts_take_the_lowest_free_place_and_keep_their_number():
    network = new_network(2, 1, unit_capacity=4, edge_capacity=4)
    assert [new_edge(network, s, 0, 0.5) for s in (0, 1, 0)] == [0, 1, 2]
    free_edge(network, 1)
    assert edges_of(network) == {0: (0, 0), 2: (0, 0)}
    assert new_edge(network, 1, 0, 2.0) == 1
    assert network.counts[N_EDGES] == 3
    assert new_unit(network, 2.0, 0.25) == 1
    assert new_unit(network, 3.0, 0.5) == 2
    free_unit(network, 1)
    assert network.units["kind"][1] == FREE
    assert network.units["kind"][2] == MODULATORY
    assert new_unit(network, 4.0, 0.75) == 1
    assert network.units["gain"][1] == 4.0
    assert network.bias[1].tolist() == [0.0, 0.75]
    assert network.counts[N_UNITS] == 3


def test_capacity_and_copies_change_nothing_else():
    network = random_case(0).network
    wide = with_capacity(network, 100, 200)
    assert len(wide.units) == 100
    assert len(wide.edges) == 200
    assert edges_of(wide) == edges_of(network)
    assert (wide.n_hidden, wide.n_biases) == (network.n_hidden, network.n_biases)
    target = network.copy()
    target.bias[:] = 9
    target.edges["weight"] = 9
    assert network.bias.max() < 9
    copy_into(network, target)
    for mine, theirs in zip(network, target, strict=True):
        assert np.array_equal(mine, theirs)


@given(cases(n_samples=(1,)))
def test_sources_come_before_targets(case):
    network, net = case.network, case.plain
    plan = build_plan(network)
    order = plan.order[: plan.status[LENGTH]].tolist()
    assert sorted(order) == sorted(net.units)
    place = {u: i for i, u in enumerate(order)}
    for edge in net.edges.values():
        if edge.source >= net.n_inputs:
            assert place[edge.source - net.n_inputs] < place[edge.term // 2]


@given(cases(n_samples=(1,)))
def test_every_edge_is_listed_once_at_its_term_and_once_at_its_source(case):
    net, plan = case.plain, build_plan(case.network)
    for u in net.units:
        listed = plan.out_edge[plan.out_start[u] : plan.out_start[u + 1]]
        assert listed.tolist() == naive.out_edges(net, u)
        for t in (2 * u, 2 * u + 1):
            listed = plan.in_edge[plan.in_start[t] : plan.in_start[t + 1]]
            assert listed.tolist() == naive.in_edges(net, t)


@given(cases(n_samples=(1,)))
def test_reachability(case):
    network, net = case.network, case.plain
    plan, n = build_plan(network), len(network.units)
    reach = np.ones((n, n), np.bool_)
    fill_reachability(network, plan, reach)
    marked = np.ones(n, np.bool_)
    for u in net.units:
        after = {v for v in net.units if naive.reaches(net, u, v)}
        before = {v for v in net.units if naive.reaches(net, v, u)}
        assert set(np.flatnonzero(reach[u])) == after
        mark_descendants(network, plan, u, marked)
        assert set(np.flatnonzero(marked)) == after
        mark_ancestors(network, plan, u, marked)
        assert set(np.flatnonzero(marked)) == before


@given(cases(n_samples=(1,), min_hidden=2))
def test_a_cycle_is_noticed(case):
    network, net = case.network, case.plain
    assert not naive.has_cycle(net)
    hidden = [u for u in net.units if net.units[u].kind == "modulatory"]
    # An edge between any two nodes closes a cycle exactly where the target reaches the source.
    u, v = hidden[:2]
    new_edge(network, net.n_inputs + u, 2 * v, 1.0)
    if naive.reaches(net, v, u):
        with pytest.raises(ValueError, match="cycle"):
            build_plan(network)
    else:
        build_plan(network)
        new_edge(network, net.n_inputs + v, 2 * u + 1, 1.0)
        with pytest.raises(ValueError, match="cycle"):
            build_plan(network)


def test_a_network_writes_itself_out():
    network = new_network(2, 1, edge_capacity=2)
    new_edge(network, 0, 0, 2.0)
    new_edge(network, 1, 0, -1.0)
    assert network.equations() == ["y0 = logistic(2·x0 − 1·x1)"]
    assert network.equations(["age", "dose"]) == ["y0 = logistic(2·age − 1·dose)"]
