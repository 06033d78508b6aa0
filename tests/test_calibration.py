"""What is usual: deviates, chances, the sketch, the buffer, the gates, against naive twins."""

import numpy as np
import pytest
from dirad.preval.buffer_model import BufferModel, Look, power_mean
from dirad.preval.prediction import Pathway, Prediction, alone, gated, likeliest
from dirad.preval.scale import Scale
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

from dirad.core.network import LINEAR
from dirad.growth.adapt import Adaptation
from dirad.growth.state import new_state
from dirad.inference import respond
from dirad.params import preset
from dirad.preval.buffer import UNLABELLED, Buffer
from dirad.preval.calibration import calibrated, least_of, two_sided
from dirad.preval.clusters import find_clusters
from dirad.preval.linear_predictor import LinearPredictor
from dirad.preval.settings import PRESETS

SEEDS = st.integers(0, 2**20)

# ------------------------------------------------------------------ calibration


def chances(size, n_held=400, runs=300, n_groups=2):
    """Return p of batches of skewed scores that differ by group, each with its own calibration."""
    found = []
    for seed in range(runs):
        rng = np.random.default_rng([seed, size])

        def draw(n, rng=rng):
            groups = rng.integers(0, n_groups, n)
            return rng.gamma(0.5, 1.0, n) * (1 + 9 * groups) + 0.01, groups

        held, groups = draw(n_held)
        usual = calibrated(np.log(held), groups, n_groups)
        batch, groups = draw(size)
        found.append(two_sided(usual.z(usual.tally(np.log(batch), groups))))
    return np.array(found)


@pytest.mark.parametrize("size", [20, 100, 500])
def test_chances_of_known_batches_are_uniform_whatever_the_size(size):
    p = chances(size)
    assert kstest(p, "uniform").pvalue > 0.001
    assert np.mean(p < 0.05) == pytest.approx(0.05, abs=0.04)


def test_another_mixture_of_known_groups_is_no_news():
    rng = np.random.default_rng(0)
    held, groups = rng.normal(0, 1, 1000), rng.integers(0, 2, 1000)
    held[groups == 1] += 5
    usual = calibrated(held, groups, 2)
    only = rng.normal(5, 1, 300)
    of_one = np.ones(300, int)
    assert abs(usual.z(usual.tally(only, of_one))) < 3
    assert abs(usual.z(usual.tally(only + 1, of_one))) > 8


def test_a_group_of_few_is_judged_with_all():
    logs = np.random.default_rng(0).normal(size=200)
    groups = np.zeros(200, int)
    groups[:3] = 1
    usual = calibrated(logs, groups, 2)
    assert usual.samples.tolist() == [197, 200]
    assert usual.row.tolist() == [0, 1]
    # A new sample is below the least of 200 with a chance of 1/201, and so for all of them.
    assert usual.quantiles[1, [0, 50, 100]] == pytest.approx(np.quantile(logs, [0.0, 0.5, 1.0]))


@pytest.mark.parametrize("n_held", [20, 50, 125, 500])
def test_deviates_of_known_samples_are_as_spread_out_as_they_should_be(n_held):
    """However few were held out: a spread of 1.07 would be 0.064 alarms where 0.05 are promised."""
    rng = np.random.default_rng(n_held)
    squares, means = [], []
    for _ in range(2000):
        usual = calibrated(rng.exponential(size=n_held), np.zeros(n_held, int), 1)
        fresh = usual.tally(rng.exponential(size=100), np.zeros(100, int))
        means.append(usual.z(fresh))
        squares.append(np.mean(usual.deviates(rng.exponential(size=100), np.zeros(100, int)) ** 2))
    assert np.mean(squares) == pytest.approx(1.0, abs=0.025)
    assert np.mean(np.square(means)) == pytest.approx(1.0, abs=0.12)
    assert np.mean(means) == pytest.approx(0.0, abs=0.1)


