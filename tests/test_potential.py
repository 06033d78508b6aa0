"""Adaptive potentials and exhaustion against the twins; gradients against finite differences."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import naive
from dirad.core.network import SOFTMAX
from dirad.core.potential import (
    bias_exhausted,
    edge_exhausted,
    edge_gradients,
    new_potential,
    term_gradients,
    total_weight,
)
from dirad.core.propagate import CROSS_ENTROPY, forward, mean_cost
from dirad.inference import respond
from networks import PAIRS, TRANSFER_NAMES, cases, random_case, run_passes

DELTA_MINS = st.sampled_from([0.0, 0.01, 0.1])


@given(cases(), DELTA_MINS)
def test_potentials(case, delta_min):
    net, potential = case.plain, run_passes(case, 0.01, delta_min).potential
    args = (net, case.X, case.y, case.cost_name, 0.01, case.weight)
    all_states, all_deltas = naive.passes(*args)
    weight = sum(case.weight)
    for e in net.edges:
        pulls = naive.pulls_on_edge(net, e, all_states, all_deltas)
        strong = naive.pulls_on_edge(net, e, all_states, all_deltas, delta_min)
        expected = naive.potential(pulls, strong, weight)
        assert list(potential.edges[e]) == pytest.approx(expected, rel=1e-8, abs=1e-12)
    for u in net.units:
        for t in naive.terms_of(net, u):
            pulls = naive.pulls_on_term(t, all_deltas)
            strong = naive.pulls_on_term(t, all_deltas, delta_min)
            expected = naive.potential(pulls, strong, weight)
            assert list(potential.terms[t]) == pytest.approx(expected, rel=1e-8, abs=1e-12)


@given(cases())
def test_gradients_alone_equal_those_of_the_potentials(case):
    plan, work, potential = run_passes(case)
    alone = new_potential(case.network)
    edge_gradients(plan, work, alone)
    term_gradients(case.network, work, alone)
    for mine, theirs in ((alone.edges, potential.edges), (alone.terms, potential.terms)):
        assert mine["gradient"] == pytest.approx(theirs["gradient"], rel=1e-9, abs=1e-13)


@given(cases(weighted=True))
def test_effective_samples_leave_padding_out(case):
    assert total_weight(run_passes(case).work) == pytest.approx(case.weight.sum(), rel=1e-12)


@given(cases(), DELTA_MINS, st.sampled_from([0.0, 1.0, 1.5, 5.0]), st.sampled_from([0.0, 0.1]))
def test_exhaustion(case, delta_min, R1, R2):
    net, potential = case.plain, run_passes(case, 0.01, delta_min).potential
    args = (net, case.X, case.y, case.cost_name, 0.01, case.weight)
    all_states, all_deltas = naive.passes(*args)
    weight = sum(case.weight)
    for e, edge in net.edges.items():
        pulls = naive.pulls_on_edge(net, e, all_states, all_deltas, delta_min)
        if R1 == 1.0 and (min(pulls) >= 0 or max(pulls) <= 0):
            continue  # |net| is one direction's pull: rounding decides
        expected = naive.edge_exhausted(pulls, weight, edge.weight, R1, R2)
        assert edge_exhausted(case.network, potential, e, R1, R2) == expected
    for u in net.units:
        for t in naive.terms_of(net, u):
            pulls = naive.pulls_on_term(t, all_deltas, delta_min)
            if R1 == 1.0 and (min(pulls) >= 0 or max(pulls) <= 0):
                continue
            expected = naive.bias_exhausted(pulls, weight, delta_min, R1)
            assert bias_exhausted(potential, t, delta_min, R1) == expected


def test_exhaustion_is_neither_always_nor_never():
    """The property above meets both answers, for edges and for biases."""
    answers = {"edge": set(), "bias": set()}
    for seed in range(20):
        case = random_case(seed)
        potential = run_passes(case, 0.01, 0.01).potential
        for e in case.plain.edges:
            answers["edge"].add(bool(edge_exhausted(case.network, potential, e, 5.0, 0.1)))
        answers["bias"].add(bool(bias_exhausted(potential, 0, 0.01, 5.0)))
    assert answers == {"edge": {True, False}, "bias": {True, False}}


def test_an_edge_on_which_nothing_pulls_is_exhausted():
    case = random_case(0)
    e = next(iter(case.plain.edges))
    assert edge_exhausted(case.network, new_potential(case.network), e, 5.0, 0.1)


def slope_by_differences(case, plan, work, array, place, h=1e-5):
    """Return ∂C/∂parameter by central differences of the mean cost."""
    before = array[place]
    costs = []
    for shift in (h, -h):
        array[place] = before + shift
        forward(case.network, plan, work)
        costs.append(mean_cost(case.network, plan, work, case.cost))
    array[place] = before
    return (costs[0] - costs[1]) / (2 * h)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{TRANSFER_NAMES[p[0]]}-{p[1]}")
@given(data=st.data())
def test_gradients_are_finite_differences(pair, data):
    case = data.draw(cases(pairs=[pair], n_samples=(1, 13)))
    net = case.plain
    plan, work, potential = run_passes(case)
    if case.cost == CROSS_ENTROPY:
        # Near 0 and 1 the logarithm magnifies the rounding of a response.
        answers = respond(case.network, case.X)
        assume(answers.min() > 1e-3)
        assume(answers.max() < 1 - 1e-3 or pair[0] == SOFTMAX)
    for e in net.edges:
        slope = slope_by_differences(case, plan, work, case.network.edges["weight"], e)
        assert potential.edges["gradient"][e] == pytest.approx(slope, rel=1e-5, abs=1e-7)
    for u in net.units:
        for t in naive.terms_of(net, u):
            slope = slope_by_differences(case, plan, work, case.network.bias, (u, t % 2))
            assert potential.terms["gradient"][t] == pytest.approx(slope, rel=1e-5, abs=1e-7)


def test_the_gradient_points_uphill_in_float32_too():
    case = random_case(2, n_samples=50)
    exact, fast = run_passes(case).potential, run_passes(case, dtype=np.float32).potential
    used = list(case.plain.edges)
    difference = exact.edges["gradient"][used] - fast.edges["gradient"][used]
    assert np.abs(difference).max() < 1e-4
