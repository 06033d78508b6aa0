"""PREVAL: which nodes predict which, error statistics, and where batches and samples go."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from dirad.core.compose import concatenate_outputs
from dirad.core.network import FREE, LINEAR, LOGISTIC, OUTPUT
from dirad.growth.adapt import adapt, new_data
from dirad.growth.state import new_state, with_output
from dirad.inference import node_states, respond
from dirad.params import preset
from dirad.preval.buffer import Buffer
from dirad.preval.choice import new_system
from dirad.preval.connectivity import allowed_sources, is_output, live_nodes, paths
from dirad.preval.expert import Expert
from dirad.preval.l1 import new_l1
from dirad.preval.learner import Learner
from dirad.preval.paper_model import PaperLearner, best_temperature, with_temperature
from dirad.preval.predictor import fit_state_scaling
from dirad.preval.settings import PRESETS, Settings
from dirad.preval.validation import (
    confident,
    conflict_ratio,
    conflicted,
    error_stats,
    invalid,
    max_invalid_share,
)
from networks import edges_of, random_network
from streams import SETTINGS, WIDTH, digest, learned, samples, system_of

SEEDS = st.integers(0, 2**20)


def reached_from(network, node):
    """Return every node that a node reaches, itself too, by following edges one by one."""
    found, waiting = set(), [node]
    while waiting:
        at = waiting.pop()
        if at not in found:
            found.add(at)
            waiting += [
                network.n_inputs + term // 2
                for source, term in edges_of(network).values()
                if source == at
            ]
    return found


def untrained_l1(network, X, settings, seed):
    """Return an L1 without edges for a finished L0."""
    states = fit_state_scaling(network, X, standardize=settings.standardize)
    return new_l1(states, X, settings, seed)


# ------------------------------------------------------------------ the connectivity rule


@given(SEEDS, st.sampled_from(["strict", "top_down", "apart"]))
def test_allowed_sources_equal_a_brute_force_path_search(seed, connectivity):
    network = random_network(np.random.default_rng(seed), 4, 2, 5, density=0.3, outputs_feed=True)
    nodes = live_nodes(network)
    targets = nodes[~is_output(network, nodes)]
    allowed = allowed_sources(network, targets, nodes, connectivity)
    for i, target in enumerate(targets):
        for j, node in enumerate(nodes):
            expected = target not in reached_from(network, node)
            if connectivity == "top_down":
                expected &= bool(node >= network.n_inputs)
            if connectivity == "apart":
                expected &= node not in reached_from(network, target)
            assert allowed[i, j] == expected
            assert paths(network)[node, target] == (target in reached_from(network, node))


@given(SEEDS, st.sampled_from(["strict", "top_down"]))
def test_no_node_reaches_through_L1_what_it_reaches_through_L0(seed, connectivity):
    """On grown networks: every source of a pathway, however indirect."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, 5, 2, 3, density=0.3)
    settings = SETTINGS["paper"].replace(connectivity=connectivity)
    X = rng.random((40 * settings.l1.batch_size, 5))
    l1 = untrained_l1(network, X[:40], settings, seed)
    l1.step_per_batch(X)
    grown = 0
    for pathway in l1.pathways:
        its, target = pathway.network, l1.states.nodes[pathway.target]
        for column, node in enumerate(l1.states.nodes):
            ends = {v for v in reached_from(its, column) if v >= its.n_inputs}
            outputs = {its.n_inputs + u for u in np.flatnonzero(its.units["kind"] == OUTPUT)}
            if ends & outputs:
                grown += 1
                assert target not in reached_from(network, node)
                assert connectivity == "strict" or node >= network.n_inputs
    assert grown > 0 or connectivity == "top_down"


def test_every_node_but_outputs_is_a_target():
    network = random_network(np.random.default_rng(0), 4, 2, 5)
    X = np.random.default_rng(1).random((40, 4))
    l1 = untrained_l1(network, X, SETTINGS["paper"], 0)
    nodes = l1.states.nodes
    targets = set(nodes[l1.targets].tolist())
    hidden = {4 + u for u in np.flatnonzero(network.units["kind"] != FREE) if u >= 2}
    assert targets == {0, 1, 2, 3} | hidden
    states = l1.states.of(X)
    assert states[:, nodes >= 6].min() == pytest.approx(0.0)
    assert states[:, nodes >= 6].max() == pytest.approx(1.0)