def test_a_single_held_out_sample_says_nothing():
    usual = calibrated(np.zeros(1), np.zeros(1, int), 1)
    assert usual.deviates(np.array([-5.0, 0.0, 5.0]), np.zeros(3, int)).tolist() == [0.0, 0.0, 0.0]


def test_a_label_test_of_many_held_out_samples_is_binomial():
    mistakes = {7: (20_000, 1_000_000), 8: (200_000, 1_000_000)}
    usual = calibrated(np.zeros(10), np.zeros(10, int), 1, mistakes)
    y = np.full(100, 7)
    for wrong in (0, 2, 5, 12):
        p = usual.p_labels(y, np.arange(100) < wrong)
        assert p == pytest.approx(least_of(binom.sf(wrong - 1, 100, 0.02)), rel=0.01)
    hard = usual.p_labels(np.full(100, 8), np.arange(100) < 20)
    assert hard > 0.3  # of the harder class so many are usual
    assert usual.p_labels(np.full(3, 9), np.ones(3, bool)) < 1e-6  # a class never seen
    none = calibrated(np.zeros(10), np.zeros(10, int), 1)
    assert none.p_labels(y, np.ones(100, bool)) == 1.0


@pytest.mark.parametrize("values", [1, 4, 30])
def test_scores_that_are_equal_raise_no_alarm(values):
    alarms = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        held, batch = rng.integers(0, values, 200) * 0.7, rng.integers(0, values, 50) * 0.7
        usual = calibrated(held, np.zeros(200, int), 1)
        alarms += two_sided(usual.z(usual.tally(batch, np.zeros(50, int)))) < 0.05
    assert alarms / 200 < 0.1


def test_many_small_groups_are_judged_as_one():
    alarms = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        held, batch = rng.normal(size=100), rng.normal(size=200)
        usual = calibrated(held, rng.integers(0, 10, 100), 10)
        alarms += two_sided(usual.z(usual.tally(batch, rng.integers(0, 10, 200)))) < 0.05
    assert alarms / 300 == pytest.approx(0.05, abs=0.04)


def test_rates_below_the_resolution_do_not_make_everything_known():
    logs = np.random.default_rng(0).normal(size=60)
    usual = calibrated(logs, np.zeros(60, int), 1)
    far = usual.known(np.array([0.0, 10.0]), np.zeros(2, int), 1e-4)
    assert far.tolist() == [True, False]


def test_the_smaller_of_two_chances():
    rng = np.random.default_rng(0)
    p, q = rng.random((2, 4000))
    combined = [least_of(min(a, b)) for a, b in zip(p, q, strict=True)]
    assert kstest(combined, "uniform").pvalue > 0.001
    assert least_of(0.0) == 0.0
    assert least_of(1.0) == pytest.approx(1.0)


# ------------------------------------------------------------------ mistakes


