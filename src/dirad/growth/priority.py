"""Which generative process goes first: the paper's V1 priority ordering, or none at all."""

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import MODULATORY, N_EDGES, N_INPUTS, N_UNITS, OUTPUT
from dirad.core.order import CHANGED, mark_ancestors, rebuild
from dirad.growth.edge_generation import best_source, generate_edge, may_generate, term_exhausted
from dirad.growth.enc import convert_edge, may_convert
from dirad.growth.state import PHASE, STEP, count_edges, count_hidden, has_room
from dirad.history import GROWING


@kernel
def unit_total_potential(net, potential, u):
    """Return the total potential of a node, summed over its terms."""
    if net.units[u].kind == OUTPUT:
        return potential.terms[2 * u].total
    return potential.terms[2 * u].total + potential.terms[2 * u + 1].total


@kernel
def pathway_exhausted(state, scratch, unit, params):
    """Is the immediate potential exhausted in every node and edge of the pathway to `unit`?"""
    net, plan, potential = state.network, scratch.plan, scratch.potential
    mark_ancestors(net, plan, unit, scratch.marked)
    for u in range(net.counts[N_UNITS]):
        if not scratch.marked[u]:
            continue
        terms = 1 if net.units[u].kind == OUTPUT else 2
        for t in range(2 * u, 2 * u + terms):
            if not term_exhausted(net, plan, potential, t, params):
                return False
    return True


@kernel
def within_limits(state, scratch, units, edges, params):
    """Do the user's limits and the capacity of the arrays allow this many more units and edges?"""
    net = state.network
    return (
        count_edges(net) + edges <= params.max_edges
        and count_hidden(net) + units <= params.max_hidden
        and has_room(state, scratch.log, units, edges)
    )


@kernel
def unvisited_edge_of_largest_total(state, scratch, unit):
    """Return the unvisited in-edge of `unit` with the largest total potential, or -1."""
    plan, potential = scratch.plan, scratch.potential
    best, best_total = -1, 0.0
    for p in range(plan.in_start[2 * unit], plan.in_start[2 * unit + 2]):
        e = plan.in_edge[p]
        if not scratch.edge_done[e] and potential.edges[e].total > best_total:
            best, best_total = e, potential.edges[e].total
    return best


@kernel
def generate_edge_for_unit(state, scratch, unit, params):
    """Generate an in-edge of a unit, at the term of larger total potential where allowed."""
    net, potential = state.network, scratch.potential
    terms = 1 if net.units[unit].kind == OUTPUT else 2
    first = 2 * unit
    if terms == 2 and potential.terms[first + 1].total > potential.terms[first].total:
        first += 1
    for i in range(terms):
        term = first if i == 0 else 4 * unit + 1 - first  # then the other one
        if may_generate(state, scratch, term, params):
            source = best_source(state, scratch, term, params)
            if source >= 0 and within_limits(state, scratch, 0, 1, params):
                generate_edge(
                    state, scratch.plan, scratch.log, source, term, 0.0, params.refraction
                )
                return True
    return False


@kernel
def grow_once_on_pathway(state, scratch, unit, params):
    """GPFor of Algorithm 1: at most one generative process in the pathway of `unit`.

    Starts at the target and follows the edge of largest total potential to its source, as long as
    the source is a node with potential of its own (inputs have none, since they cannot adapt).
    """
    net, plan, potential = state.network, scratch.plan, scratch.potential
    n_inputs = net.counts[N_INPUTS]
    current = unit
    scratch.edge_done[:] = False
    while True:
        if (
            params.fresh_first == 1
            and net.units[current].kind == MODULATORY
            and plan.in_start[2 * current + 1] == plan.in_start[2 * current + 2]
        ):
            # Without this, Algorithm 1 would convert the only in-edge of a new node repeatedly.
            return generate_edge_for_term(state, scratch, 2 * current + 1, params)
        e = unvisited_edge_of_largest_total(state, scratch, current)
        if e < 0:
            return generate_edge_for_unit(state, scratch, current, params)
        scratch.edge_done[e] = True
        source = net.edges[e].source - n_inputs
        if source >= 0 and unit_total_potential(net, potential, source) > 0.0:
            current = source
            continue
        if may_convert(state, scratch, e, params) and within_limits(state, scratch, 1, 1, params):
            convert_edge(state, scratch.plan, scratch.log, e, params)
            return True


@kernel
def generate_edge_for_term(state, scratch, term, params):
    """Generate an in-edge of a term if its condition holds."""
    if not may_generate(state, scratch, term, params):
        return False
    source = best_source(state, scratch, term, params)
    if source < 0 or not within_limits(state, scratch, 0, 1, params):
        return False
    generate_edge(state, scratch.plan, scratch.log, source, term, 0.0, params.refraction)
    return True


@kernel
def rebuild_and_reset_new_parts(state, scratch):
    """Rebuild the plan after a process. New parts have no potential until the next batch."""
    net, potential = state.network, scratch.potential
    now = state.clock[STEP]
    if scratch.plan.status[CHANGED] == 0:
        return
    rebuild(net, scratch.plan)
    for e in range(net.counts[N_EDGES]):
        if state.edge_life[e].born == now:
            potential.edges[e].net = 0.0
            potential.edges[e].total = 0.0
            potential.edges[e].gradient = 0.0
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind == MODULATORY and state.unit_life[u].born == now:
            potential.terms[2 * u].total = 0.0
            potential.terms[2 * u + 1].total = 0.0
            potential.terms[2 * u].net = 0.0
            potential.terms[2 * u + 1].net = 0.0


@kernel
def grow_in_v1_order(state, scratch, params):
    """V1PO of Algorithm 1: one process per target whose whole pathway is exhausted.

    Targets in the order of decreasing total potential; exhaustion is tested again before each,
    since an earlier process of the same step may lie on a shared pathway.
    """
    net, potential = state.network, scratch.potential
    if state.clock[PHASE] != GROWING:
        return 0
    done = 0
    last_total, last_unit = 1e300, -1
    while True:
        # The next target in the order (total potential falling, then number rising).
        best, best_total = np.int64(-1), -1.0
        for u in range(net.counts[N_UNITS]):
            if net.units[u].kind != OUTPUT or net.units[u].frozen:
                continue
            total = potential.terms[2 * u].total
            after = total < last_total or (total == last_total and u > last_unit)
            if after and total > best_total:
                best, best_total = u, total
        if best < 0:
            return done
        last_total, last_unit = best_total, best
        if pathway_exhausted(state, scratch, best, params) and grow_once_on_pathway(
            state, scratch, best, params
        ):
            done += 1
            rebuild_and_reset_new_parts(state, scratch)


@kernel
def grow_unrestricted(state, scratch, params):
    """No ordering: every edge and every term whose condition holds undergoes its process."""
    net = state.network
    if state.clock[PHASE] != GROWING:
        return 0
    done = 0
    for e in range(net.counts[N_EDGES]):
        if (
            net.edges[e].source >= 0
            and may_convert(state, scratch, e, params)
            and within_limits(state, scratch, 1, 1, params)
        ):
            convert_edge(state, scratch.plan, scratch.log, e, params)
            rebuild_and_reset_new_parts(state, scratch)
            done += 1
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind < 0:
            continue
        terms = 1 if net.units[u].kind == OUTPUT else 2
        for t in range(2 * u, 2 * u + terms):
            if generate_edge_for_term(state, scratch, t, params):
                rebuild_and_reset_new_parts(state, scratch)
                done += 1
    return done
