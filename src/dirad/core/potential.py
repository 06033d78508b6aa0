"""Adaptive potentials: the mean gradient of a parameter (net), and its mean magnitude (total).

For an edge, the immediate potential is the mean of its per-sample gradients aᵢδⱼ, the total
potential the mean of their magnitudes; for a term the same of δⱼ (paper, eq. for ∂C/∂w and the
section on adaptive potentials). Potentials are means over the batch, not sums, so that they do
not depend on its size.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import borrowed_by_kernels, inlined_kernel, kernel
from dirad.core.network import N_UNITS, OUTPUT, Network

GRADIENT_STATS = np.dtype(
    [
        ("gradient", np.float64),  # ∂C/∂w or ∂C/∂b, all deltas counted: for the update
        ("net", np.float64),  # the same with deltas under δ_min as 0
        ("total", np.float64),  # mean magnitude over samples, deltas under δ_min as 0
    ],
    align=True,
)


@borrowed_by_kernels
class Potential(NamedTuple):
    """The potentials of every edge and of every term."""

    edges: NDArray  # (edges,) of GRADIENT_STATS
    terms: NDArray  # (terms,) of GRADIENT_STATS


def new_potential(network: Network) -> Potential:
    """Return zeroed potentials with the network's capacity."""
    return Potential(
        np.zeros(len(network.edges), GRADIENT_STATS),
        np.zeros(2 * len(network.units), GRADIENT_STATS),
    )


@kernel
def threshold_deltas(net, work, delta_min):
    """Copy the deltas, with those below δ_min set to 0."""
    f = work.delta.dtype.type
    zero, limit = f(0.0), f(delta_min)
    for t in range(2 * net.counts[N_UNITS]):
        for m in range(work.width[1]):
            d = work.delta[t, m]
            work.thresholded_delta[t, m] = d if abs(d) >= limit else zero


@kernel
def term_potentials(net, work, potential):
    """Net and total potential of every term, and the gradient of its bias."""
    scale = 1.0 / total_weight(work)
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind < 0:
            continue
        for t in range(2 * u, 2 * u + (1 if net.units[u].kind == OUTPUT else 2)):
            gradient = work.delta.dtype.type(0.0)
            net_sum, total = gradient, gradient
            for m in range(work.width[1]):
                gradient += work.delta[t, m]
                d = work.thresholded_delta[t, m]
                net_sum += d
                total += abs(d)
            potential.terms[t].gradient = scale * gradient
            potential.terms[t].net = scale * net_sum
            potential.terms[t].total = scale * total


@kernel
def total_weight(work):
    """Sum of the sample weights."""
    total = 0.0
    for m in range(work.width[0]):
        total += work.sample_weight[m]
    return max(total, 1e-300)


@kernel
def edge_potentials(plan, work, potential):
    """Gradient, net and total potential of every edge; four edges of a term at a time."""
    scale = 1.0 / total_weight(work)
    for t in range(plan.in_start.shape[0] - 1):
        p, stop = plan.in_start[t], plan.in_start[t + 1]
        while p + 4 <= stop:
            four_potentials(plan, work, potential, t, p, scale)
            p += 4
        while p < stop:
            one_potential(plan, work, potential, t, p, scale)
            p += 1


@inlined_kernel
def four_potentials(plan, work, potential, t, p, scale):
    """The potentials of four edges into term t, the first at place p of the plan."""
    s0, s1 = work.edge_source[p], work.edge_source[p + 1]
    s2, s3 = work.edge_source[p + 2], work.edge_source[p + 3]
    zero = work.delta.dtype.type(0.0)
    g0, g1, g2, g3 = zero, zero, zero, zero
    n0, n1, n2, n3 = zero, zero, zero, zero
    t0, t1, t2, t3 = zero, zero, zero, zero
    for m in range(work.width[1]):
        d, x = work.delta[t, m], work.thresholded_delta[t, m]
        a0, a1 = work.state[s0, m], work.state[s1, m]
        a2, a3 = work.state[s2, m], work.state[s3, m]
        g0 += a0 * d
        g1 += a1 * d
        g2 += a2 * d
        g3 += a3 * d
        n0 += a0 * x
        n1 += a1 * x
        n2 += a2 * x
        n3 += a3 * x
        t0 += abs(a0 * x)
        t1 += abs(a1 * x)
        t2 += abs(a2 * x)
        t3 += abs(a3 * x)
    write_potentials(potential, plan.in_edge[p], scale * g0, scale * n0, scale * t0)
    write_potentials(potential, plan.in_edge[p + 1], scale * g1, scale * n1, scale * t1)
    write_potentials(potential, plan.in_edge[p + 2], scale * g2, scale * n2, scale * t2)
    write_potentials(potential, plan.in_edge[p + 3], scale * g3, scale * n3, scale * t3)


