"""One step of adaptation, and the compiled loop over steps.

A step runs the states forward and the deltas backward, computes the potentials, moves the
parameters, grows or removes parts of the network, and tests whether the network is stable.
"""

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_INPUTS, N_OUTPUTS, N_UNITS
from dirad.core.order import rebuild
from dirad.core.potential import (
    edge_gradients,
    edge_potentials,
    term_gradients,
    term_potentials,
    threshold_deltas,
)
from dirad.core.propagate import backward, forward, mean_cost
from dirad.growth.batches import draw_batch, draw_growth_batch
from dirad.growth.gain import grow_by_gain, rounds_for_all_outputs
from dirad.growth.priority import grow_unrestricted, grow_v1
from dirad.growth.products import MAX_ORDER
from dirad.growth.removal import prune_zero_edges_and_dead_units
from dirad.growth.saliency import fade_weakest
from dirad.growth.shared_layer import (
    build_shared_layer,
    count_layer_edges,
    count_shared_nodes,
    has_significant_source,
    wants_shared_layer,
)
from dirad.growth.simplification import replace_linear_nodes
from dirad.growth.stabilization import (
    apply_patience,
    end_growth_phase,
    enter_phase,
    record_error_and_best,
)
from dirad.growth.state import (
    GAIN,
    GROWN,
    HALF_SWAPS,
    PHASE,
    PHASE_START,
    ROUNDS_WITHOUT_GROWTH,
    STEP,
    UNRESTRICTED,
    V1,
    count_edges,
    count_hidden,
    has_room,
)
from dirad.growth.thinning import add_input_noise, is_thinning_round, limit_samples, thin
from dirad.growth.trimming import (
    begin_settling,
    must_settle,
    return_to_best_if_growth_is_vain,
    trim,
    try_to_begin_trimming,
)
from dirad.growth.update import (
    TRIM_INTERVAL,
    move_gains,
    move_weights_and_biases,
    perturb_zero_weight_gradients,
    thinning_length,
)
from dirad.history import EXCHANGING, GROWING, SETTLING, STABLE, THINNING, TRIMMING

MAX_RESERVED_INPUTS = 256  # inputs that one round may connect to every output

RAN, FULL, DONE = 0, 1, 2  # why `run` returned: at the last step; out of capacity; stable


@kernel
def run(state, scratch, wide, data, params, stop, error, edges, hidden):
    """Take steps on batches of `data` until step `stop`, or until stable or out of capacity."""
    first = state.clock[STEP]
    while state.clock[STEP] < stop:
        if state.clock[PHASE] == STABLE:
            return DONE
        if not has_capacity_for_step(state, scratch.log, params):
            return FULL
        draw_batch(state, scratch.work, data, params)
        add_input_noise(state, scratch.work, params)
        i = state.clock[STEP] - first
        error[i] = take_step(state, scratch, params)
        if is_structure_round(state, params):
            draw_growth_batch(state, wide, data, params)
            structure_round(state, scratch.plan, wide, scratch.log, params)
        advance_phase_and_clock(state, scratch.plan, wide, scratch.log, params)
        edges[i] = count_edges(state.network)
        hidden[i] = count_hidden(state.network)
    return DONE if state.clock[PHASE] == STABLE else RAN


@kernel
def take_step(state, scratch, params):
    """Take one step on the batch in `scratch.work`. Return the mean cost of the batch."""
    net, plan, work = state.network, scratch.plan, scratch.work
    forward(net, plan, work)
    error = mean_cost(net, plan, work, params.cost)
    # Our own ordering tolerates a mismatch in rounds of growth, not in parameter updates.
    tolerance = 0.0 if params.ordering == GAIN else params.acceptable_mismatch
    backward(net, plan, work, params.cost, tolerance)
    record_error_and_best(state, error, params)
    growing = state.clock[PHASE] == GROWING
    if params.ordering != GAIN and growing:
        threshold_deltas(net, work, params.delta_min)
        term_potentials(net, work, scratch.potential)
        edge_potentials(plan, work, scratch.potential)
    else:
        term_gradients(net, work, scratch.potential)
        edge_gradients(plan, work, scratch.potential)
    if params.perturbation > 0.0:
        perturb_zero_weight_gradients(state, plan, work, scratch.potential, params)
    move_weights_and_biases(state, scratch.potential, scratch.correction, params)
    move_gains(state, plan, params)
    if params.ordering == V1:
        grow_v1(state, scratch, params)
    elif params.ordering == UNRESTRICTED:
        grow_unrestricted(state, scratch, params)
    prune_zero_edges_and_dead_units(state, plan, scratch.log, params)
    return error


@kernel
def is_structure_round(state, params):
    """Does our own ordering change the structure after this step?"""
    phase = state.clock[PHASE]
    if params.ordering != GAIN or phase in (SETTLING, STABLE):
        return False
    if phase == THINNING:
        return is_thinning_round(state, params)
    if phase == TRIMMING:
        return (state.clock[STEP] + 1 - state.clock[PHASE_START]) % TRIM_INTERVAL == 0
    return (state.clock[STEP] + 1) % params.interval == 0


