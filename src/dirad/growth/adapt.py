"""The step, and the loop built on it.

A step: states forward, deltas backward, potentials, a move of the parameters, then growth or
removal, then the question whether the network is done. `step` takes one batch and leaves its
argument alone; `adapt` draws batches from a data set and runs the same kernel in place.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_INPUTS, N_OUTPUTS, N_UNITS, Network, with_capacity
from dirad.core.potential import (
    edge_gradients,
    edge_potentials,
    feel,
    term_gradients,
    term_potentials,
)
from dirad.core.propagate import (
    LANES,
    Workspace,
    backward,
    forward,
    mean_cost,
    new_workspace,
)
from dirad.core.random import GROWTH_SAMPLE, SHUFFLE, shuffle
from dirad.growth.gain import MAX_ORDER, fade_weakest, grow_by_gain
from dirad.growth.priority import grow_unrestricted, grow_v1
from dirad.growth.removal import remove_useless
from dirad.growth.stabilization import enter, finish_growth, watch, watch_patience
from dirad.growth.state import (
    IDLE,
    PHASE,
    PHASE_START,
    SEED,
    STEP,
    SWAPS,
    Log,
    Scratch,
    State,
    count_edges,
    count_hidden,
    has_room,
    new_scratch,
    new_state,
    with_room,
    working_type,
)
from dirad.growth.update import move_gains, move_parameters, perturb_zero_weights
from dirad.history import EXCHANGING, GROWING, SETTLING, STABLE, History
from dirad.params import Params

V1, UNRESTRICTED, GAIN = 0, 1, 2

MANY = 256  # inputs for which arrays hold the edges of one round to every output

# What a compiled run ended with.
RAN, FULL, DONE = 0, 1, 2


class Batch(NamedTuple):
    """Samples for one step: X (n, inputs), y (n, outputs) or (n,), and sample weights (n,)."""

    X: NDArray
    y: NDArray
    sample_weight: NDArray | None = None


class Data(NamedTuple):
    """A data set as kernels read it. A sample is a row: drawing it reads one piece of memory."""

    inputs: NDArray  # (samples, inputs)
    targets: NDArray  # (samples, outputs)
    sample_weight: NDArray  # (samples,)
    order: NDArray[np.int64]  # (samples,) the current epoch's order of samples
    epoch: NDArray[np.int64]  # (1,) the epoch `order` belongs to, -1: none
    first: NDArray[np.int64]  # (1,) step of the first batch if they come in given order, else -1
    resident: NDArray[np.int64]  # (2,) 1: all inputs stand in the workspace of steps, of rounds


@kernel
def take_step(state, scratch, params):
    """One step on the batch in `scratch.work`. Returns the batch's mean cost."""
    net, plan, work = state.network, scratch.plan, scratch.work
    forward(net, plan, work)
    error = mean_cost(net, plan, work, params.cost)
    # Our own ordering accepts a mismatch when it looks for growth, not when parameters move.
    tolerance = 0.0 if params.ordering == GAIN else params.acceptable_mismatch
    backward(net, plan, work, params.cost, tolerance)
    watch(state, error, params)
    growing = state.clock[PHASE] == GROWING
    if params.ordering != GAIN and growing:
        feel(net, work, params.delta_min)
        term_potentials(net, work, scratch.potential)
        edge_potentials(plan, work, scratch.potential)
    else:
        term_gradients(net, work, scratch.potential)
        edge_gradients(plan, work, scratch.potential)
    if params.perturbation > 0.0:
        perturb_zero_weights(state, plan, work, scratch.potential, params)
    move_parameters(state, scratch.potential, scratch.correction, params)
    move_gains(state, plan, params)
    if params.ordering == V1:
        grow_v1(state, scratch, params)
    elif params.ordering == UNRESTRICTED:
        grow_unrestricted(state, scratch, params)
    remove_useless(state, plan, scratch.log, params)
    return error


