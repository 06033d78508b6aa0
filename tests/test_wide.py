"""Wide networks: the search against brute force, outputs against scikit-learn, and estimators."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_wine, make_moons
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

import dirad
from dirad import DIRADClassifier, DIRADRegressor
from dirad.core.network import LINEAR, LOGISTIC, SOFTMAX
from dirad.estimators.tree_rules import tree_rules
from dirad.estimators.trial import CLEARLY, MATERIAL, held_out_rows, is_better
from dirad.growth.wide import Samples, costs_of_answers, fit_wide, zero_one_losses
from dirad.growth.wide.bins import BINS, Bins, thresholds
from dirad.growth.wide.costs import total_cost, transferred
from dirad.growth.wide.decay import best_decay, leave_one_out_cost
from dirad.growth.wide.draft import Draft
from dirad.growth.wide.gains import corner_gain, gain_on_feeding_source
from dirad.growth.wide.gate import CONSTANT, Gate
from dirad.growth.wide.grow import copied, finished, fit_alike, grow_once, insert
from dirad.growth.wide.pruning import (
    MOST_LOST,
    NEGLIGIBLE,
    average,
    needed,
    remove_negligible_edges,
    without_least,
)
from dirad.growth.wide.rules import rule_gates
from dirad.growth.wide.saturation import begin, begin_like
from dirad.growth.wide.scan import SIDES, Candidate, Search
from dirad.inference import respond

TRANSFERS = (LINEAR, LOGISTIC, SOFTMAX)


def problem(transfer, n=240, n_inputs=4, seed=0):
    """Return samples whose targets depend on thresholds and on a product."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_inputs))
    z = 2.0 * (X[:, 0] > 0.3) - X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=n)
    if transfer == LINEAR:
        targets = np.stack([z, z**2], axis=1)
    elif transfer == LOGISTIC:
        targets = (z > np.median(z))[:, None].astype(float)
    else:
        targets = np.eye(3)[np.digitize(z, np.quantile(z, [0.33, 0.67]))]
    return Samples(X, targets, rng.uniform(0.5, 1.5, n))


def start(samples, transfer, decay, usable):
    """Return a network whose inputs feed the outputs."""
    draft = Draft(samples, transfer, decay, usable)
    draft.solve(12)
    draft.record_cost()
    return draft


def new_draft(transfer, decay=2.0, n_nodes=0):
    samples = problem(transfer)
    draft = start(samples, transfer, decay, np.ones(samples.inputs.shape[1], bool))
    bins = Bins(samples, draft.usable, 0)
    while len(draft.nodes) < n_nodes:
        grow_once(draft, bins)
    return draft


def test_outputs_are_those_of_ridge_regression():
    draft = new_draft(LINEAR, decay=3.0)
    draft.solve(20, 0.0)
    ridge = Ridge(alpha=3.0).fit(*draft.samples[:2], sample_weight=draft.samples.weight)
    np.testing.assert_allclose(draft.weights.T, ridge.coef_, atol=1e-4)
    np.testing.assert_allclose(draft.bias, ridge.intercept_, atol=1e-4)


def test_outputs_are_those_of_logistic_regression():
    draft = new_draft(LOGISTIC, decay=3.0)
    draft.solve(30, 0.0)
    X, targets, weight = draft.samples
    logistic = LogisticRegression(C=1 / 3.0, tol=1e-10, max_iter=1000)
    logistic.fit(X, targets[:, 0], sample_weight=weight)
    np.testing.assert_allclose(draft.weights.T, logistic.coef_, atol=1e-4)


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_solved_outputs_have_no_gradient_left(transfer):
    draft = new_draft(transfer, 2.0, 6)
    draft.solve(20, 0.0)
    design = draft.design()
    residual = (draft.answers() - draft.samples.targets) * draft.samples.weight[:, None]
    gradient = design.T @ residual
    gradient[1:] += draft.decay * draft.weights
    assert np.abs(gradient).max() < 1e-2


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_a_new_node_changes_no_answer(transfer):
    draft = new_draft(transfer)
    before = draft.activations_of(draft.samples.inputs)
    draft.add(Gate(CONSTANT, 0.0, 0.25, ((1, 1.0),), 3.0, 0.2), feeds_outputs=True)
    draft.add(Gate(4, 0.25, 0.0625, ((0, 1.0), (2, 0.5)), -2.0, 0.1), feeds_outputs=True)
    assert np.array_equal(draft.activations_of(draft.samples.inputs), before)


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_the_network_answers_as_the_draft(transfer):
    draft = new_draft(transfer, 1.0, 12)
    assert len(draft.nodes) >= 12
    X = np.random.default_rng(1).normal(size=(50, 4))
    answers = transferred(draft.activations_of(X), transfer)
    np.testing.assert_allclose(respond(draft.network(), X), answers, atol=1e-10)