@kernel
def structure_round(state, plan, wide, log, params):
    """Run a round of growth, exchange or trimming, on the batch in `wide`."""
    net = state.network
    if state.clock[PHASE] == THINNING:
        limit_samples(wide)
    forward(net, plan, wide)
    backward(net, plan, wide, params.cost, params.acceptable_mismatch)
    if state.clock[PHASE] == THINNING:
        thin(state, plan, wide, log, params)
        return
    if wants_shared_layer(state, params) and has_significant_source(net, wide):
        build_shared_layer(state, plan, log, params)
        rebuild(net, plan)
        enter_phase(state, log, THINNING)
        return
    if state.clock[PHASE] == TRIMMING:
        trim(state, plan, wide, log, params)
        return
    edges = count_edges(net)
    clock = state.clock
    if clock[PHASE] == GROWING:
        limit = int(params.overshoot * params.max_edges)
        added = -1  # no room: edges are exchanged from now on
        if edges < limit and return_to_best_if_growth_is_vain(state, plan, wide, log, params):
            added = 0
            clock[ROUNDS_WITHOUT_GROWTH] = 2 * rounds_for_all_outputs(net, params)
        elif edges < limit and not must_settle(state, params):
            few = max(1, int(params.growth_rate * edges))
            added = grow_by_gain(state, plan, wide, log, params, limit - edges, few)
        state.trimming[GROWN] += max(added, 0)
        clock[ROUNDS_WITHOUT_GROWTH] = 0 if added > 0 else clock[ROUNDS_WITHOUT_GROWTH] + 1
        if added < 0 or clock[ROUNDS_WITHOUT_GROWTH] >= 2 * rounds_for_all_outputs(net, params):
            clock[ROUNDS_WITHOUT_GROWTH] = 0
            crowded = added < 0 or count_edges(net) > params.max_edges
            if crowded and params.swaps > 0 and not must_settle(state, params):
                enter_phase(state, log, EXCHANGING)
            elif try_to_begin_trimming(state, log, params):
                pass
            else:
                begin_settling(state, plan, wide, log, params)
    else:
        if params.edge_price > 0.0:
            replace_linear_nodes(state, plan, log, params)
        exchange_edges(state, plan, wide, log, params, count_edges(net))


@kernel
def exchange_edges(state, plan, wide, log, params, edges):
    """Alternately let the weakest edges fade and fill the room with the best candidates.

    The share exchanged, and the edges that `overshoot` allows above max_edges, fall from turn to
    turn. A turn has two halves: `HALF_SWAPS` counts halves.
    """
    clock = state.clock
    turn = clock[HALF_SWAPS] // 2
    if turn >= params.swaps or must_settle(state, params):
        begin_settling(state, plan, wide, log, params)
        return
    left = 1.0 - (turn + 1.0) / params.swaps
    full = int(params.max_edges * (1.0 + (params.overshoot - 1.0) * left))
    if clock[HALF_SWAPS] % 2 == 0:
        share = params.swap_share * (1.0 - turn / params.swaps)
        fade_weakest(state, plan, wide, params, max(int(full * (1.0 - share)), 1), np.inf)
        clock[HALF_SWAPS] += 1
    else:
        added = 0
        if edges < full:
            quota = max(1, int(params.growth_rate * edges))
            added = grow_by_gain(state, plan, wide, log, params, full - edges, quota)
        if added == 0 or edges + added >= full:
            clock[HALF_SWAPS] += 1


@kernel
def is_any_edge_fading(state):
    """Is an edge still fading? A network is not stable before all fading edges are gone."""
    for e in range(state.network.counts[N_EDGES]):
        if state.network.edges[e].source >= 0 and state.edge_life[e].fading:
            return True
    return False


@kernel
def advance_phase_and_clock(state, plan, wide, log, params):
    """Change the phase where its end is reached, and advance the clock."""
    clock = state.clock
    if params.ordering != GAIN:
        if clock[PHASE] == GROWING:
            if must_settle(state, params):
                end_growth_phase(state, log, params)
            else:
                apply_patience(state, plan, log, params)
    elif clock[PHASE] not in (SETTLING, STABLE, THINNING) and clock[STEP] + 1 >= params.max_steps:
        begin_settling(state, plan, wide, log, params)
    length = 1 << 60
    if clock[PHASE] == SETTLING:
        length = params.settle_steps
    elif clock[PHASE] == THINNING:
        length = thinning_length(state, params)
    if clock[STEP] + 1 - clock[PHASE_START] >= length and not is_any_edge_fading(state):
        if params.edge_price > 0.0:
            replace_linear_nodes(state, plan, log, params)
        enter_phase(state, log, STABLE)
    clock[STEP] += 1


@kernel
def has_capacity_for_step(state, log, params):
    """Have the arrays room for everything that one step may add?"""
    net = state.network
    if params.ordering == V1:
        outputs = net.counts[N_OUTPUTS]
        return has_room(state, log, outputs, outputs)
    if params.ordering == UNRESTRICTED:
        edges, units = net.counts[N_EDGES], net.counts[N_UNITS]
        return has_room(state, log, edges, edges + 2 * units)
    if wants_shared_layer(state, params):
        nodes = count_shared_nodes(params)
        return has_room(state, log, nodes, count_layer_edges(net, params))
    edges = count_edges(net)
    if state.clock[PHASE] == THINNING:
        return has_room(state, log, net.counts[N_UNITS], max(edges, params.max_edges))
    few = max(2 * MAX_ORDER, int(params.growth_rate * edges))
    if params.breadth > 0:
        few = max(
            few, edges, net.counts[N_OUTPUTS] * min(net.counts[N_INPUTS], MAX_RESERVED_INPUTS)
        )
    return has_room(state, log, few, few)
