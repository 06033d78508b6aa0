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
    cross_products,
    needed_evidence,
    pressure_on,
    product_evidence,
    source_evidence,
)
from dirad.growth.state import N_SAMPLES, STEP, count_hidden, has_room
from dirad.growth.update import has_bias

MAX_ORDER = 16  # longest product that can be represented
YOUTH = 4  # rounds of growth for which a new edge counts as young
PAIR_BUDGET = 5e8  # multiplications spent on pairs of sources for one term
SCREENED = 1000  # samples on which all pairs are compared
KEPT = 64  # pairs that are then compared on the whole batch


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
def best_single(net, plan, work, term, pressure, candidates, evidences):
    """Return (G, source) of the best new in-edge of a term; write G of all into `evidences`."""
    n = work.width[0]
    best, best_source = 0.0, np.int64(-1)
    evidences[:] = 0.0
    cross = np.empty((candidates.shape[0], pressure.own.shape[0]))
    cross_products(work.state, candidates, pressure.own, n, cross)
    for i in range(candidates.shape[0]):
        s = candidates[i]
        if not feeds(net, plan, s, term):
            G = source_evidence(pressure, work.state[s], cross[i], n)
            evidences[s] = G
            if G > best:
                best, best_source = G, s
    return best, best_source


@kernel
def unfinished_evidence(state, plan, work, unit, params):
    """The largest G among the young edges behind `unit`: what its pathway is still busy with.

    A chain that was just built takes a while to adapt; until then it leaves the pressure that
    called for it, and must not be built again. Edges into `unit` itself do not count: their part
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
        young = state.clock[STEP] - state.edge_life[e].born < YOUTH * params.interval
        if young and edge.source >= 0 and marked[edge.term // 2]:
            delta = work.delta[edge.term]
            G = product_evidence(delta, delta * delta, work.state[edge.source], n)
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
def multiply_rows(out, out_square, partial, partial_square, source, n):
    """Multiply a source into a partial product and its square."""
    for m in range(n):
        a = source[m]
        out[m] = a * partial[m]
        out_square[m] = a * a * partial_square[m]


@kernel
def best_pair(state, plan, work, term, pressure, firsts, candidates, rows, found):
    """Return G of the product of two sources with the largest G per edge; write them to `found`.

    `firsts` are the leading ones of `candidates`. A source may be multiplied with itself.
    """
    n = work.width[0]
    few = min(n, SCREENED)  # samples stand in random order: the first ones are as good as any
    kept = np.zeros(KEPT)
    pairs = np.full((KEPT, 2), -1, np.int64)
    worst = 0
    pair = np.empty(2, np.int64)
    for i in range(firsts.shape[0]):
        pair[0] = firsts[i]
        source = work.state[pair[0]]
        multiply_rows(rows[0, 0], rows[1, 0], pressure.residual, pressure.square, source, few)
        for j in range(i, candidates.shape[0]):
            G = product_evidence(rows[0, 0], rows[1, 0], work.state[candidates[j]], few)
            if G > 2.0 * kept[worst]:  # a pair adds two edges at least
                pair[1] = candidates[j]
                cost, _ = product_cost(state, plan, term, pair, 2)
                if G > cost * kept[worst]:
                    kept[worst] = G / cost
                    pairs[worst] = pair
                    worst = np.argmin(kept)
    best_rate, best_G = 0.0, 0.0
    for i in range(KEPT):
        if kept[i] == 0.0:
            continue
        source = work.state[pairs[i, 0]]
        multiply_rows(rows[0, 0], rows[1, 0], pressure.residual, pressure.square, source, n)
        G = product_evidence(rows[0, 0], rows[1, 0], work.state[pairs[i, 1]], n)
        cost, _ = product_cost(state, plan, term, pairs[i], 2)
        if G > cost * best_rate:
            best_rate, best_G = G / cost, G
            found[0], found[1] = pairs[i, 0], pairs[i, 1]
    return best_G


@kernel
def combinations_of(n, k, limit):
    """n over k, or something above `limit` where it is more than that."""
    total = 1.0
    for i in range(min(k, n - k)):
        total = total * (n - i) / (i + 1)
        if total > limit:
            break
    return total


@kernel
def best_product(work, pressure, candidates, length, rows, found):
    """Try every product of `length` different candidates; return the largest G."""
    count, n = candidates.shape[0], work.width[0]
    chosen = np.arange(length)
    best = 0.0
    valid = 0  # rows of depth below this are those of `chosen`
    while True:
        for d in range(valid, length - 1):
            source = work.state[candidates[chosen[d]]]
            if d == 0:
                multiply_rows(rows[0, 0], rows[1, 0], pressure.residual, pressure.square, source, n)
            else:
                multiply_rows(rows[0, d], rows[1, d], rows[0, d - 1], rows[1, d - 1], source, n)
        last = work.state[candidates[chosen[length - 1]]]
        G = product_evidence(rows[0, length - 2], rows[1, length - 2], last, n)
        if G > best:
            best = G
            for d in range(length):
                found[d] = candidates[chosen[d]]
        # The next combination in lexicographic order.
        d = length - 1
        while d >= 0 and chosen[d] == count - length + d:
            d -= 1
        if d < 0:
            return best
        chosen[d] += 1
        for x in range(d + 1, length):
            chosen[x] = chosen[x - 1] + 1
        valid = d


@kernel
def search_products(state, plan, work, term, params, pressure, candidates, single, rows, found):
    """Return (G, length) of the best product for a term; length 0 where none is significant.

    Pairs are always looked at. Longer products only while nothing shorter is significant, and as
    long as the products of that length can all be tried. `single` is G of the best single source.
    """
    count, n = candidates.shape[0], min(work.width[0], SCREENED)
    if params.product_order < 2 or params.enc == 0 or count == 0:
        return 0.0, 0
    firsts = candidates
    if params.first_gate > 0:
        firsts = candidates[: gates_first(candidates, params.first_gate)]
        if firsts.shape[0] == 0:
            return 0.0, 0
    elif float(count) * count * n > PAIR_BUDGET:
        strongest_first(work, candidates, pressure.residual)
        firsts = candidates[: max(1, int(PAIR_BUDGET / (float(count) * n)))]
    G = best_pair(state, plan, work, term, pressure, firsts, candidates, rows, found)
    tries = 1.0 * firsts.shape[0] * count
    allowed = params.significance * (1.0 + plan.in_start[term + 1] - plan.in_start[term])
    if G > needed_evidence(tries, allowed):
        return G, 2
    if single > needed_evidence(count, allowed):
        return 0.0, 0
    if params.first_gate > 0:
        return 0.0, 0  # only pairs know what a gate is
    for length in range(3, min(params.product_order, count, MAX_ORDER) + 1):
        number = combinations_of(count, length, params.product_budget)
        if number > params.product_budget:
            continue
        tries += number
        G = best_product(work, pressure, candidates, length, rows, found)
        if G > needed_evidence(tries, allowed):
            return G, length
    return 0.0, 0


@kernel
def gates_first(candidates, first_gate):
    """Put the candidates from `first_gate` on before the others; return how many they are."""
    ordered = np.empty(candidates.shape[0], np.int64)
    number = 0
    for s in candidates:
        if s >= first_gate:
            ordered[number] = s
            number += 1
    place = number
    for s in candidates:
        if s < first_gate:
            ordered[place] = s
            place += 1
    candidates[:] = ordered
    return number


@kernel
def strongest_first(work, candidates, deltas):
    """Sort the candidates by falling total potential Σ|aδ|."""
    totals = np.zeros(candidates.shape[0])
    for i in range(candidates.shape[0]):
        total = 0.0
        for m in range(work.width[0]):
            total += abs(work.state[candidates[i], m] * deltas[m])
        totals[i] = total
    candidates[:] = candidates[np.argsort(-totals)]


@kernel
def apply_product(state, plan, log, term, sources, length, params):
    """Build the chain: an edge into `term`, converted; its node fed by the next source; and so on.

    The last edge of the chain has weight 0 and the gradient Σ ∏aδ; all else is as it was.
    """
    net = state.network
    _, place = product_cost(state, plan, term, sources, length)
    e = np.int64(-1)
    if place < 0:
        e = generate_edge(state, plan, log, sources[0], term, params.refraction)
    else:
        sources[0], sources[place] = sources[place], sources[0]
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            if net.edges[plan.in_edge[p]].source == sources[0]:
                e = plan.in_edge[p]
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
        count = list_candidates(net, reach, u, params, all_nodes)
        candidates = all_nodes[:count]
        for t in range(2 * u, 2 * u + (1 if net.units[u].kind == OUTPUT else 2)):
            pressure = pressure_on(net, plan, work, t, has_bias(net, t, params))
            G, s = best_single(net, plan, work, t, pressure, candidates, evidences[t])
            # The share of noise among the edges may be `significance`: where many are, one more
            # of doubtful use does less harm, and many weak sources can be used together.
            allowed = params.significance * (1.0 + plan.in_start[t + 1] - plan.in_start[t])
            if s >= 0 and G > needed_evidence(count, allowed):
                gain[t], source[t], length[t] = G, s, 1
                least[t] = needed_evidence(count, allowed)
            if net.units[u].kind == OUTPUT and room > 1:
                G, found = search_products(
                    state, plan, work, t, params, pressure, candidates, G, rows, products[t]
                )
                if found > 1 and G > unfinished_evidence(state, plan, work, u, params):
                    cost, _ = product_cost(state, plan, t, products[t], found)
                    if cost <= room and G > cost * gain[t]:
                        gain[t], length[t] = G / cost, found
    added = apply_best(state, plan, log, params, room, quota, gain, source, length, products)
    if added > 0 and state.clock[N_SAMPLES] < params.breadth * net.counts[N_INPUTS]:
        added += apply_rest(state, plan, log, params, room - added, length, evidences, least)
    return added


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
def any_closes_cycle(net, plan, sources, term):
    """Would one of these sources close a cycle through a chain into `term`?"""
    found = False
    for s in sources:
        found = found or closes_cycle(net, plan, s, term)
    return found


@kernel
def apply_rest(state, plan, log, params, room, length, evidences, least):
    """Give terms that grew an edge their other significant sources as well.

    With few samples per input one cannot tell which of many similar sources is the best; all of
    them, kept small by the prior, then predict better than any choice. Not done where they would
    take more than a tenth of the room: a user who limits the edges wants the choice.
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
            if evidences[t, s] < least[t] or feeds(net, plan, s, t):
                continue
            if not closes_cycle(net, plan, s, t):
                generate_edge(state, plan, log, s, t, params.refraction)
                rebuild(net, plan)
                added += 1
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
def saliencies(net, plan, work, params, result):
    """The cost, to second order, of setting a weight to 0 while its neighbours adjust.

    ½·w²/[F⁻¹]ₑₑ with the Fisher information F of the term that the edge enters.
    """
    n = work.width[0]
    for t in range(2 * net.counts[N_UNITS]):
        start, stop = plan.in_start[t], plan.in_start[t + 1]
        if start == stop:
            continue
        pressure = pressure_on(net, plan, work, t, has_bias(net, t, params))
        first = pressure.inverse.shape[0] - (stop - start)
        for p in range(start, stop):
            edge = net.edges[plan.in_edge[p]]
            if first >= 0:
                i = first + p - start
                inverse = 0.0
                for x in range(i, pressure.inverse.shape[0]):
                    inverse += pressure.inverse[x, i] ** 2
                curvature = 1.0 / inverse
            else:
                curvature = 0.0
                for m in range(n):
                    curvature += work.state[edge.source, m] ** 2 * pressure.square[m]
            result[plan.in_edge[p]] = 0.5 * edge.weight**2 * curvature


@kernel
def fade_weakest(state, plan, work, params, keep):
    """Let the least salient edges fade until `keep` are left. Return how many were chosen."""
    net = state.network
    result = np.full(net.counts[N_EDGES], np.inf)
    saliencies(net, plan, work, params, result)
    alive = 0
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source < 0:
            continue
        if state.edge_life[e].fading or net.edges[e].frozen:
            result[e] = np.inf
        if not state.edge_life[e].fading:
            alive += 1
    chosen = 0
    for e in np.argsort(result):
        if alive - chosen <= keep or result[e] == np.inf:
            break
        state.edge_life[e].fading = 1
        chosen += 1
    return chosen
