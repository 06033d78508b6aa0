"""Validation by shards of targets: their votes and sums give the verdict of the whole model."""

import numpy as np
import pytest

from dirad.inference import respond
from dirad.preval.shards import (
    chained,
    input_errors,
    shards,
    verdict_by_squares,
    verdict_by_votes,
    votes,
)
from dirad.preval.validation import squared_sum
from streams import SETTINGS, learned, samples, system_of

COUNTS = (1, 2, 3, 7, 1000)
SIZES = (1, 2, 40, 333)


@pytest.fixture(scope="module")
def systems():
    return {name: learned(name, [0, 1]) for name in SETTINGS}


def batches():
    """Known batches, unknown ones, and a mixed one; of one sample, and of many."""
    for n in SIZES:
        yield from (samples(task, n, seed=9) for task in (0, 1, 5))
    yield tuple(map(np.concatenate, zip(samples(0, 30, seed=9), samples(5, 10), strict=True)))


@pytest.mark.parametrize("n", COUNTS)
@pytest.mark.parametrize("name", SETTINGS)
def test_shards_predict_what_the_whole_predicts(systems, name, n):
    X = samples(0, 50, seed=9)[0]
    for model in systems[name].models:
        parts = [shard.l1.errors(model.scaled(X)) for shard in shards(model, n)]
        assert len(parts) == min(n, len(model.l1.targets))
        assert np.array_equal(np.hstack(parts), model.errors(X))


@pytest.mark.parametrize("n", COUNTS)
def test_votes_give_the_verdict_of_the_papers_rule(systems, n):
    seen = set()
    for model in systems["paper"].models:
        divided = shards(model, n)
        for X, _ in batches():
            found = [votes(shard, X, model.settings.T_conf) for shard in divided]
            verdict = model.judge(X)
            assert repr(verdict_by_votes(model, found)) == repr(verdict)
            assert repr(verdict_by_votes(model, found[::-1])) == repr(verdict)
            seen.add(verdict.validated)
    assert seen == {True, False}


@pytest.mark.parametrize("n", COUNTS)
def test_sums_give_the_verdict_of_our_rule(systems, n):
    seen = set()
    for model in systems["default"].models:
        divided = shards(model, n)
        for X, y in batches():
            errors = [input_errors(shard, model.scaled(X)) for shard in divided]
            inputs = sum(part.shape[1] for part in errors)
            for labels in (y, None):
                verdict = model.judge(X, labels)
                found = verdict_by_squares(model, X, labels, chained(errors), inputs)
                assert repr(found) == repr(verdict)
                seen.add(verdict.validated)
    assert seen == {True, False}


def test_sums_run_from_the_first_node_to_the_last_whatever_the_layout():
    errors = np.random.default_rng(0).normal(size=(20, 300))
    expected = []
    for row in errors.tolist():
        total = 0.0
        for value in row:
            total += value * value
        expected.append(total)
    for layout in (np.ascontiguousarray, np.asfortranarray):
        assert squared_sum(layout(errors)).tolist() == expected
        assert [squared_sum(layout(errors[i : i + 1]))[0] for i in range(20)] == expected
    first = squared_sum(errors[:, :113])
    assert squared_sum(errors[:, 113:], first).tolist() == expected
    assert squared_sum(errors, 0.0).tolist() != (errors**2).sum(axis=1).tolist()  # pairwise


def test_a_model_that_adapts_cannot_be_divided():
    system = system_of("paper")
    system.learn(*samples(0, 200))
    with pytest.raises(ValueError, match="model 0 has no stable L1"):
        shards(system.models[0], 2)


def test_each_mode_predicts_as_if_its_gate_alone_were_open(systems):
    X = samples(0, 50, seed=9)[0]
    for model in systems["default"].models:
        l1, inputs = model.l1, np.flatnonzero(model.l1.predicts_input)
        states = l1.states(model.scaled(X))
        actual = states[:, l1.targets]
        assert l1.n_modes > 1
        sums = l1.squares(model.scaled(X))
        for mode in range(l1.n_modes):
            gates = np.zeros((len(X), l1.n_modes))
            gates[:, mode] = 1.0
            errors = (respond(l1.network, np.hstack([states, gates])) - actual)[:, inputs]
            assert l1.errors_by_mode(model.scaled(X))[:, :, mode] == pytest.approx(errors, abs=1e-9)
            assert sums[:, mode] == pytest.approx((errors**2).sum(axis=1), rel=1e-9)