def test_the_history_ends_with_the_network():
    draft = new_draft(SOFTMAX, 1.0, 10)
    network, history = draft.network(), draft.history()
    edges = {i: (int(e["source"]), int(e["term"])) for i, e in enumerate(network.edges)}
    assert history.topology() == edges
    assert history.edges[-1] == network.n_edges
    assert history.hidden[-1] == network.n_hidden == history.count("gate")
    assert len(history.error) == len(draft.rounds) + 1
    assert history.error[-1] < history.error[0]


def brute_force_gain(feature, residual, curvature, decay, explained):
    """Return u²/(v + decay) of a feature after a weighted regression on the row `explained`."""
    root = np.sqrt(curvature)
    coefficient = np.linalg.lstsq((root * explained)[:, None], root * feature, rcond=None)[0]
    rest = feature - coefficient * explained
    return (rest @ residual) ** 2 / ((rest**2) @ curvature + decay)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_gains_of_gates_are_those_of_their_features(seed):
    rng = np.random.default_rng(seed)
    n, bins = 60, rng.integers(0, 5, 60)
    source, g, h = rng.normal(size=n), rng.normal(size=n), rng.uniform(0.1, 1, n)
    sums = np.array([[(values * (bins <= b)).sum() for b in range(5)]
                     for values in (source * g, source**2 * h)])  # fmt: skip
    found = gain_on_feeding_source(sums[:1], sums[1:], 0.7)[0]
    for b in range(4):
        wanted = brute_force_gain(source * (bins <= b), g, h, 0.7, source)
        assert found[b] == pytest.approx(wanted, rel=1e-6)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from(SIDES))
def test_gains_of_corners_are_those_of_their_features(seed, signs):
    rng = np.random.default_rng(seed)
    n, rows, columns = 80, rng.integers(0, 3, 80), rng.integers(0, 3, 80)
    g, h = rng.normal(size=n), rng.uniform(0.1, 1, n)
    shape = (1, 3, 1, 3)
    sums = [np.array([[(v * (rows <= r) * (columns <= c)).sum() for c in range(3)]
                      for r in range(3)]).reshape(shape) for v in (g, h)]  # fmt: skip
    found = corner_gain(sums[0], sums[1], signs[0], signs[1], 0.5)[0, :, 0]
    for r in range(2):
        for c in range(2):
            step = (rows > r) if signs[0] > 0 else (rows <= r)
            gate = (columns > c) if signs[1] > 0 else (columns <= c)
            feature = step * np.where(gate, 0.75, -0.25)
            rest = feature - (feature @ h) / h.sum()
            wanted = brute_force_gain(feature, g, h, 0.5, np.ones(n))
            if (rest**2) @ h > 1e-2 * h.sum():
                assert found[r, c] == pytest.approx(wanted, rel=1e-6)


def test_rescored_gain_is_the_drop_of_the_cost():
    """With linear outputs the prediction is exact: solving lowers twice the cost by the gain."""
    draft = new_draft(LINEAR)
    draft.solve(10, 0.0)
    bins = Bins(draft.samples, draft.usable, 0)
    best = Search(draft, bins).best(1)[0]
    before = draft.cost(draft.activation)
    node = CONSTANT
    for i, gate in enumerate(best.gates):
        gate = gate if i == 0 else gate._replace(source=node)
        node = draft.add(gate, feeds_outputs=i + 1 == len(best.gates))
    draft.solve(10, 0.0)
    edges = 2 + sum(gate.n_edges for gate in best.gates)
    assert 2 * (before - draft.cost(draft.activation)) == pytest.approx(best.rate * edges, rel=1e-3)