@pytest.mark.parametrize("n_held", [5, 20, 100])
def test_mistakes_raise_no_more_alarms_than_promised_whatever_their_rate(n_held):
    """By all outcomes of held-out samples and of a batch of 60, each with its probability."""
    y = np.zeros(60, int)
    p = np.array(
        [
            [
                calibrated(np.zeros(10), y[:10], 1, {0: (bad, n_held)}).p_labels(
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
    usual = calibrated(np.zeros(10), np.zeros(10, int), 1, {0: (0, 40)})
    y = np.zeros(200, int)
    y[:5] = 1  # 2 % of all samples: with a chance of 0.45 not among 40
    assert usual.p_labels(y, y == 1) > 0.2
    y[:100] = 1
    assert usual.p_labels(y, y == 1) < 1e-6


def learning_model(y, **changes):
    """Return a model that has just taken samples with these labels, and has no answer yet."""
    model = BufferModel(0, 2, PRESETS["default"].replace(**changes), 0, Scale())
    X = np.random.default_rng(0).normal(size=(len(y), 2))
    model.keep(X, y, np.arange(len(y)))
    return model


def seen_of(named):
    nothing = np.zeros(len(named))
    return Look(nothing, nothing, np.zeros(len(named), np.int64), np.asarray(named))


def test_classes_so_many_that_some_are_always_first_seen_are_no_news():
    """Of 1,000 samples of 500 classes an eighth of the next ones is of a class never seen."""
    rng = np.random.default_rng(0)
    model = learning_model(rng.integers(0, 500, 1000))
    y = rng.integers(0, 500, 200)
    nobody = seen_of(np.full(200, -1))
    assert model.p_labels(nobody, y) > 0.01
    assert model.p_labels(nobody, y + 1000) < 1e-10  # none of them was ever seen


def answering(label):
    """Return what a model makes of labels if its L0 says the same of every sample."""
    return lambda X, errors=None: np.tile([float(label), 1.0 - label], (len(X), 1))


def test_mistakes_are_those_of_the_present_l0():
    """One without anything to learn prefers now this class, now that."""
    rng = np.random.default_rng(1)
    model = learning_model(rng.integers(0, 2, 600))
    model.classes, model.taught_by = [0, 1], 500
    y = rng.integers(0, 2, 200)
    for label in (0, 1, 0):
        model._surprises = answering(label)
        assert model.p_labels(seen_of(np.full(200, label)), y) > 0.5
        model.keep(rng.normal(size=(200, 2)), rng.integers(0, 2, 200), np.arange(600, 800))
    assert model.p_labels(seen_of(np.full(200, 1)), y) < 1e-6  # unlike what it says of others


def test_an_l0_that_learned_all_samples_has_none_to_tell_its_mistakes_by():
    """Of the first 50 none is held out: it knows those that later are."""
    y = np.repeat([0, 1], 150)
    wrong = seen_of(1 - y)
    for begin, tested in ((40, False), (60, True)):
        model = learning_model(y, begin=begin)
        model.classes, model.taught_by = [0, 1], begin
        model._surprises = lambda X, errors=None: np.eye(2)[np.ones(len(X), int)]  # says 0
        assert model.mistaken(wrong, y).any() == tested


# ------------------------------------------------------------------ the sketch and the scale


def test_the_sketch_is_regression_of_every_input_on_the_others():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 4)) @ rng.normal(size=(4, 4)) + 3.0
    errors = LinearPredictor(X, 1e-9).errors(X)
    for i in range(4):
        others = np.column_stack([np.ones(5000), np.delete(X, i, axis=1)])
        twin = X[:, i] - others @ np.linalg.lstsq(others, X[:, i], rcond=None)[0]
        assert errors[:, i] == pytest.approx(twin, abs=1e-4)
    mean = LinearPredictor(X, float("inf"))
    assert mean.errors(X) == pytest.approx(X - X.mean(axis=0))
    assert (mean.n_parameters, LinearPredictor(X, 0.1).n_parameters) == (4, 16)


@pytest.mark.parametrize(("samples", "inputs"), [(1, 3), (2, 3), (30, 31), (40, 200)])
def test_of_few_samples_the_sketch_is_the_same_by_products_of_samples(samples, inputs):
    rng = np.random.default_rng(samples)
    X, fresh = rng.normal(size=(samples, inputs)), rng.normal(size=(7, inputs))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    ridge = 0.3 * (1.0 + inputs / samples)
    covariance = np.cov(X.T) if samples > 1 else np.zeros((inputs, inputs))
    precision = np.linalg.inv(covariance + ridge * np.eye(inputs))
    twin = (fresh - X.mean(axis=0)) @ precision / np.diag(precision)
    sketch = LinearPredictor(X, 0.3)
    assert sketch.errors(fresh) == pytest.approx(twin, rel=1e-9, abs=1e-12)
    assert sketch.n_parameters == samples * inputs + 2 * inputs


@pytest.mark.parametrize("times", [1e3, 1e6, 1e8, 1e9])
def test_an_input_that_varies_far_more_than_others_does_not_spoil_the_sketch(times):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 100))
    X[:, 7] *= times
    precision = np.linalg.inv(np.cov(X.T) + 0.3 * (1 + 100 / 60) * np.eye(100))
    twin = (X - X.mean(axis=0)) @ precision / np.diag(precision)
    found = LinearPredictor(X, 0.3).errors(X)
    others = np.arange(100) != 7
    assert found[:, others] == pytest.approx(twin[:, others], rel=1e-6, abs=1e-6)


