"""Calibration, linear predictor, buffer, clusters and source selection, against naive twins."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from dirad.core.compose import compose_gated, index_gated_parts
from dirad.inference import Builder, evaluate, respond
from dirad.preval.buffer import UNLABELLED, Buffer
from dirad.preval.calibration import calibrate, sidak
from dirad.preval.clusters import find_clusters
from dirad.preval.input_units import CommonInputUnits
from dirad.preval.learner import new_learner
from dirad.preval.linear_predictor import LinearInputPredictor
from dirad.preval.settings import PRESETS
from dirad.program import Transfer

SEEDS = st.integers(0, 2**20)

# ------------------------------------------------------------------ calibration


def p_values(size, n_held=400, runs=300, n_groups=2):
    """Return p-values of batches of skewed scores that differ by group, one per calibration."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, size])

        def draw(n, rng=rng):
            groups = rng.integers(0, n_groups, n)
            return rng.gamma(0.5, 1.0, n) * (1 + 9 * groups) + 0.01, groups

        held, groups = draw(n_held)
        calibration = calibrate(np.log(held), groups, n_groups)
        batch, groups = draw(size)
        found.append(calibration.p_value(calibration.score_sum(np.log(batch), groups)))
    return np.array(found)


@pytest.mark.parametrize("size", [20, 100, 500])
def test_p_values_of_known_batches_are_uniform_whatever_the_size(size):
    p = p_values(size)
    assert kstest(p, "uniform").pvalue > 0.001
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.04)


def test_another_mixture_of_known_groups_is_known():
    rng = np.random.default_rng(0)
    held, groups = rng.normal(0, 1, 1000), rng.integers(0, 2, 1000)
    held[groups == 1] += 5
    calibration = calibrate(held, groups, 2)
    only = rng.normal(5, 1, 300)
    of_one = np.ones(300, int)
    assert abs(calibration.z(calibration.score_sum(only, of_one))) < 3
    assert abs(calibration.z(calibration.score_sum(only + 1, of_one))) > 8


@pytest.mark.parametrize(("n_held", "n_groups"), [(30, 2), (40, 2), (60, 5)])
def test_groups_of_few_samples_that_differ_raise_no_false_alarms(n_held, n_groups):
    p = p_values(200, n_held, runs=1000, n_groups=n_groups)
    assert np.mean(p < 0.01) <= binom.ppf(0.999, 1000, 0.01) / 1000


def test_a_small_group_is_judged_by_all_samples():
    logs = np.random.default_rng(0).normal(size=200)
    groups = np.zeros(200, int)
    groups[:3] = 1
    calibration = calibrate(logs, groups, 2)
    assert calibration.samples.tolist() == [197, 200]
    assert calibration.row.tolist() == [0, 1]
    # A new sample is below the smallest of 200 with probability 1/201, and so for all of them.
    assert calibration.quantiles[1, [0, 50, 100]] == pytest.approx(
        np.quantile(logs, [0.0, 0.5, 1.0])
    )


def test_samples_that_were_fitted_are_known_when_they_come_again():
    rng = np.random.default_rng(0)
    calibration = calibrate(rng.normal(size=400), np.zeros(400, int), 1)._replace(fitted=-0.5)

    def p_value(mean):
        batch = mean + rng.normal(size=300)
        return calibration.p_value(calibration.score_sum(batch, np.zeros(300, int)))

    assert p_value(-0.3) > 0.5  # some of them are fitted samples, others new
    assert p_value(-0.5) > 0.05
    assert p_value(-1.5) < 1e-10  # far more usual than any sample of the task
    assert p_value(1.0) < 1e-10


@pytest.mark.parametrize("fitted", [0.0, -0.1, -1.0])
def test_p_values_are_uniform_however_low_the_scores_of_fitted_samples(fitted):
    rng = np.random.default_rng(0)
    found = []
    for _ in range(1000):
        known = calibrate(rng.normal(size=300), np.zeros(300, int), 1)._replace(fitted=fitted)
        found.append(known.p_value(known.score_sum(rng.normal(size=100), np.zeros(100, int))))
    assert kstest(found, "uniform").pvalue > 0.001


@pytest.mark.parametrize("n_held", [20, 50, 125, 500])
def test_normal_scores_of_known_samples_have_deviation_one(n_held):
    """However few are held out: a deviation of 1.07 would raise 0.064 alarms instead of 0.05."""
    rng = np.random.default_rng(n_held)
    squares, means = [], []
    for _ in range(2000):
        calibration = calibrate(rng.exponential(size=n_held), np.zeros(n_held, int), 1)
        fresh = calibration.score_sum(rng.exponential(size=100), np.zeros(100, int))
        means.append(calibration.z(fresh))
        squares.append(
            np.mean(calibration.normal_scores(rng.exponential(size=100), np.zeros(100, int)) ** 2)
        )
    assert np.mean(squares) == pytest.approx(1.0, abs=0.025)
    assert np.mean(np.square(means)) == pytest.approx(1.0, abs=0.12)
    assert np.mean(means) == pytest.approx(0.0, abs=0.1)


