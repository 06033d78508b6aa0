"""The step, and the loop built on it.

A step: states forward, deltas backward, potentials, a move of the parameters, then growth or
removal, then the question whether the network is done. `step` takes one batch and leaves its
argument alone; `adapt` draws batches from a data set and runs the same kernel in place.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_UNITS
from dirad.core.potential import (
    edge_gradients,
    edge_potentials,
    feel,
    term_gradients,
    term_potentials,
)
from dirad.core.propagate import backward, forward, load_batch, mean_cost
from dirad.core.random import GROWTH_SAMPLE, SHUFFLE, bits, mix, shuffle
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
    Scratch,
    State,
    count_edges,
    count_hidden,
    has_room,
    new_scratch,
    with_room,
)
from dirad.growth.update import move_gains, move_parameters, perturb_zero_weights
from dirad.history import EXCHANGING, GROWING, SETTLING, STABLE, History
from dirad.params import Params

V1, UNRESTRICTED, GAIN = 0, 1, 2

# What a compiled run ended with.
RAN, FULL, DONE = 0, 1, 2


class Batch(NamedTuple):
    """Samples for one step: X (n, inputs), y (n, outputs), and optional sample weights (n,)."""

    X: NDArray
    y: NDArray
    sample_weight: NDArray | None = None


class Data(NamedTuple):
    """A data set as kernels read it: features and targets along rows, samples along columns."""

    inputs: NDArray  # (inputs, samples)
    targets: NDArray  # (outputs, samples)
    sample_weight: NDArray  # (samples,)
    order: NDArray[np.int64]  # (samples,) the current epoch's order of samples
    epoch: NDArray[np.int64]  # (1,) the epoch `order` belongs to, -1: none


@kernel
def take_step(state, scratch, params):
    """One step on the batch in `scratch.work`. Returns the batch's mean cost."""
    net, plan, work = state.network, scratch.plan, scratch.work
    forward(net, plan, work)
    error = mean_cost(net, plan, work, params.cost)
    backward(net, plan, work, params.cost, params.acceptable_mismatch)
    watch(state, scratch, error, params)
    growing = state.clock[PHASE] == GROWING
    if params.ordering != GAIN and growing:
        feel(net, work, params.delta_min)
        term_potentials(net, work, scratch.potential)
        edge_potentials(plan, work, scratch.potential)
    else:
        term_gradients(net, work, scratch.potential)
        edge_gradients(plan, work, scratch.potential)
    if params.perturbation > 0.0:
        perturb_zero_weights(state, scratch, params)
    move_parameters(state, scratch, params)
    move_gains(state, scratch, params)
    if params.ordering == V1:
        grow_v1(state, scratch, params)
    elif params.ordering == UNRESTRICTED:
        grow_unrestricted(state, scratch, params)
    remove_useless(state, scratch, params)
    return error


@kernel
def is_round(state, params):
    """Is this a step in which our own ordering looks at the structure?"""
    if params.ordering != GAIN or state.clock[PHASE] > EXCHANGING:
        return False
    return (state.clock[STEP] + 1) % params.interval == 0


@kernel
def look_at_structure(state, scratch, params):
    """A round of growth or exchange, on the batch in `scratch.wide`."""
    net, plan, wide = state.network, scratch.plan, scratch.wide
    forward(net, plan, wide)
    backward(net, plan, wide, params.cost, params.acceptable_mismatch)
    edges = count_edges(net)
    clock = state.clock
    if clock[PHASE] == GROWING:
        limit = int(params.overshoot * params.max_edges)
        quota = max(2 * MAX_ORDER, int(params.growth_rate * edges))
        if edges < limit and not out_of_time(state, params):
            few = max(1, int(params.growth_rate * edges))
            added = grow_by_gain(state, scratch, params, min(limit - edges, quota), few)
        else:
            added = -1
        clock[IDLE] = 0 if added > 0 else clock[IDLE] + 1
        if added < 0 or clock[IDLE] >= 2:
            clock[IDLE] = 0
            if params.swaps > 0 and not out_of_time(state, params):
                enter(state, scratch, EXCHANGING)
            else:
                begin_settling(state, scratch, params)
    else:
        exchange(state, scratch, params, edges)


@kernel
def out_of_time(state, params):
    """Must growth end now, if settling is to end within max_steps?"""
    return state.clock[STEP] + 1 + params.settle_steps >= params.max_steps


@kernel
def begin_settling(state, scratch, params):
    """End growth: what is above max_edges fades, and γ begins to fall."""
    if count_edges(state.network) > params.max_edges:
        fade_weakest(state, scratch, params, params.max_edges)
    finish_growth(state, scratch, params)