def test_totals_of_bins_with_few_and_with_many_thresholds():
    samples = problem(SOFTMAX)
    samples.inputs[:, 1] = samples.inputs[:, 1] > 0.3  # a category: one threshold
    bins = Bins(samples, np.ones(4, bool), 0)
    values = np.random.default_rng(1).normal(size=(len(bins.rows), 3)).astype(np.float32)
    chosen = np.array([3, 1])
    found = bins.totals(values, chosen)
    for i, j in enumerate(chosen):
        for b in range(BINS):
            wanted = values[bins.bins[:, j] == b].sum(axis=0)
            np.testing.assert_allclose(found[:, i, b], wanted, atol=1e-4)


def test_thresholds_lie_between_values():
    assert thresholds(np.array([3.0, 1.0, 1.0, 2.0])).tolist() == [1.5, 2.5]
    assert len(thresholds(np.zeros(9))) == 0
    values = np.random.default_rng(0).normal(size=1000)
    found = thresholds(values)
    assert len(found) == BINS - 1
    assert not np.isin(found, values).any()
    counts = np.histogram(values, np.r_[-np.inf, found, np.inf])[0]
    assert counts.min() > 20


def test_negligible_edges_are_removed_and_others_stay():
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(500, 2)))[0] * 22
    y = X[:, :1] + 0.1 * rng.normal(size=(500, 1))
    y -= X[:, 1:] * (X[:, 1] @ y[:, 0]) / (X[:, 1] @ X[:, 1])  # the second input explains nothing
    draft = start(Samples(X, y, np.ones(500)), LINEAR, 1.0, np.ones(2, bool))
    remove_negligible_edges(draft, NEGLIGIBLE)
    draft.solve(5)
    assert (draft.weights[:, 0] != 0).tolist() == [True, False]


def test_of_two_equal_features_one_is_removed():
    """Each alone seems superfluous; without both the cost would rise."""
    x = np.random.default_rng(0).normal(size=200)
    X = np.stack([x, x, np.ones(200)], axis=1)
    fisher = X[:, [2, 0, 1]].T @ X[:, [2, 0, 1]] + np.diag([0.0, 1e-3, 1e-3])
    weights = without_least(np.array([0.5, 1.0, 1.0]), fisher, 1.0, 9.0)
    assert sorted(weights) == pytest.approx([0.0, 0.5, 2.0], rel=1e-3)


def test_removed_weights_stay_within_their_budget():
    weights = np.array([0.3, 1.0, 0.9, 0.8, 0.7])  # each removal costs half the square
    kept = without_least(weights, np.eye(5), 1.0, 0.6)
    assert kept.tolist() == [0.3, 1.0, 0.9, 0.0, 0.0]


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_an_average_has_the_mean_activations(transfer):
    drafts = [new_draft(transfer, 2.0 * (i + 1), 3 + 4 * i) for i in range(3)]
    result = average(drafts)
    mean = np.mean([one.activation for one in drafts], axis=0)
    np.testing.assert_allclose(result.activation, mean, atol=1e-12)
    X = result.samples.inputs
    np.testing.assert_allclose(result.activations_of(X), mean, atol=1e-12)
    answers = respond(result.network(), X)
    np.testing.assert_allclose(answers, transferred(mean, transfer), atol=1e-12)


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_a_committee_has_fewer_edges_than_its_members_and_nearly_their_mean(transfer):
    drafts = [new_draft(transfer, 2.0 + i, 12) for i in range(3)]
    mean, result = average(drafts), finished(drafts)
    assert np.count_nonzero(result.weights) < 0.8 * np.count_nonzero(mean.weights)
    lost = result.activations_of(mean.samples.inputs) - mean.activation
    weight, unit = mean.samples.weight, 1.0
    if transfer == LINEAR:
        unit = weight @ (mean.activation - mean.samples.targets) ** 2 / weight.sum()
    quadratic = 0.5 * (mean.curvature(mean.answers()) * lost**2).sum(axis=0) / unit
    assert 0.0 < quadratic.sum() <= MOST_LOST * weight.sum()