def test_an_unknown_connectivity_is_an_error():
    with pytest.raises(ValueError, match="connectivity must be one of"):
        Settings(connectivity="sideways")
    network = random_network(np.random.default_rng(0))
    with pytest.raises(ValueError, match="sideways"):
        allowed_sources(network, live_nodes(network), live_nodes(network), "sideways")


# ------------------------------------------------------------------ L1


@given(SEEDS, st.integers(1, 4))
def test_stacked_networks_answer_as_they_do_alone(seed, count):
    rng = np.random.default_rng(seed)
    some = [random_network(rng, 4, 1, int(rng.integers(0, 4))) for _ in range(count)]
    X = rng.normal(size=(20, 4))
    together = concatenate_outputs(some)
    assert np.array_equal(respond(together, X), np.hstack([respond(one, X) for one in some]))
    assert together.n_edges == sum(one.n_edges for one in some)
    assert together.n_hidden == sum(one.n_hidden for one in some)


@given(SEEDS)
def test_node_states_are_inputs_and_answers(seed):
    rng = np.random.default_rng(seed)
    network = random_network(rng, 3, 2, 4, transfer=LINEAR)
    X = rng.normal(size=(30, 3))
    assert np.array_equal(node_states(network, X, np.arange(3)), X)
    assert np.array_equal(node_states(network, X, np.array([3, 4])), respond(network, X))


@pytest.mark.parametrize("name", SETTINGS)
def test_threads_change_nothing(name):
    systems = [learned(name, [0, 1], threads=threads) for threads in (1, 2, 5)]
    assert len({digest(system) for system in systems}) == 1


def test_pathways_stop_one_by_one_and_the_unconfident_are_removed():
    system = learned("paper", [0])
    model = system.models[0]
    lengths = model.l1.steps_taken
    assert len(set(lengths)) > 1
    assert max(lengths) == len(model.l1.learning_curves[0])
    assert model.l1.network.n_outputs == len(model.error_stats.mean) == len(model.l1.targets)
    errors = np.array([[0.0, 0.1, 0.3], [0.1, 0.1, 0.1]])  # means 0.05, 0.1, 0.2
    assert confident(errors, 0.1).tolist() == [True, False, False]


# ------------------------------------------------------------------ statistics


@given(st.integers(1, 12), st.integers(0, 6), SEEDS)
def test_statistics_equal_a_naive_twin(n, nodes, seed):
    rng = np.random.default_rng(seed)
    errors, fresh = rng.exponential(size=(n, nodes)), rng.exponential(size=(7, nodes))
    T_conf, T_SV = 1.5, float(rng.uniform(0.01, 0.5))
    known = error_stats(errors, T_conf, T_SV)
    mu = [sum(errors[:, k]) / n for k in range(nodes)]
    sigma = [(sum((e - mu[k]) ** 2 for e in errors[:, k]) / n) ** 0.5 for k in range(nodes)]
    assert known.mean == pytest.approx(mu)
    assert known.deviation == pytest.approx(sigma)

    def ratio(sample):
        bad = [sample[k] > known.mean[k] + T_conf * known.deviation[k] for k in range(nodes)]
        return sum(bad) / nodes if nodes else 0.0

    assert conflict_ratio(fresh, known, T_conf) == pytest.approx([ratio(x) for x in fresh])
    assert conflicted(fresh, known, T_conf).sum() == sum(round(ratio(x) * nodes) for x in fresh)
    assert invalid(fresh, known, T_conf, T_SV).tolist() == [ratio(x) >= T_SV for x in fresh]
    assert known.invalid_share == pytest.approx(sum(ratio(x) >= T_SV for x in errors) / n)
    assert max_invalid_share(known, 0.2) == pytest.approx(1.2 * known.invalid_share)


