"""The state of an adaptation: everything that later steps need; and scratch arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import borrowed_by_kernels, kernel
from dirad.core.network import (
    FREE_UNIT,
    LOGISTIC,
    MODULATORY,
    N_EDGES,
    N_OUTPUTS,
    N_UNITS,
    OUTPUT,
    Network,
    new_network,
    with_capacity,
    with_length,
)
from dirad.core.order import Plan, build_plan
from dirad.core.potential import Potential, new_potential
from dirad.core.propagate import Workspace, new_workspace
from dirad.history import RECORD
from dirad.params import Params

# Places in `State.clock`.
(
    STEP,
    SEED,
    SINCE_BEST,
    PHASE,
    PHASE_START,
    ROUNDS_WITHOUT_GROWTH,
    HALF_SWAPS,
    BEST_STEP,
    N_SAMPLES,
) = range(9)
# Places in `State.meter`.
SMOOTHED, BEST, ERROR = range(3)
# Places in `State.trimming`.
LENGTH, SHORTEST, SHARE, ROUNDS_SINCE_SHORTER, GROWN = range(5)

V1, UNRESTRICTED, GAIN = 0, 1, 2  # Params.ordering as numbers

LONG_AGO = -(1 << 40)


EDGE_LIFE = np.dtype(
    [
        ("born", np.int64),  # step of creation
        ("rest", np.int64),  # in refraction until this step
        ("fading", np.int64),  # 1: its weight decays to 0
        ("mean", np.float64),  # optimizer: mean of the gradient
        ("square", np.float64),  # optimizer: mean of its square
    ],
    align=True,
)
UNIT_LIFE = np.dtype([("born", np.int64), ("rest", np.int64)], align=True)
NEW_EDGE_LIFE = np.array((0, LONG_AGO, 0, 0.0, 0.0), EDGE_LIFE)
NEW_UNIT_LIFE = np.array((0, LONG_AGO), UNIT_LIFE)


@borrowed_by_kernels
class State(NamedTuple):
    """A network that adapts. Arrays only, so that it can be saved as it is."""

    network: Network
    best: Network  # the network at the lowest watched error, or of the shortest description
    trimmed: Network  # the best network at the end of a phase of trimming
    edge_life: NDArray  # (edges,) of EDGE_LIFE
    unit_life: NDArray  # (units,) of UNIT_LIFE
    bias_mean: NDArray[np.float64]  # (units, 2) optimizer
    bias_square: NDArray[np.float64]  # (units, 2)
    clock: NDArray[np.int64]  # (9,) step, seed, steps since the best, phase, its start, ...
    meter: NDArray[np.float64]  # (3,) smoothed error, best, newest
    trimming: NDArray[np.float64]  # (5,) description length of `best`, of `trimmed`, ...

    def copy(self) -> "State":
        """Return an independent copy."""
        arrays: Any = (array.copy() for array in self)
        return State(*arrays)

    @property
    def step(self) -> int:
        """Number of steps taken."""
        return int(self.clock[STEP])


@borrowed_by_kernels
class Log(NamedTuple):
    """Events that kernels wrote since the log was last emptied."""

    written: NDArray[np.int64]  # (1,) number of events
    events: NDArray  # (capacity,) of RECORD


@borrowed_by_kernels
class Scratch(NamedTuple):
    """Scratch arrays of a step, with the capacity of a state."""

    plan: Plan
    work: Workspace  # for the batch of a step
    potential: Potential
    log: Log
    marked: NDArray[np.bool_]  # (units,)
    edge_done: NDArray[np.bool_]  # (edges,)
    correction: NDArray  # (ages, 2) Adam's 1/(1−β₁ᵗ) and 1/(1−β₂ᵗ)


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
    """Return the initial state: a network of inputs and outputs without edges.

    `n_samples` is the size of the whole data set, which scales weight decay.
    """
    network = new_network(n_inputs, n_outputs, transfer, n_outputs + unit_capacity, edge_capacity)
    units, edges = len(network.units), len(network.edges)
    clock = np.zeros(9, np.int64)
    clock[SEED] = seed
    clock[N_SAMPLES] = n_samples
    clock[BEST_STEP] = -1
    return State(
        network=network,
        best=network.copy(),
        trimmed=network.copy(),
        edge_life=np.full(edges, NEW_EDGE_LIFE),
        unit_life=np.full(units, NEW_UNIT_LIFE),
        bias_mean=np.zeros((units, 2)),
        bias_square=np.zeros((units, 2)),
        clock=clock,
        meter=np.array([0.0, np.inf, 0.0]),
        trimming=new_trimming(),
    )


def new_trimming() -> NDArray[np.float64]:
    """Return the numbers of a network that was never trimmed."""
    return np.array([np.inf, np.inf, 0.0, 0.0, 0.0])


def with_state_capacity(state: State, units: int, edges: int) -> State:
    """Return the same state in arrays with at least this capacity."""
    network = with_capacity(state.network, units, edges)
    units, edges = len(network.units), len(network.edges)
    return state._replace(
        network=network,
        best=with_capacity(state.best, units, edges),
        trimmed=with_capacity(state.trimmed, units, edges),
        edge_life=with_length(state.edge_life, edges, NEW_EDGE_LIFE),
        unit_life=with_length(state.unit_life, units, NEW_UNIT_LIFE),
        bias_mean=with_length(state.bias_mean, units, 0.0),
        bias_square=with_length(state.bias_square, units, 0.0),
    )


def with_output(state: State) -> State:
    """Return the state with one more output, without edges; nothing else changes."""
    network = state.network
    unit = int(network.counts[N_UNITS])
    if unit == len(network.units):
        state = with_state_capacity(state, unit + 16, len(network.edges))
    for one in (state.network, state.best, state.trimmed):
        one.units[unit] = FREE_UNIT
        one.units["kind"][unit] = OUTPUT
        one.units["output"][unit] = one.counts[N_OUTPUTS]
        one.counts[N_UNITS] = unit + 1
        one.counts[N_OUTPUTS] += 1
    return state


def new_scratch(
    state: State, params: Params, n_samples: int, work: Workspace | None = None
) -> Scratch:
    """Return scratch for batches of at most `n_samples`; `work` may be shared."""
    network = state.network
    units, edges = len(network.units), len(network.edges)
    ages = np.arange(1, 2001)[:, None]
    return Scratch(
        plan=build_plan(network),
        work=work or new_workspace(network, n_samples, working_type(params)),
        potential=new_potential(network),
        log=Log(np.zeros(1, np.int64), np.zeros(4 * (units + edges) + 64, RECORD)),
        marked=np.zeros(units, np.bool_),
        edge_done=np.zeros(edges, np.bool_),
        correction=1.0 / (1.0 - np.array([params.momentum, params.scale_memory]) ** ages),
    )


def working_type(params: Params) -> type:
    """Return the type of states and deltas while adapting."""
    return np.float32 if params.precision == "float32" else np.float64


@kernel
def write_event(state, log, kind, part, source, term, unit, second, value):
    """Append an event of the current step."""
    event = log.events[log.written[0]]
    event.step = state.clock[STEP]
    event.kind = kind
    event.part = part
    event.source = source
    event.term = term
    event.unit = unit
    event.second = second
    event.value = value
    log.written[0] += 1


@kernel
def has_room(state, log, units, edges):
    """Is there capacity for this many more units, edges and their events?"""
    net = state.network
    return (
        net.counts[N_UNITS] + units <= net.units.shape[0]
        and net.counts[N_EDGES] + edges <= net.edges.shape[0]
        and log.written[0] + units + 2 * edges + 8 <= log.events.shape[0]
    )


@kernel
def count_edges(net):
    """Number of edges."""
    n = 0
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source >= 0:
            n += 1
    return n


@kernel
def count_hidden(net):
    """Number of modulatory nodes."""
    n = 0
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind == MODULATORY:
            n += 1
    return n