def test_other_members_of_a_committee_have_about_the_size_of_the_first():
    samples = problem(LOGISTIC, 600)
    usable, parts = np.ones(4, bool), np.arange(600) % 6
    first = fit_wide(samples, parts == 0, LOGISTIC, 1.0, usable, 0)
    other = fit_alike(samples, parts == 1, first, (0, 1))
    n_nodes = len(first.draft.nodes)  # the last candidates may have two nodes each
    assert 1 < n_nodes <= len(other.nodes) <= 1.5 * n_nodes
    assert other.nodes != first.draft.nodes
    assert other.decay == first.draft.decay
    np.testing.assert_array_equal(other.samples.targets, first.draft.samples.targets)


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_equal_nodes_of_a_committee_become_one(transfer):
    """Also where one network uses a node for others alone, and another for the outputs."""
    drafts = [new_draft(transfer), new_draft(transfer)]
    first = Gate(CONSTANT, 0.0, 0.25, ((1, 1.0),), 3.0, 0.2)
    second = Gate(4, 0.25, 0.0625, ((0, 1.0),), -2.0, 0.1)
    for draft, feeds in zip(drafts, (False, True), strict=True):
        draft.add(first, feeds_outputs=feeds)
        draft.add(second, feeds_outputs=True)
        draft.solve(5)
    result = average(drafts)
    assert result.nodes == [first, second]
    mean = np.mean([one.activation for one in drafts], axis=0)
    np.testing.assert_allclose(result.activation, mean, atol=1e-12)
    again = copied(result, result.samples, needed(result))
    np.testing.assert_allclose(again.activations_of(again.samples.inputs), mean, atol=1e-12)


def test_long_tails_reach_the_outputs_through_nodes_that_saturate():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[0, 1] = 9.0
    X[:, 2] = X[:, 2] > 2.5  # two values are no tail, however rare one of them is
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = X @ [[1.0], [2.0], [0.5]]
    draft = begin(Samples(X, y, np.ones(400)), LINEAR, 1.0, np.ones(3, bool))
    assert draft.feeding_inputs == [0, 2]
    assert [gate.gate for gate in draft.nodes] == [((1, 1.0),)]
    lines = np.zeros((7, 3))
    lines[:, 1] = [0.0, 1.0, 2.0, -1.0, -2.0, 100.0, 200.0]
    answers = draft.activations_of(lines)[:, 0]
    slopes = (answers[1:5] - answers[0]) / lines[1:5, 1]
    np.testing.assert_allclose(slopes, 2.0, rtol=0.05)
    assert answers[6] - answers[5] < 1e-3
    like = begin_like(draft, Samples(X[:200], y[:200], np.ones(200)), 1.0)
    assert like.nodes == draft.nodes
    classes = np.eye(3)[np.digitize(y[:, 0], [-1, 1])]
    several = begin(Samples(X, classes, np.ones(400)), SOFTMAX, 1.0, np.ones(3, bool))
    assert several.nodes == []


def test_the_spread_around_a_threshold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20000, 2))
    X[:, 1] = np.exp(2.0 * X[:, 1])
    samples = Samples(X, X[:, :1], np.ones(len(X)))
    bins = Bins(samples, np.ones(2, bool), 0)
    step = Gate(CONSTANT, 0.0, 0.25, ((0, 1.0),), 1.0, 0.0)
    assert bins.spread_at(step) == pytest.approx(1.0, rel=0.03)
    assert bins.spread_at(step._replace(threshold=1.5)) > 1.5  # fewer samples are there
    lowest = step._replace(gate=((1, 1.0),), threshold=float(np.quantile(X[:, 1], 0.3)))
    assert bins.spread_at(lowest) < 0.1 * X[:, 1].std()


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_a_rule_is_open_where_all_of_its_conditions_hold(seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, size=(150, 4)) / 1.0  # thresholds lie far from all values
    samples = Samples(X, X[:, :1], np.ones(len(X)))
    draft = start(samples, LINEAR, 1.0, np.ones(4, bool))
    bins = Bins(samples, draft.usable, 0)
    rules = []
    for _ in range(4):
        inputs = rng.permutation(4)[: rng.integers(2, 5)].tolist()
        rules.append(
            [(j, int(rng.choice([-1, 1])), float(rng.integers(1, 4) * 2 - 0.5)) for j in inputs]
        )
    for rule in rules:
        insert(draft, Candidate(1.0, rule_gates(tuple(rule), draft, bins), ()))
    steps = {(j, at) for rule in rules for j, _, at in rule}
    assert len(draft.nodes) == len(rules) + len(steps)  # every step once
    for rule, node in zip(rules, draft.features[4:], strict=True):
        for x, state in zip(X, draft.states[:, node], strict=True):
            holds = all((x[j] > at) == (sign > 0) for j, sign, at in rule)
            assert state == pytest.approx(0.75 if holds else -0.25, abs=0.06)


