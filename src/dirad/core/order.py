"""The order of computation, derived from the edges."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import borrowed_by_kernels, kernel
from dirad.core.network import N_EDGES, N_INPUTS, N_UNITS, Network

LENGTH, CHANGED = 0, 1  # places in `Plan.status`


@borrowed_by_kernels
class Plan(NamedTuple):
    """The order in which the passes visit units and edges. Rebuilt after structural changes."""

    status: NDArray[np.int64]  # (2,) units in `order`; 1 if the structure changed since
    order: NDArray[np.int64]  # (units,) units, sources before targets
    in_start: NDArray[np.int64]  # (terms + 1,) where a term's in-edges begin in `in_edge`
    in_edge: NDArray[np.int64]  # (edges,) edges sorted by term, then by number
    out_start: NDArray[np.int64]  # (units + 1,) where a unit's out-edges begin in `out_edge`
    out_edge: NDArray[np.int64]  # (edges,) edges sorted by source unit, then by number
    pending: NDArray[np.int64]  # (units,) scratch of `rebuild`


def build_plan(network: Network) -> Plan:
    """Return the plan of a network."""
    units, edges = len(network.units), len(network.edges)
    plan = Plan(
        status=np.zeros(2, np.int64),
        order=np.zeros(units, np.int64),
        in_start=np.zeros(2 * units + 1, np.int64),
        in_edge=np.zeros(edges, np.int64),
        out_start=np.zeros(units + 1, np.int64),
        out_edge=np.zeros(edges, np.int64),
        pending=np.zeros(units, np.int64),
    )
    if not rebuild(network, plan):
        raise ValueError("the network has a cycle")
    return plan


@kernel
def rebuild(net, plan):
    """Sort the edges by term and by source, and the units topologically. False if cyclic."""
    n_inputs, n_units, n_edges = net.counts[N_INPUTS], net.counts[N_UNITS], net.counts[N_EDGES]
    plan.in_start[:] = 0
    plan.out_start[:] = 0
    plan.pending[:] = 0
    for e in range(n_edges):
        s = net.edges[e].source
        if s < 0:
            continue
        plan.in_start[net.edges[e].term + 1] += 1
        if s >= n_inputs:
            plan.out_start[s - n_inputs + 1] += 1
            plan.pending[net.edges[e].term // 2] += 1
    for t in range(plan.in_start.shape[0] - 1):
        plan.in_start[t + 1] += plan.in_start[t]
    for u in range(plan.out_start.shape[0] - 1):
        plan.out_start[u + 1] += plan.out_start[u]
    # Counting sort: the starts serve as write heads and are moved back afterwards.
    for e in range(n_edges):
        s = net.edges[e].source
        if s < 0:
            continue
        t = net.edges[e].term
        plan.in_edge[plan.in_start[t]] = e
        plan.in_start[t] += 1
        if s >= n_inputs:
            u = s - n_inputs
            plan.out_edge[plan.out_start[u]] = e
            plan.out_start[u] += 1
    for t in range(plan.in_start.shape[0] - 1, 0, -1):
        plan.in_start[t] = plan.in_start[t - 1]
    plan.in_start[0] = 0
    for u in range(plan.out_start.shape[0] - 1, 0, -1):
        plan.out_start[u] = plan.out_start[u - 1]
    plan.out_start[0] = 0

    head, tail = 0, 0
    total = 0
    for u in range(n_units):
        if net.units[u].kind >= 0:
            total += 1
            if plan.pending[u] == 0:
                plan.order[tail] = u
                tail += 1
    while head < tail:
        u = plan.order[head]
        head += 1
        for p in range(plan.out_start[u], plan.out_start[u + 1]):
            v = net.edges[plan.out_edge[p]].term // 2
            plan.pending[v] -= 1
            if plan.pending[v] == 0:
                plan.order[tail] = v
                tail += 1
    plan.status[LENGTH] = tail
    plan.status[CHANGED] = 0
    return tail == total


@kernel
def mark_descendants(net, plan, unit, marked):
    """Set `marked[v]` for `unit` and all its descendants."""
    marked[:] = False
    marked[unit] = True
    for i in range(plan.status[LENGTH]):
        u = plan.order[i]
        if marked[u]:
            for p in range(plan.out_start[u], plan.out_start[u + 1]):
                marked[net.edges[plan.out_edge[p]].term // 2] = True


@kernel
def mark_ancestors(net, plan, unit, marked):
    """Set `marked[v]` for `unit` and all its ancestors: its response pathway."""
    n_inputs = net.counts[N_INPUTS]
    marked[:] = False
    marked[unit] = True
    for i in range(plan.status[LENGTH] - 1, -1, -1):
        u = plan.order[i]
        if marked[u]:
            for p in range(plan.in_start[2 * u], plan.in_start[2 * u + 2]):
                s = net.edges[plan.in_edge[p]].source
                if s >= n_inputs:
                    marked[s - n_inputs] = True


@kernel
def fill_reachability(net, plan, reach):
    """Fill `reach[u, v]`: is there a path from unit u to unit v (every unit reaches itself)?"""
    reach[:] = False
    for i in range(plan.status[LENGTH] - 1, -1, -1):
        u = plan.order[i]
        reach[u, u] = True
        for p in range(plan.out_start[u], plan.out_start[u + 1]):
            v = net.edges[plan.out_edge[p]].term // 2
            for x in range(reach.shape[1]):
                if reach[v, x]:
                    reach[u, x] = True
