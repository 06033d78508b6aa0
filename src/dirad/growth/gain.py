"""Our own ordering: the generative process with the largest gain per edge goes first.

A round of growth tests, on one larger batch, every source for every term, and for the outputs
also products of sources. Only what is significant against noise is grown.
"""

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import FREE, N_EDGES, N_INPUTS, N_UNITS, OUTPUT
from dirad.core.order import fill_reachability, mark_ancestors, mark_descendants, rebuild
from dirad.growth.edge_generation import generate_edge, has_edge_into, may_be_source
from dirad.growth.evidence import (
    cross_products,
    needed_evidence,
    product_evidence,
    residual_score,
    source_evidence,
)
from dirad.growth.products import MAX_ORDER, apply_product, edges_for_product, search_products
from dirad.growth.state import N_SAMPLES, STEP, count_hidden, has_room
from dirad.growth.update import has_bias

YOUNG_EDGE_ROUNDS = 4  # rounds of growth for which a new edge counts as young


@kernel
def grow_by_gain(state, plan, work, log, params, room, quota):
    """One round of growth. Return the number of edges added.

    Processes are applied, best first, until `quota` edges are added. A product that begins within
    the quota may exceed it, but never `room`. Needs both passes on `work`.
    """
    net = state.network
    n_units = net.counts[N_UNITS]
    n_terms = 2 * n_units
    n_nodes = net.counts[N_INPUTS] + n_units
    reach = np.zeros((n_units, n_units), np.bool_)
    fill_reachability(net, plan, reach)
    all_nodes = np.empty(n_nodes, np.int64)
    rows = np.empty((2, MAX_ORDER, work.width[1]), work.state.dtype)
    gain = np.zeros(n_terms)  # G per edge of the best process at each term
    source = np.full(n_terms, -1, np.int64)
    evidences = np.zeros((n_terms, n_nodes))  # G of every single source
    least = np.full(n_terms, np.inf)  # G that a source of a growing term needs
    length = np.zeros(n_terms, np.int64)  # 1: an edge; more: a product of that many sources
    products = np.empty((n_terms, MAX_ORDER), np.int64)
    for u in range(n_units):
        if net.units[u].kind == FREE or net.units[u].frozen:
            continue
        count = list_candidate_sources(net, reach, u, params, all_nodes)
        candidates = all_nodes[:count]
        for t in range(2 * u, 2 * u + (1 if net.units[u].kind == OUTPUT else 2)):
            score = residual_score(net, plan, work, t, has_bias(net, t, params))
            G, s = best_single_source(net, plan, work, t, score, candidates, evidences[t])
            # The expected share of noise among the edges is `significance`: a term with many
            # edges accepts weaker evidence, so that many weak sources can be used together.
            allowed = params.significance * (1.0 + plan.in_start[t + 1] - plan.in_start[t])
            if s >= 0 and G > needed_evidence(count, allowed):
                gain[t], source[t], length[t] = G, s, 1
                least[t] = needed_evidence(count, allowed)
            if net.units[u].kind == OUTPUT and room > 1:
                G, found = search_products(
                    state, plan, work, t, params, score, candidates, G, rows, products[t]
                )
                if found > 1 and G > max_young_edge_score(state, plan, work, u, params):
                    cost, _ = edges_for_product(state, plan, t, products[t], found)
                    if cost <= room and G > cost * gain[t]:
                        gain[t], length[t] = G / cost, found
    added = apply_best(state, plan, log, params, room, quota, gain, source, length, products)
    if added > 0 and state.clock[N_SAMPLES] < params.breadth * net.counts[N_INPUTS]:
        added += apply_rest(state, plan, log, params, room - added, length, evidences, least)
    return added


@kernel
def list_candidate_sources(net, reach, unit, params, candidates):
    """Write the nodes that may feed `unit` without a cycle to `candidates`; return their number."""
    n_inputs = net.counts[N_INPUTS]
    count = 0
    for s in range(n_inputs):
        if net.usable[s]:
            candidates[count] = s
            count += 1
    for u in range(net.counts[N_UNITS]):
        if may_be_source(net, u, params.outputs_as_sources) and not reach[unit, u]:
            candidates[count] = n_inputs + u
            count += 1
    return count