@inlined_kernel
def one_potential(plan, work, potential, t, p, scale):
    """The potentials of one edge into term t, at place p of the plan."""
    s = work.edge_source[p]
    zero = work.delta.dtype.type(0.0)
    gradient, net_sum, total = zero, zero, zero
    for m in range(work.width[1]):
        a, x = work.state[s, m], work.thresholded_delta[t, m]
        gradient += a * work.delta[t, m]
        net_sum += a * x
        total += abs(a * x)
    write_potentials(potential, plan.in_edge[p], scale * gradient, scale * net_sum, scale * total)


@inlined_kernel
def write_potentials(potential, e, gradient, net, total):
    """Store the three numbers of one edge."""
    potential.edges[e].gradient = gradient
    potential.edges[e].net = net
    potential.edges[e].total = total


@kernel
def edge_gradients(plan, work, potential):
    """The gradient of every edge and nothing else: all that a step without growth needs."""
    scale = 1.0 / total_weight(work)
    for t in range(plan.in_start.shape[0] - 1):
        p, stop = plan.in_start[t], plan.in_start[t + 1]
        while p + 4 <= stop:
            four_gradients(plan, work, potential, t, p, scale)
            p += 4
        while p < stop:
            s = work.edge_source[p]
            gradient = work.delta.dtype.type(0.0)
            for m in range(work.width[1]):
                gradient += work.state[s, m] * work.delta[t, m]
            potential.edges[plan.in_edge[p]].gradient = scale * gradient
            p += 1


@inlined_kernel
def four_gradients(plan, work, potential, t, p, scale):
    """The gradients of four edges into term t, the first at place p of the plan."""
    s0, s1 = work.edge_source[p], work.edge_source[p + 1]
    s2, s3 = work.edge_source[p + 2], work.edge_source[p + 3]
    zero = work.delta.dtype.type(0.0)
    g0, g1, g2, g3 = zero, zero, zero, zero
    for m in range(work.width[1]):
        d = work.delta[t, m]
        g0 += work.state[s0, m] * d
        g1 += work.state[s1, m] * d
        g2 += work.state[s2, m] * d
        g3 += work.state[s3, m] * d
    potential.edges[plan.in_edge[p]].gradient = scale * g0
    potential.edges[plan.in_edge[p + 1]].gradient = scale * g1
    potential.edges[plan.in_edge[p + 2]].gradient = scale * g2
    potential.edges[plan.in_edge[p + 3]].gradient = scale * g3


@kernel
def term_gradients(net, work, potential):
    """The gradient of every bias and nothing else."""
    scale = 1.0 / total_weight(work)
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind < 0:
            continue
        for t in range(2 * u, 2 * u + (1 if net.units[u].kind == OUTPUT else 2)):
            gradient = work.delta.dtype.type(0.0)
            for m in range(work.width[1]):
                gradient += work.delta[t, m]
            potential.terms[t].gradient = scale * gradient


@kernel
def pulls_both_ways(net_value, total, R1):
    """True if the samples pull both ways: R₁·|net| is less than the pull of one direction."""
    side = 0.5 * (total + abs(net_value))  # the larger direction: (total ± net) / 2
    return R1 * abs(net_value) < side


@kernel
def edge_exhausted(net, potential, e, R1, R2):
    """Is the immediate potential of an edge used up? (paper, 'Gradients', points 1 to 3).

    An edge on which nothing pulls at all is exhausted too, or no pathway ever would be.
    """
    total, net_value = potential.edges[e].total, potential.edges[e].net
    if total == 0.0:
        return True
    if pulls_both_ways(net_value, total, R1):
        return True
    return abs(net_value) < R2 * abs(net.edges[e].weight)


@kernel
def bias_exhausted(potential, t, delta_min, R1):
    """The same for a bias: no net pull above δ_min, or one that its two directions dwarf."""
    net_value, total = potential.terms[t].net, potential.terms[t].total
    return total == 0.0 or abs(net_value) < delta_min or pulls_both_ways(net_value, total, R1)
