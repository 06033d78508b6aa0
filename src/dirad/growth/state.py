"""Everything that going on needs, and the scratch that a step uses up."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import kernel
from dirad.core.network import (
    LOGISTIC,
    N_EDGES,
    N_UNITS,
    Network,
    extended,
    new_network,
    with_capacity,
)
from dirad.core.order import Plan, new_plan
from dirad.core.potential import Potential, new_potential
from dirad.core.propagate import Workspace, new_workspace
from dirad.history import N_COLUMNS
from dirad.params import Params

# Places in `State.clock`.
STEP, SEED, SINCE_BEST, PHASE, PHASE_START, IDLE, SWAPS, BEST_STEP, N_SAMPLES = range(9)
# Places in `State.meter`.
SMOOTHED, BEST, ERROR, SHRINK = range(4)

LONG_AGO = -(1 << 40)


class State(NamedTuple):
    """A network in the middle of its adaptation. Arrays only, so it saves and loads as it is."""

    network: Network
    best: Network  # the network at the lowest watched error
    edge_born: NDArray[np.int64]  # (edges,) step of creation
    edge_rest: NDArray[np.int64]  # (edges,) in refraction until this step
    edge_fading: NDArray[np.bool_]  # (edges,) on its way out
    edge_mean: NDArray[np.float64]  # (edges,) optimizer: mean of the gradient
    edge_square: NDArray[np.float64]  # (edges,) optimizer: mean of its square
    unit_born: NDArray[np.int64]  # (units,)
    unit_rest: NDArray[np.int64]  # (units,)
    bias_mean: NDArray[np.float64]  # (units, 2)
    bias_square: NDArray[np.float64]  # (units, 2)
    clock: NDArray[np.int64]  # (9,) step, seed, steps since the best, phase, its start, ...
    meter: NDArray[np.float64]  # (4,) smoothed error, best, newest, ...

    def copy(self) -> "State":
        """Return an independent copy."""
        return State(self.network.copy(), self.best.copy(), *(array.copy() for array in self[2:]))

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.clock[STEP])


class Log(NamedTuple):
    """Where kernels write events; emptied by the loop."""

    count: NDArray[np.int64]  # (1,)
    rows: NDArray[np.int64]  # (capacity, N_COLUMNS)
    values: NDArray[np.float64]  # (capacity,)


class Scratch(NamedTuple):
    """Derived from a state and used up by a step."""

    plan: Plan
    work: Workspace  # for the batch of a step
    wide: Workspace  # for the larger batch of a round of growth
    potential: Potential
    log: Log
    marked: NDArray[np.bool_]  # (units,)
    edge_done: NDArray[np.bool_]  # (edges,)
    reach: NDArray[np.bool_]  # (units, units), or empty where the ordering does not need it
    beta_1: NDArray[np.float64]  # (ages,) 1/(1−β₁ᵗ)
    beta_2: NDArray[np.float64]  # (ages,) 1/(1−β₂ᵗ)
    changed: NDArray[np.int64]  # (1,) structure changed since the plan was made?


def new_state(
    n_inputs: int,
    n_outputs: int,
    *,
    transfer: int = LOGISTIC,
    seed: int = 0,
    n_samples: int = 0,
    unit_capacity: int = 16,
    edge_capacity: int = 32,
) -> State:
    """Return the start: inputs and outputs alone.

    `n_samples` is the size of the whole data set, by which a prior on weights is shared out.
    """
    network = new_network(n_inputs, n_outputs, transfer, n_outputs + unit_capacity, edge_capacity)
    units, edges = len(network.kind), len(network.source)
    clock = np.zeros(9, np.int64)
    clock[SEED] = seed
    clock[N_SAMPLES] = n_samples
    clock[BEST_STEP] = -1
    return State(
        network=network,
        best=network.copy(),
        edge_born=np.zeros(edges, np.int64),
        edge_rest=np.full(edges, LONG_AGO, np.int64),
        edge_fading=np.zeros(edges, np.bool_),
        edge_mean=np.zeros(edges),
        edge_square=np.zeros(edges),
        unit_born=np.zeros(units, np.int64),
        unit_rest=np.full(units, LONG_AGO, np.int64),
        bias_mean=np.zeros((units, 2)),
        bias_square=np.zeros((units, 2)),
        clock=clock,
        meter=np.array([0.0, np.inf, 0.0, 0.0]),
    )


def with_room(state: State, units: int, edges: int) -> State:
    """Return the same state in arrays with at least this capacity."""
    network = with_capacity(state.network, units, edges)
    units, edges = len(network.kind), len(network.source)
    return state._replace(
        network=network,
        best=with_capacity(state.best, units, edges),
        edge_born=extended(state.edge_born, edges, 0),
        edge_rest=extended(state.edge_rest, edges, LONG_AGO),
        edge_fading=extended(state.edge_fading, edges, False),
        edge_mean=extended(state.edge_mean, edges, 0.0),
        edge_square=extended(state.edge_square, edges, 0.0),
        unit_born=extended(state.unit_born, units, 0),
        unit_rest=extended(state.unit_rest, units, LONG_AGO),
        bias_mean=extended(state.bias_mean, units, 0.0),
        bias_square=extended(state.bias_square, units, 0.0),
    )


def new_scratch(state: State, params: Params, n_samples: int, n_wide: int) -> Scratch:
    """Return scratch for batches of `n_samples` and rounds of growth on `n_wide`."""
    network = state.network
    units, edges = len(network.kind), len(network.source)
    dtype: Any = np.float32 if params.precision == "float32" else np.float64
    ages = np.arange(1, 2001)
    gain = params.ordering == "gain"
    return Scratch(
        plan=new_plan(network),
        work=new_workspace(network, n_samples, dtype),
        wide=new_workspace(network, n_wide if gain else 1, dtype),
        potential=new_potential(network),
        log=Log(
            np.zeros(1, np.int64),
            np.zeros((4 * (units + edges) + 64, N_COLUMNS), np.int64),
            np.zeros(4 * (units + edges) + 64),
        ),
        marked=np.zeros(units, np.bool_),
        edge_done=np.zeros(edges, np.bool_),
        reach=np.zeros((units, units) if gain else (0, 0), np.bool_),
        beta_1=1.0 / (1.0 - params.momentum**ages),
        beta_2=1.0 / (1.0 - params.scale_memory**ages),
        changed=np.zeros(1, np.int64),
    )


@kernel
def write_event(state, log, kind, part, source, term, unit, second, value):
    """Append an event of the current step."""
    i = log.count[0]
    log.rows[i, 0] = state.clock[STEP]
    log.rows[i, 1] = kind
    log.rows[i, 2] = part
    log.rows[i, 3] = source
    log.rows[i, 4] = term
    log.rows[i, 5] = unit
    log.rows[i, 6] = second
    log.values[i] = value
    log.count[0] += 1


@kernel
def has_room(state, log, units, edges):
    """Is there capacity for this many more units, edges and their events?"""
    net = state.network
    return (
        net.counts[N_UNITS] + units <= net.kind.shape[0]
        and net.counts[N_EDGES] + edges <= net.source.shape[0]
        and log.count[0] + units + 2 * edges + 8 <= log.rows.shape[0]
    )


@kernel
def count_edges(net):
    """Number of edges."""
    n = 0
    for e in range(net.counts[N_EDGES]):
        if net.source[e] >= 0:
            n += 1
    return n


@kernel
def count_hidden(net):
    """Number of modulatory nodes."""
    n = 0
    for u in range(net.counts[N_UNITS]):
        if net.kind[u] == 2:
            n += 1
    return n
