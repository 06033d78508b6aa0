"""Same seed, same bits: in one process, in another, stopped and resumed, saved and loaded."""

import hashlib
import io
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from dirad.core.network import SOFTMAX, Network, new_network
from dirad.core.propagate import new_workspace
from dirad.core.random import (
    NODE_REMOVAL,
    PERTURBATION,
    SHUFFLE,
    TIE,
    bits,
    normal,
    uniform,
    write_permutation,
)
from dirad.growth.adapt import Batch, adapt, is_stable, new_data, step
from dirad.growth.batches import draw_batch, draw_growth_batch
from dirad.growth.conflict import conflicts
from dirad.growth.state import State, new_state
from dirad.history import EXCHANGING, PHASE, History
from dirad.inference import respond
from dirad.params import Params, preset
from networks import (
    curved_classes,
    edges_of,
    parity,
    state_of,
    voted_classes,
)

N = 200
SMALL = {"max_edges": 30, "max_steps": 700, "settle_steps": 100}
RUNS = {
    "paper, batches": preset("paper", batch_size=20, max_edges=30),
    "paper, whole data": preset("paper", batch_size=N, max_edges=30),
    "paper, few edges": preset("paper", batch_size=20, perturbation=0.0, max_steps=300),
    "default, batches": preset("default", batch_size=20, growth_batch=60, **SMALL),
    "default, whole data": preset("default", batch_size=N, growth_batch=N, **SMALL),
    "default, float64": preset("default", batch_size=20, precision="float64", **SMALL),
    "default, exchange": preset(
        "default",
        batch_size=50,
        max_edges=4,
        max_steps=2500,
        settle_steps=100,
        prior=0.1,
        significance=0.05,
        breadth=0,
    ),
}


def started(params, seed=0, **capacity):
    make = voted_classes if params.max_edges == 4 else curved_classes
    X, y = make(N, 6, 3)
    transfer = SOFTMAX if params.cost == "cross-entropy" else 0
    args = {"seed": seed, "n_samples": N, "transfer": transfer, **capacity}
    return new_state(6, 3, **args), new_data(X, y, params)


def leaves(state: State) -> list[np.ndarray]:
    """Return every array of a state."""
    return [*state.network, *state.best, *state.trimmed, *state[3:]]


def content(state: State, history: History) -> tuple:
    """Return what a run made, whatever the capacity of the arrays that hold it."""
    network, edges = state.network, edges_of(state.network)
    used = sorted(edges)
    units = np.flatnonzero(network.units["kind"] >= 0)
    rows = [network.edges[used], state.edge_life[used], network.units[units], network.bias[units]]
    rows += [state.clock, state.meter, history.events, history.error]
    return edges, *(row.tobytes() for row in rows)


def digest(state: State, history: History | None = None) -> str:
    """Return a hash of every bit of a state and of what led to it."""
    result = hashlib.sha256()
    arrays = leaves(state)
    if history is not None:
        arrays += [history.events, history.error, history.edges, history.hidden]
    for array in arrays:
        result.update(array.tobytes())
    return result.hexdigest()


def digests(names=RUNS) -> dict[str, str]:
    return {name: digest(*adapt(*started(RUNS[name]), RUNS[name])) for name in names}


# ------------------------------------------------------------------ whole runs


def test_one_of_these_runs_exchanges_edges():
    params = RUNS["default, exchange"]
    _, history = adapt(*started(params), params)
    assert EXCHANGING in history.events["part"][history.events["kind"] == PHASE]
    assert history.count("edge removed") > 5


def test_the_same_seed_gives_the_same_bits():
    assert digests() == digests()


def test_another_seed_gives_another_run():
    params = RUNS["paper, batches"]
    first, second = (digest(*adapt(*started(params, seed), params)) for seed in (0, 1))
    assert first != second


def use_the_rest_of_the_library():
    """Load what a user may call before: answers, the conflict diagnostic, single steps."""
    params = RUNS["paper, batches"]
    X, y = curved_classes(N, 6, 3)
    state = new_state(6, 3, seed=5, n_samples=N)
    for _ in range(30):
        state, _ = step(state, Batch(X, y), params)
    respond(state.network, X)
    edge = next(iter(edges_of(state.network)))
    conflicts(state.network, edge, X, y, params, order=2)


