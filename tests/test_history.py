"""What happened can be replayed: the events alone give the topology at any step."""

import numpy as np
import pytest

from dirad.core.network import SOFTMAX
from dirad.growth.adapt import adapt, new_data
from dirad.growth.state import new_state
from dirad.history import EXCHANGING, PHASE, RECORD, SETTLING, STABLE, Event, History
from dirad.params import preset
from networks import curved_classes, edges_of, parity, voted_classes

SPARING = {"prior": 0.1, "significance": 0.05, "breadth": 0}
RUNS = {
    "paper": preset("paper", batch_size=30, max_edges=60, max_steps=400, patience=999),
    "paper, removals": preset("paper", perturbation=0.0, max_steps=200, patience=999),
    "paper, restored": preset("paper", batch_size=30, max_edges=40, settle_steps=40),
    "unrestricted": preset(
        "paper", ordering="unrestricted", max_edges=60, max_steps=300, patience=999
    ),
    "default": preset("default", batch_size=50, max_steps=900, settle_steps=200),
    "trimming": preset("default", batch_size=50, max_steps=5000, settle_steps=200, edge_price=2.0),
    "exchange of edges": preset(
        "default", max_edges=4, max_steps=3000, settle_steps=200, **SPARING
    ),
    "exchange of nodes": preset(
        "default", max_edges=3, max_steps=3000, settle_steps=200, **SPARING
    ),
}


def problem(name, seed):
    """Return the data of a run and its transfer."""
    if name == "paper, removals":
        return *parity(2), 0
    make = voted_classes if name == "exchange of edges" else curved_classes
    X, y = make(200, seed=seed)
    return X, y, SOFTMAX if RUNS[name].cost == "cross-entropy" else 0


def started(name, seed):
    X, y, transfer = problem(name, seed)
    state = new_state(X.shape[1], y.shape[1], seed=seed, n_samples=len(X), transfer=transfer)
    return state, new_data(X, y, RUNS[name])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", RUNS)
def test_the_topology_follows_from_the_events(name, seed):
    """At the end, and at every moment at which the run was looked at."""
    params = RUNS[name]
    state, data = started(name, seed)
    history, seen = History(), {}
    while not seen or state.step in seen:
        stop = state.step + 7 + seed
        state, part = adapt(state, data, params, until=stop)
        history.extend(part)
        if state.step < stop:
            break
        seen[state.step] = edges_of(state.network)
    assert len(seen) > 10
    assert history.topology() == edges_of(state.network)
    for step, edges in seen.items():
        assert history.topology(step - 1) == edges
        assert history.edges[step - 1] == len(edges)
    assert history.edges[-1] == state.network.n_edges
    assert history.hidden[-1] == state.network.n_hidden
    assert len(history.error) == len(history.edges) == len(history.hidden) == state.step


def test_these_runs_meet_every_kind_of_event():
    found = {}
    for name in RUNS:
        state, data = started(name, 0)
        _, history = adapt(state, data, RUNS[name])
        found[name] = {event.kind for event in history}
        phases = [event.part for event in history if event.kind == "phase"]
        assert phases[-1] == STABLE
        assert (EXCHANGING in phases) == name.startswith("exchange")
    assert found["paper"] >= {"edge", "ENC", "phase"}
    assert "edge removed" in found["paper, removals"]
    assert "restored" in found["paper, restored"]
    assert found["trimming"] >= {"gate", "kept", "restored"}
    assert "edge removed" in found["exchange of edges"]
    assert "node removed" in found["exchange of nodes"]


def test_events_are_readable_and_counted():
    events = np.array(
        [(0, 0, 0, 1, 0, -1, -1, 0.0), (4, 1, 0, 3, 0, 1, 1, 0.5), (9, 2, 1, 1, 2, -1, -1, 0.0)],
        RECORD,
    )
    history = History(events)
    assert list(history)[1] == Event(4, "ENC", 0, 3, 0, 1, 1, 0.5)
    assert (len(history), history.count("edge"), history.count("node removed")) == (3, 1, 0)
    assert history.topology(0) == {0: (1, 0)}
    assert history.topology(4) == {0: (3, 0), 1: (1, 2)}
    assert history.topology() == {0: (3, 0)}


def test_extending_a_history_appends():
    X, y = curved_classes(100)
    params = preset("paper", max_edges=20)
    state, data = new_state(5, 2, seed=1, n_samples=100), new_data(X, y, params)
    state, first = adapt(state, data, params, until=40)
    n = len(first)
    _, second = adapt(state, data, params, until=90)
    first.extend(second)
    assert len(first) == n + len(second)
    assert len(first.error) == 90
    assert (np.diff(first.events["step"]) >= 0).all()


def test_phases_cover_all_steps():
    rows = [(199, EXCHANGING), (299, SETTLING), (499, STABLE)]
    events = np.array([(step, PHASE, part, -1, -1, -1, -1, 0.1) for step, part in rows], RECORD)
    history = History(events, np.ones(500))
    assert history.phases() == [(0, 0, 200), (EXCHANGING, 200, 300), (SETTLING, 300, 500)]
    assert History().phases() == []


def test_a_history_prints_what_it_counts():
    assert repr(History()) == (
        "History(0 steps: 0 × edge, 0 × ENC, 0 × gate, 0 × edge removed, 0 × node removed)"
    )