def test_a_single_held_out_sample_says_nothing():
    calibration = calibrate(np.zeros(1), np.zeros(1, int), 1)
    assert calibration.normal_scores(np.array([-5.0, 0.0, 5.0]), np.zeros(3, int)).tolist() == [
        0.0,
        0.0,
        0.0,
    ]


def test_a_label_test_of_many_held_out_samples_is_binomial():
    errors = {7: (20_000, 1_000_000), 8: (200_000, 1_000_000)}
    calibration = calibrate(np.zeros(10), np.zeros(10, int), 1, errors)
    y = np.full(100, 7)
    for wrong in (0, 2, 5, 12):
        p = calibration.p_labels(y, np.arange(100) < wrong)
        assert p == pytest.approx(sidak(binom.sf(wrong - 1, 100, 0.02)), rel=0.01)
    hard = calibration.p_labels(np.full(100, 8), np.arange(100) < 20)
    assert hard > 0.3  # so many are usual in the harder class
    assert calibration.p_labels(np.full(3, 9), np.ones(3, bool)) < 1e-6  # a class never seen
    none = calibrate(np.zeros(10), np.zeros(10, int), 1)
    assert none.p_labels(y, np.ones(100, bool)) == 1.0


@pytest.mark.parametrize("values", [1, 4, 30])
def test_scores_that_are_equal_raise_no_alarm(values):
    alarms = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        held, batch = rng.integers(0, values, 200) * 0.7, rng.integers(0, values, 50) * 0.7
        calibration = calibrate(held, np.zeros(200, int), 1)
        alarms += calibration.p_value(calibration.score_sum(batch, np.zeros(50, int))) < 0.05
    assert alarms <= binom.ppf(0.999, 1000, 0.05)


def test_many_small_groups_are_judged_as_one():
    """Of three held-out samples each: at the promised rate, and not far below it."""
    alarms = 0
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        held, batch = rng.normal(size=100), rng.normal(size=200)
        calibration = calibrate(held, rng.integers(0, 33, 100), 33)
        alarms += calibration.p_value(calibration.score_sum(batch, rng.integers(0, 33, 200))) < 0.05
    few, many = binom.ppf([0.001, 0.999], 1000, 0.05)
    assert few <= alarms <= many


def test_rates_below_the_resolution_do_not_make_everything_known():
    logs = np.random.default_rng(0).normal(size=60)
    calibration = calibrate(logs, np.zeros(60, int), 1)
    far = calibration.known(np.array([0.0, 10.0]), np.zeros(2, int), 1e-4)
    assert far.tolist() == [True, False]


def test_the_smaller_of_two_p_values_is_corrected():
    rng = np.random.default_rng(0)
    p, q = rng.random((2, 4000))
    combined = [sidak(min(a, b)) for a, b in zip(p, q, strict=True)]
    assert kstest(combined, "uniform").pvalue > 0.001
    assert sidak(0.0) == 0.0
    assert sidak(1.0) == pytest.approx(1.0)


# ------------------------------------------------------------------ label errors


@pytest.mark.parametrize("n_held", [5, 20, 100])
def test_label_errors_raise_no_more_alarms_than_promised_whatever_their_rate(n_held):
    """By all outcomes of held-out samples and of a batch of 60, each with its probability."""
    y = np.zeros(60, int)
    p = np.array(
        [
            [
                calibrate(np.zeros(10), y[:10], 1, {0: (bad, n_held)}).p_labels(
                    y, np.arange(60) < wrong
                )
                for wrong in range(61)
            ]
            for bad in range(n_held + 1)
        ]
    )
    for rate in (0.01, 0.05, 0.1, 0.25, 0.5, 0.9):
        held = binom.pmf(np.arange(n_held + 1), n_held, rate)
        batch = binom.pmf(np.arange(61), 60, rate)
        for promised in (0.05, 0.01, 1e-4):
            assert held @ (p < promised) @ batch <= promised


def test_a_rare_class_is_not_new_because_none_of_it_was_held_out():
    calibration = calibrate(np.zeros(10), np.zeros(10, int), 1, {0: (0, 40)})
    y = np.zeros(200, int)
    y[:5] = 1  # 2 % of all samples: with probability 0.45 none is among 40
    assert calibration.p_labels(y, y == 1) > 0.2
    y[:100] = 1
    assert calibration.p_labels(y, y == 1) < 1e-6


