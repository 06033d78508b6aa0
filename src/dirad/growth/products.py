"""Products of sources: the search for the best one, and the chain of conversions that builds it.

An edge that is converted, and whose new node is fed by a second source, contributes a product of
two sources; a chain of conversions contributes a longer one (paper, the derivation of the
stopping condition). A conversion is only made together with the source that makes it productive,
and the whole chain is built at once.
"""

import numpy as np

from dirad.core.compilation import kernel
from dirad.growth.edge_generation import generate_edge
from dirad.growth.enc import convert_edge
from dirad.growth.evidence import needed_evidence, product_evidence

MAX_ORDER = 16  # longest product that can be represented
PAIR_SEARCH_OPERATIONS = 5e8  # multiplications spent on pairs of sources for one term
SCREENING_SAMPLES = 1000  # samples on which all pairs are compared
RESCORED_PAIRS = 64  # pairs that are then compared on the whole batch


@kernel
def search_products(state, plan, work, term, params, score, candidates, single, rows, found):
    """Return (G, length) of the best product for a term; length 0 where none is significant.

    Pairs are always tried. Longer products are tried while nothing shorter is significant, and
    while the budget allows to try all products of that length. `single` is the largest G of one
    source.
    """
    count, n = candidates.shape[0], min(work.width[0], SCREENING_SAMPLES)
    if params.product_order < 2 or params.enc == 0 or count == 0:
        return 0.0, 0
    firsts = candidates
    if params.first_gate > 0:
        firsts = candidates[: move_gates_first(candidates, params.first_gate)]
        if firsts.shape[0] == 0:
            return 0.0, 0
    elif float(count) * count * n > PAIR_SEARCH_OPERATIONS:
        sort_by_total_potential(work, candidates, score.residual)
        firsts = candidates[: max(1, int(PAIR_SEARCH_OPERATIONS / (float(count) * n)))]
    G = best_pair(state, plan, work, term, score, firsts, candidates, rows, found)
    tries = 1.0 * firsts.shape[0] * count
    allowed = params.significance * (1.0 + plan.in_start[term + 1] - plan.in_start[term])
    if G > needed_evidence(tries, allowed):
        return G, 2
    if single > needed_evidence(count, allowed):
        return 0.0, 0
    if params.first_gate > 0:
        return 0.0, 0  # gates are only used in pairs
    for length in range(3, min(params.product_order, count, MAX_ORDER) + 1):
        number = count_combinations(count, length, params.product_budget)
        if number > params.product_budget:
            continue
        tries += number
        G = best_product_of_length(work, score, candidates, length, rows, found)
        if G > needed_evidence(tries, allowed):
            return G, length
    return 0.0, 0


@kernel
def best_pair(state, plan, work, term, score, firsts, candidates, rows, found):
    """Return G of the product of two sources with the largest G per edge; write them to `found`.

    `firsts` are the leading ones of `candidates`. A source may be multiplied with itself.
    """
    n = work.width[0]
    few = min(n, SCREENING_SAMPLES)  # samples are in random order: the first ones are a random part
    kept = np.zeros(RESCORED_PAIRS)
    pairs = np.full((RESCORED_PAIRS, 2), -1, np.int64)
    worst = 0
    pair = np.empty(2, np.int64)
    for i in range(firsts.shape[0]):
        pair[0] = firsts[i]
        source = work.state[pair[0]]
        multiply_rows(rows[0, 0], rows[1, 0], score.residual, score.square, source, few)
        for j in range(i, candidates.shape[0]):
            G = product_evidence(rows[0, 0], rows[1, 0], work.state[candidates[j]], few)
            if G > 2.0 * kept[worst]:  # a pair adds two edges at least
                pair[1] = candidates[j]
                cost, _ = product_cost_and_existing_source(state, plan, term, pair, 2)
                if G > cost * kept[worst]:
                    kept[worst] = G / cost
                    pairs[worst, 0], pairs[worst, 1] = pair[0], pair[1]
                    worst = np.argmin(kept)
    best_rate, best_G = 0.0, 0.0
    for i in range(RESCORED_PAIRS):
        if kept[i] == 0.0:
            continue
        source = work.state[pairs[i, 0]]
        multiply_rows(rows[0, 0], rows[1, 0], score.residual, score.square, source, n)
        G = product_evidence(rows[0, 0], rows[1, 0], work.state[pairs[i, 1]], n)
        cost, _ = product_cost_and_existing_source(state, plan, term, pairs[i], 2)
        if G > cost * best_rate:
            best_rate, best_G = G / cost, G
            found[0], found[1] = pairs[i, 0], pairs[i, 1]
    return best_G