@kernel
def exchange(state, scratch, params, edges):
    """Alternately let the weakest edges fade and fill the room with the best candidates.

    The share exchanged, and what `overshoot` allows above max_edges, fall from round to round.
    """
    clock = state.clock
    done = (clock[SWAPS] // 2) / max(params.swaps, 1)
    if clock[SWAPS] // 2 >= params.swaps or out_of_time(state, params):
        begin_settling(state, scratch, params)
        return
    left = 1.0 - done - 1.0 / params.swaps
    limit = int(params.max_edges * (1.0 + (params.overshoot - 1.0) * left))
    full = min(limit, max(clock[IDLE], edges))
    if clock[SWAPS] % 2 == 0:
        clock[IDLE] = full  # remembers the size to grow back to
        keep = int(full * (1.0 - params.swap_share * (1.0 - done)))
        fade_weakest(state, scratch, params, max(keep, 1))
    else:
        room = full - edges
        if room > 0:
            grow_by_gain(state, scratch, params, room, room)
    clock[SWAPS] += 1


@kernel
def end_step(state, scratch, params):
    """Is the network done? Then the clock moves on."""
    clock = state.clock
    if params.ordering != GAIN:
        if clock[PHASE] == GROWING:
            if out_of_time(state, params):
                finish_growth(state, scratch, params)
            else:
                watch_patience(state, scratch, params)
    elif clock[PHASE] < SETTLING and clock[STEP] + 1 >= params.max_steps:
        begin_settling(state, scratch, params)
    if clock[PHASE] == SETTLING:
        if clock[STEP] + 1 - clock[PHASE_START] >= params.settle_steps:
            enter(state, scratch, STABLE)
    clock[STEP] += 1


@kernel
def capacity_for_step(state, scratch, params):
    """Is there room in the arrays for all that one step may add?"""
    net = state.network
    if params.ordering == V1:
        outputs = net.counts[3]
        return has_room(state, scratch.log, outputs, outputs)
    if params.ordering == UNRESTRICTED:
        edges, units = net.counts[N_EDGES], net.counts[N_UNITS]
        return has_room(state, scratch.log, edges, edges + 2 * units)
    edges = count_edges(net)
    quota = max(2 * MAX_ORDER, int(params.growth_rate * edges))
    if state.clock[PHASE] == EXCHANGING:
        quota = max(quota, edges)
    return has_room(state, scratch.log, quota, quota)


@kernel
def gather(data, chosen, n, work):
    """Copy the chosen samples into the workspace."""
    width = work.width[1]
    for f in range(data.inputs.shape[0]):
        for m in range(n):
            work.state[f, m] = data.inputs[f, chosen[m]]
        for m in range(n, width):
            work.state[f, m] = 0.0
    for f in range(data.targets.shape[0]):
        for m in range(n):
            work.target[f, m] = data.targets[f, chosen[m]]
        for m in range(n, width):
            work.target[f, m] = 0.0
    for m in range(n):
        work.sample_weight[m] = data.sample_weight[chosen[m]]
    for m in range(n, width):
        work.sample_weight[m] = 0.0


@kernel
def draw_batch(state, scratch, data, params):
    """The batch of the current step: the next part of the epoch's order, keyed by the seed."""
    n_samples = data.inputs.shape[1]
    n = min(params.batch_size, n_samples)
    per_epoch = max(n_samples // n, 1)
    step = state.clock[STEP]
    work = scratch.work
    if n == n_samples:
        if data.epoch[0] < 0:  # the whole data set is the batch: it never changes
            for m in range(n):
                data.order[m] = m
            work.width[0] = n
            work.width[1] = -(-n // 8) * 8
            gather(data, data.order, n, work)
            data.epoch[0] = 0
        return
    epoch = step // per_epoch
    if data.epoch[0] != epoch:
        shuffle(state.clock[SEED], SHUFFLE, epoch, data.order)
        data.epoch[0] = epoch
    start = (step % per_epoch) * n
    work.width[0] = n
    work.width[1] = -(-n // 8) * 8
    gather(data, data.order[start : start + n], n, work)


@kernel
def draw_wide(state, scratch, data, params):
    """The samples of a round of growth: all, or a keyed random part without repetition."""
    n_samples = data.inputs.shape[1]
    wide = scratch.wide
    n = min(params.growth_batch, n_samples)
    chosen = np.empty(n, np.int64)
    if n == n_samples:
        for m in range(n):
            chosen[m] = m
    else:
        # A random stride through the samples: no repetition, no memory of the whole order.
        base = bits(state.clock[SEED], GROWTH_SAMPLE, state.clock[STEP], 0)
        taken = np.zeros(n_samples, np.bool_)
        count, i = 0, 0
        while count < n:
            j = np.int64(mix(base ^ np.uint64(i)) % np.uint64(n_samples))
            i += 1
            if not taken[j]:
                taken[j] = True
                chosen[count] = j
                count += 1
    wide.width[0] = n
    wide.width[1] = -(-n // 8) * 8
    gather(data, chosen, n, wide)


@kernel
def run(state, scratch, data, params, stop, error, edges, hidden):
    """Steps on batches drawn from `data` until step `stop`, done, or out of capacity."""
    first = state.clock[STEP]
    while state.clock[STEP] < stop:
        if state.clock[PHASE] == STABLE:
            return DONE
        if not capacity_for_step(state, scratch, params):
            return FULL
        draw_batch(state, scratch, data, params)
        i = state.clock[STEP] - first
        error[i] = take_step(state, scratch, params)
        if is_round(state, params):
            draw_wide(state, scratch, data, params)
            look_at_structure(state, scratch, params)
        end_step(state, scratch, params)
        edges[i] = count_edges(state.network)
        hidden[i] = count_hidden(state.network)
    return DONE if state.clock[PHASE] == STABLE else RAN


@kernel
def step_on_batch(state, scratch, params):
    """One whole step on the batch in `scratch.work`, which is in `scratch.wide` too."""
    error = take_step(state, scratch, params)
    if is_round(state, params):
        look_at_structure(state, scratch, params)
    end_step(state, scratch, params)
    return error


def more_room(state: State) -> State:
    """Return the state in arrays with twice the capacity."""
    return with_room(state, 2 * len(state.network.kind) + 64, 2 * len(state.network.source) + 64)


def drain(scratch: Scratch) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the events written since the last call, and forget them."""
    n = int(scratch.log.count[0])
    rows, values = scratch.log.rows[:n].copy(), scratch.log.values[:n].copy()
    scratch.log.count[0] = 0
    return rows, values


def step(state: State, batch: Batch, params: Params) -> tuple[State, History]:
    """Return the state after one step on a batch, and what happened. `state` stays as it is.

    A round of growth, where one falls on this step, uses the same batch.
    """
    state = state.copy()
    constants = params.constants()
    n = len(batch.X)
    scratch = new_scratch(state, params, n, n)
    while not capacity_for_step(state, scratch, constants):
        state = more_room(state)
        scratch = new_scratch(state, params, n, n)
    load_batch(scratch.work, batch.X, batch.y, batch.sample_weight)
    if params.ordering == "gain":
        load_batch(scratch.wide, batch.X, batch.y, batch.sample_weight)
    error = step_on_batch(state, scratch, constants)
    rows, values = drain(scratch)
    return state, History(
        rows,
        values,
        np.array([error]),
        np.array([state.network.n_edges]),
        np.array([state.network.n_hidden]),
    )


def new_data(X: NDArray, y: NDArray, params: Params, sample_weight: NDArray | None = None) -> Data:
    """Lay a data set out for kernels. X is (n, inputs), y is (n, outputs)."""
    dtype = np.float32 if params.precision == "float32" else np.float64
    weight = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, float)
    return Data(
        inputs=np.ascontiguousarray(X.T, dtype),
        targets=np.ascontiguousarray(y.T, dtype),
        sample_weight=np.ascontiguousarray(weight, dtype),
        order=np.zeros(len(X), np.int64),
        epoch=np.array([-1], np.int64),
    )


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
    constants = params.constants()
    history = History()
    stop = params.max_steps + params.settle_steps + 1 if until is None else until
    n = data.inputs.shape[1]
    scratch = _scratch_for(state, data, params, n)
    while state.step < stop:
        target = min(state.step + chunk, stop)
        first = state.step
        error = np.zeros(target - first)
        edges, hidden = np.zeros((2, target - first), np.int64)
        result = run(state, scratch, data, constants, target, error, edges, hidden)
        taken = state.step - first
        rows, values = drain(scratch)
        history.extend(History(rows, values, error[:taken], edges[:taken], hidden[:taken]))
        if report is not None and taken:
            report(state)
        if result == DONE:
            break
        if result == FULL:
            state = more_room(state)
            data.epoch[0] = -1  # the new workspace holds no batch yet
            scratch = _scratch_for(state, data, params, n)
    return state, history


def _scratch_for(state: State, data: Data, params: Params, n_samples: int) -> Scratch:
    return new_scratch(
        state, params, min(params.batch_size, n_samples), min(params.growth_batch, n_samples)
    )


def is_stable(state: State) -> bool:
    """Has the network finished adapting?"""
    return bool(state.clock[PHASE] == STABLE)