@kernel
def is_round(state, params):
    """Is this a step in which our own ordering looks at the structure?"""
    if params.ordering != GAIN or state.clock[PHASE] > EXCHANGING:
        return False
    return (state.clock[STEP] + 1) % params.interval == 0


@kernel
def look_at_structure(state, plan, wide, log, params):
    """A round of growth or exchange, on the batch in `wide`."""
    net = state.network
    forward(net, plan, wide)
    backward(net, plan, wide, params.cost, params.acceptable_mismatch)
    edges = count_edges(net)
    clock = state.clock
    if clock[PHASE] == GROWING:
        limit = int(params.overshoot * params.max_edges)
        added = -1  # no room: then the weakest edges make some
        if edges < limit and not out_of_time(state, params):
            few = max(1, int(params.growth_rate * edges))
            added = grow_by_gain(state, plan, wide, log, params, limit - edges, few)
        clock[IDLE] = 0 if added > 0 else clock[IDLE] + 1
        if added < 0 or clock[IDLE] >= 2:
            clock[IDLE] = 0
            if added < 0 and params.swaps > 0 and not out_of_time(state, params):
                enter(state, log, EXCHANGING)
            else:
                begin_settling(state, plan, wide, log, params)
    else:
        exchange(state, plan, wide, log, params, edges)


@kernel
def out_of_time(state, params):
    """Must growth end now, if settling is to end within max_steps?"""
    return state.clock[STEP] + 1 + params.settle_steps >= params.max_steps


@kernel
def begin_settling(state, plan, wide, log, params):
    """End growth: what is above max_edges fades, and γ begins to fall."""
    if count_edges(state.network) > params.max_edges:
        fade_weakest(state, plan, wide, params, params.max_edges)
    enter(state, log, SETTLING)


@kernel
def exchange(state, plan, wide, log, params, edges):
    """Alternately let the weakest edges fade and fill the room with the best candidates.

    The share exchanged, and what `overshoot` allows above max_edges, fall from turn to turn. A
    turn has two halves: `SWAPS` counts them.
    """
    clock = state.clock
    turn = clock[SWAPS] // 2
    if turn >= params.swaps or out_of_time(state, params):
        begin_settling(state, plan, wide, log, params)
        return
    left = 1.0 - (turn + 1.0) / params.swaps
    full = int(params.max_edges * (1.0 + (params.overshoot - 1.0) * left))
    if clock[SWAPS] % 2 == 0:
        share = params.swap_share * (1.0 - turn / params.swaps)
        fade_weakest(state, plan, wide, params, max(int(full * (1.0 - share)), 1))
        clock[SWAPS] += 1
    else:
        added = 0
        if edges < full:
            quota = max(1, int(params.growth_rate * edges))
            added = grow_by_gain(state, plan, wide, log, params, full - edges, quota)
        if added == 0 or edges + added >= full:
            clock[SWAPS] += 1


@kernel
def is_any_fading(state):
    """Is an edge still on its way out? A network is not stable before it is gone."""
    for e in range(state.network.counts[N_EDGES]):
        if state.network.edges[e].source >= 0 and state.edge_life[e].fading:
            return True
    return False


@kernel
def end_step(state, plan, wide, log, params):
    """Is the network done? Then the clock moves on."""
    clock = state.clock
    if params.ordering != GAIN:
        if clock[PHASE] == GROWING:
            if out_of_time(state, params):
                finish_growth(state, log, params)
            else:
                watch_patience(state, plan, log, params)
    elif clock[PHASE] < SETTLING and clock[STEP] + 1 >= params.max_steps:
        begin_settling(state, plan, wide, log, params)
    settled = clock[STEP] + 1 - clock[PHASE_START] >= params.settle_steps
    if clock[PHASE] == SETTLING and settled and not is_any_fading(state):
        enter(state, log, STABLE)
    clock[STEP] += 1


