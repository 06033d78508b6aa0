"""The destructive processes. Each is neutral: removed parts no longer contribute anything."""

from dirad.core.compilation import kernel
from dirad.core.edits import free_edge, free_unit
from dirad.core.network import MODULATORY, N_EDGES, N_UNITS
from dirad.core.order import CHANGED, rebuild
from dirad.core.random import NODE_REMOVAL, uniform
from dirad.growth.state import SEED, STEP, write_event
from dirad.history import EDGE_REMOVED, NODE_REMOVED

FADED = 1e-3  # a fading weight below this is set to 0


@kernel
def remove_edge(state, plan, log, e):
    """Remove an edge."""
    net = state.network
    edge = net.edges[e]
    write_event(state, log, EDGE_REMOVED, e, edge.source, edge.term, -1, -1, edge.weight)
    free_edge(net, e)
    state.edge_life[e].fading = 0
    plan.status[CHANGED] = 1


@kernel
def remove_childless_unit(state, plan, log, u):
    """Remove a node without out-edges, with its in-edges."""
    net = state.network
    for p in range(plan.in_start[2 * u], plan.in_start[2 * u + 2]):
        if net.edges[plan.in_edge[p]].source >= 0:
            remove_edge(state, plan, log, plan.in_edge[p])
    write_event(state, log, NODE_REMOVED, -1, -1, -1, u, -1, 0.0)
    free_unit(net, u)
    plan.status[CHANGED] = 1


@kernel
def is_always_zero(net, plan, u):
    """Is the state of this node 0 for every sample: no edge into term 0, no bias there?"""
    return plan.in_start[2 * u] == plan.in_start[2 * u + 1] and net.bias[u, 0] == 0.0


@kernel
def prune_zero_edges_and_dead_units(state, plan, log, params):
    """Remove edges of weight 0 after their protection, then nodes without out-edges at random."""
    net = state.network
    now = state.clock[STEP]
    removed = 0
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source < 0 or net.edges[e].frozen:
            continue
        if state.edge_life[e].fading and abs(net.edges[e].weight) < FADED:
            net.edges[e].weight = 0.0
        if net.edges[e].weight == 0.0 and now - state.edge_life[e].born >= params.protection:
            remove_edge(state, plan, log, e)
            removed += 1
    if plan.status[CHANGED] == 1:
        rebuild(net, plan)
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind != MODULATORY or net.units[u].frozen:
            continue
        if is_always_zero(net, plan, u) and now - state.unit_life[u].born >= params.protection:
            for p in range(plan.out_start[u], plan.out_start[u + 1]):
                e = plan.out_edge[p]
                if net.edges[e].source >= 0 and not net.edges[e].frozen:
                    remove_edge(state, plan, log, e)
                    removed += 1
        childless = plan.out_start[u] == plan.out_start[u + 1]
        if childless and uniform(state.clock[SEED], NODE_REMOVAL, now, u) < params.node_removal:
            remove_childless_unit(state, plan, log, u)
            removed += 1
    if plan.status[CHANGED] == 1:
        rebuild(net, plan)
    return removed