@kernel
def best_single_source(net, plan, work, term, score, candidates, evidences):
    """Return (G, source) of the best new in-edge of a term; write G of all into `evidences`."""
    n = work.width[0]
    best, best_source = 0.0, np.int64(-1)
    evidences[:] = 0.0
    cross = np.empty((candidates.shape[0], score.own.shape[0]))
    cross_products(work.state, candidates, score.own, n, cross)
    for i in range(candidates.shape[0]):
        s = candidates[i]
        if not has_edge_into(net, plan, s, term):
            G = source_evidence(score, work.state[s], cross[i], n)
            evidences[s] = G
            if G > best:
                best, best_source = G, s
    return best, best_source


@kernel
def max_young_edge_score(state, plan, work, unit, params):
    """Return the largest G among the young edges on the pathway to `unit`.

    A chain that was just built takes a while to adapt; until then its deltas remain as they
    were, and it must not be built again. Edges into `unit` itself do not count: their part
    is in the efficient score already.
    """
    net = state.network
    n = work.width[0]
    marked = np.zeros(net.units.shape[0], np.bool_)
    mark_ancestors(net, plan, unit, marked)
    marked[unit] = False
    largest = 0.0
    for e in range(net.counts[N_EDGES]):
        edge = net.edges[e]
        young = state.clock[STEP] - state.edge_life[e].born < YOUNG_EDGE_ROUNDS * params.interval
        if young and edge.source >= 0 and marked[edge.term // 2]:
            delta = work.delta[edge.term]
            G = product_evidence(delta, delta * delta, work.state[edge.source], n)
            largest = max(largest, G)
    return largest


@kernel
def apply_best(state, plan, log, params, room, quota, gain, source, length, products):
    """Apply the chosen processes, best first, while there is room. Return the edges added."""
    net = state.network
    added, hidden = 0, count_hidden(net)
    for t in np.argsort(-gain):
        if gain[t] <= 0.0 or added >= quota:
            break
        cost, units = 1, 0
        if length[t] > 1:
            cost, _ = edges_for_product(state, plan, t, products[t], length[t])
            units = length[t] - 1
        if added + cost > room or hidden + units > params.max_hidden:
            continue
        if not has_room(state, log, units, cost):
            break
        if length[t] > 1:
            if any_closes_cycle(net, plan, products[t, : length[t]], t):
                continue
            apply_product(state, plan, log, t, products[t], length[t], params)
        elif closes_cycle(net, plan, source[t], t):
            continue
        else:
            generate_edge(state, plan, log, source[t], t, params.refraction)
        rebuild(net, plan)
        added += cost
        hidden += units
    return added


@kernel
def apply_rest(state, plan, log, params, room, length, evidences, least):
    """Give terms that grew an edge their other significant sources as well.

    With few samples per input, the best of many correlated sources cannot be identified; all of
    them, kept small by weight decay, then predict better than any one. Not done where they would
    take more than a tenth of the room: a user who limits the edges wants a selection.
    """
    net = state.network
    wanted = 0
    for t in range(length.shape[0]):
        if length[t] == 1:
            for s in range(evidences.shape[1]):
                wanted += evidences[t, s] >= least[t]
    if 10 * wanted > room or not has_room(state, log, 0, wanted):
        return 0
    added = 0
    for t in range(length.shape[0]):
        if length[t] != 1:
            continue
        for s in range(evidences.shape[1]):
            if evidences[t, s] < least[t] or has_edge_into(net, plan, s, t):
                continue
            if not closes_cycle(net, plan, s, t):
                generate_edge(state, plan, log, s, t, params.refraction)
                rebuild(net, plan)
                added += 1
    return added


@kernel
def any_closes_cycle(net, plan, sources, term):
    """Would one of these sources close a cycle if it fed `term` through a chain?"""
    found = False
    for s in sources:
        found = found or closes_cycle(net, plan, s, term)
    return found


@kernel
def closes_cycle(net, plan, source, term):
    """Would this edge close a cycle, now that others were added in the same round?"""
    s = source - net.counts[N_INPUTS]
    if s < 0:
        return False
    marked = np.zeros(net.units.shape[0], np.bool_)
    mark_descendants(net, plan, term // 2, marked)
    return marked[s]
