"""One step of adaptation with the paper's orderings, and the compiled loop over steps.

The generative processes are part of every step: they read the potentials of its batch.
"""

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_OUTPUTS, N_UNITS
from dirad.core.potential import (
    edge_gradients,
    edge_potentials,
    term_gradients,
    term_potentials,
    threshold_deltas,
)
from dirad.growth.batches import draw_batch
from dirad.growth.priority import grow_in_v1_order, grow_unrestricted
from dirad.growth.removal import prune_zero_edges_and_dead_units
from dirad.growth.simplification import replace_linear_nodes
from dirad.growth.stabilization import apply_patience, end_growth_phase, enter_phase
from dirad.growth.state import PHASE, STEP, V1, count_edges, count_hidden, has_room
from dirad.growth.step import DONE, FULL, RAN, is_settled, move_parameters, propagate
from dirad.growth.trimming import must_settle
from dirad.history import GROWING, STABLE


@kernel
def run_paper_steps(state, scratch, data, params, stop, error, edges, hidden):
    """Take steps on batches of `data` until step `stop`, or until stable or out of capacity."""
    first = state.clock[STEP]
    while state.clock[STEP] < stop:
        if state.clock[PHASE] == STABLE:
            return DONE
        if not has_capacity_for_paper_step(state, scratch.log, params):
            return FULL
        draw_batch(state, scratch.work, data, params)
        i = state.clock[STEP] - first
        error[i] = take_paper_step(state, scratch, params)
        advance_phase(state, scratch.plan, scratch.log, params)
        state.clock[STEP] += 1
        edges[i] = count_edges(state.network)
        hidden[i] = count_hidden(state.network)
    return DONE if state.clock[PHASE] == STABLE else RAN


@kernel
def take_paper_step(state, scratch, params):
    """Take one step on the batch in `scratch.work`. Return the mean cost of the batch."""
    net, plan, work = state.network, scratch.plan, scratch.work
    error = propagate(state, plan, work, params, params.acceptable_mismatch)
    if state.clock[PHASE] == GROWING:
        threshold_deltas(net, work, params.delta_min)
        term_potentials(net, work, scratch.potential)
        edge_potentials(plan, work, scratch.potential)
    else:
        term_gradients(net, work, scratch.potential)
        edge_gradients(plan, work, scratch.potential)
    move_parameters(state, scratch, params)
    if params.ordering == V1:
        grow_in_v1_order(state, scratch, params)
    else:
        grow_unrestricted(state, scratch, params)
    prune_zero_edges_and_dead_units(state, plan, scratch.log, params)
    return error


@kernel
def advance_phase(state, plan, log, params):
    """Change the phase where its end is reached."""
    if state.clock[PHASE] == GROWING:
        if must_settle(state, params):
            end_growth_phase(state, log, params)
        else:
            apply_patience(state, plan, log, params)
    if is_settled(state, params):
        if params.edge_price > 0.0:
            replace_linear_nodes(state, plan, log, params)
        enter_phase(state, log, STABLE)


@kernel
def has_capacity_for_paper_step(state, log, params):
    """Have the arrays room for everything that one step may add?"""
    net = state.network
    if params.ordering == V1:
        outputs = net.counts[N_OUTPUTS]
        return has_room(state, log, outputs, outputs)
    edges, units = net.counts[N_EDGES], net.counts[N_UNITS]
    return has_room(state, log, edges, edges + 2 * units)