def test_pixels_share_a_unit_and_inputs_of_other_kinds_have_their_own():
    rng = np.random.default_rng(0)
    pixels = rng.random((300, 6)) * [1, 1, 1, 1, 0.2, 0]
    scale = Scale()
    scale.learn(pixels)
    assert len(set(scale.unit)) == scale.n_stored == 1
    table = rng.random((300, 6)) * [1, 1, 1, 1, 4000, 0]
    scale = Scale()
    scale.learn(table)
    unit = scale.unit
    assert unit[4] > 1000 * unit[0]
    assert unit[5] == pytest.approx(unit[0], rel=0.1)  # does not vary: the usual unit
    scale.learn(pixels)
    assert scale.unit is unit  # decided once for all


# ------------------------------------------------------------------ the buffer


@given(st.lists(st.integers(1, 90), min_size=1, max_size=8), SEEDS)
def test_a_buffer_is_bounded_and_never_mixes_what_is_held_out(sizes, seed):
    buffer = Buffer(1, 100, 0.3, seed)
    first = 0
    fates: dict[int, bool] = {}
    for size in sizes:
        numbers = np.arange(first, first + size)
        buffer.add(numbers[:, None].astype(float), numbers % 3, numbers)
        first += size
        assert len(buffer) == min(first, 100) == len(buffer.y) == len(buffer.number)
        assert np.array_equal(buffer.X[:, 0], buffer.number)
        assert np.array_equal(buffer.y, buffer.number % 3)
        for number, spared in zip(buffer.number.tolist(), buffer.spared.tolist(), strict=True):
            assert fates.setdefault(number, spared) == spared


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


# ------------------------------------------------------------------ modes, gates and sources


def test_modes_lie_within_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat([4, 7, 9], [300, 300, 30])
    X = rng.normal(size=(630, 2)) * 0.1
    X[:150, 0] += 5  # two modes in the first group
    modes = find_clusters(X, groups, 2, 40, seed=1)
    assert sorted(set(modes)) == list(range(modes.max() + 1))
    for mode in set(modes):
        assert len(set(groups[modes == mode])) == 1
    assert len(set(modes[:150])) == 1
    assert modes[0] != modes[200]
    assert len(set(modes[600:])) == 1  # too few to divide
    assert np.array_equal(modes, find_clusters(X, groups, 2, 40, seed=1))


def linear_pathway(target, mode, weights, bias):
    state = new_state(len(weights), 1, transfer=LINEAR)
    used = np.flatnonzero(weights)
    for place, source in enumerate(used):
        state.network.edges[place]["source"] = source
        state.network.edges[place]["term"] = 0
        state.network.edges[place]["weight"] = weights[source]
    state.network.counts[2] = len(used)
    state.network.bias[0, 0] = bias
    return Pathway(target, mode, Adaptation(state, preset("default")))


@given(SEEDS)
def test_an_open_gate_lets_its_pathway_through_and_a_shut_one_nothing(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(2, 3, 4)) * (rng.random((2, 3, 4)) < 0.5)
    biases = rng.normal(size=(2, 3))
    paths = [linear_pathway(t, m, weights[m, t], biases[m, t]) for m in (0, 1) for t in (0, 1, 2)]
    network = gated(paths, [0, 1, 2], 2)
    X = rng.normal(size=(10, 4))
    for mode in (0, 1):
        gates = np.zeros((10, 2))
        gates[:, mode] = 1.0
        answers = respond(network, np.hstack([X, gates]))
        assert answers == pytest.approx(X @ weights[mode].T + biases[mode], abs=1e-9)
    assert respond(network, np.hstack([X, np.zeros((10, 2))])) == pytest.approx(0.0, abs=1e-9)
    assert network.n_hidden == int((weights != 0).any(axis=2).sum())
    paths = alone(network, 2)
    grown = (weights != 0).any(axis=2).T
    assert np.array_equal(paths.unit >= 0, grown)
    assert paths.constant[~grown].tolist() == biases.T[~grown].tolist()
    assert network.bias[paths.unit[grown], 0].tolist() == biases.T[grown].tolist()