@kernel
def capacity_for_step(state, log, params):
    """Is there room in the arrays for all that one step may add?"""
    net = state.network
    if params.ordering == V1:
        outputs = net.counts[N_OUTPUTS]
        return has_room(state, log, outputs, outputs)
    if params.ordering == UNRESTRICTED:
        edges, units = net.counts[N_EDGES], net.counts[N_UNITS]
        return has_room(state, log, edges, edges + 2 * units)
    edges = count_edges(net)
    few = max(2 * MAX_ORDER, int(params.growth_rate * edges))
    if params.breadth > 0:
        few = max(few, edges, net.counts[N_OUTPUTS] * min(net.counts[N_INPUTS], MANY))
    return has_room(state, log, few, few)


@kernel
def gather(data, chosen, n, work, resident):
    """Copy the chosen samples into the workspace; of resident ones only the targets."""
    width = -(-n // LANES) * LANES
    work.width[0], work.width[1] = n, width
    if not resident:
        transpose(data.inputs, chosen, n, work.state, width)
    transpose(data.targets, chosen, n, work.target, width)
    for m in range(n):
        work.sample_weight[m] = data.sample_weight[chosen[m]]
    for m in range(n, width):
        work.sample_weight[m] = 0.0


@kernel
def transpose(samples, chosen, n, rows, width):
    """Write chosen samples into columns; a few of them at a time, which stay in the cache."""
    for lo in range(0, n, LANES):
        hi = min(lo + LANES, n)
        for f in range(samples.shape[1]):
            for m in range(lo, hi):
                rows[f, m] = samples[chosen[m], f]
    for f in range(samples.shape[1]):
        for m in range(n, width):
            rows[f, m] = 0.0


@kernel
def draw_batch(state, work, data, params):
    """The batch of the current step: the next part of the epoch's order, keyed by the seed."""
    n_samples = data.inputs.shape[0]
    n = min(params.batch_size, n_samples)
    per_epoch = max(n_samples // n, 1)
    step = state.clock[STEP]
    if data.first[0] >= 0:
        start = (step - data.first[0]) * n
        gather(data, data.order[start : start + n], n, work, 0)
        return
    if n == n_samples:
        if data.epoch[0] < 0:  # the whole data set is the batch: it never changes
            for m in range(n):
                data.order[m] = m
            gather(data, data.order, n, work, data.resident[0])
            data.resident[0] = 1
            data.epoch[0] = 0
        return
    epoch = step // per_epoch
    if data.epoch[0] != epoch:
        shuffle(state.clock[SEED], SHUFFLE, epoch, data.order)
        data.epoch[0] = epoch
    start = (step % per_epoch) * n
    gather(data, data.order[start : start + n], n, work, 0)


@kernel
def draw_wide(state, wide, data, params):
    """The samples of a round of growth: all, or a keyed random part; in random order.

    Where no products are looked for, which is done on the first samples, all stand as they are.
    """
    n_samples = data.inputs.shape[0]
    if params.product_order < 2 and n_samples <= params.growth_batch:
        gather(data, np.arange(n_samples), n_samples, wide, data.resident[1])
        data.resident[1] = 1
        return
    order = np.empty(n_samples, np.int64)
    shuffle(state.clock[SEED], GROWTH_SAMPLE, state.clock[STEP], order)
    gather(data, order, min(params.growth_batch, n_samples), wide, 0)


@kernel
def run(state, scratch, wide, data, params, stop, error, edges, hidden):
    """Steps on batches drawn from `data` until step `stop`, done, or out of capacity."""
    first = state.clock[STEP]
    while state.clock[STEP] < stop:
        if state.clock[PHASE] == STABLE:
            return DONE
        if not capacity_for_step(state, scratch.log, params):
            return FULL
        draw_batch(state, scratch.work, data, params)
        i = state.clock[STEP] - first
        error[i] = take_step(state, scratch, params)
        if is_round(state, params):
            draw_wide(state, wide, data, params)
            look_at_structure(state, scratch.plan, wide, scratch.log, params)
        end_step(state, scratch.plan, wide, scratch.log, params)
        edges[i] = count_edges(state.network)
        hidden[i] = count_hidden(state.network)
    return DONE if state.clock[PHASE] == STABLE else RAN


def more_room(state: State) -> State:
    """Return the state in arrays with twice the capacity."""
    return with_room(state, 2 * len(state.network.units) + 64, 2 * len(state.network.edges) + 64)


def drain(log: Log) -> NDArray:
    """Return the events written since the last call, and forget them."""
    events = log.events[: log.written[0]].copy()
    log.written[0] = 0
    return events


def step(state: State, batch: Batch, params: Params) -> tuple[State, History]:
    """Return the state after one step on a batch, and what happened. `state` stays as it is.

    A round of growth, where one falls on this step, uses the same batch. This is `adapt` on a
    data set that consists of the batch alone: one compiled loop serves both, so that both round
    alike.
    """
    n = max(len(batch.X), 1)
    whole = params.replace(batch_size=n, growth_batch=n)
    data = new_data(batch.X, batch.y, whole, batch.sample_weight)
    return adapt(state.copy(), data, whole, until=state.step + 1)


def new_data(
    X: NDArray,
    y: NDArray,
    params: Params,
    sample_weight: NDArray | None = None,
    first: int | None = None,
) -> Data:
    """Lay a data set out for kernels. X is (n, inputs), y is (n, outputs), or (n,) for one output.

    Batches are drawn at random; with `first`, they are taken in the order in which they stand
    here, beginning at that step.
    """
    dtype = working_type(params)
    X, y = np.asarray(X), np.asarray(y)
    y = y[:, None] if y.ndim == 1 else y
    if X.ndim != 2 or y.ndim != 2 or len(X) != len(y) or not len(X):
        raise ValueError(
            "X must be (n, inputs) and y (n, outputs) with the same n of at least 1, got "
            f"{X.shape} and {y.shape}"
        )
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    if weight.shape != (len(X),):
        raise ValueError(f"sample_weight must have shape ({len(X)},), got {weight.shape}")
    for name, values in (("X", X), ("y", y), ("sample_weight", weight)):
        if not np.isfinite(values).all():
            raise ValueError(f"{name} holds NaN or infinity")
    return Data(
        inputs=np.ascontiguousarray(X, dtype),
        targets=np.ascontiguousarray(y, dtype),
        sample_weight=np.ascontiguousarray(weight, dtype),
        order=np.arange(len(X)),
        epoch=np.array([-1], np.int64),
        first=np.array([-1 if first is None else first], np.int64),
        resident=np.zeros(2, np.int64),
    )


class Desk:
    """Workspaces that networks with the same inputs and outputs use in turn, one at a time."""

    def __init__(self, params: Params, n_samples: int) -> None:
        self.params = params
        self.n_work = min(params.batch_size, n_samples)
        self.n_wide = min(params.growth_batch, n_samples) if params.ordering == "gain" else 1
        self._spaces: tuple[Workspace, Workspace] | None = None
        self._inputs: NDArray | None = None  # those that stand in the spaces
        self._resident = np.zeros(2, np.int64)

    def laid(self, data: Data) -> Data:
        """Return the data with the word whether their inputs stand here already."""
        if self._inputs is not data.inputs:
            self._inputs = data.inputs
            self._resident[:] = 0
        return data._replace(resident=self._resident)

    def spaces(self, network: Network) -> tuple[Workspace, Workspace]:
        """Return a workspace for steps and one for rounds of growth that hold this network."""
        if self._spaces is not None:
            work = self._spaces[0]
            units, edges = len(work.term_0), len(work.edge_weight)
            if units >= len(network.units) and edges >= len(network.edges):
                return self._spaces
            # Half as much again: others that come to this desk grow too.
            network = with_capacity(
                network,
                max(units, 3 * len(network.units) // 2),
                max(edges, 3 * len(network.edges) // 2),
            )
        dtype = working_type(self.params)
        self._resident[:] = 0
        self._spaces = (
            new_workspace(network, self.n_work, dtype),
            new_workspace(network, self.n_wide, dtype),
        )
        return self._spaces


class Adaptation:
    """A network on its way to stability, with what its steps use up, kept from call to call."""

    def __init__(self, state: State, params: Params) -> None:
        self.state = state
        self.params = params
        self.constants = params.constants()
        self._scratch: Scratch | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle without scratch arrays: they are larger than all else."""
        return Adaptation, (self.state, self.params)

    @property
    def stable(self) -> bool:
        """Has the network finished adapting?"""
        return is_stable(self.state)

    def replace(self, state: State) -> None:
        """Go on from another state."""
        self.state, self._scratch = state, None

    def advance(self, data: Data, until: int, desk: Desk) -> History:
        """Take steps on `data` until the network is stable, or until step `until`."""
        network = self.state.network
        wanted, given = (network.n_inputs, network.n_outputs), (data.inputs, data.targets)
        if wanted != tuple(part.shape[1] for part in given):
            raise ValueError(
                f"the network has {wanted[0]} inputs and {wanted[1]} outputs, the data have "
                f"{given[0].shape[1]} and {given[1].shape[1]}"
            )
        history = History()
        data = desk.laid(data)
        data.epoch[0] = -1  # the workspace holds another's batch, or none
        result = RAN
        while self.state.step < until and result != DONE:
            first = self.state.step
            error = np.zeros(until - first)
            edges, hidden = np.zeros((2, until - first), np.int64)
            work, wide = desk.spaces(self.state.network)
            if self._scratch is None:
                self._scratch = new_scratch(self.state, self.params, desk.n_work, work)
            scratch = self._scratch._replace(work=work)
            result = run(
                self.state, scratch, wide, data, self.constants, until, error, edges, hidden
            )
            taken = slice(self.state.step - first)
            events = drain(scratch.log)
            # Copies: what was taken may be a small part of what was asked for.
            history.extend(
                History(events, error[taken].copy(), edges[taken].copy(), hidden[taken].copy())
            )
            if result == FULL:
                self.state, self._scratch = more_room(self.state), None
                data.epoch[0] = -1
        return history


def adapt(
    state: State,
    data: Data,
    params: Params,
    *,
    until: int | None = None,
    chunk: int = 200,
    report: Callable[[State], None] | None = None,
) -> tuple[State, History]:
    """Take steps until the network is stable, or until step `until`.

    The state given is used up: go on with the one returned. `report` is called with the state
    after every `chunk` steps.
    """
    adaptation, history = Adaptation(state, params), History()
    desk = Desk(params, len(data.inputs))
    stop = params.max_steps + params.settle_steps + 1 if until is None else until
    while adaptation.state.step < stop and not adaptation.stable:
        before = adaptation.state.step
        history.extend(adaptation.advance(data, min(before + chunk, stop), desk))
        if report is not None and adaptation.state.step > before:
            report(adaptation.state)
    return adaptation.state, history


def is_stable(state: State) -> bool:
    """Has the network finished adapting?"""
    return bool(state.clock[PHASE] == STABLE)


def fit_little_in_float32() -> None:
    """Take a step, for which all kernels of adaptation are needed."""
    _fit_little("float32")


def fit_little_in_float64() -> None:
    """Do the same in double precision."""
    _fit_little("float64")


def _fit_little(precision: str) -> None:
    params = Params(precision=precision)
    data = new_data(np.zeros((1, 1)), np.zeros(1), params)
    adapt(new_state(1, 1), data, params, until=1)


FIT_LITTLE = {"float32": fit_little_in_float32, "float64": fit_little_in_float64}