def test_regions_of_a_tree_become_rules():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    inside = (X[:, 0] > 0.5) & (X[:, 2] < 0.0) & (X[:, 3] > -0.5)
    found = tree_rules(X, 1.0 * inside[:, None], np.ones(2000), 0)
    wanted = {(0, 1): 0.5, (2, -1): 0.0, (3, 1): -0.5}
    assert any(
        {(j, sign): at for j, sign, at in rule} == pytest.approx(wanted, abs=0.02) for rule in found
    )


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_the_gain_of_a_rule_is_the_drop_of_the_cost(transfer):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 4))
    inside = (X[:, 0] > 0.0) & (X[:, 1] > 0.0) & (X[:, 2] > 0.0)
    z = X[:, 3] + 0.6 * inside
    targets = z[:, None] if transfer == LINEAR else (z > rng.logistic(size=800))[:, None] * 1.0
    if transfer == SOFTMAX:
        targets = np.hstack([targets, 1.0 - targets])
    samples = Samples(X, targets, np.ones(800))
    draft = start(samples, transfer, 1.0, np.ones(4, bool))
    draft.solve(20, 0.0)
    bins = Bins(samples, draft.usable, 0)
    best = max(Search(draft, bins)._rules(tree_rules), key=lambda one: one.rate)
    cost = draft.cost(draft.activation)
    before = draft.activations_of(X)
    insert(draft, best)
    assert np.array_equal(draft.activations_of(X), before)  # neutral
    draft.solve(30, 0.0)
    gained = best.rate * (sum(gate.n_edges for gate in best.gates) + targets.shape[1])
    drop = 2 * (cost - draft.cost(draft.activation))
    assert drop == pytest.approx(gained, rel=0.15 if transfer == LINEAR else 0.6)
    assert drop > 5.0 if transfer != LINEAR else drop > 0.5 * 0.36 * inside.sum() * 0.8


