"""Our own ordering: the process with the largest gain per edge goes first.

A round of growth looks, on one larger batch, at every source for every term, and for the outputs
at products of sources too: an edge that is converted and whose new node is fed by a second source
contributes a product, and a chain of conversions a longer one (paper, the derivation of the
stopping condition). Thus a conversion is made only together with the source that makes it
productive, and the chain is completed at once, however long. What noise could have produced is
not grown.
"""

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import FREE, N_EDGES, N_INPUTS, N_UNITS, OUTPUT
from dirad.core.order import reaches, rebuild
from dirad.growth.edge_generation import feeds, generate_edge, may_feed_all
from dirad.growth.enc import convert
from dirad.growth.evidence import (
    centred_deltas,
    needed_evidence,
    product_evidence,
    source_evidence,
)
from dirad.growth.state import count_hidden, has_room

MAX_ORDER = 16  # longest product that can be represented
PAIR_BUDGET = 4e8  # multiplications spent on pairs of sources for one term


@kernel
def has_bias(net, term, params):
    """Has this term a bias that adapts?"""
    return net.kind[term // 2] == OUTPUT or term % 2 == 1 or params.term_0_bias == 1


@kernel
def list_candidates(state, scratch, unit, params, candidates):
    """Write all nodes that may feed `unit` without a cycle into `candidates`; return how many."""
    net = state.network
    n_inputs = net.counts[N_INPUTS]
    count = 0
    for s in range(n_inputs):
        if net.usable[s]:
            candidates[count] = s
            count += 1
    for u in range(net.counts[N_UNITS]):
        if may_feed_all(net, u, params.outputs_as_sources) and not scratch.reach[unit, u]:
            candidates[count] = n_inputs + u
            count += 1
    return count


@kernel
def state_means(net, work):
    """Mean state of every node over the batch."""
    n = work.width[0]
    means = np.zeros(work.state.shape[0])
    for s in range(net.counts[N_INPUTS] + net.counts[N_UNITS]):
        total = 0.0
        for m in range(n):
            total += work.state[s, m]
        means[s] = total / n
    return means


@kernel
def best_single(state, scratch, term, params, candidates, count, means, row):
    """Return (G, source) of the best new in-edge, and the largest G among those there."""
    net, plan, work = state.network, scratch.plan, scratch.wide
    n = work.width[0]
    centred = has_bias(net, term, params)
    centred_deltas(work, term, centred, row)
    best, best_source, own = 0.0, -1, 0.0
    for i in range(count):
        s = candidates[i]
        G = source_evidence(work.state, s, means[s] if centred else 0.0, row, n)
        if feeds(net, plan, s, term):
            own = max(own, G)
        elif best < G:
            best, best_source = G, s
    return best, best_source, own


@kernel
def product_cost(state, scratch, term, sources, length):
    """Edges that a product would add, and the place in `sources` of one that feeds already."""
    net, plan = state.network, scratch.plan
    for i in range(length):
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            e = plan.in_edge[p]
            if net.source[e] == sources[i] and not state.edge_fading[e]:
                return 2 * (length - 1), i
    return 2 * length - 1, -1


@kernel
def best_pair(state, scratch, term, params, candidates, count, first_count, row, product, found):
    """Return the largest G per edge of a product of two sources; write them into `found`."""
    work = scratch.wide
    n = work.width[0]
    best_rate, best_G = 0.0, 0.0
    pair = np.empty(2, np.int64)
    for i in range(first_count):
        a = candidates[i]
        for m in range(n):
            product[m] = work.state[a, m] * row[m]
        for j in range(i, count):
            G = product_evidence(product, work.state, candidates[j], n)
            if best_rate >= G * 0.5:
                continue
            pair[0], pair[1] = a, candidates[j]
            cost, _ = product_cost(state, scratch, term, pair, 2)
            if G / cost > best_rate:
                best_rate, best_G = G / cost, G
                found[0], found[1] = pair[0], pair[1]
    return best_G


@kernel
def combinations_of(n, k, limit):
    """n over k, or limit + 1 where it is more."""
    total = 1.0
    for i in range(k):
        total = total * (n - i) / (i + 1)
        if total > limit and i < k - i:
            return limit + 1.0
    return min(total, limit + 1.0)


@kernel
def best_product(work, candidates, count, length, row, rows, found):
    """Try every product of `length` different candidates; return the largest G."""
    n = work.width[0]
    chosen = np.empty(length, np.int64)
    for d in range(length):
        chosen[d] = d
    best = 0.0
    redo = 0  # rows[d] is valid for d < redo
    while True:
        for d in range(redo, length - 1):
            s = candidates[chosen[d]]
            if d == 0:
                for m in range(n):
                    rows[0, m] = work.state[s, m] * row[m]
            else:
                for m in range(n):
                    rows[d, m] = work.state[s, m] * rows[d - 1, m]
        G = product_evidence(rows[length - 2], work.state, candidates[chosen[length - 1]], n)
        if best < G:
            best = G
            for d in range(length):
                found[d] = candidates[chosen[d]]
        # Next combination in lexicographic order.
        d = length - 1
        while d >= 0 and chosen[d] == count - length + d:
            d -= 1
        if d < 0:
            return best
        chosen[d] += 1
        for x in range(d + 1, length):
            chosen[x] = chosen[x - 1] + 1
        redo = d


@kernel
def search_products(state, scratch, term, params, candidates, count, single, row, rows, found):
    """Return (G, length) of the best product for a term; length 0 where none is significant.

    Pairs are always looked at. Longer products only while nothing shorter is significant, and as
    long as the products of that length can all be tried.
    """
    net, work = state.network, scratch.wide
    n = work.width[0]
    if params.product_order < 2 or params.enc == 0 or count == 0:
        return 0.0, 0
    centred_deltas(work, term, has_bias(net, term, params), row)
    product = rows[0]
    first_count = count
    if float(count) * count * n > PAIR_BUDGET:
        first_count = min(count, max(1, int(PAIR_BUDGET / (float(count) * n))))
        strongest_first(work, candidates, count, first_count, row)
    G = best_pair(state, scratch, term, params, candidates, count, first_count, row, product, found)
    tries = 1.0 * first_count * count
    if needed_evidence(tries, params.significance) < G:
        return G, 2
    if single > needed_evidence(count, params.significance):
        return 0.0, 0
    for length in range(3, min(params.product_order, count, MAX_ORDER) + 1):
        number = combinations_of(count, length, params.product_budget)
        if number > params.product_budget:
            continue
        tries += number
        G = best_product(work, candidates, count, length, row, rows, found)
        if needed_evidence(tries, params.significance) < G:
            return G, length
    return 0.0, 0


@kernel
def strongest_first(work, candidates, count, wanted, row):
    """Bring the `wanted` candidates of largest total potential Σ|aδ| to the front."""
    n = work.width[0]
    totals = np.zeros(count)
    for i in range(count):
        total = 0.0
        for m in range(n):
            total += abs(work.state[candidates[i], m] * row[m])
        totals[i] = total
    order = np.argsort(-totals)
    before = candidates[:count].copy()
    for i in range(count):
        candidates[i] = before[order[i]]


@kernel
def apply_product(state, scratch, term, sources, length, params):
    """Build the chain: an edge into `term`, converted; its node fed by the next source; and so on.

    The last edge of the chain has weight 0 and a gradient of Σ ∏aδ; all else is as it was.
    """
    _, place = product_cost(state, scratch, term, sources, length)
    if place > 0:
        sources[0], sources[place] = sources[place], sources[0]
    net, plan = state.network, scratch.plan
    e = -1
    if place >= 0:
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            if net.source[plan.in_edge[p]] == sources[0]:
                e = plan.in_edge[p]
    else:
        e = generate_edge(state, scratch, sources[0], term, params.refraction)
    for i in range(1, length):
        k = convert(state, scratch, e, params)
        e = generate_edge(state, scratch, sources[i], 2 * k + 1, params.refraction)


@kernel
def grow_by_gain(state, scratch, params, room, quota):
    """One round of growth. Return the number of edges added.

    Processes are applied, best first, until `quota` edges are there; a product that begins within
    the quota may pass it, but never `room`. Needs both passes on `scratch.wide`.
    """
    net, plan, work = state.network, scratch.plan, scratch.wide
    n_units = net.counts[N_UNITS]
    n_terms = 2 * n_units
    n_nodes = net.counts[N_INPUTS] + n_units
    reaches(net, plan, scratch.reach)
    means = state_means(net, work)
    candidates = np.empty(n_nodes, np.int64)
    row = np.empty(work.width[1], work.state.dtype)
    rows = np.empty((MAX_ORDER, work.width[1]), work.state.dtype)
    gain = np.zeros(n_terms)  # G per edge of the best process at each term
    source = np.full(n_terms, -1, np.int64)
    length = np.zeros(n_terms, np.int64)  # 1: an edge; more: a product of that many sources
    products = np.empty((n_terms, MAX_ORDER), np.int64)
    tries = 1.0 * n_terms * n_nodes
    for u in range(n_units):
        if net.kind[u] == FREE or net.unit_frozen[u]:
            continue
        count = list_candidates(state, scratch, u, params, candidates)
        for t in range(2 * u, 2 * u + (1 if net.kind[u] == OUTPUT else 2)):
            G, s, own = best_single(state, scratch, t, params, candidates, count, means, row)
            # A term whose own parameters are further from rest than the candidate waits.
            if s >= 0 and own < G and needed_evidence(tries, params.significance) < G:
                gain[t], source[t], length[t] = G, s, 1
            if net.kind[u] == OUTPUT:
                G2, found = search_products(
                    state,
                    scratch,
                    t,
                    params,
                    candidates,
                    count,
                    G,
                    row,
                    rows,
                    products[t],
                )
                if found > 1 and own < G2:
                    cost, _ = product_cost(state, scratch, t, products[t], found)
                    if G2 / cost > gain[t]:
                        gain[t], length[t] = G2 / cost, found
    return apply_best(state, scratch, params, room, quota, gain, source, length, products)


@kernel
def apply_best(state, scratch, params, room, quota, gain, source, length, products):
    """Apply the chosen processes, best first, while there is room. Return the edges added."""
    net = state.network
    added, hidden = 0, count_hidden(net)
    for t in np.argsort(-gain):
        if gain[t] <= 0.0 or added >= quota:
            break
        cost, units = 1, 0
        if length[t] > 1:
            cost, _ = product_cost(state, scratch, t, products[t], length[t])
            units = length[t] - 1
        if added + cost > room or hidden + units > params.max_hidden:
            continue
        if not has_room(state, scratch.log, units, cost):
            break
        if length[t] == 1:
            if closes_cycle(state, scratch, source[t], t):
                continue
            generate_edge(state, scratch, source[t], t, params.refraction)
        else:
            apply_product(state, scratch, t, products[t], length[t], params)
        rebuild(net, scratch.plan)
        scratch.changed[0] = 0
        reaches(net, scratch.plan, scratch.reach)
        added += cost
        hidden += units
    return added


@kernel
def closes_cycle(state, scratch, source, term):
    """Would this edge close a cycle, now that others were added in the same round?"""
    s = source - state.network.counts[N_INPUTS]
    return s >= 0 and scratch.reach[term // 2, s]


@kernel
def saliencies(state, scratch, result):
    """½·w²·Σ(aδ)²: the cost, to second order, of setting an edge's weight to 0."""
    net, work = state.network, scratch.wide
    n = work.width[0]
    for e in range(net.counts[N_EDGES]):
        result[e] = np.inf
        s = net.source[e]
        if s < 0 or net.edge_frozen[e]:
            continue
        t = net.term[e]
        squares = 0.0
        for m in range(n):
            x = work.state[s, m] * work.delta[t, m]
            squares += x * x
        result[e] = 0.5 * net.weight[e] ** 2 * squares


@kernel
def fade_weakest(state, scratch, params, keep):
    """Let the least salient edges fade until `keep` are left. Return how many were chosen."""
    net = state.network
    result = np.full(net.counts[N_EDGES], np.inf)
    saliencies(state, scratch, result)
    alive = 0
    for e in range(net.counts[N_EDGES]):
        if net.source[e] >= 0:
            if state.edge_fading[e]:
                result[e] = np.inf
            else:
                alive += 1
    chosen = 0
    for e in np.argsort(result):
        if alive - chosen <= keep or result[e] == np.inf:
            break
        state.edge_fading[e] = True
        chosen += 1
    return chosen
