"""Rules replayed on recorded errors, by hand on small examples."""

import numpy as np
import pytest

from dirad.preval.settings import PRESETS
from dirad.preval.validation import (
    confident,
    error_stats,
    invalid,
    max_invalid_share,
    prediction_error,
)
from experiments.commands import run as run_command
from experiments.paper_rules.combinations import Combination, combinations
from experiments.paper_rules.recordings import Recording, orders
from experiments.paper_rules.rules import (
    OR_ALL,
    PRESET_PAPER,
    VALID,
    Rule,
    Verdicts,
    accuracies,
    any_new,
    is_new,
    outcomes,
    verdicts,
)
from experiments.paper_rules.scores import accuracy_log_likelihood, log_likelihood, paper_outcomes
from experiments.reproduction import published

NO_SAMPLES = np.zeros((0, 4))


def recording(last, later):
    """A model with two targets."""
    last, later = np.array(last, np.float32), np.array(later, np.float32)
    return Recording(last[None], last, last[None], later, last[:0], np.zeros(0), np.zeros(3))


def says(second, third, test=NO_SAMPLES):
    """The verdicts of a model on one batch of each later task, alike for every T_CP."""
    later = np.repeat(np.array([second, third])[:, None, None], 4, axis=2)
    return Verdicts(np.zeros(4), np.zeros(4), later[0], later, test)


def test_the_paper_detected_both_new_tasks_in_most_runs():
    assert paper_outcomes().tolist() == [[7, 6, 5, 5], [1, 0, 1, 2], [0, 2, 2, 1], [0, 0, 0, 0]]


def test_orders_are_the_paper_s_and_begin_with_the_first_run_at_each_T_CP():
    assert len(orders()) == 32
    assert orders()[0] == (0, 9, 1, 7, 3, 2)
    assert orders()[1] == (3, 8, 1, 5, 7, 2)
    assert all(len(set(digits)) == 6 for digits in orders())


def test_a_limit_above_all_samples_never_fires_unless_all_samples_count():
    share, R_IS = np.array([0.99, 1.0]), np.array(0.9)
    assert is_new(share, R_IS, Rule()).tolist() == [False, False]
    assert is_new(share, R_IS, Rule(limit=OR_ALL)).tolist() == [False, True]
    assert is_new(share, R_IS, Rule(limit=VALID)).tolist() == [True, True]
    assert is_new(np.array([0.6, 0.61]), np.array(0.5), Rule()).tolist() == [False, True]
    with pytest.raises(ValueError, match="unknown limit"):
        is_new(share, R_IS, Rule(limit="none"))


def test_verdicts_by_hand():
    # Target 0: errors 0, 0, 0, 0.1 (mean 0.025); μ + 1.5·σ = 0.09. Target 1: mean 0.12, σ = 0.
    last = [[0.0, 0.12], [0.0, 0.12], [0.0, 0.12], [-0.1, 0.12]]
    fresh = [[0.2, 0.12], [0.2, 0.12], [0.0, 0.12], [0.0, 0.5]]
    found = verdicts(recording(last, [[fresh], [last]]), Rule())
    assert found.confident.tolist() == [1, 1, 2, 2]  # at T_CP = 0.05, 0.10, 0.15, 0.20
    assert found.R_IS.tolist() == [0.25] * 4
    assert found.later[0, 0].tolist() == [True] * 4
    assert found.later[1, 0].tolist() == [False] * 4
    # With its sign the error of -0.1 is below the others, and nothing is in conflict.
    assert verdicts(recording(last, [[fresh]]), Rule("prediction − state")).R_IS.tolist() == [0] * 4


