"""Nodes that no longer multiply: constants join biases, and linear nodes become plain edges.

Every change is neutral up to rounding, and leaves fewer edges.
"""

import math

import numpy as np

from dirad.core.compilation import kernel, strict_order_kernel
from dirad.core.network import MODULATORY, N_UNITS
from dirad.core.order import rebuild
from dirad.growth.edge_generation import generate_edge
from dirad.growth.removal import remove_childless_unit, remove_edge
from dirad.growth.state import has_room
from dirad.growth.update import has_bias


@strict_order_kernel
def constant_modulation(net, unit):
    """σ₁ of a node whose term 1 has no edges."""
    return 2.0 * math.tanh(0.5 * net.units[unit].gain * net.bias[unit, 1]) + 1.0


@kernel
def is_replaceable(state, plan, log, unit, params):
    """Is this node linear, and would plain edges in its place be fewer?"""
    net = state.network
    if net.units[unit].kind != MODULATORY or net.units[unit].frozen:
        return False
    n_in = plan.in_start[2 * unit + 1] - plan.in_start[2 * unit]
    n_modulating = plan.in_start[2 * unit + 2] - plan.in_start[2 * unit + 1]
    n_out = plan.out_start[unit + 1] - plan.out_start[unit]
    if n_modulating > 0 or n_out == 0:
        return False
    for p in range(plan.out_start[unit], plan.out_start[unit + 1]):
        edge = net.edges[plan.out_edge[p]]
        if edge.frozen or not has_bias(net, edge.term, params):
            return False
    return n_in * n_out < n_in + n_out and has_room(state, log, 0, (n_in + 1) * (n_out + 1))


@kernel
def replace_linear_node(state, plan, log, unit, params):
    """Give the targets of a linear node what it contributes, as biases and plain edges."""
    net = state.network
    modulation = constant_modulation(net, unit)
    for p in range(plan.out_start[unit], plan.out_start[unit + 1]):
        term, weight = net.edges[plan.out_edge[p]].term, net.edges[plan.out_edge[p]].weight
        factor = weight * modulation
        net.bias[term // 2, term % 2] += factor * net.bias[unit, 0]
        for q in range(plan.in_start[2 * unit], plan.in_start[2 * unit + 1]):
            source = net.edges[plan.in_edge[q]].source
            share = factor * net.edges[plan.in_edge[q]].weight
            present = np.int64(-1)
            for r in range(plan.in_start[term], plan.in_start[term + 1]):
                if net.edges[plan.in_edge[r]].source == source:
                    present = plan.in_edge[r]
            if present >= 0:
                net.edges[present].weight += share
            else:
                generate_edge(state, plan, log, source, term, share, params.refraction)
        remove_edge(state, plan, log, plan.out_edge[p])
    rebuild(net, plan)
    remove_childless_unit(state, plan, log, unit)
    rebuild(net, plan)


@kernel
def replace_linear_nodes(state, plan, log, params):
    """Replace all nodes without modulation where that leaves fewer edges; return their number."""
    replaced = 0
    for unit in range(state.network.counts[N_UNITS]):
        if is_replaceable(state, plan, log, unit, params):
            replace_linear_node(state, plan, log, unit, params)
            replaced += 1
    return replaced