@given(SEEDS)
def test_the_power_mean_is_that_of_its_definition(seed):
    rng = np.random.default_rng(seed)
    errors = rng.gamma(1.0, 1.0, (7, 5)) + 1e-3
    for exponent in (0.5, 1.0, 8.0):
        twin = np.mean(errors**-exponent, axis=1) ** (-1.0 / exponent)
        assert power_mean(errors, exponent) == pytest.approx(twin, rel=1e-9)
    assert (power_mean(errors, 8.0) >= errors.min(axis=1)).all()
    assert np.isfinite(power_mean(errors * 1e-150, 8.0)).all()  # where powers would overflow


@given(SEEDS)
def test_the_likeliest_sources_are_the_most_correlated(seed):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(50, 6)) @ rng.normal(size=(6, 6))
    targets = np.array([0, 3])
    chosen = likeliest(states, targets, 3)
    for row, target in zip(chosen, targets, strict=True):
        like = {
            j: abs(np.corrcoef(states[:, j], states[:, target])[0, 1])
            for j in range(6)
            if j != target
        }
        best = sorted(like, key=lambda j: -like[j])[:3]
        assert set(np.flatnonzero(row)) == set(best)
    assert likeliest(states, targets, 5).all()


@given(SEEDS, st.integers(1, 12))
def test_the_closest_are_half_of_the_related_at_most(seed, near):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(100, 5)) @ rng.normal(size=(5, 20)) + rng.normal(size=(100, 20))
    chosen = likeliest(states, np.arange(20), 6, near=near, n_inputs=16)  # four hidden nodes
    for row, target in zip(chosen, range(20), strict=True):
        like = {
            j: abs(np.corrcoef(states[:, j], states[:, target])[0, 1])
            for j in range(20)
            if j != target
        }
        best = sorted(like, key=lambda j: -like[j])
        if target < 16:
            inputs = [j for j in best if j < 16]
            related = [j for j in inputs if like[j] > np.sqrt(2 * np.log(16) / 100)]
            passed = inputs[: min(near, len(related) // 2)]
            best = [j for j in best if j not in passed]
        assert set(np.flatnonzero(row)) == set(best[:6])


def usable_for(l1, target):
    """Return the states that the pathway of a target may grow from."""
    path = next(path for path in l1.pathways if path.target == target)
    return np.flatnonzero(path.adaptation.state.network.usable)


def test_neighbours_among_many_inputs_do_not_predict():
    rng = np.random.default_rng(0)
    smooth = np.cumsum(rng.normal(size=(400, 30)), axis=1)  # neighbours are alike
    X = (smooth - smooth.mean(axis=0)) / smooth.std(axis=0)
    network = new_state(30, 0, seed=0).network
    own = PRESETS["default"].replace(sources=5, modes=1)
    for near, distance in ((0.0, 1), (0.2, 3)):  # of 20 inputs beyond ten: four
        usable = usable_for(Prediction(network, X, own.replace(near=near), 0), 15)
        assert len(usable) == 5
        assert abs(usable - 15).min() == distance
    with pytest.raises(ValueError, match=r"near must be in \[0, 1\)"):
        own.replace(near=1.0)


def test_where_inputs_have_few_relatives_half_of_them_predict():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(500, 10)), 7, axis=1) + 0.5 * rng.normal(size=(500, 70))
    network = new_state(70, 0, seed=0).network
    settings = PRESETS["default"].replace(sources=6, modes=1, near=0.9)
    l1 = Prediction(network, X, settings, 0)
    for target in range(70):  # of six relatives three are passed over
        assert np.count_nonzero(usable_for(l1, target) // 7 == target // 7) == 3