def test_one_of_the_rules_is_that_of_the_preset_paper():
    settings = PRESETS["paper"]
    rng = np.random.default_rng(0)
    scale = rng.uniform(0.05, 0.6, 40)
    last, near, far = (factor * scale * rng.normal(size=(100, 40)) for factor in (1, 1.1, 2))
    found = verdicts(recording(last, [[near], [far]]), PRESET_PAPER)
    last, near, far = (errors.astype(np.float32).astype(float) for errors in (last, near, far))
    for column, T_CP in enumerate(published.T_CP):
        errors = prediction_error(last, settings.error)
        chosen = confident(errors, T_CP)
        stats = error_stats(errors[:, chosen], settings.T_conf, settings.T_SV)
        assert found.confident[column] == chosen.sum()
        assert found.R_IS[column] == pytest.approx(stats.invalid_share)
        for later, batch in zip(found.later, (near, far), strict=True):
            own = prediction_error(batch[:, chosen], settings.error)
            share = invalid(own, stats, settings.T_conf, settings.T_SV).mean()
            assert later[0, column] == (share > max_invalid_share(stats, settings.epsilon_IS))
    assert len(set(found.confident)) > 1
    assert found.later.any()
    assert not found.later.all()


def test_the_third_task_is_judged_by_the_models_that_there_are():
    yes, no = says(True, True), says(False, False)
    blind = says(True, False)  # knows the third task
    assert outcomes([yes, yes], 1)[:, 0].tolist() == [1, 0, 0, 0]
    assert outcomes([yes, no], 1)[:, 0].tolist() == [0, 1, 0, 0]
    assert outcomes([blind, yes], 1)[:, 0].tolist() == [0, 1, 0, 0]
    assert outcomes([says(False, True), no], 1)[:, 0].tolist() == [0, 0, 1, 0]
    assert outcomes([no, yes], 1)[:, 0].tolist() == [0, 0, 0, 1]


def test_each_of_several_batches_can_be_new():
    new = np.array([[True], [False], [False], [False]])
    assert any_new(new, 1)[:, 0].tolist() == [True, False, False, False]
    assert any_new(new, 2)[:, 0].tolist() == [True, False, False, True]


def test_ties_go_to_the_newest_or_the_oldest():
    digits = range(6)
    answers = [np.repeat(digits, 50), np.full(300, 2), np.full(300, 4)]  # the oldest is right
    recordings = [recording([[0.0, 0.0]], [])._replace(answers=one) for one in answers]
    models = [says(True, True, test=np.zeros((300, 4)))] * 3

    def accuracy(ties):
        return accuracies(recordings, models, digits, ties)[:, 0].tolist()

    assert accuracy("oldest") == [1, 1, 1]
    assert accuracy("newest") == pytest.approx([1, 1 / 4, 1 / 6])
    assert 1 / 4 < accuracy("random")[2] < 3 / 4
    models[0] = says(True, True, test=np.ones((300, 4)))  # no tie with the first any more
    assert accuracy("oldest") == pytest.approx([1, 1 / 4, 1 / 6])


def test_likelihood_by_hand():
    ours, theirs = np.array([[6.0], [0.0], [0.0], [0.0]]), np.array([[1.0], [1.0], [0.0], [0.0]])
    assert log_likelihood(ours, theirs) == pytest.approx(np.log(0.7) + np.log(0.1))
    runs = np.array([[[0.0], [0.4], [0.6]], [[0.0], [0.6], [0.8]]])
    deviation = 0.02**0.5
    density = -2 * np.log(deviation * np.sqrt(2 * np.pi))
    assert accuracy_log_likelihood(runs, [np.array([[0, 0.5, 0.7]])]) == pytest.approx(density)
    assert np.isfinite(accuracy_log_likelihood(runs[[0, 0]], [np.array([[0, 0.5, 0.7]])]))


def test_no_combination_is_tried_twice():
    assert len(set(combinations())) == len(combinations()) == 236
    assert Combination("strict", "each", PRESET_PAPER) in combinations()


@pytest.mark.parametrize("runs", ["1", "33"])
def test_one_run_has_no_deviation_and_the_paper_has_32(capsys, runs):
    assert run_command(["paper-rules", "--runs", runs]) == 2
    assert "--runs takes 2 to 32" in capsys.readouterr().err