def test_another_process_gives_the_same_bits():
    """Whatever was loaded and called there before (see `dirad.core.whole_program`)."""
    found = []
    for arguments in ([], [], ["others first"]):
        command = [sys.executable, __file__, *arguments]
        found.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    here = "".join(f"{name}: {value}\n" for name, value in digests().items())
    assert found == [here, here, here]


@pytest.mark.parametrize("same_data", [True, False], ids=["same data", "data laid out anew"])
@pytest.mark.parametrize("name", RUNS)
def test_stopped_and_resumed_equals_uninterrupted(name, same_data):
    params = RUNS[name]
    whole = adapt(*started(params), params)
    for stops in ([1], [30, 31], [5, 24, 25, 26, 113], range(3, 3000, 37)):
        state, data = started(params)
        history = History()
        for stop in [*stops, None]:
            state, part = adapt(state, data, params, until=stop)
            history.extend(part)
            if not same_data:
                data = started(params)[1]
        assert is_stable(state)
        assert digest(state, history) == digest(*whole), stops


@pytest.mark.parametrize("name", RUNS)
def test_how_often_a_run_reports_changes_nothing(name):
    params, seen = RUNS[name], []
    whole = digest(*adapt(*started(params), params))
    state, history = adapt(
        *started(params), params, chunk=7, report=lambda state: seen.append(state.step)
    )
    assert digest(state, history) == whole
    assert seen == sorted(seen)
    assert seen[-1] == state.step


def test_data_keep_nothing_of_the_run_before():
    """One layout of the data may serve many networks."""
    for params in (RUNS["paper, batches"], RUNS["paper, whole data"]):
        state, data = started(params, 1)
        alone = digest(*adapt(state, data, params, until=3))
        other, data = started(params, 0)
        adapt(other, data, params, until=3)
        assert digest(*adapt(started(params, 1)[0], data, params, until=3)) == alone


@pytest.mark.parametrize("name", RUNS)
def test_the_capacity_of_arrays_changes_nothing(name):
    params = RUNS[name]
    runs = []
    for capacity in ({}, {"unit_capacity": 100, "edge_capacity": 300}):
        runs.append(content(*adapt(*started(params, **capacity), params)))
    assert runs[0] == runs[1]


def test_many_events_between_two_reports_change_nothing():
    """Edges that come and go fill the log long before they fill the network."""
    X, y = parity(2)
    y = np.repeat(y, 10, axis=1)
    params = preset("paper", perturbation=0.0, max_steps=300, patience=1000)
    runs = []
    for chunk in (1, 200, 1000):
        state = new_state(2, 10, n_samples=4)
        runs.append(content(*adapt(state, new_data(X, y, params), params, chunk=chunk)))
    assert runs[0] == runs[1] == runs[2]


# ------------------------------------------------------------------ single steps


STEPS = {
    "paper": preset("paper", batch_size=20, max_edges=30),
    "default": preset("default", max_edges=30, settle_steps=20, max_steps=120),
}


def batches(n):
    X, y = curved_classes(N, 6, 3)
    rng = np.random.default_rng(0)
    for _ in range(n):
        chosen = rng.permutation(N)[:120]
        yield Batch(X[chosen], y[chosen])


def saved_and_loaded(state: State) -> State:
    """Return the state after a round trip through an .npz file."""
    file = io.BytesIO()
    np.savez(file, *leaves(state))
    file.seek(0)
    with np.load(file) as found:
        arrays = [found[name] for name in found.files]
    n = len(Network._fields)
    networks = [Network(*arrays[i * n : (i + 1) * n]) for i in range(3)]
    return State(*networks, *arrays[3 * n :])


@pytest.mark.parametrize("name", STEPS)
def test_a_step_leaves_its_argument_alone(name):
    params = STEPS[name]
    state, _ = started(params)
    for batch in batches(60):
        before, content = digest(state), [batch.X.copy(), batch.y.copy()]
        after, history = step(state, batch, params)
        assert digest(state) == before
        assert np.array_equal(batch.X, content[0])
        assert np.array_equal(batch.y, content[1])
        assert after.step == state.step + 1
        assert len(history.error) == 1
        state = after
    assert state.network.n_edges > 0