@kernel
def best_product_of_length(work, score, candidates, length, rows, found):
    """Try every product of `length` different candidates; return the largest G."""
    count, n = candidates.shape[0], work.width[0]
    chosen = np.arange(length)
    best = 0.0
    valid = 0  # rows of depth below this are those of `chosen`
    while True:
        for d in range(valid, length - 1):
            source = work.state[candidates[chosen[d]]]
            if d == 0:
                multiply_rows(rows[0, 0], rows[1, 0], score.residual, score.square, source, n)
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
def multiply_rows(out, out_square, partial, partial_square, source, n):
    """Multiply a source into a partial product and its square."""
    for m in range(n):
        a = source[m]
        out[m] = a * partial[m]
        out_square[m] = a * a * partial_square[m]


@kernel
def count_combinations(n, k, stop_above):
    """Return the binomial coefficient of n and k; above `stop_above`, some number above that."""
    total = 1.0
    for i in range(min(k, n - k)):
        total = total * (n - i) / (i + 1)
        if total > stop_above:
            break
    return total


@kernel
def move_gates_first(candidates, first_gate):
    """Move the candidates from `first_gate` on to the front; return their number."""
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
    for i in range(ordered.shape[0]):
        candidates[i] = ordered[i]
    return number


@kernel
def total_potential(work, source, deltas):
    """Σ|aδ| of a source."""
    total = 0.0
    for m in range(work.width[0]):
        total += abs(work.state[source, m] * deltas[m])
    return total


@kernel
def sort_by_total_potential(work, candidates, deltas):
    """Sort the candidates by falling total potential Σ|aδ|."""
    totals = np.zeros(candidates.shape[0])
    for i in range(candidates.shape[0]):
        totals[i] = total_potential(work, candidates[i], deltas)
    before = candidates.copy()
    order = np.argsort(-totals)
    for i in range(order.shape[0]):
        candidates[i] = before[order[i]]


@kernel
def product_cost_and_existing_source(state, plan, term, sources, length):
    """Return (edges that a product would add, index of a source that already feeds, or -1)."""
    net = state.network
    for i in range(length):
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            e = plan.in_edge[p]
            if net.edges[e].source == sources[i] and not state.edge_life[e].fading:
                return 2 * (length - 1), i
    return 2 * length - 1, -1


@kernel
def apply_product(state, plan, log, term, sources, length, params):
    """Build the chain: convert an edge into `term`, feed its node by the next source, and so on.

    The last edge of the chain has weight 0 and the gradient Σ ∏aδ; no response changes.
    """
    net = state.network
    _, place = product_cost_and_existing_source(state, plan, term, sources, length)
    e = np.int64(-1)
    if place < 0:
        e = generate_edge(state, plan, log, sources[0], term, 0.0, params.refraction)
    else:
        sources[0], sources[place] = sources[place], sources[0]
        for p in range(plan.in_start[term], plan.in_start[term + 1]):
            if net.edges[plan.in_edge[p]].source == sources[0]:
                e = plan.in_edge[p]
    for i in range(1, length):
        k = convert_edge(state, plan, log, e, params)
        e = generate_edge(state, plan, log, sources[i], 2 * k + 1, 0.0, params.refraction)
