"""When growth ends, and which edges go afterwards: both by description length (Schwarz's BIC).

The description length of a data set is its negative log-likelihood under the network, plus a
price per edge. Growth that no longer shortens it ends; then edges are removed as long as that
shortens it.
"""

import math

from dirad.core.compilation import kernel
from dirad.core.edits import copy_into
from dirad.core.propagate import SQUARED, backward, forward, mean_cost
from dirad.growth.saliency import fade_weakest
from dirad.growth.simplification import replace_linear_nodes
from dirad.growth.stabilization import enter_phase, restore
from dirad.growth.state import (
    GROWN,
    LENGTH,
    N_SAMPLES,
    ROUNDS_SINCE_SHORTER,
    SHARE,
    SHORTEST,
    STEP,
    count_edges,
    write_event,
)
from dirad.history import GROWING, KEPT, SETTLING, TRIMMING

UNLIMITED = 1_000_000  # Params.max_edges of a network without a limit

BEST_SLOT, TRIMMED_SLOT = -1, -2  # of KEPT events

FIRST_SHARE = 0.2  # share of the edges that the first round of trimming removes
PATIENCE = 40  # rounds of growth without a shorter description after which growth can end
EXCESS_FACTOR, EXCESS_EDGES = 1.5, 10  # growth ends above 1.5 times the edges of the best + 10


@kernel
def description_length(state, plan, wide, params):
    """Nats that describe the targets and the edges, from the batch of a round."""
    cost = mean_cost(state.network, plan, wide, params.cost)
    if params.cost == SQUARED:
        cost = 0.5 * math.log(max(2.0 * cost, 1e-300))
    n = max(state.clock[N_SAMPLES], wide.width[0])
    price = params.edge_price * 0.5 * math.log(max(n, 2))
    return n * cost + price * count_edges(state.network)


@kernel
def keep_as_best_if_shorter(state, plan, wide, log, params):
    """Keep a copy of the network if its description is the shortest so far; say whether it is."""
    length = description_length(state, plan, wide, params)
    if not length < state.trimming[LENGTH]:
        return False
    state.trimming[LENGTH] = length
    copy_into(state.network, state.best)
    write_event(state, log, KEPT, BEST_SLOT, -1, -1, -1, -1, length)
    return True


@kernel
def return_to_best_if_growth_is_vain(state, plan, wide, log, params):
    """Has growth long failed to shorten the description? Then return to the best network."""
    if params.edge_price == 0.0 or params.max_edges < UNLIMITED:
        return False
    if keep_as_best_if_shorter(state, plan, wide, log, params):
        state.trimming[ROUNDS_SINCE_SHORTER] = 0
        return False
    state.trimming[ROUNDS_SINCE_SHORTER] += 1
    if state.trimming[ROUNDS_SINCE_SHORTER] < PATIENCE:
        return False
    if count_edges(state.network) <= EXCESS_FACTOR * count_edges(state.best) + EXCESS_EDGES:
        return False
    restore(state, plan, log, state.best, BEST_SLOT)
    return True


@kernel
def try_to_begin_trimming(state, log, params):
    """Begin to remove edges that do not pay, where there are any. Say whether it began."""
    if params.edge_price == 0.0 or must_settle(state, params) or state.trimming[GROWN] == 0:
        return False
    state.trimming[LENGTH] = math.inf
    state.trimming[SHARE] = FIRST_SHARE
    enter_phase(state, log, TRIMMING)
    return True


@kernel
def trim(state, plan, wide, log, params):
    """Remove the weakest edges; take the last removal back where it did not pay.

    A removal that did not pay is tried again with half as many edges; trimming ends when the
    removal of one edge does not pay.
    """
    trimming = state.trimming
    replace_linear_nodes(state, plan, log, params)
    edges = count_edges(state.network)
    shorter = keep_as_best_if_shorter(state, plan, wide, log, params)
    last = int(trimming[SHARE] * count_edges(state.best))
    if not shorter:
        restore(state, plan, log, state.best, BEST_SLOT)
        if last > 1:
            trimming[SHARE] *= 0.5
            forward(state.network, plan, wide)
            backward(state.network, plan, wide, params.cost, params.acceptable_mismatch)
            edges = count_edges(state.network)
    if must_settle(state, params) or not (shorter or last > 1):
        grow_again_or_settle(state, plan, wide, log, params)
    else:
        n = max(state.clock[N_SAMPLES], wide.width[0])
        price = params.edge_price * 0.5 * math.log(max(n, 2)) * wide.width[0] / n
        keep = edges - max(1, int(trimming[SHARE] * edges))
        fade_weakest(state, plan, wide, params, keep, price)


@kernel
def grow_again_or_settle(state, plan, wide, log, params):
    """Grow again if growth and trimming shortened the description; else settle."""
    trimming, price = (
        state.trimming,
        params.edge_price * 0.5 * math.log(max(state.clock[N_SAMPLES], 2)),
    )
    if trimming[LENGTH] < trimming[SHORTEST] - price:
        trimming[SHORTEST] = trimming[LENGTH]
        copy_into(state.network, state.trimmed)
        write_event(state, log, KEPT, TRIMMED_SLOT, -1, -1, -1, -1, trimming[SHORTEST])
        state.trimming[ROUNDS_SINCE_SHORTER] = 0
        state.trimming[GROWN] = 0
        if not must_settle(state, params):
            enter_phase(state, log, GROWING)
            return
    elif trimming[SHORTEST] < trimming[LENGTH]:
        restore(state, plan, log, state.trimmed, TRIMMED_SLOT)
    begin_settling(state, plan, wide, log, params)


@kernel
def must_settle(state, params):
    """Must growth end now, if settling is to end within max_steps?"""
    return state.clock[STEP] + 1 + params.settle_steps >= params.max_steps


@kernel
def begin_settling(state, plan, wide, log, params):
    """End growth: edges above max_edges begin to fade, and γ begins to fall."""
    if count_edges(state.network) > params.max_edges:
        fade_weakest(state, plan, wide, params, params.max_edges, math.inf)
    enter_phase(state, log, SETTLING)
