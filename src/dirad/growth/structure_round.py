"""What happens between steps of our own ordering: rounds that change the structure, and phases.

A round of growth, exchange or trimming sees one larger batch, and completes the step before it.
"""

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.order import rebuild
from dirad.core.propagate import backward, forward
from dirad.growth.batches import draw_growth_batch
from dirad.growth.gain import grow_by_gain, rounds_for_all_outputs
from dirad.growth.saliency import fade_weakest
from dirad.growth.shared_layer import (
    build_shared_layer,
    has_significant_source,
    wants_shared_layer,
)
from dirad.growth.simplification import replace_linear_nodes
from dirad.growth.stabilization import enter_phase
from dirad.growth.state import (
    GROWN,
    HALF_SWAPS,
    PHASE,
    ROUNDS_WITHOUT_GROWTH,
    STEP,
    count_edges,
)
from dirad.growth.step import is_settled, is_structure_round
from dirad.growth.thinning import limit_samples, thin
from dirad.growth.trimming import (
    begin_settling,
    must_settle,
    return_to_best_if_growth_is_vain,
    trim,
    try_to_begin_trimming,
)
from dirad.history import EXCHANGING, GROWING, SETTLING, STABLE, THINNING, TRIMMING


@kernel
def complete_step(state, plan, wide, data, log, params):
    """Run a round if one is due, change the phase where its end is reached, advance the clock."""
    if is_structure_round(state, params):
        draw_growth_batch(state, wide, data, params)
        structure_round(state, plan, wide, log, params)
    advance_phase(state, plan, wide, log, params)
    state.clock[STEP] += 1


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
def advance_phase(state, plan, wide, log, params):
    """Change the phase where its end is reached."""
    clock = state.clock
    if clock[PHASE] not in (SETTLING, STABLE, THINNING) and clock[STEP] + 1 >= params.max_steps:
        begin_settling(state, plan, wide, log, params)
    if is_settled(state, params):
        if params.edge_price > 0.0:
            replace_linear_nodes(state, plan, log, params)
        enter_phase(state, log, STABLE)
