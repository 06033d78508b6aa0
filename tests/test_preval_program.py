"""The program of a finished PREVAL model against a naive evaluation, network by network."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from dirad.core.compose import index_gated_parts
from dirad.inference import evaluate, node_states
from dirad.preval.expert import Expert
from dirad.preval.program import CLUSTER_ERRORS, GATES, L0, RESIDUALS, expert_program, l0_program
from dirad.preval.validation import prediction_error
from dirad.program import OUTPUTS, SCORE
from exported_models import ALONE, SYSTEMS, inputs, model

CASES = [(kind, place) for kind in ALONE + SYSTEMS for place in range(1 if kind in ALONE else 2)]
TINY = 1e-12


def close(found, expected):
    """Are results equal up to rounding? Probabilities close to 0 and 1 have few digits."""
    return found == pytest.approx(np.asarray(expected), rel=1e-8, abs=1e-11)


def naive_errors_by_cluster(l1, states):
    """The mean squared error of the inputs, each cluster by itself: (samples, clusters)."""
    inputs = np.flatnonzero(l1.is_input)
    actual = states[:, l1.targets[inputs]]
    if l1.clusters is None:
        errors = [l1.scaled_predictions(states)[:, inputs] - actual]
    else:
        parts = index_gated_parts(l1.network, l1.clusters.n)
        opened = np.hstack([states, np.ones((len(states), l1.clusters.n))])
        errors = []
        for cluster in range(l1.clusters.n):
            predicted = np.empty(actual.shape)
            for i, target in enumerate(inputs):
                unit = parts.unit[target, cluster]
                predicted[:, i] = parts.constant[target, cluster]
                if unit >= 0:
                    node = np.array([l1.network.n_inputs + unit])
                    predicted[:, i] = node_states(l1.network, opened, node)[:, 0]
            errors.append(predicted - actual)
    return np.stack([(e**2).mean(axis=1) + TINY for e in errors], axis=1)


def naive(one, X):
    """Return scores and probabilities of one of our experts."""
    evaluator, l1 = one.evaluator, one.l1
    states = l1.states.of(evaluator.scaling.standardize(X))
    errors = naive_errors_by_cluster(l1, states)
    exponent = l1.error_exponent
    score = np.mean(errors**-exponent, axis=1) ** (-1.0 / exponent)
    p = np.clip(one.l0_outputs(X), TINY, 1.0 - TINY)
    weight_l0, weight_errors = evaluator.evidence_weights
    logits = weight_l0 * np.log(p / (1.0 - p))
    if l1.clusters is not None and l1.clusters.cover(one.classes):
        share = errors**-exponent / (errors**-exponent).sum(axis=1, keepdims=True)
        for column, label in enumerate(one.classes):
            own = l1.clusters.classes == label
            likely = np.maximum(share[:, own].sum(axis=1), TINY)
            logits[:, column] += weight_errors * np.log(likely)
    return score, np.exp(logits - logsumexp(logits, axis=1, keepdims=True))


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_answers_and_score(kind, place):
    one, X = model(kind).models_[place], inputs(kind)[:200].astype(float)
    for details in (False, True):
        found = evaluate(expert_program(one.parts, details=details), X)
        if isinstance(one, Expert):
            score, probabilities = naive(one, X)
        else:
            limits = one.error_stats.mean + one.settings.T_conf * one.error_stats.deviation
            score = (one.errors(X) > limits).mean(axis=1)
            p = np.clip(one.l0_outputs(X), TINY, 1.0 - TINY)
            warm = 1.0 / (1.0 + ((1.0 - p) / p) ** (1.0 / one.temperature))
            probabilities = warm / warm.sum(axis=1, keepdims=True)
        assert close(found[SCORE][:, 0], score)
        assert close(found[OUTPUTS], probabilities)
    scores = one.evaluate(X)
    assert close(scores.score, score)
    assert close(scores.outputs, probabilities)


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_details(kind, place):
    one, X = model(kind).models_[place], inputs(kind)[:200].astype(float)
    program = expert_program(one.parts, details=True)
    found, l1 = evaluate(program, X), one.l1
    assert close(found[L0], one.l0_outputs(X))
    assert close(evaluate(l0_program(one.parts), X)[OUTPUTS], one.l0_outputs(X))
    errors = prediction_error(found[RESIDUALS], one.settings.error)
    assert close(errors, one.errors(X))
    states = l1.states.of(one.network_inputs(X))
    if l1.clusters is None:
        assert found[GATES].shape == (len(X), 0)
    else:
        powers = naive_errors_by_cluster(l1, states) ** -l1.error_exponent
        assert close(found[GATES], powers / powers.sum(axis=1, keepdims=True))
    if isinstance(one, Expert):
        assert close(found[CLUSTER_ERRORS], naive_errors_by_cluster(l1, states))
    only = evaluate(program.only([RESIDUALS]), X)
    assert np.array_equal(only[RESIDUALS], found[RESIDUALS])


@pytest.mark.parametrize("score", ["squared", "conflicts"])
def test_other_scores(score):
    one, X = model("system").models_[0], inputs("system")[:200].astype(float)
    settings = one.settings.replace(score=score)
    evaluator = replace(one.evaluator, settings=settings)
    errors = one.errors(X)
    expected = (errors[:, one.l1.is_input] ** 2).mean(axis=1) + TINY
    if score == "conflicts":
        limits = one.error_stats.mean + settings.T_conf * one.error_stats.deviation
        expected = (errors > limits).mean(axis=1)
    assert close(evaluator.evaluate(X).score, expected)
    for details in (False, True):
        found = evaluate(expert_program(evaluator.parts, details=details), X)
        assert close(found[SCORE][:, 0], expected)


def test_large_offsets_cost_no_digits():
    """Inputs that lie 1e12 spreads from 0, as a model may learn them."""
    X = np.round(inputs("system")[:100].astype(float) * 64) / 64  # adding the shift is then exact
    parts = model("system").models_[0].parts
    scaling = replace(parts.scaling, offset=np.round(parts.scaling.offset * 64) / 64)
    shift = 1e12 * np.ceil(scaling.spread)
    moved = parts._replace(scaling=replace(scaling, offset=scaling.offset + shift))
    expected = evaluate(expert_program(parts._replace(scaling=scaling), details=True), X)
    found = evaluate(expert_program(moved, details=True), X + shift)
    assert np.array_equal(found[SCORE], expected[SCORE])
    assert not np.array_equal(evaluate(expert_program(moved), X + shift)[SCORE], expected[SCORE])