def new_model(y, **changes):
    """Return a learner that has just taken samples whose inputs say nothing of these labels."""
    settings = PRESETS["default"].replace(steps_per_batch=10, **changes)
    model = new_learner(0, 2, settings, 0, CommonInputUnits())
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    model.buffer.add(X, y, np.arange(len(y)))
    model.advance()
    return model


def p_labels(model, label, y):
    """Return the p-value of labels y where the model predicts others."""
    return model.calibration_with_labels.p_labels(y, model.label_errors(np.asarray(label), y))


def test_classes_so_many_that_some_are_always_first_seen_are_not_new():
    """Of 1,000 samples of 500 classes an eighth of the next ones is of a class never seen."""
    rng = np.random.default_rng(0)
    model = new_model(rng.integers(0, 500, 1000))
    y = rng.integers(0, 500, 200)
    none = np.full(200, UNLABELLED)
    assert p_labels(model, none, y) > 0.01
    assert p_labels(model, none, y + 1000) < 1e-10  # none of them was ever seen


def test_label_errors_are_compared_with_those_on_held_out_samples():
    """Where there is nothing to learn, half of the labels differ from the predicted ones."""
    rng = np.random.default_rng(1)
    model = new_model(rng.integers(0, 2, 600))
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 2, 200)
    assert p_labels(model, model.evaluate(X).label, y) > 0.01
    assert p_labels(model, 1 - y, y) < 1e-6


def test_an_l0_that_learned_all_samples_has_no_label_errors():
    """Of the first 50 none is held out: it knows those that later are."""
    y = np.repeat([0, 1], 150)
    for begin, tested in ((40, False), (60, True)):
        model = new_model(y, begin=begin)
        model.l0.labels_at_start = begin
        assert model.label_errors(1 - y, y).any() == tested


# ------------------------------------------------------------------ linear predictor and units


def test_the_linear_predictor_is_regression_of_every_input_on_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 4)) + 3.0
    errors = LinearInputPredictor(X, 1e-9).residuals(X)
    for i in range(4):
        others = np.column_stack([np.ones(5000), np.delete(X, i, axis=1)])
        twin = X[:, i] - others @ np.linalg.lstsq(others, X[:, i], rcond=None)[0]
        assert errors[:, i] == pytest.approx(twin, abs=1e-4)
    mean = LinearInputPredictor(X, float("inf"))
    assert mean.residuals(X) == pytest.approx(X - X.mean(axis=0))
    assert (mean.n_parameters, LinearInputPredictor(X, 0.1).n_parameters) == (4, 16)


@pytest.mark.parametrize(("samples", "inputs"), [(1, 3), (2, 3), (30, 31), (40, 200)])
def test_the_linear_predictor_of_few_samples_equals_the_inverse_covariance(samples, inputs):
    rng = np.random.default_rng(samples)
    X, fresh = rng.normal(size=(samples, inputs)), rng.normal(size=(7, inputs))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    ridge = 0.3 * (1.0 + inputs / samples)
    covariance = np.cov(X.T) if samples > 1 else np.zeros((inputs, inputs))
    precision = np.linalg.inv(covariance + ridge * np.eye(inputs))
    twin = (fresh - X.mean(axis=0)) @ precision / np.diag(precision)
    predictor = LinearInputPredictor(X, 0.3)
    assert predictor.residuals(fresh) == pytest.approx(twin, rel=1e-9, abs=1e-12)
    assert predictor.n_parameters == samples * inputs + 2 * inputs


@pytest.mark.parametrize("times", [1e3, 1e6, 1e8, 1e9])
def test_an_input_that_varies_far_more_than_others_does_not_spoil_the_predictions(times):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 100))
    X[:, 7] *= times
    precision = np.linalg.inv(np.cov(X.T) + 0.3 * (1 + 100 / 60) * np.eye(100))
    twin = (X - X.mean(axis=0)) @ precision / np.diag(precision)
    found = LinearInputPredictor(X, 0.3).residuals(X)
    others = np.arange(100) != 7
    assert found[:, others] == pytest.approx(twin[:, others], rel=1e-6, abs=1e-6)


def test_similar_inputs_share_a_unit_and_others_have_their_own():
    rng = np.random.default_rng(0)
    pixels = rng.random((300, 6)) * [1, 1, 1, 1, 0.2, 0]
    units = CommonInputUnits()
    units.fit_once(pixels)
    assert len(set(units.unit)) == units.n_stored == 1
    table = rng.random((300, 6)) * [1, 1, 1, 1, 4000, 0]
    units = CommonInputUnits()
    units.fit_once(table)
    unit = units.unit
    assert unit[4] > 1000 * unit[0]
    assert unit[5] == pytest.approx(unit[0], rel=0.1)  # constant: the median unit
    units.fit_once(pixels)
    assert units.unit is unit  # learned once


# ------------------------------------------------------------------ the buffer


