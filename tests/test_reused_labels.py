"""Streams whose labels do not tell the task, and what is kept in bytes."""

import numpy as np
import pytest

from dirad.core.network import new_network
from experiments.comparison import plan, tables
from experiments.comparison.data_sets import SPLITS
from experiments.comparison.methods import METHODS
from experiments.comparison.reused import (
    KINDS,
    METHODS_OF,
    NO_LABELS,
    ODD,
    RULES,
    Reused,
    changes_missed,
    measure_reused,
    new_stream,
)
from experiments.comparison.scenario import Scenario, load, standard
from experiments.comparison.size import edge_index_bytes, peer_bytes, system_bytes
from experiments.peers import RanPAC, Replay


def test_odd_or_even_shows_two_labels_in_every_task():
    stream = new_stream(ODD, "digits", 3)
    assert sorted(np.ravel(stream.classes)) == list(range(10))
    for task, pair in enumerate(stream.classes):
        assert [c % 2 for c in pair] == [1, 0]
        own = stream.task == task
        assert set(stream.y[own]) == {0, 1}
        assert own.sum() == standard("digits").per_task
        assert set(stream.y_test[stream.task_test == task]) == {0, 1}
    assert len(stream.y_test) == len(load("digits").y_test)
    rows = {row.tobytes(): label for row, label in zip(*load("digits")[:2], strict=True)}
    truth = np.array([rows[row.tobytes()] for row in stream.X])
    np.testing.assert_array_equal(truth % 2, stream.y)
    assert all(
        set(truth[stream.task == task]) == set(pair) for task, pair in enumerate(stream.classes)
    )
    assert new_stream(ODD, "digits", 4).classes != stream.classes


def test_rules_change_on_the_same_inputs_and_come_back():
    stream = new_stream(RULES, "digits", 0)
    tasks = stream.task[:: stream.batch_size]
    assert list(dict.fromkeys(tasks.tolist())) == [0, 1, 2, 3]
    assert tasks[-1] == 0
    assert stream.classes[0] == stream.classes[1] != stream.classes[2] == stream.classes[3]
    assert set(stream.task_test) == {0, 3}  # the rules in force


def test_without_labels_there_are_none():
    assert set(new_stream(NO_LABELS, "digits", 0).y) == {-1}


def test_changes_missed_by_hand():
    tasks = np.repeat([0, 1, 2, 0], 4)
    assert changes_missed(tasks, tasks) == (3, 0)
    assert changes_missed(tasks, np.zeros(16, int)) == (3, 3)
    late = np.array([5] * 5 + [6] * 3 + [6] * 3 + [7] + [5] * 4)
    assert changes_missed(tasks, late) == (3, 1)
    late[8:12] = 7
    assert changes_missed(tasks, late) == (3, 0)


def test_where_rules_change_only_detection_helps():
    ours = measure_reused(RULES, "digits", "ours (default)", 1)
    peer = measure_reused(RULES, "digits", "QDA: Gaussian per class", 1)
    assert (ours.changes, ours.missed, ours.purity) == (4, 0, 1.0)
    assert ours.accuracy > peer.accuracy + 0.1
    assert np.isnan(peer.purity)
    assert peer.missed == 4
    assert ours.n_bytes > 1000
    rows = {row["method"]: row for row in tables.reused_table([ours, peer]).rows}
    assert rows["ours (default)"]["missed"] == "0/4"
    assert rows["QDA: Gaussian per class"]["missed"] == "–"


def test_tasks_are_found_without_labels():
    ours = measure_reused(NO_LABELS, "digits", "ours (default)", 1)
    assert np.isnan(ours.accuracy)
    assert ours.missed == 0
    assert ours.purity == ours.nmi == 1
    assert ours.purity_test > 0.95


def test_the_plan_has_every_kind_and_method():
    series = plan.reused(["digits"], 2, 5)
    assert len(series.jobs) == 2 * sum(len(METHODS_OF[kind]) for kind in KINDS)
    assert {job[3] for job in series.jobs} == {5, 6}
    assert {job[2] for job in series.jobs} <= set(METHODS)
    assert len(set(series.keys)) == len(series.jobs)
    assert Reused.__dataclass_fields__.keys() >= {"accuracy", "missed", "purity"}


# ------------------------------------------------------------------ bytes


def network_with(edges, n_inputs=4, n_outputs=2):
    network = new_network(n_inputs, n_outputs, edge_capacity=8)
    for place, (source, term) in enumerate(edges):
        network.edges[place] = (source, term, 0.5, 0)
    return network


def test_indices_of_edges_by_hand():
    edges = [(0, 0), (3, 0), (1, 2)]  # into two terms
    assert edge_index_bytes(network_with(edges)) == 3 + 2
    assert edge_index_bytes(network_with(edges, n_inputs=254)) == 3 + 2
    assert edge_index_bytes(network_with(edges, n_inputs=255)) == 2 * (3 + 2)  # 257 nodes
    assert edge_index_bytes(network_with(edges, n_inputs=65_535)) == 4 * (3 + 2)
    assert edge_index_bytes(network_with(edges), n_sources=2) == 2 + 2


def test_bytes_of_peers_by_hand():
    X, y = load("digits").X_train[:300], load("digits").y_train[:300]
    replay = Replay(64, 10, 200)
    replay.learn(X, y)
    assert peer_bytes(replay, 64) == 4 * (65 * 100 + 101 * 10) + 200 * 65
    ranpac = RanPAC(64, 100)
    ranpac.learn(X, y)
    assert peer_bytes(ranpac, 64) == 4 * (100 * 101 // 2 + 10 * 101)


def test_our_bytes_are_numbers_indices_and_samples():
    scenario = Scenario("digits", tasks=1, per_task=230, batch_size=23)
    ours = METHODS["ours (default)"](scenario, 64, 0)
    stream = scenario.stream(0)
    for rows in np.array_split(np.arange(230), 10):
        ours.learn(stream.X[rows], stream.y[rows])
    during = system_bytes(ours.system)
    assert during > 4 * ours.n_stored + ours.n_samples_stored * 65
    assert ours.n_samples_stored > 200
    ours.end()
    assert ours.n_samples_stored == 0
    (model,) = ours.system.experts
    l0, l1 = model.network.edges, model.l1.network.edges
    pathways = l1[(l1["source"] >= 0) & (l1["source"] < model.l1.states.n)]
    indices = sum(len(e) + len(set(e["term"])) for e in (l0[l0["source"] >= 0], pathways))
    assert system_bytes(ours.system) == 4 * ours.n_stored + indices + len(model.l1.targets)


def test_prototypes_take_as_many_bytes_as_ours():
    stream = standard("digits").stream(0)
    peer = METHODS["k-means prototypes per class"](standard("digits"), 64, 0)
    peer.learn(stream.X, stream.y)
    peer.end()
    assert peer_bytes(peer, 64) == pytest.approx(SPLITS["digits"].our_bytes, rel=0.1)