def test_a_committee_finds_a_rule_of_three_conditions():
    """Pairs of signs say nothing of their product; the eight corners are rules."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2400, 6))
    y = (X[:, 0] > 0) & (X[:, 1] > 0) & (X[:, 2] > 0) | (X[:, 3] > 0.7) & (X[:, 4] > 0.7)
    model = DIRADClassifier(structure="wide", committee=4, random_state=0).fit(X[:1600], y[:1600])
    assert model.score(X[1600:], y[1600:]) > 0.97
    assert {len(np.unique(e["source"])) for e in _gates_on_hidden_nodes(model.network_)} >= {3}


def _gates_on_hidden_nodes(network):
    """Return the edges into term 1 of each node whose term 1 has hidden sources."""
    edges = network.edges
    for unit in range(len(network.units)):
        own = edges[edges["term"] == 2 * unit + 1]
        if len(own) and (own["source"] >= network.n_inputs).all():
            yield own


def test_nodes_without_a_path_to_an_output_are_left_out():
    draft = start(problem(LINEAR), LINEAR, 1.0, np.ones(4, bool))
    draft.add(Gate(CONSTANT, 0.0, 0.25, ((1, 1.0),), 3.0, 0.2), feeds_outputs=False)
    draft.add(
        Gate(CONSTANT, 0.0, 0.25, ((2, 1.0),), 3.0, 0.2), feeds_outputs=True
    )  # its weight stays 0
    draft.add(Gate(4, 0.25, 0.0625, ((0, 1.0),), -2.0, 0.1), feeds_outputs=True)
    draft.rounds, draft.costs = [2, 3], [3.0, 2.0, 1.0]
    draft.weights[-1] = 0.7
    result = copied(draft, draft.samples, needed(draft))
    assert [gate.source for gate in result.nodes] == [CONSTANT, 4]
    assert result.rounds == [1, 2]
    assert result.history().hidden.tolist() == [0, 1, 2]
    X = draft.samples.inputs
    np.testing.assert_array_equal(result.activations_of(X), draft.activations_of(X))


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_a_newton_step_may_start_from_a_known_curvature(transfer):
    drafts = [new_draft(transfer, 1.0, 5) for _ in range(2)]
    for draft, is_known in zip(drafts, (True, False), strict=True):
        known = draft.fishers(draft.design(), draft.curvature(draft.answers()))
        draft.add(Gate(CONSTANT, 0.0, 0.25, ((1, 1.0),), 3.0, 0.2), feeds_outputs=True)
        draft.solve(1, known=known if is_known else None)
    np.testing.assert_allclose(drafts[0].weights, drafts[1].weights, atol=1e-9)


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_recent_curvatures_are_computed_again_when_many_nodes_were_added(transfer):
    draft = new_draft(transfer, 1.0, 12)
    exact = draft.fishers(draft.design(), draft.curvature(draft.answers()))
    recent = draft.recent_fishers()
    assert all(np.linalg.eigvalsh(one).min() > 0 for one in recent)
    same = [np.allclose(one, other) for one, other in zip(recent, exact, strict=True)]
    assert all(same) == (transfer == LINEAR)
    draft._n_fresh = len(exact[0]) // 2
    for one, other in zip(draft.recent_fishers(), exact, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_a_newton_step_with_a_known_matrix_that_is_no_curvature_takes_a_new_one():
    drafts = [new_draft(LOGISTIC, 1.0, 5) for _ in range(2)]
    drafts[0].solve(1, known=[-np.eye(1 + len(drafts[0].features))])
    drafts[1].solve(1)
    np.testing.assert_array_equal(drafts[0].weights, drafts[1].weights)


@pytest.mark.parametrize("transfer", [LOGISTIC, SOFTMAX])
def test_a_newton_step_that_an_older_curvature_misleads_is_taken_again(transfer):
    drafts = [new_draft(transfer, 1.0, 5) for _ in range(2)]
    for draft, is_known in zip(drafts, (True, False), strict=True):
        known = draft.fishers(draft.design(), draft.curvature(draft.answers()))
        draft.weights *= 0.5
        far_too_small = [1e-4 * one for one in known]
        draft.solve(1, known=far_too_small if is_known else None)
    np.testing.assert_array_equal(drafts[0].weights, drafts[1].weights)
    assert drafts[0]._n_fresh == 0  # the next round computes it again


def test_candidates_of_a_kind_are_of_different_places():
    draft = new_draft(LOGISTIC, 1.0, 5)
    bins = Bins(draft.samples, draft.usable, 0)
    search, inputs = Search(draft, bins), np.arange(4)
    for found in (search._steps(inputs)[0], search._gated_nodes(inputs)):
        assert len(found) > 3
        assert len({one.place for one in found}) == len(found)


def test_other_candidates_are_scored_if_the_first_gain_nothing(monkeypatch):
    draft = new_draft(LOGISTIC, 1.0, 5)
    search = Search(draft, Bins(draft.samples, draft.usable, 0))
    rescored, calls = search._rescored, []

    def none_of_the_first(candidates):
        calls.append(len(candidates))
        found = rescored(candidates)
        return [one._replace(rate=-1.0) for one in found] if len(calls) == 1 else found

    monkeypatch.setattr(search, "_rescored", none_of_the_first)
    assert search.best(3)
    assert len(calls) == 2


def test_costs_of_answers():
    p = np.array([[0.9], [0.2]])
    y = np.array([[1.0], [1.0]])
    assert costs_of_answers(p, y, LOGISTIC).tolist() == pytest.approx([-np.log(0.9), -np.log(0.2)])
    assert zero_one_losses(p, y, LOGISTIC).tolist() == [0.0, 1.0]
    q = np.array([[0.7, 0.3], [0.4, 0.6]])
    assert costs_of_answers(q, np.eye(2), SOFTMAX).tolist() == pytest.approx(-np.log([0.7, 0.6]))
    assert zero_one_losses(q, np.eye(2)[::-1], SOFTMAX).tolist() == [1.0, 1.0]
    assert costs_of_answers(p, y, LINEAR).tolist() == pytest.approx([0.005, 0.32])


def test_clearly_better_needs_lower_costs_and_fewer_errors():
    y = np.ones((100, 1))
    test = Samples(np.zeros((100, 1)), y, np.ones(100))
    good, bad = np.full((100, 1), 0.9), np.full((100, 1), 0.9)
    bad[:10] = 0.2
    assert is_better(good, bad, test, LOGISTIC, CLEARLY[LOGISTIC], MATERIAL)
    assert not is_better(bad, good, test, LOGISTIC, CLEARLY[LOGISTIC], MATERIAL)
    assert not is_better(good, good, test, LOGISTIC, CLEARLY[LOGISTIC], MATERIAL)
    unsure = np.full((100, 1), 0.6)  # higher costs, no more errors
    assert not is_better(good, unsure, test, LOGISTIC, CLEARLY[LOGISTIC], MATERIAL)
    mixed = Samples(test.inputs, np.arange(100.0)[:, None] % 2, test.weight)
    assert not is_better(
        mixed.targets, mixed.targets + 0.01, mixed, LINEAR, CLEARLY[LINEAR], MATERIAL
    )  # negligible
    assert is_better(mixed.targets, mixed.targets + 0.3, mixed, LINEAR, CLEARLY[LINEAR], MATERIAL)
    one, two = np.eye(2)[[0]], np.eye(2)[[1]]
    several = Samples(test.inputs, np.repeat(one, 100, axis=0), test.weight)
    good, bad = (np.repeat(0.8 * one + 0.2 * two, 100, axis=0) for _ in range(2))
    bad[:2] = two  # one standard error is enough with several classes, 1.4 are found
    assert is_better(good, bad, several, SOFTMAX, CLEARLY[SOFTMAX], MATERIAL)
    assert not is_better(good, good, several, SOFTMAX, CLEARLY[SOFTMAX], MATERIAL)


def test_folds_do_not_overlap():
    groups = np.arange(60) % 2
    folds = [held_out_rows(60, groups, 3, fold) for fold in range(6)]
    assert np.array_equal(np.sum(folds, axis=0), np.ones(60))


@pytest.mark.parametrize("transfer", TRANSFERS)
def test_leave_one_out_costs_are_those_of_networks_without_the_sample(transfer):
    samples, usable = problem(transfer, n=40), np.ones(4, bool)
    draft = start(samples, transfer, 5.0, usable)
    draft.solve(30, 0.0)
    total = 0.0
    for i in range(40):
        weight = samples.weight.copy()
        weight[i] = 0.0
        one = start(samples._replace(weight=weight), transfer, 5.0, usable)
        one.solve(30, 0.0)
        total += total_cost(one.activation[[i]], samples.take(np.array([i])), transfer)
    exact = {LINEAR: 1e-4, LOGISTIC: 0.02, SOFTMAX: 0.1}[transfer]
    assert leave_one_out_cost(draft) == pytest.approx(total, rel=exact)


def test_more_weight_decay_where_inputs_are_many_and_samples_few():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 30))
    y = 0.5 * X[:, :5].sum(axis=1, keepdims=True) + rng.normal(size=(80, 1))
    few, usable = Samples(X, y, np.ones(80)), np.ones(30, bool)
    assert best_decay(Draft(few, LINEAR, 1.0, usable)) >= 10.0
    clear = few._replace(targets=X @ rng.normal(size=(30, 1)))
    assert best_decay(Draft(clear, LINEAR, 1.0, usable)) == 1.0
    noise = few._replace(targets=X[:, :1] * X[:, 1:2])  # nothing that inputs alone explain
    assert best_decay(Draft(noise, LINEAR, 1.0, usable)) == 1.0
    many = Samples(np.tile(X, (20, 1)), np.tile(y, (20, 1)), np.ones(1600))
    assert best_decay(Draft(many, LINEAR, 1.0, usable)) == 1.0


def test_auto_takes_the_wide_network_of_few_samples_if_a_linear_one_is_better():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 12))
    y = X @ np.full(12, 0.4) + rng.normal(size=90)  # each effect alone is hardly significant
    auto = DIRADRegressor(random_state=0).fit(X, y)
    wide = DIRADRegressor(random_state=0, structure="wide").fit(X, y)
    assert np.array_equal(auto.predict(X), wide.predict(X))


def test_one_in_six_of_each_class_is_held_out():
    groups = np.repeat([0, 1, 2], [60, 12, 5])
    rows = held_out_rows(77, groups, 3)
    assert np.bincount(groups[rows], minlength=3).tolist() == [10, 2, 0]
    assert not np.array_equal(rows, held_out_rows(77, groups, 4))


def additive(n=900, seed=0):
    """Return samples with many weak effects, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n, 12))
    return X, np.sin(2 * X).sum(axis=1) + rng.normal(size=n)


