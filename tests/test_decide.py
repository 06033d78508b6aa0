"""Whose is a batch: decisions on judgements made by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import ndtri

from dirad.preval.buffer import UNLABELLED
from dirad.preval.calibration import RARE_CLASS_KEY, calibrate
from dirad.preval.decide import (
    Judgement,
    Known,
    Mixed,
    NoneCalibrated,
    SomeNew,
    decide,
    one_per_group,
)
from dirad.preval.events import Verdict
from dirad.preval.expert import GROWING_L0, PHASE_STABLE, Scores
from streams import SETTINGS

DEFAULT = SETTINGS["default"]
FAR = 50.0  # ln(error) of samples that a model does not know
HELD_OUT = ndtri(np.arange(1, 401) / 401)  # ln(error) of held-out samples: standard normal
LABEL_ERRORS = {0: (0.0, 200.0), 1: (0.0, 200.0), RARE_CLASS_KEY: (0.0, 400.0)}  # of 400, none
NEVER_WRONG = calibrate(HELD_OUT, np.zeros(400, np.int64), 1, LABEL_ERRORS)


def usual(n):
    """Return ln(error) of n known samples: half of them above the median, half below."""
    return ndtri((np.arange(n) + 0.5) / n)


def judgement(number, logs, *, wrong=None, group=None, classes=(0, 1), phase=PHASE_STABLE, **p):
    """Return what a model makes of samples with these errors, of which some labels are wrong."""
    n = len(logs)
    nothing = np.zeros(n, np.int64)
    model = SimpleNamespace(
        number=number,
        group=number if group is None else group,
        classes=classes,
        frequent_classes=np.array(classes, np.int64),
        phase=phase,
    )
    p = {"p": 0.0, "p_inputs": 0.0, "p_labels": float("nan")} | p
    verdict = Verdict(number, 1.0 - p["p"], 1.0 - DEFAULT.false_alarms, **p)
    scores = Scores(np.exp(logs), logs, nothing, nothing, np.zeros((n, len(classes))))
    wrong = np.zeros(n, bool) if wrong is None else wrong
    return Judgement(model, scores, verdict, wrong, NEVER_WRONG)


def decided(*judgements, y=None, latest=None, settings=DEFAULT):
    n = len(judgements[0].label_errors) if judgements else 10
    y = np.full(n, UNLABELLED) if y is None else y
    return decide(judgements, y, settings, latest)


def test_without_a_calibrated_model_a_batch_is_unknown():
    assert decided() == NoneCalibrated()


def test_a_known_batch_goes_to_the_model_with_the_highest_p_value():
    models = [judgement(number, usual(50), p=p) for number, p in ((3, 0.2), (5, 0.7), (8, 0.0))]
    assert decided(*models) == Known(5, 0.7)


def test_the_model_in_use_keeps_a_batch_that_it_knows():
    models = [judgement(number, usual(50), p=p) for number, p in ((3, 0.2), (5, 0.7), (8, 0.0))]
    assert decided(*models, latest=3) == Known(3, 0.2)
    assert decided(*models, latest=8) == Known(5, 0.7)  # it does not know this one


def test_a_batch_that_two_models_know_together_is_mixed():
    first = np.arange(50) < 30
    logs = np.full((2, 50), FAR)
    logs[0, first], logs[1, ~first] = usual(30), usual(20)
    found = decided(judgement(4, logs[0]), judgement(7, logs[1]))
    assert isinstance(found, Mixed)
    assert found.model.tolist() == np.where(first, 4, 7).tolist()
    assert found.largest == 4
    assert found.p == pytest.approx(0.5, abs=0.01)


def test_a_batch_that_no_model_knows_is_new():
    found = decided(judgement(4, np.full(50, FAR), p=1e-9), judgement(7, np.full(50, FAR)))
    assert isinstance(found, SomeNew)
    assert found.novel.all()
    assert found.p == 1e-9


def test_in_a_partly_known_batch_the_most_unusual_samples_are_new():
    logs = np.concatenate([usual(30), np.full(20, FAR)])
    found = decided(judgement(4, logs))
    assert isinstance(found, SomeNew)
    assert found.novel.tolist() == [False] * 30 + [True] * 20
    assert (found.model == 4).all()


def test_if_fewer_than_a_fifth_of_the_samples_are_known_all_are_new():
    for known, new in ((8, 50), (12, 38)):
        logs = np.concatenate([usual(known), np.full(50 - known, FAR)])
        assert np.count_nonzero(decided(judgement(4, logs)).novel) == new


def test_errors_that_are_too_low_are_new():
    assert decided(judgement(4, np.full(50, -FAR))).novel.all()


def test_known_inputs_with_other_labels_follow_another_rule():
    """Some labels are still right, by chance: even so, all samples are new."""
    wrong = np.arange(60) % 3 > 0
    y = np.arange(60) % 2
    found = decided(judgement(4, usual(60), wrong=wrong, p_inputs=0.5, p_labels=0.0), y=y)
    assert isinstance(found, SomeNew)
    assert found.novel.all()


def test_labels_of_new_classes_tell_which_samples_are_new():
    y = np.where(np.arange(60) < 40, np.arange(60) % 2, 9)
    order = np.random.default_rng(0).permutation(60)
    one = judgement(4, usual(60)[order], wrong=y == 9, p_inputs=0.5, p_labels=0.0)
    assert decided(one, y=y).novel.tolist() == (y == 9).tolist()


def test_a_label_that_only_one_model_predicts_speaks_for_it():
    y = np.repeat([0, 1], 30)
    zeros = judgement(4, usual(60), wrong=y == 1)
    ones = judgement(7, usual(60) + 0.1, wrong=y == 0)
    found = decided(zeros, ones, y=y)
    assert isinstance(found, Mixed)
    assert found.model.tolist() == [4] * 30 + [7] * 30


def test_what_an_expert_without_classes_knows_is_learned_again_when_labels_come():
    y = np.zeros(50, np.int64)
    for phase, again in ((PHASE_STABLE, True), (GROWING_L0, False)):
        one = judgement(4, usual(50), classes=(), phase=phase)
        found = decided(one, y=y)
        assert isinstance(found, SomeNew) == again
        if again:
            assert found.novel.all()
    without = DEFAULT.replace(labels_in_detection=False)
    one = judgement(4, usual(50), classes=())
    assert isinstance(decided(one, y=y, settings=without), Mixed)  # labels do not count


def test_of_models_with_the_same_inputs_the_one_whose_labels_fit_best_takes_part():
    models = [
        judgement(number, usual(50), group=group, p_labels=p)
        for number, group, p in ((0, 0, 0.1), (1, 1, 0.0), (2, 0, 0.4), (3, 0, 0.2))
    ]
    assert [one.model.number for one in one_per_group(models)] == [1, 2]