def test_a_batch_without_a_valid_sample_is_new_whatever_the_share_of_invalid_ones():
    """The paper's limit alone, (1 + ε)·R_IS, would exceed 1 here."""
    rng = np.random.default_rng(0)
    errors = rng.exponential(size=(100, 150))
    known = error_stats(errors, 1.5, 0.01)
    assert known.invalid_share > 5 / 6
    assert 1.2 * known.invalid_share > 1.0
    limit = max_invalid_share(known, 0.2)
    assert invalid(1e9 + errors, known, 1.5, 0.01).mean() > limit
    mixed = np.concatenate([1e9 + errors[1:], np.zeros((1, 150))])
    assert invalid(mixed, known, 1.5, 0.01).mean() <= limit


def test_the_temperature_makes_probabilities_true():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.02, 0.98, 4000)
    y = (rng.random(4000) < p).astype(int)
    true = np.stack([1 - p, p], axis=1)
    assert best_temperature(true, y) == pytest.approx(1.0, abs=0.2)
    overconfident = with_temperature(true, 0.25)
    assert best_temperature(overconfident, y) == pytest.approx(4.0, rel=0.2)
    assert with_temperature(overconfident, 4.0) == pytest.approx(true, abs=1e-6)


# ------------------------------------------------------------------ the system


@pytest.mark.parametrize("name", SETTINGS)
def test_new_tasks_are_detected_and_nothing_is_overwritten(name):
    system = system_of(name)
    X = np.random.default_rng(0).random((200, WIDTH))
    before: list[tuple[bytes, ...]] = []
    for task in range(3):
        system.learn(*samples(task, 12_000), stop_when_stable=True)
        assert system.adapting is None
        assert len(system.models) == task + 1
        now = [
            (m.l0_outputs(X).tobytes(), m.errors(X).tobytes(), m.evaluate(X).score.tobytes())
            for m in system.models
        ]
        assert now[: len(before)] == before
        before = now
    for task in range(3):
        X, y = samples(task, 200, seed=9)
        least = 0.95 if name == "default" else 0.7
        assert np.mean(system.answer(X).route == task) > least
        assert np.mean(system.answer(X).outputs.argmax(axis=1) == y) > least


def test_a_recurring_task_chooses_its_old_model():
    """In `default`: A B A C B opens three models and chooses two of them again."""
    system = learned("default", [0, 1])
    for i, task in enumerate([0, 2, 1]):
        system.learn(*samples(task, 2000, seed=20 + i))
        system.finish(np.zeros((0, WIDTH)), np.zeros(0, np.int64))
    kinds = [
        (event.kind, event.model) for event in system.journal.events if "stable" not in event.kind
    ]
    assert kinds == [("opened", 0), ("opened", 1), ("chosen", 0), ("opened", 2), ("chosen", 1)]
    chosen = next(event for event in system.journal.events if event.kind == "chosen")
    assert chosen.evidence["value"][0] <= chosen.evidence["limit"][0]
    assert chosen.evidence["value"][1] > chosen.evidence["limit"][1]


def test_an_adapting_model_takes_every_batch():
    system = system_of("paper")
    size = system.settings.l0.batch_size
    X, y = samples(0, 5 * size)
    system.learn(X, y)
    system.learn(*samples(3, 5 * size))
    assert len(system.models) == 1
    assert system.journal.batches == 10
    assert isinstance(system.models[0], PaperLearner)


def test_the_validated_model_with_the_least_value_takes_a_batch():
    outcomes = set()
    for seed in range(6):
        settings = SETTINGS["paper"].replace(T_SV=0.05)
        system = new_system(WIDTH, 4, settings, seed=seed)
        system.learn(*samples(0, 12_000), stop_when_stable=True)
        for i in range(10):
            X, y = samples(i % 2, 40, seed=77 + i)
            verdicts = system.judge(X)
            system.learn(X, y)
            known = [v for v in verdicts if v.validated]
            outcomes.add(bool(known))
            if not known:
                assert system.journal.events[-1].kind == "opened"
                break
            assert system.latest == min(known, key=lambda v: v.value).model
    assert outcomes == {True, False}  # the paper's rule raises false alarms, so both are seen


@cache
def uncut():
    """Return a stream of two tasks, and the digest of a system that learned it in one call."""
    X = np.concatenate([samples(task, 800)[0] for task in (0, 1)])
    y = np.concatenate([samples(task, 800)[1] for task in (0, 1)])
    whole = system_of("default")
    whole.learn(X, y)
    return X, y, digest(whole)


