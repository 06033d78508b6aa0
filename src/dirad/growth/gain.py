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
from dirad.core.order import mark_ancestors, mark_descendants, reaches, rebuild
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
    return net.units[term // 2].kind == OUTPUT or term % 2 == 1 or params.term_0_bias == 1


@kernel
def list_candidates(net, reach, unit, params, candidates):
    """Write all nodes that may feed `unit` without a cycle into `candidates`; return how many."""
    n_inputs = net.counts[N_INPUTS]
    count = 0
    for s in range(n_inputs):
        if net.usable[s]:
            candidates[count] = s
            count += 1
    for u in range(net.counts[N_UNITS]):
        if may_feed_all(net, u, params.outputs_as_sources) and not reach[unit, u]:
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
def best_single(net, plan, work, term, params, candidates, means, row):
    """Return (G, source) of the best new in-edge, and the largest G among those there."""
    n = work.width[0]
    centred = has_bias(net, term, params)
    centred_deltas(work, term, centred, row)
    best, best_source, own = 0.0, -1, 0.0
    for s in candidates:
        G = source_evidence(work.state, s, means[s] if centred else 0.0, row, n)
        if feeds(net, plan, s, term):
            own = max(own, G)
        elif best < G:
            best, best_source = G, s
    return best, best_source, own


@kernel
def pathway_evidence(net, plan, work, unit):
    """The largest G among the edges on the way to `unit`: how far it is from exhausted."""
    n = work.width[0]
    marked = np.zeros(net.units.shape[0], np.bool_)
    mark_ancestors(net, plan, unit, marked)
    largest = 0.0
    for e in range(net.counts[N_EDGES]):
        edge = net.edges[e]
        if edge.source >= 0 and marked[edge.term // 2]:
            G = product_evidence(work.delta[edge.term], work.state, edge.source, n)
            largest = max(largest, G)
    return largest


@kernel
def product_cost(state, plan, term, sources, length):
    """Edges that a product would add, and the place in `sources` of one that feeds already."""
    net = state.network
    for i in range(length):
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            e = plan.in_edge[p]
            if net.edges[e].source == sources[i] and not state.edge_life[e].fading:
                return 2 * (length - 1), i
    return 2 * length - 1, -1


@kernel
def best_pair(state, plan, work, term, firsts, candidates, row, product, found):
    """Return G of the product of two sources with the largest G per edge; write them to `found`.

    `firsts` are the leading ones of `candidates`. A source may be multiplied with itself.
    """
    n = work.width[0]
    best_rate, best_G = 0.0, 0.0
    pair = np.empty(2, np.int64)
    for i in range(firsts.shape[0]):
        pair[0] = firsts[i]
        for m in range(n):
            product[m] = work.state[pair[0], m] * row[m]
        for j in range(i, candidates.shape[0]):
            G = product_evidence(product, work.state, candidates[j], n)
            if G * 0.5 <= best_rate:
                continue
            pair[1] = candidates[j]
            cost, _ = product_cost(state, plan, term, pair, 2)
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
def best_product(work, candidates, length, row, rows, found):
    """Try every product of `length` different candidates; return the largest G."""
    count, n = candidates.shape[0], work.width[0]
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
def search_products(state, plan, work, term, params, candidates, single, row, rows, found):
    """Return (G, length) of the best product for a term; length 0 where none is significant.

    Pairs are always looked at. Longer products only while nothing shorter is significant, and as
    long as the products of that length can all be tried. `single` is G of the best single source.
    """
    count, n = candidates.shape[0], work.width[0]
    if params.product_order < 2 or params.enc == 0 or count == 0:
        return 0.0, 0
    centred_deltas(work, term, has_bias(state.network, term, params), row)
    firsts = candidates
    if float(count) * count * n > PAIR_BUDGET:
        strongest_first(work, candidates, row)
        firsts = candidates[: max(1, int(PAIR_BUDGET / (float(count) * n)))]
    G = best_pair(state, plan, work, term, firsts, candidates, row, rows[0], found)
    tries = 1.0 * firsts.shape[0] * count
    if G > needed_evidence(tries, params.significance):
        return G, 2
    if single > needed_evidence(count, params.significance):
        return 0.0, 0
    for length in range(3, min(params.product_order, count, MAX_ORDER) + 1):
        number = combinations_of(count, length, params.product_budget)
        if number > params.product_budget:
            continue
        tries += number
        G = best_product(work, candidates, length, row, rows, found)
        if G > needed_evidence(tries, params.significance):
            return G, length
    return 0.0, 0


@kernel
def strongest_first(work, candidates, row):
    """Sort the candidates by falling total potential Σ|aδ|."""
    n = work.width[0]
    totals = np.zeros(candidates.shape[0])
    for i in range(candidates.shape[0]):
        total = 0.0
        for m in range(n):
            total += abs(work.state[candidates[i], m] * row[m])
        totals[i] = total
    candidates[:] = candidates[np.argsort(-totals)]


@kernel
def apply_product(state, plan, log, term, sources, length, params):
    """Build the chain: an edge into `term`, converted; its node fed by the next source; and so on.

    The last edge of the chain has weight 0 and a gradient of Σ ∏aδ; all else is as it was.
    """
    _, place = product_cost(state, plan, term, sources, length)
    if place > 0:
        sources[0], sources[place] = sources[place], sources[0]
    net = state.network
    e = -1
    if place >= 0:
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            if net.edges[plan.in_edge[p]].source == sources[0]:
                e = plan.in_edge[p]
    else:
        e = generate_edge(state, plan, log, sources[0], term, params.refraction)
    for i in range(1, length):
        k = convert(state, plan, log, e, params)
        e = generate_edge(state, plan, log, sources[i], 2 * k + 1, params.refraction)


@kernel
def grow_by_gain(state, plan, work, log, params, room, quota):
    """One round of growth. Return the number of edges added.

    Processes are applied, best first, until `quota` edges are there; a product that begins within
    the quota may pass it, but never `room`. Needs both passes on `work`.
    """
    net = state.network
    n_units = net.counts[N_UNITS]
    n_terms = 2 * n_units
    n_nodes = net.counts[N_INPUTS] + n_units
    reach = np.zeros((n_units, n_units), np.bool_)
    reaches(net, plan, reach)
    means = state_means(net, work)
    all_nodes = np.empty(n_nodes, np.int64)
    row = np.empty(work.width[1], work.state.dtype)
    rows = np.empty((MAX_ORDER, work.width[1]), work.state.dtype)
    gain = np.zeros(n_terms)  # G per edge of the best process at each term
    source = np.full(n_terms, -1, np.int64)
    length = np.zeros(n_terms, np.int64)  # 1: an edge; more: a product of that many sources
    products = np.empty((n_terms, MAX_ORDER), np.int64)
    tries = 1.0 * n_terms * n_nodes
    for u in range(n_units):
        if net.units[u].kind == FREE or net.units[u].frozen:
            continue
        count = list_candidates(net, reach, u, params, all_nodes)
        candidates = all_nodes[:count]
        for t in range(2 * u, 2 * u + (1 if net.units[u].kind == OUTPUT else 2)):
            G, s, own = best_single(net, plan, work, t, params, candidates, means, row)
            # A term whose own parameters are further from rest than the candidate waits.
            if s >= 0 and G > own and G > needed_evidence(tries, params.significance):
                gain[t], source[t], length[t] = G, s, 1
            if net.units[u].kind == OUTPUT:
                G2, found = search_products(
                    state, plan, work, t, params, candidates, G, row, rows, products[t]
                )
                if found > 1 and G2 > max(own, pathway_evidence(net, plan, work, u)):
                    cost, _ = product_cost(state, plan, t, products[t], found)
                    if G2 / cost > gain[t]:
                        gain[t], length[t] = G2 / cost, found
    return apply_best(state, plan, log, params, room, quota, gain, source, length, products)


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
            cost, _ = product_cost(state, plan, t, products[t], length[t])
            units = length[t] - 1
        if added + cost > room or hidden + units > params.max_hidden:
            continue
        if not has_room(state, log, units, cost):
            break
        if length[t] == 1:
            if closes_cycle(net, plan, source[t], t):
                continue
            generate_edge(state, plan, log, source[t], t, params.refraction)
        else:
            apply_product(state, plan, log, t, products[t], length[t], params)
        rebuild(net, plan)
        added += cost
        hidden += units
    return added


@kernel
def closes_cycle(net, plan, source, term):
    """Would this edge close a cycle, now that others were added in the same round?"""
    s = source - net.counts[N_INPUTS]
    if s < 0:
        return False
    marked = np.zeros(net.units.shape[0], np.bool_)
    mark_descendants(net, plan, term // 2, marked)
    return marked[s]


@kernel
def saliencies(net, work, result):
    """½·w²·Σ(aδ)²: the cost, to second order, of setting an edge's weight to 0."""
    n = work.width[0]
    for e in range(net.counts[N_EDGES]):
        result[e] = np.inf
        s = net.edges[e].source
        if s < 0 or net.edges[e].frozen:
            continue
        t = net.edges[e].term
        squares = 0.0
        for m in range(n):
            x = work.state[s, m] * work.delta[t, m]
            squares += x * x
        result[e] = 0.5 * net.edges[e].weight ** 2 * squares


@kernel
def fade_weakest(state, work, keep):
    """Let the least salient edges fade until `keep` are left. Return how many were chosen."""
    net = state.network
    result = np.full(net.counts[N_EDGES], np.inf)
    saliencies(net, work, result)
    alive = 0
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source >= 0:
            if state.edge_life[e].fading:
                result[e] = np.inf
            else:
                alive += 1
    chosen = 0
    for e in np.argsort(result):
        if alive - chosen <= keep or result[e] == np.inf:
            break
        state.edge_life[e].fading = 1
        chosen += 1
    return chosen
