"""Saliency: how much an edge contributes, and which edges fade to make room for others."""

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_UNITS
from dirad.core.propagate import LANES, forward, mean_cost
from dirad.growth.evidence import residual_score
from dirad.growth.state import count_edges
from dirad.growth.update import has_bias

ABLATION_SHARE = 0.1  # the neighbours of a removed edge make up for the rest
ABLATION_OPERATIONS = 4e7  # edges × edges × samples
MOST_ABLATED = 512  # samples


@kernel
def obs_saliencies(net, plan, work, params, result):
    """The cost, to second order, of setting a weight to 0 while its neighbours adjust.

    ½·w²/[F⁻¹]ₑₑ with the Fisher information F of the term that the edge enters.
    """
    n = work.width[0]
    for t in range(2 * net.counts[N_UNITS]):
        start, stop = plan.in_start[t], plan.in_start[t + 1]
        if start == stop:
            continue
        score = residual_score(net, plan, work, t, has_bias(net, t, params))
        first = score.inverse.shape[0] - (stop - start)
        for p in range(start, stop):
            edge = net.edges[plan.in_edge[p]]
            if first >= 0:
                i = first + p - start
                inverse = 0.0
                for x in range(i, score.inverse.shape[0]):
                    inverse += score.inverse[x, i] ** 2
                curvature = 1.0 / inverse
            else:
                curvature = 0.0
                for m in range(n):
                    curvature += work.state[edge.source, m] ** 2 * score.square[m]
            result[plan.in_edge[p]] = 0.5 * edge.weight**2 * curvature


@kernel
def raise_by_ablation(state, plan, work, params, saliencies):
    """Raise saliencies to a share of what the cost rises when the weight alone is set to 0.

    Where the samples are fitted well, deltas and with them the Fisher information vanish, and
    every edge would seem superfluous.
    """
    net = state.network
    edges = float(count_edges(net))
    n, width = work.width[0], work.width[1]
    few = int(min(ABLATION_OPERATIONS / (edges * edges), MOST_ABLATED)) // LANES * LANES
    if few < LANES:
        return
    if few < n:
        work.width[0], work.width[1] = few, few
    forward(net, plan, work)
    before = mean_cost(net, plan, work, params.cost)
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source < 0 or saliencies[e] == np.inf:
            continue
        weight = net.edges[e].weight
        net.edges[e].weight = 0.0
        forward(net, plan, work)
        rise = n * (mean_cost(net, plan, work, params.cost) - before)
        saliencies[e] = max(saliencies[e], ABLATION_SHARE * rise)
        net.edges[e].weight = weight
    work.width[0], work.width[1] = n, width


@kernel
def fade_weakest(state, plan, work, params, keep, max_saliency):
    """Let the least salient edges fade until `keep` are left. Return how many were chosen.

    From the second on, none is chosen whose saliency is above `max_saliency`.
    """
    net = state.network
    result = np.full(net.counts[N_EDGES], np.inf)
    obs_saliencies(net, plan, work, params, result)
    alive = 0
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source < 0:
            continue
        if state.edge_life[e].fading or net.edges[e].frozen:
            result[e] = np.inf
        if not state.edge_life[e].fading:
            alive += 1
    if params.edge_price > 0.0:
        raise_by_ablation(state, plan, work, params, result)
    chosen = 0
    for e in np.argsort(result):
        if (
            alive - chosen <= keep
            or result[e] == np.inf
            or (chosen > 0 and result[e] > max_saliency)
        ):
            break
        state.edge_life[e].fading = 1
        chosen += 1
    return chosen