def test_auto_takes_the_wide_network_where_many_effects_add_up():
    X, y = additive(seed=3)
    auto = DIRADRegressor(random_state=0).fit(X[:480], y[:480])
    wide = DIRADRegressor(random_state=0, structure="wide").fit(X[:480], y[:480])
    assert np.array_equal(auto.predict(X), wide.predict(X))
    compact = DIRADRegressor(random_state=0, structure="compact").fit(X[:480], y[:480])
    assert auto.score(X[480:], y[480:]) > compact.score(X[480:], y[480:]) + 0.05


def test_auto_takes_the_compact_network_where_it_is_as_good():
    X, y = make_moons(600, noise=0.2, random_state=0)
    auto = DIRADClassifier(random_state=0).fit(X, y)
    compact = DIRADClassifier(random_state=0, structure="compact").fit(X, y)
    assert auto.n_edges_ == compact.n_edges_ <= 20
    assert np.array_equal(auto.predict_proba(X), compact.predict_proba(X))


def test_a_wide_committee_is_an_average_without_parallel_edges():
    X, y = load_wine(return_X_y=True)
    model = DIRADClassifier(random_state=0, structure="wide", committee=3).fit(X, y)
    ends = [(int(e["source"]), int(e["term"])) for e in model.network_.edges]
    assert len(set(ends)) == len(ends)
    assert model.score(X, y) > 0.98


