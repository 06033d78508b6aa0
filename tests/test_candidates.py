"""What a network could still grow: planted candidates are found, finished networks have none."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import make_moons

import naive
from dirad import DIRADClassifier, new_state, preset
from dirad.core.edits import new_edge
from dirad.core.network import LINEAR, LOGISTIC, SOFTMAX, output_units
from dirad.growth.candidates import OutputFit, candidates, thresholds_of
from dirad.growth.conflict import Score, conflicts, states_and_deltas

DEFAULT = preset("default", cost="cross-entropy")
REGRESSION = preset("default", cost="squared")
rng = np.random.default_rng(0)
X = rng.normal(size=(800, 4))


def network_with(edges, transfer=LINEAR, n_outputs=1):
    network = new_state(4, n_outputs, transfer=transfer).network
    for source, term, weight in edges:
        new_edge(network, source, term, weight)
    return network


def best(found, kind):
    return max((one for one in found if one.kind == kind), key=lambda one: one.gain)


def test_evidence_is_that_of_the_naive_twin():
    y = X[:, 0] + X[:, 1] * X[:, 2] + rng.normal(size=800)
    network = network_with([(0, 0, 0.7), (3, 0, -0.2)])
    score = Score(network, 0, X, y, REGRESSION)
    states, deltas = states_and_deltas(network, X, y, REGRESSION)
    own = np.stack([np.ones(800), states[0], states[3]])
    features = np.stack([X[:, 1], X[:, 1] * X[:, 2], 1.0 * (X[:, 0] > 0.3)])
    expected = [naive.source_evidence(own, deltas[0], f) for f in features]
    assert score.evidences(features) == pytest.approx(expected, rel=1e-6)
    assert score.evidences((2 * X[:, 0] + 3)[None])[0] == 0  # nothing that is not there already


@pytest.mark.parametrize("transfer", [LOGISTIC, SOFTMAX, LINEAR])
def test_the_gain_is_that_of_another_optimizer(transfer):
    n_outputs = 3 if transfer == SOFTMAX else 1
    edges = [(0, 0, 0.5), (1, 0, 0.2)] + ([(2, 2, 0.4)] if n_outputs == 3 else [])
    network = network_with(edges, transfer, n_outputs)
    signal = X[:, 0] - 0.8 * X[:, 2] + rng.logistic(size=800)
    y = np.eye(3)[np.digitize(signal, [-1, 1])] if n_outputs == 3 else signal[:, None]
    y = (y > 0).astype(float) if transfer == LOGISTIC else y
    states = np.vstack([X.T, np.zeros((n_outputs, 800))])
    feature = X[:, 2] * (X[:, 2] > 0)
    fit = OutputFit(network, 0, states, y)

    def cost(theta, columns):
        z = np.column_stack([np.ones(800), X[:, :2], feature])[:, columns] @ theta
        if transfer == LINEAR:
            return 800 * np.log(np.sum((z - y[:, 0]) ** 2))
        if transfer == LOGISTIC:
            return 2 * np.sum(np.log1p(np.exp(z)) - y[:, 0] * z)
        scores = np.column_stack([z, 0.4 * X[:, 2], np.zeros(800)])
        return 2 * np.sum(np.log(np.exp(scores).sum(axis=1)) - (y * scores).sum(axis=1))

    values = [minimize(cost, np.zeros(k), args=(list(range(k)),), tol=1e-10).fun for k in (3, 4)]
    assert fit.gain(feature) == pytest.approx(values[0] - values[1], rel=1e-3)
    promised = fit.promised_gains(feature[None])[0]
    assert promised == pytest.approx(fit.gain(feature), rel=1e-6 if transfer == LINEAR else 0.15)
    assert len(output_units(network)) == n_outputs


def test_a_planted_step_is_found():
    y = np.where(X[:, 2] > 0.4, 1.0, -1.0) + 0.3 * rng.normal(size=800)
    found = candidates(network_with([(2, 0, 0.8)]), X, y, REGRESSION, budget=5000)
    step = best(found, "step")
    assert step.significant
    assert step.steps[0].node == 2
    assert step.steps[0].threshold == pytest.approx(0.4, abs=0.1)
    assert step.gain / 2 > max(best(found, kind).gain / 3 for kind in ("gated edge", "product"))


def test_a_planted_gated_edge_is_found():
    y = X[:, 1] * np.where(X[:, 3] < -0.2, 3.0, -1.0) + 0.3 * rng.normal(size=800)
    found = candidates(network_with([(1, 0, 0.5)]), X, y, REGRESSION, budget=5000)
    gated = best(found, "gated edge")
    assert gated.significant
    assert gated.sources == (1,)
    assert gated.steps[0].node == 3
    assert gated.steps[0].threshold == pytest.approx(-0.2, abs=0.1)
    assert gated.gain > max(best(found, kind).gain for kind in ("step", "product", "corner"))


def test_the_best_gated_edge_is_the_best_by_brute_force():
    """The source does not feed the output, so that the two levels of the gate, 3 and −1, matter."""
    Z = X[:200, :2] / X[:200, :2].std(axis=0)
    Z -= Z.mean(axis=0)
    y = Z[:, 0] * np.where(Z[:, 1] > 0.3, 3.0, -1.0) + rng.normal(size=200)
    gains = []
    for source in (0, 1):
        for node in (0, 1):
            for threshold in thresholds_of(Z[:, node], 31):
                for high, low in ((3.0, -1.0), (-1.0, 3.0)):
                    feature = Z[:, source] * np.where(Z[:, node] > threshold, high, low)
                    design = np.column_stack([np.ones(200), feature])
                    left = np.linalg.lstsq(design, y, rcond=None)[1][0]
                    gains.append(200 * np.log(np.sum((y - y.mean()) ** 2) / left))
    network = new_state(2, 1, transfer=LINEAR).network
    gated = best(candidates(network, Z, y, REGRESSION), "gated edge")
    assert gated.gain == pytest.approx(max(gains), rel=1e-4)
    assert gated.sources == (0,)
    assert (gated.steps[0].node, gated.steps[0].above) == (1, True)


def test_a_planted_corner_is_found():
    y = 2.0 * (X[:, 0] > 0.2) * (X[:, 1] < 0.1) + 0.3 * rng.normal(size=800)
    found = candidates(network_with([]), X, y, REGRESSION, budget=5000)
    corner = best(found, "corner")
    assert corner.significant
    assert {step.node for step in corner.steps} == {0, 1}
    assert corner.gain > best(found, "step").gain


def test_noise_has_no_significant_candidate():
    y = rng.normal(size=800)
    found = candidates(network_with([(0, 0, 0.0)]), X, y, REGRESSION, budget=5000)
    assert [one.kind for one in found] == [
        "edge",
        "product",
        "product",
        "step",
        "gated edge",
        "corner",
    ]
    assert not any(one.significant for one in found)
    assert found[-1].tried == found[-2].tried == found[-3].tried
    assert found[-1].tried <= 2 * 5000 + 4 * 31


def test_a_network_that_finished_growing_has_no_significant_candidate():
    X, y = make_moons(1000, noise=0.15, random_state=0)
    model = DIRADClassifier(random_state=0).fit(X, y)
    found = candidates(model.network_, X, y, model.params_, budget=20_000)
    assert not any(one.significant for one in found)
    # Before it grew, there were several.
    empty = candidates(new_state(2, 1).network, X, y, model.params_, budget=20_000)
    assert all(best(empty, kind).significant for kind in ("edge", "step", "gated edge", "corner"))


def test_of_hidden_terms_the_score_test_alone_is_known():
    Z, y = make_moons(300, noise=0.2, random_state=1)
    model = DIRADClassifier(random_state=0, max_edges=10).fit(Z, y)
    unit = int(np.flatnonzero(model.network_.units["kind"] == 2)[0])
    found = candidates(model.network_, Z, y, model.params_, term=2 * unit + 1, budget=2000)
    assert [one.gain for one in found] == pytest.approx([one.evidence for one in found])


def test_thresholds_lie_between_different_values():
    assert thresholds_of(np.ones(5), 31).tolist() == []
    assert thresholds_of(np.array([0.0, 1.0, 1.0]), 31).tolist() == [0.5]
    row = np.round(rng.normal(size=1000), 1)
    found = thresholds_of(row, 7)
    assert len(found) == 7
    assert not np.isin(found, row).any()
    shares = [(row <= threshold).mean() for threshold in found]
    assert shares == pytest.approx(np.arange(1, 8) / 8, abs=0.06)


def test_conflicts_say_whether_they_are_chance():
    y = 1.0 * (X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=800) > 0)
    network = network_with([(0, 0, 0.1)], LOGISTIC)
    found = conflicts(network, 0, X, y, DEFAULT, order=1)
    assert found[0].sources == (1,)
    assert found[0].significant
    states, deltas = states_and_deltas(network, X, y, DEFAULT)
    own = np.stack([np.ones(800), states[0]])
    expected = naive.source_evidence(own, deltas[0], X[:, 0] * X[:, 1])
    assert found[0].evidence == pytest.approx(expected, rel=1e-6)
    noise = conflicts(network, 0, X, 1.0 * (rng.normal(size=800) > 0), DEFAULT, order=1)
    assert not noise[0].significant
