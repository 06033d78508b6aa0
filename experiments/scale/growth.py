"""One network: what a step, a round of growth and a whole fit cost as inputs or edges grow."""

import numpy as np

from dirad.growth.adapt import Adaptation, Data, WorkspacePool, adapt, new_data
from dirad.growth.state import State, new_state
from dirad.inference import respond
from dirad.params import Params
from dirad.preval.settings import PRESETS
from experiments.scale.clock import MEGABYTE, forget_peak, peak_memory, shortest, timed
from experiments.scale.planted import network_of, planted

Row = dict[str, float]

CLASSES = 2
BEGUN = 100  # steps after which a step and a round are timed
NEVER = 2**40  # steps between two rounds
STEPS, TURNS = 20, 15  # steps in a turn, turns of which the shortest counts
EDGE_INPUTS, EDGE_BATCH = 784, 200
ANSWERED = 1000  # samples of a timed response


def l0_params() -> Params:
    """Return the constants of a default model's L0."""
    return PRESETS["default"].l0


def measure_inputs(n_inputs: int, n_samples: int, seed: int = 0) -> Row:
    """Return the costs of L0 on planted data with this many inputs."""
    X, y = planted(n_inputs, 2 * n_samples, seed)
    X, fresh = X[:n_samples], X[n_samples:]
    before, params = forget_peak(), l0_params()
    data = new_data(X, np.eye(CLASSES)[y[:n_samples]], params)
    begun = _begin(data, params, seed, until=BEGUN)
    step = _step_time(begun, data, params)
    structure_round = _round_time(begun, data, params)
    state, seconds = timed(lambda: _begin(data, params, seed))
    held = peak_memory() - before
    right = respond(state.network, fresh).argmax(axis=1) == y[n_samples:]
    return {
        "size": n_inputs,
        "step": step,
        "round": structure_round,
        "fit": seconds,
        "steps": state.step,
        "edges": state.network.n_edges,
        "accuracy": float(np.mean(right)),
        "megabytes": held / MEGABYTE,
    }


def _new(data: Data, seed: int) -> State:
    n_samples, n_inputs = data.inputs.shape
    return new_state(n_inputs, CLASSES, seed=seed, n_samples=n_samples)


def _begin(data: Data, params: Params, seed: int, until: int | None = None) -> State:
    return adapt(_new(data, seed), data, params, until=until)[0]


def _step_time(state: State, data: Data, params: Params) -> float:
    """Return the seconds of a step that looks for no structure."""
    adaptation = Adaptation(state.copy(), params.replace(interval=NEVER, max_steps=NEVER))
    pool = WorkspacePool(params, len(data.inputs))

    def steps() -> None:
        adaptation.advance(data, adaptation.state.step + STEPS, pool)

    steps()  # makes room
    return shortest(steps, TURNS) / STEPS


def _round_time(state: State, data: Data, params: Params) -> float:
    """Return the seconds that a step takes longer if it looks for structure."""

    def first_step(interval: int) -> float:
        adaptation = Adaptation(state.copy(), params.replace(interval=interval))
        pool = WorkspacePool(params, len(data.inputs))
        pool.workspaces(state.network)
        return timed(lambda: adaptation.advance(data, state.step + 1, pool))[1]

    first_step(1)
    return min(first_step(1) for _ in range(TURNS)) - min(first_step(NEVER) for _ in range(TURNS))


def measure_edges(n_edges: int, seed: int = 0) -> Row:
    """Return the costs of a network with this many edges: of a step, and of a response."""
    rng, before = np.random.default_rng(seed), forget_peak()
    network = network_of(n_edges, EDGE_INPUTS, CLASSES, seed)
    params = l0_params().replace(batch_size=EDGE_BATCH, growth_batch=EDGE_BATCH, max_edges=n_edges)
    X = rng.normal(size=(ANSWERED, EDGE_INPUTS))
    data = new_data(X, np.eye(CLASSES)[rng.integers(CLASSES, size=ANSWERED)], params)
    state = new_state(
        EDGE_INPUTS,
        CLASSES,
        seed=seed,
        n_samples=ANSWERED,
        unit_capacity=len(network.units) - CLASSES,
        edge_capacity=n_edges,
    )._replace(network=network, best=network.copy())
    step = _step_time(state, data, params)
    return {
        "size": n_edges,
        "hidden": network.n_hidden,
        "step": step,
        "response": shortest(lambda: respond(network, X), TURNS) / ANSWERED,
        "megabytes": (peak_memory() - before) / MEGABYTE,
    }