def test_the_number_of_threads_changes_nothing():
    X, y = additive(300)
    answers = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = DIRADRegressor(random_state=0, structure="wide").fit(X, y)
        answers.append(model.predict(X))
    assert np.array_equal(*answers)


def test_a_wide_network_needs_no_kernel_and_survives_a_file(tmp_path):
    code = f"""
import sys
from sklearn.datasets import load_wine
from dirad import DIRADClassifier, save
X, y = load_wine(return_X_y=True)
model = DIRADClassifier(random_state=0, structure="wide").fit(X, y)
save(model, {str(tmp_path / "wide.dirad")!r})
assert "dirad.growth.structure_round" in sys.modules
from dirad.core.compilation import PendingKernel
assert not PendingKernel.loaded
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    X, y = load_wine(return_X_y=True)
    loaded = dirad.load(tmp_path / "wide.dirad")
    assert np.array_equal(
        loaded.predict_proba(X),
        DIRADClassifier(random_state=0, structure="wide").fit(X, y).predict_proba(X),
    )


def test_wide_networks_of_few_samples_and_of_constant_inputs():
    X = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 1.0], [3.0, 1.0]])
    model = DIRADRegressor(random_state=0, structure="wide").fit(X, [0.0, 1.0, 2.0, 3.0])
    assert model.n_hidden_ == 0
    assert model.network_.n_edges == 1


def test_samples_of_weight_0_do_not_count():
    X, y = additive(300)
    weight = np.r_[np.ones(200), np.zeros(100)]
    wild = y.copy()
    wild[200:] = 1000.0
    # Standardization is of all samples, so that inputs stay the same.
    fits = [
        fit_wide(Samples(X, t[:, None], weight), np.arange(300) % 6 == 5, LINEAR, 1.0,
                 np.ones(12, bool), 0).draft.activations_of(X)
        for t in (y, wild)
    ]  # fmt: skip
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "tall"}, "structure must be one of"),
        ({"structure": "wide", "max_edges": 5}, "cannot be combined with max_edges"),
        ({"structure": "wide", "preset": "paper"}, "cannot be combined with max_edges or preset"),
        ({"structure": "wide", "validation_fraction": 0.2}, "combined with validation_fraction"),
    ],
)  # fmt: skip
def test_impossible_structures_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DIRADClassifier(**options).fit([[0.0], [1.0]], [0, 1])