@given(st.lists(st.integers(1, 400), min_size=1, max_size=8))
def test_how_a_stream_is_cut_changes_nothing_for_whole_batches(cuts):
    size = SETTINGS["default"].l0.batch_size
    X, y, whole = uncut()
    parts = system_of("default")
    start = 0
    for cut in [*cuts, len(X)]:
        stop = min(start + cut // size * size + size, len(X))
        parts.learn(X[start:stop], y[start:stop])
        start = stop
    parts.learn(X[start:], y[start:])
    assert digest(parts) == whole


def test_a_new_output_changes_no_answer():
    X = np.random.default_rng(0).normal(size=(100, 3))
    y = np.stack([X[:, 0] * X[:, 1] > 0, X[:, 2] > 0], axis=1).astype(float)
    params = preset("default", max_steps=300, settle_steps=50)
    state = new_state(3, 2, transfer=LOGISTIC, n_samples=100)
    state, _ = adapt(state, new_data(X, y, params), params)
    before = respond(state.network, X)
    more = with_output(state.copy())
    answers = respond(more.network, X)
    assert np.array_equal(answers[:, :2], before)
    assert np.array_equal(answers[:, 2], np.full(100, 0.5))
    assert more.network.n_outputs == more.best.n_outputs == 3


def test_a_model_that_adapts_answers_what_is_new_to_the_others():
    system = learned("default", [0])
    X, y = samples(1, 400)
    system.learn(X[:300], y[:300])
    assert system.adapting is not None
    assert np.mean(system.answer(X).route == 1) > 0.8
    assert np.mean(system.answer(samples(0, 200, seed=5)[0]).route == 0) > 0.9


def test_novelty_is_higher_for_what_was_never_seen():
    for name in SETTINGS:
        system = learned(name, [0, 1])
        known = system.novelty(samples(0, 200, seed=3)[0])
        new = system.novelty(samples(2, 200, seed=3)[0])
        assert np.mean(new[:, None] > known[None]) > 0.85


def test_conflicts_show_where():
    system = learned("default", [0, 1])
    X = samples(0, 200, seed=4)[0]
    usual = system.conflicted_inputs(X).mean(axis=0)
    X[:, 3] = 1.0 - X[:, 3]
    strange = system.conflicted_inputs(X)
    assert strange.shape == X.shape
    routed = system.answer(X).route == 0
    assert strange[routed, 3].mean() > usual[3] + 0.3


def test_a_buffer_is_bounded_and_emptied():
    system = system_of("default")
    X, y = samples(0, 1500)
    system.learn(X[:200], y[:200])
    model = system.models[0]
    assert len(model.buffer.X) == len(model.buffer.y) == 200
    for start in range(200, 1500, 50):
        system.learn(X[start : start + 50], y[start : start + 50])
        assert len(model.buffer) <= system.settings.buffer_size
    assert isinstance(system.models[0], Expert)
    held = {type(value) for value in vars(system.models[0]).values()}
    assert not held & {Buffer, Learner}  # an expert keeps no sample


def test_false_alarms_are_as_many_as_promised():
    """Binomial bounds, of 800 batches; those of one model share its held-out samples."""
    promised, batches, alarms = 0.05, 100, 0
    settings = SETTINGS["default"].replace(false_alarms=promised)
    for seed in range(8):
        system = new_system(WIDTH, 0, settings, seed=seed)
        system.learn(*samples(0, 6000, seed=seed), stop_when_stable=True)
        fresh = samples(0, batches * 50, seed=100 + seed)[0].reshape(batches, 50, WIDTH)
        alarms += sum(not system.judge(batch)[0].validated for batch in fresh)
    few, many = binom.ppf([0.001, 0.999], 8 * batches, promised)
    assert few <= alarms <= many


def test_settings_refuse_what_makes_no_sense():
    with pytest.raises(TypeError, match="T_CPP"):
        PRESETS["paper"].replace(T_CPP=1)
    for bad in ({"T_CP": -1.0}, {"T_conf": float("nan")}, {"held_out": 1.0}, {"buffer_size": 10}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            PRESETS["paper"].replace(**bad)
    with pytest.raises(ValueError, match="begin"):
        PRESETS["default"].replace(begin=20_000)