@pytest.mark.parametrize("name", STEPS)
def test_steps_with_a_round_trip_through_a_file_in_between(name):
    params = STEPS[name]
    state = other = started(params)[0]
    for batch in batches(60):
        state, history = step(state, batch, params)
        other, same = step(saved_and_loaded(other), batch, params)
        assert digest(state, history) == digest(other, same)


def test_steps_on_the_whole_data_are_the_loop():
    """Up to the rounding of differently compiled sums."""
    params = RUNS["paper, whole data"]
    X, y = curved_classes(N, 6, 3)
    state, data = started(params)
    together, history = adapt(state, data, params, until=40)
    state, steps = started(params)[0], History()
    for _ in range(40):
        state, part = step(state, Batch(X, y), params)
        steps.extend(part)
    assert edges_of(state.network) == edges_of(together.network)
    assert np.array_equal(history.events["kind"], steps.events["kind"])
    assert history.error == pytest.approx(steps.error, rel=1e-4)


def test_sample_weights_count_as_repetitions():
    params = preset("paper", max_edges=5)
    X, y = curved_classes(30, 6, 3)
    twice = np.r_[np.arange(30), np.arange(10)]
    weights = np.r_[np.full(10, 2.0), np.ones(20)]
    state = started(params)[0]
    for _ in range(10):
        weighted, history = step(state, Batch(X, y, weights), params)
        repeated, same = step(state, Batch(X[twice], y[twice]), params)
        assert history.error == pytest.approx(same.error, rel=1e-5)
        assert weighted.network.bias == pytest.approx(repeated.network.bias, rel=1e-4, abs=1e-6)
        state = weighted


def test_one_output_may_have_its_targets_in_a_row():
    params = STEPS["paper"]
    X, y = curved_classes(50, 6, 3)
    state = new_state(6, 1, n_samples=50)
    row, _ = step(state, Batch(X, y[:, 0]), params)
    column, _ = step(state, Batch(X, y[:, :1]), params)
    assert digest(row) == digest(column)


BAD_BATCHES = {
    "2 outputs, the data have 6 and 3": lambda X, y: Batch(X, y),
    "6 inputs and 2 outputs, the data have 5": lambda X, y: Batch(X[:, 1:], y[:, :2]),
    "the data have 7": lambda X, y: Batch(np.c_[X, X[:, 0]], y[:, :2]),
    "same n": lambda X, y: Batch(X, y[:5, :2]),
    "at least 1": lambda X, y: Batch(X[:0], y[:0, :2]),
    "must be": lambda X, y: Batch(X[0], y[0]),
    "X holds NaN": lambda X, y: Batch(np.where(X > 0, np.nan, X), y[:, :2]),
    "y holds NaN": lambda X, y: Batch(X, np.where(y[:, :2] > 0, np.inf, 0)),
    "sample_weight must": lambda X, y: Batch(X, y[:, :2], np.ones(3)),
    "sample_weight holds": lambda X, y: Batch(X, y[:, :2], np.full(50, np.nan)),
}


@pytest.mark.parametrize("says", BAD_BATCHES)
def test_a_batch_that_does_not_fit_is_refused(says):
    X, y = curved_classes(50, 6, 3)
    state = new_state(6, 2, n_samples=50)
    before = digest(state)
    with pytest.raises(ValueError, match=says):
        step(state, BAD_BATCHES[says](X, y), STEPS["paper"])
    assert digest(state) == before


# ------------------------------------------------------------------ which samples


def drawn(params, n, step, kind=draw_batch, seed=0):
    """Return the numbers of the samples that one step sees."""
    numbers = np.arange(float(n))[:, None]
    state = state_of(new_network(1, 1), seed=seed, step=step)
    work = new_workspace(state.network, n)
    data = new_data(numbers, numbers, params)
    kind(state, work, data, params.constants())
    chosen = work.state[0, : work.width[0]]
    assert np.array_equal(work.target[0, : work.width[0]], chosen)
    assert not work.sample_weight[work.width[0] : work.width[1]].any()
    return chosen.astype(int).tolist()


def test_an_epoch_shows_each_sample_once():
    params = preset("paper", batch_size=10)
    first, second = (
        [m for step in range(5 * epoch, 5 * epoch + 5) for m in drawn(params, 53, step)]
        for epoch in (0, 1)
    )
    assert len(set(first)) == len(set(second)) == 50
    assert first != second
    assert first[:10] == drawn(params, 53, 0)
    assert first[:10] != drawn(params, 53, 0, seed=1)


