"""States forward and deltas backward, against the plain twins."""

import numpy as np
import pytest
from hypothesis import given

import naive
from dirad.core.network import LOGISTIC
from dirad.core.propagate import (
    CROSS_ENTROPY,
    LANES,
    SQUARED,
    TILE,
    load_batch,
    mean_cost,
    new_workspace,
    padded,
)
from dirad.inference import respond
from networks import COST_NAMES, PAIRS, TRANSFER_NAMES, cases, plain, random_case, run_passes


def assert_states_agree(case, work, rtol=1e-9, atol=1e-11):
    net, n = case.plain, len(case.X)
    for m in range(n):
        state, z = naive.states(net, case.X[m])
        for s, a in state.items():
            assert work.state[s, m] == pytest.approx(a, rel=rtol, abs=atol)
        for u, unit in net.units.items():
            if unit.kind == "modulatory":
                assert work.term_0[u, m] == pytest.approx(z[2 * u], rel=rtol, abs=atol)
                second = naive.sigma_1(z[2 * u + 1], unit.gain)
                assert work.term_1[u, m] == pytest.approx(second, rel=rtol, abs=atol)


def assert_deltas_agree(case, work, tolerance, rtol=1e-9, atol=1e-11):
    args = (case.plain, case.X, case.y, case.cost_name, tolerance, case.weight)
    _, all_deltas = naive.passes(*args)
    for m, delta in enumerate(all_deltas):
        for t, d in delta.items():
            assert work.delta[t, m] == pytest.approx(d, rel=rtol, abs=atol)


@given(cases())
def test_states(case):
    assert_states_agree(case, run_passes(case).work)


@given(cases())
def test_deltas(case):
    assert_deltas_agree(case, run_passes(case).work, 0.0)


@given(cases())
def test_deltas_with_acceptable_mismatch(case):
    assert_deltas_agree(case, run_passes(case, tolerance=0.3).work, 0.3)


def test_acceptable_mismatch_silences_small_errors_only():
    case = random_case(1, n_hidden=0, n_outputs=1, n_samples=40)
    a = run_passes(case).work.state[case.network.n_inputs, :40]
    delta = run_passes(case, tolerance=0.3).work.delta[0, :40]
    small = np.abs(a - case.y[:, 0]) < 0.3
    assert 0 < small.sum() < 40
    assert np.array_equal(delta == 0, small)


@given(cases())
def test_mean_cost(case):
    plan, work, _ = run_passes(case)
    expected = naive.mean_cost(case.plain, case.X, case.y, case.cost_name, case.weight)
    # Near 0 and 1 the logarithm magnifies the rounding of a response.
    answers = respond(case.network, case.X)
    far = case.cost == SQUARED or (answers.min() > 1e-5 and answers.max() < 1 - 1e-5)
    found = mean_cost(case.network, plan, work, case.cost)
    assert found == pytest.approx(expected, rel=1e-9 if far else 1e-3)


@pytest.mark.parametrize("n", [1, 7, 8, 9, TILE - 1, TILE, TILE + 1, 2 * TILE + 3])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: f"{TRANSFER_NAMES[p[0]]}-{COST_NAMES[p[1]]}")
def test_a_sample_does_not_depend_on_its_batch(n, pair):
    """Padding, lanes and tiles: each sample alone gives what it gives among n."""
    case = random_case(n, n, pair, n_hidden=4)
    work = run_passes(case).work
    assert work.width.tolist() == [n, -(-n // LANES) * LANES]
    units = sorted(case.plain.units)
    nodes = case.network.n_inputs + np.array(units)
    terms = np.array([t for u in units for t in naive.terms_of(case.plain, u)])
    for m in {0, n // 2, n - 1}:
        one = case._replace(X=case.X[[m]], y=case.y[[m]], weight=case.weight[[m]])
        alone = run_passes(one).work
        assert work.state[nodes, m] == pytest.approx(alone.state[nodes, 0], rel=1e-12, abs=1e-14)
        assert work.delta[terms, m] == pytest.approx(alone.delta[terms, 0], rel=1e-12, abs=1e-14)


@given(cases())
def test_padding_is_finite_and_pulls_nothing(case):
    _, work, _ = run_passes(case)
    n, width = work.width
    units = sorted(case.plain.units)
    terms = np.array([t for u in units for t in naive.terms_of(case.plain, u)])
    assert np.isfinite(work.state[case.network.n_inputs + np.array(units), n:width]).all()
    assert not work.delta[terms, n:width].any()


@given(cases(n_samples=(13, 261)))
def test_float32_agrees_with_float64(case):
    exact, fast = run_passes(case).work, run_passes(case, dtype=np.float32).work
    nodes = case.network.n_inputs + np.array(sorted(case.plain.units))
    n = len(case.X)
    scale = 1 + np.abs(exact.state[:, :n]).max()
    assert np.abs(exact.state[nodes, :n] - fast.state[nodes, :n]).max() < 1e-3 * scale


def test_a_batch_too_large_is_refused():
    case = random_case(0)
    work = new_workspace(case.network, LANES)
    with pytest.raises(ValueError, match=f"holds {LANES} samples, not {LANES + 1}"):
        load_batch(work, np.zeros((LANES + 1, 3)))


@given(cases(n_samples=(1, 13)))
def test_respond_gives_the_outputs_in_the_order_of_their_columns(case):
    network = case.network
    columns = np.random.default_rng(0).permutation(network.n_outputs)
    network.units["output"][: network.n_outputs] = columns
    answers = respond(network, case.X)
    assert answers.shape == (len(case.X), network.n_outputs)
    for x, answer in zip(case.X, answers, strict=True):
        state, _ = naive.states(plain(network), x)
        for u, column in enumerate(columns):
            expected = state[network.n_inputs + u]
            assert answer[column] == pytest.approx(expected, rel=1e-9, abs=1e-11)


def test_respond_in_chunks_equals_respond_one_by_one():
    case = random_case(3, n_samples=4 * TILE + 5)
    together = respond(case.network, case.X)
    alone = np.concatenate([respond(case.network, case.X[[m]]) for m in (0, 600, 4 * TILE + 4)])
    assert together[[0, 600, 4 * TILE + 4]] == pytest.approx(alone, rel=1e-12)


def test_logistic_outputs_survive_extreme_activations():
    case = random_case(5, pair=(LOGISTIC, CROSS_ENTROPY), n_hidden=0, density=1.0)
    case.network.edges["weight"] *= 1e6
    for cost in (SQUARED, CROSS_ENTROPY):
        plan, work, _ = run_passes(case._replace(cost=cost))
        assert np.isfinite(work.delta[[0, 2], :13]).all()
        assert np.isfinite(mean_cost(case.network, plan, work, cost))


def test_padded():
    widths = [padded(n) for n in (0, 1, LANES, LANES + 1)]
    assert widths == [0, LANES, LANES, 2 * LANES]
