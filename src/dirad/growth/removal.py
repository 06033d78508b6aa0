"""The destructive processes. Each is neutral: what goes contributes nothing any more."""

from dirad.core.compilation import kernel
from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, free_edge, free_unit
from dirad.core.order import rebuild
from dirad.core.random import NODE_REMOVAL, uniform
from dirad.growth.state import SEED, STEP, write_event
from dirad.history import EDGE_REMOVED, NODE_REMOVED

FADED = 1e-3  # a fading weight below this is set to 0


@kernel
def remove_edge(state, scratch, e):
    """Take an edge out."""
    net = state.network
    write_event(
        state, scratch.log, EDGE_REMOVED, e, net.source[e], net.term[e], -1, -1, net.weight[e]
    )
    free_edge(net, e)
    state.edge_fading[e] = False
    scratch.changed[0] = 1


@kernel
def remove_unit(state, scratch, u):
    """Take a childless node out, with its in-edges."""
    net, plan = state.network, scratch.plan
    for p in range(plan.in_start[2 * u], plan.in_start[2 * u + 2]):
        if net.source[plan.in_edge[p]] >= 0:
            remove_edge(state, scratch, plan.in_edge[p])
    write_event(state, scratch.log, NODE_REMOVED, -1, -1, -1, u, -1, 0.0)
    free_unit(net, u)
    scratch.changed[0] = 1


@kernel
def is_silent(net, plan, u):
    """Is the state of this node 0 for every sample: no edge into term 0, no bias there?"""
    return plan.in_start[2 * u] == plan.in_start[2 * u + 1] and net.bias[u, 0] == 0.0


@kernel
def remove_useless(state, scratch, params):
    """Edges of weight 0 past their protection; then childless nodes, each by chance."""
    net, plan = state.network, scratch.plan
    now = state.clock[STEP]
    removed = 0
    for e in range(net.counts[N_EDGES]):
        if net.source[e] < 0 or net.edge_frozen[e]:
            continue
        if state.edge_fading[e] and abs(net.weight[e]) < FADED:
            net.weight[e] = 0.0
        if net.weight[e] == 0.0 and now - state.edge_born[e] >= params.protection:
            remove_edge(state, scratch, e)
            removed += 1
    if scratch.changed[0] == 1:
        rebuild(net, plan)
        scratch.changed[0] = 0
    for u in range(net.counts[N_UNITS]):
        if net.kind[u] != MODULATORY or net.unit_frozen[u]:
            continue
        if is_silent(net, plan, u) and now - state.unit_born[u] >= params.protection:
            for p in range(plan.out_start[u], plan.out_start[u + 1]):
                e = plan.out_edge[p]
                if net.source[e] >= 0 and not net.edge_frozen[e]:
                    remove_edge(state, scratch, e)
                    removed += 1
        childless = plan.out_start[u] == plan.out_start[u + 1]
        if childless and uniform(state.clock[SEED], NODE_REMOVAL, now, u) < params.node_removal:
            remove_unit(state, scratch, u)
            removed += 1
    if scratch.changed[0] == 1:
        rebuild(net, plan)
        scratch.changed[0] = 0
    return removed