@given(st.lists(st.integers(1, 90), min_size=1, max_size=8), SEEDS)
def test_a_buffer_is_bounded_and_never_mixes_what_is_held_out(sizes, seed):
    buffer = Buffer(1, 100, 0.3, seed)
    first = 0
    drawn_out: dict[int, bool] = {}
    for size in sizes:
        numbers = np.arange(first, first + size)
        buffer.add(numbers[:, None].astype(float), numbers % 3, numbers)
        first += size
        assert len(buffer) == min(first, 100) == len(buffer.y) == len(buffer.number)
        assert np.array_equal(buffer.X[:, 0], buffer.number)
        assert np.array_equal(buffer.y, buffer.number % 3)
        for number, out in zip(buffer.number.tolist(), buffer.drawn_out.tolist(), strict=True):
            assert drawn_out.setdefault(number, out) == out


def test_a_buffer_is_a_fair_sample():
    kept = np.zeros(1000)
    for seed in range(200):
        buffer = Buffer(1, 100, 0.2, seed)
        buffer.add(np.zeros((1000, 1)), np.zeros(1000, int), np.arange(1000))
        kept[buffer.number] += 1
    assert kept.sum() == 200 * 100
    early, late = kept[:100].mean(), kept[900:].mean()
    assert early == pytest.approx(20, rel=0.25)
    assert late == pytest.approx(20, rel=0.35)


def test_late_labels_find_their_samples():
    buffer = Buffer(1, 50, 0.0, 0)
    buffer.add(np.zeros((30, 1)), np.full(30, UNLABELLED), 100 + np.arange(30))
    buffer.label(np.array([129, 100, 7]), np.array([4, 3, 9]))
    assert buffer.y[[0, 29]].tolist() == [3, 4]
    assert (buffer.y[1:29] == UNLABELLED).all()
    buffer.label(np.zeros(0, int), np.zeros(0, int))


# ------------------------------------------------------------------ clusters and gates


def test_clusters_lie_within_classes():
    rng = np.random.default_rng(0)
    classes = np.repeat([4, 7, 9], [300, 300, 30])
    X = rng.normal(size=(630, 2)) * 0.1
    X[:150, 0] += 5  # two clusters in the first class
    clusters = [own.tolist() for own in find_clusters(X, classes, 2, 40, seed=1)]
    assert sorted(i for own in clusters for i in own) == list(range(630))
    assert [sorted(set(classes[own])) for own in clusters] == [[4], [4], [7], [7], [9]]
    assert list(range(150)) in clusters[:2]
    assert clusters[-1] == list(range(600, 630))  # too few to divide
    again = [own.tolist() for own in find_clusters(X, classes, 2, 40, seed=1)]
    assert clusters == again


@given(SEEDS)
def test_an_open_gate_lets_its_part_through_and_a_closed_one_nothing(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(2, 3, 4)) * (rng.random((2, 3, 4)) < 0.5)
    biases = rng.normal(size=(2, 3))
    sources = np.broadcast_to(np.arange(4), (2, 3, 4))
    network = compose_gated(biases, sources, weights, 4)
    X = rng.normal(size=(10, 4))
    for gate in (0, 1):
        gates = np.zeros((10, 2))
        gates[:, gate] = 1.0
        answers = respond(network, np.hstack([X, gates]))
        assert answers == pytest.approx(X @ weights[gate].T + biases[gate], abs=1e-9)
    assert respond(network, np.hstack([X, np.zeros((10, 2))])) == pytest.approx(0.0, abs=1e-9)
    assert network.n_hidden == int((weights != 0).any(axis=2).sum())
    found = index_gated_parts(network, 2)
    grown = (weights != 0).any(axis=2).T
    assert np.array_equal(found.unit >= 0, grown)
    assert found.constant[~grown].tolist() == biases.T[~grown].tolist()
    assert network.bias[found.unit[grown], 0].tolist() == biases.T[grown].tolist()


def power_mean(errors, exponent):
    builder = Builder(errors.shape[1])
    mean = builder.pooling(Transfer.POWER_MEAN, builder.inputs, exponent)
    return evaluate(builder.program({"mean": mean}), errors)["mean"][:, 0]


@given(SEEDS)
def test_the_power_mean_equals_its_definition(seed):
    rng = np.random.default_rng(seed)
    errors = rng.gamma(1.0, 1.0, (7, 5)) + 1e-3
    for exponent in (0.5, 1.0, 8.0):
        twin = np.mean(errors**-exponent, axis=1) ** (-1.0 / exponent)
        assert power_mean(errors, exponent) == pytest.approx(twin, rel=1e-9)
    assert (power_mean(errors, 8.0) >= errors.min(axis=1)).all()
    assert np.isfinite(power_mean(errors * 1e-150, 8.0)).all()  # where powers would overflow