def test_a_batch_larger_than_the_data_is_the_data():
    assert drawn(preset("paper", batch_size=100), 53, 7) == list(range(53))


def test_a_round_of_growth_sees_no_sample_twice():
    params = preset("default", growth_batch=30, precision="float64")
    chosen = drawn(params, 53, 24, draw_growth_batch)
    assert len(set(chosen)) == len(chosen) == 30
    assert chosen == drawn(params, 53, 24, draw_growth_batch)
    assert chosen != drawn(params, 53, 49, draw_growth_batch)
    every = {m for step in range(40) for m in drawn(params, 53, step, draw_growth_batch)}
    assert every == set(range(53))
    whole = params.replace(growth_batch=60)
    assert sorted(drawn(whole, 53, 24, draw_growth_batch)) == list(range(53))


# ------------------------------------------------------------------ keyed random numbers

KEYS = st.tuples(*[st.integers(0, 2**62)] * 4)


@given(KEYS)
def test_bits_of_a_key(key):
    # Numba hands 64 bits back as a signed or an unsigned number.
    assert int(bits(*key)) % 2**64 == naive.bits(*key)
    assert uniform(*key) == naive.uniform(*key)
    assert normal(*key[:3], key[3] // 2) == normal(*key[:3], key[3] // 2)


@pytest.mark.parametrize("part", range(4))
def test_draws_along_each_part_of_the_key_are_uniform_and_independent(part):
    keys = np.tile([3, TIE, 5, 7], (20_000, 1))
    keys[:, part] = np.arange(20_000)
    values = np.array([uniform(*key) for key in keys.tolist()])
    assert values.min() >= 0
    assert values.max() < 1
    assert values.mean() == pytest.approx(1 / 2, abs=4 * np.sqrt(1 / 12 / 20_000))
    assert values.var() == pytest.approx(1 / 12, rel=0.03)
    counts = np.bincount((values * 20).astype(int), minlength=20)
    assert ((counts - 1000) ** 2 / 1000).sum() < 45  # χ² of 19 degrees: 1 in 1500
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 4 / np.sqrt(20_000)


def test_normal_draws():
    values = np.array([normal(1, PERTURBATION, 9, place) for place in range(20_000)])
    assert abs(values.mean()) < 4 / np.sqrt(20_000)
    assert values.std() == pytest.approx(1, rel=0.03)
    assert (values**3).mean() == pytest.approx(0, abs=0.1)
    assert (values**4).mean() == pytest.approx(3, rel=0.1)
    assert np.isfinite(values).all()


def test_purposes_do_not_share_draws():
    tie = [uniform(0, TIE, step, 0) for step in range(1000)]
    removal = [uniform(0, NODE_REMOVAL, step, 0) for step in range(1000)]
    assert not set(tie) & set(removal)


@given(st.integers(0, 2**40), st.integers(0, 1000), st.integers(1, 60))
def test_a_shuffle_is_a_permutation(seed, step, n):
    order = np.empty(n, np.int64)
    write_permutation(seed, SHUFFLE, step, order)
    assert sorted(order.tolist()) == list(range(n))
    assert order.tolist() == naive.shuffled(seed, SHUFFLE, step, n)


def test_shuffles_favour_no_place():
    order, places = np.empty(5, np.int64), np.zeros((5, 5))
    for epoch in range(5000):
        write_permutation(0, SHUFFLE, epoch, order)
        places[np.arange(5), order] += 1
    assert np.abs(places - 1000).max() < 5 * np.sqrt(1000)


def test_parameters_refuse_what_they_do_not_know():
    with pytest.raises(TypeError, match="gama"):
        preset("paper", gama=3)
    with pytest.raises(ValueError, match="optimizer"):
        Params(optimizer="newton")
    with pytest.raises(ValueError, match="gamma"):
        Params(gamma=float("nan"))
    with pytest.raises(ValueError, match="max_edges must be a whole number"):
        Params(max_edges=2.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="R1 must be a number"):
        Params(R1="a")  # type: ignore[arg-type]


if __name__ == "__main__":
    if sys.argv[1:]:
        use_the_rest_of_the_library()
    for name, value in digests().items():
        print(f"{name}: {value}")
