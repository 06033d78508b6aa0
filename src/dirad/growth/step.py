"""One step of adaptation, and the compiled loop over steps of our own ordering.

A step runs the states forward and the deltas backward, computes the gradients, moves the
parameters, and removes edges and nodes that are no longer used. Growth happens between steps, in
rounds: `structure_round.py`. Steps and rounds are two programs, and the steps of the paper's
orderings a third (`paper_step.py`), so that a fit compiles only what it uses.
"""

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_INPUTS, N_OUTPUTS, N_UNITS
from dirad.core.potential import edge_gradients, term_gradients
from dirad.core.propagate import backward, forward, mean_cost
from dirad.growth.batches import draw_batch
from dirad.growth.products import MAX_ORDER
from dirad.growth.removal import prune_zero_edges_and_dead_units
from dirad.growth.shared_layer import count_layer_edges, count_shared_nodes, wants_shared_layer
from dirad.growth.stabilization import record_error_and_best
from dirad.growth.state import (
    PHASE,
    PHASE_START,
    STEP,
    count_edges,
    count_hidden,
    has_room,
)
from dirad.growth.thinning import add_input_noise, is_thinning_round
from dirad.growth.update import (
    TRIM_INTERVAL,
    move_weights_and_biases,
    perturb_zero_weight_gradients,
    schedule_gains,
    thinning_length,
)
from dirad.history import SETTLING, STABLE, THINNING, TRIMMING

MAX_RESERVED_INPUTS = 256  # inputs that one round may connect to every output

# Why a loop over steps returned: at the last step; out of capacity; stable; the step that was
# taken is completed by a round.
RAN, FULL, DONE, ROUND = range(4)


@kernel
def run_steps(state, scratch, data, params, stop, error, edges, hidden):
    """Take steps on batches of `data` until step `stop`, a round, stable, or out of capacity."""
    first = state.clock[STEP]
    while state.clock[STEP] < stop:
        if state.clock[PHASE] == STABLE:
            return DONE
        if not has_capacity_for_step(state, scratch.log, params):
            return FULL
        draw_batch(state, scratch.work, data, params)
        add_input_noise(state, scratch.work, params)
        i = state.clock[STEP] - first
        error[i] = take_parameter_step(state, scratch, params)
        if is_structure_round(state, params) or is_end_of_phase(state, params):
            return ROUND
        state.clock[STEP] += 1
        edges[i] = count_edges(state.network)
        hidden[i] = count_hidden(state.network)
    return RAN


@kernel
def take_parameter_step(state, scratch, params):
    """Take one step on the batch in `scratch.work`. Return the mean cost of the batch."""
    net, plan, work = state.network, scratch.plan, scratch.work
    # A mismatch is tolerated in rounds of growth, not in parameter updates.
    error = propagate(state, plan, work, params, 0.0)
    term_gradients(net, work, scratch.potential)
    edge_gradients(plan, work, scratch.potential)
    move_parameters(state, scratch, params)
    prune_zero_edges_and_dead_units(state, plan, scratch.log, params)
    return error


@kernel
def propagate(state, plan, work, params, tolerance):
    """Compute states and deltas, and record the error. Return the mean cost of the batch."""
    net = state.network
    forward(net, plan, work)
    error = mean_cost(net, plan, work, params.cost)
    backward(net, plan, work, params.cost, tolerance)
    record_error_and_best(state, error, params)
    return error


@kernel
def move_parameters(state, scratch, params):
    """Move weights, biases and gains along the gradients in `scratch.potential`."""
    if params.perturbation > 0.0:
        perturb_zero_weight_gradients(state, scratch.plan, scratch.work, scratch.potential, params)
    move_weights_and_biases(state, scratch.potential, scratch.correction, params)
    schedule_gains(state, scratch.plan, params)


@kernel
def is_structure_round(state, params):
    """Does the structure change after this step?"""
    phase = state.clock[PHASE]
    if phase in (SETTLING, STABLE):
        return False
    if phase == THINNING:
        return is_thinning_round(state, params)
    if phase == TRIMMING:
        return (state.clock[STEP] + 1 - state.clock[PHASE_START]) % TRIM_INTERVAL == 0
    return (state.clock[STEP] + 1) % params.interval == 0


@kernel
def is_end_of_phase(state, params):
    """Must settling begin after this step, or is the network settled?"""
    if state.clock[PHASE] in (SETTLING, THINNING):
        return is_settled(state, params)
    return state.clock[STEP] + 1 >= params.max_steps


@kernel
def is_settled(state, params):
    """Is the last phase over after this step? Not before all fading edges are gone."""
    if state.clock[PHASE] == SETTLING:
        length = params.settle_steps
    elif state.clock[PHASE] == THINNING:
        length = thinning_length(state, params)
    else:
        return False
    long_enough = state.clock[STEP] + 1 - state.clock[PHASE_START] >= length
    return long_enough and not is_any_edge_fading(state)


@kernel
def is_any_edge_fading(state):
    """Is an edge still fading?"""
    for e in range(state.network.counts[N_EDGES]):
        if state.network.edges[e].source >= 0 and state.edge_life[e].fading:
            return True
    return False


@kernel
def has_capacity_for_step(state, log, params):
    """Have the arrays room for everything that one step and a round may add?"""
    net = state.network
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
