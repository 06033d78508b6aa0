"""Our own ordering: the generative process with the largest gain per edge goes first.

A round of growth tests, on one larger batch, every source for every term, and for the outputs
also products of sources and gates. Only what is significant against noise is grown.
"""

from typing import NamedTuple

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
from dirad.growth.gate_scan import GATE, N_COLUMNS, SOURCE, STEP_GATE, sort_into_bins
from dirad.growth.gates import apply_gate, edges_for_gate, search_gates, units_for_gate
from dirad.growth.products import (
    MAX_ORDER,
    apply_product,
    product_cost_and_existing_source,
    search_products,
)
from dirad.growth.state import N_SAMPLES, STEP, count_hidden, has_room
from dirad.growth.update import has_bias

SEARCHED_OUTPUTS = 3  # for which products and gates are searched in one round
BY_GATE = -1  # in place of the length of a product: the process is a gate
YOUNG_EDGE_ROUNDS = 4  # rounds of growth for which a new edge counts as young


class Choice(NamedTuple):
    """The best process of every term."""

    gain: np.ndarray  # (terms,) G per edge; 0: there is none
    length: np.ndarray  # (terms,) 1: an edge; more: a product of that many sources; BY_GATE
    source: np.ndarray  # (terms,) of the edge
    products: np.ndarray  # (terms, MAX_ORDER) sources of the product
    gates: np.ndarray  # (terms, N_COLUMNS) the gate
    evidences: np.ndarray  # (terms, nodes) G of every single source
    least: np.ndarray  # (terms,) G that a source of a growing term needs


@kernel
def new_choice(n_terms, n_nodes):
    """Return a choice without any process."""
    return Choice(
        np.zeros(n_terms),
        np.zeros(n_terms, np.int64),
        np.full(n_terms, -1, np.int64),
        np.empty((n_terms, MAX_ORDER), np.int64),
        np.zeros((n_terms, N_COLUMNS)),
        np.zeros((n_terms, n_nodes)),
        np.full(n_terms, np.inf),
    )


@kernel
def grow_by_gain(state, plan, work, log, params, room, quota):
    """One round of growth. Return the number of edges added.

    Processes are applied, best first, until `quota` edges are added. A product that begins within
    the quota may exceed it, but never `room`. Needs both passes on `work`.
    """
    net = state.network
    n_units = net.counts[N_UNITS]
    n_nodes = net.counts[N_INPUTS] + n_units
    reach = np.zeros((n_units, n_units), np.bool_)
    fill_reachability(net, plan, reach)
    all_nodes = np.empty(n_nodes, np.int64)
    rows = np.empty((2, MAX_ORDER, work.width[1]), work.state.dtype)
    choice = new_choice(2 * n_units, n_nodes)
    binned = (
        all_nodes[: list_sources(net, params, all_nodes)]
        if params.gates and params.enc
        else all_nodes[:0]
    )
    bins = sort_into_bins(work.state[:n_nodes], binned, work.width[0])
    for u in range(n_units):
        if net.units[u].kind == FREE or net.units[u].frozen:
            continue
        candidates = all_nodes[: list_candidate_sources(net, reach, u, params, all_nodes)]
        for t in range(2 * u, 2 * u + (1 if net.units[u].kind == OUTPUT else 2)):
            score = residual_score(net, plan, work, t, has_bias(net, t, params))
            choose_process(
                state, plan, work, t, params, score, candidates, bins, room, rows, choice
            )
    added = apply_best(state, plan, log, params, room, quota, choice)
    if added > 0 and state.clock[N_SAMPLES] < params.breadth * net.counts[N_INPUTS]:
        added += add_other_significant_sources(state, plan, log, params, room - added, choice)
    return added


@kernel
def choose_process(state, plan, work, t, params, score, candidates, bins, room, rows, choice):
    """Write the best process of term t to `choice`: an edge; for outputs also a product or a gate.

    Noise may be an expected share `significance` of the edges: a term with many edges accepts
    weaker evidence, so that many weak sources can be used together.
    """
    net = state.network
    allowed = params.significance * (1.0 + plan.in_start[t + 1] - plan.in_start[t])
    least = needed_evidence(candidates.shape[0], allowed)
    G, s = best_single_source(net, plan, work, t, score, candidates, choice.evidences[t])
    if s >= 0 and G > least:
        choice.gain[t], choice.source[t], choice.length[t] = G, s, 1
        choice.least[t] = least
    if room < 2 or not products_and_gates_have_turn(state, t // 2, params):
        return
    G, found = search_products(
        state, plan, work, t, params, score, candidates, G, rows, choice.products[t]
    )
    if found > 1 and G > max_young_evidence_upstream(state, plan, work, t // 2, params):
        cost, _ = product_cost_and_existing_source(state, plan, t, choice.products[t], found)
        if cost <= room and G > cost * choice.gain[t]:
            choice.gain[t], choice.length[t] = G / cost, found
    if params.gates and params.enc:
        gate = choice.gates[t]
        G, tries = search_gates(net, plan, work, t, score, candidates, bins, rows, gate)
        cost = edges_for_gate(gate)
        better = G > needed_evidence(tries, allowed) and G > cost * choice.gain[t]
        better = better and cost <= room
        if better and G > max_young_evidence_upstream(state, plan, work, t // 2, params):
            choice.gain[t], choice.length[t] = G / cost, BY_GATE


@kernel
def rounds_for_all_outputs(net, params):
    """Number of rounds after which products and gates were searched for every output."""
    if not params.gates:
        return 1
    return max(1, -(-count_unfrozen_outputs_before(net, net.counts[N_UNITS]) // SEARCHED_OUTPUTS))


@kernel
def count_unfrozen_outputs_before(net, stop):
    """Number of outputs that are not frozen among the units before `stop`."""
    n = 0
    for u in range(stop):
        if net.units[u].kind == OUTPUT and not net.units[u].frozen:
            n += 1
    return n


@kernel
def products_and_gates_have_turn(state, unit, params):
    """Are products and gates searched for this node now? With gates, many outputs take turns."""
    net = state.network
    if net.units[unit].kind != OUTPUT:
        return False
    number = (state.clock[STEP] + 1) // params.interval
    return (number + count_unfrozen_outputs_before(net, unit)) % rounds_for_all_outputs(
        net, params
    ) == 0


@kernel
def list_sources(net, params, sources):
    """Write all nodes that may be sources to `sources`; return their number."""
    n_inputs = net.counts[N_INPUTS]
    count = 0
    for s in range(n_inputs):
        if net.usable[s]:
            sources[count] = s
            count += 1
    for u in range(net.counts[N_UNITS]):
        if may_be_source(net, u, params.outputs_as_sources):
            sources[count] = n_inputs + u
            count += 1
    return count


@kernel
def list_candidate_sources(net, reach, unit, params, candidates):
    """Write the nodes that may feed `unit` without a cycle to `candidates`; return their number."""
    n_inputs = net.counts[N_INPUTS]
    count = 0
    for s in candidates[: list_sources(net, params, candidates)]:
        if s < n_inputs or not reach[unit, s - n_inputs]:
            candidates[count] = s
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
def max_young_evidence_upstream(state, plan, work, unit, params):
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
def apply_best(state, plan, log, params, room, quota, choice):
    """Apply the chosen processes, best first, while there is room. Return the edges added."""
    net = state.network
    added, hidden = 0, count_hidden(net)
    for t in np.argsort(-choice.gain):
        if choice.gain[t] <= 0.0 or added >= quota:
            break
        length = choice.length[t]
        cost, units = 1, 0
        if length > 1:
            cost, _ = product_cost_and_existing_source(state, plan, t, choice.products[t], length)
            units = length - 1
        elif length == BY_GATE:
            cost, units = edges_for_gate(choice.gates[t]), units_for_gate(choice.gates[t])
        if added + cost > room or hidden + units > params.max_hidden:
            continue
        if not has_room(state, log, units, cost):
            break
        if apply_process(state, plan, log, params, t, choice):
            rebuild(net, plan)
            added += cost
            hidden += units
    return added


@kernel
def apply_process(state, plan, log, params, t, choice):
    """Apply the process chosen for a term, unless it would close a cycle. Say whether it did."""
    net, length = state.network, choice.length[t]
    if length > 1:
        if any_closes_cycle(net, plan, choice.products[t, :length], t):
            return False
        apply_product(state, plan, log, t, choice.products[t], length, params)
    elif length == BY_GATE:
        gate = choice.gates[t]
        for column in (GATE, SOURCE, STEP_GATE):
            if closes_cycle(net, plan, int(gate[column]), t):
                return False
        apply_gate(state, plan, log, t, gate, params)
    else:
        if closes_cycle(net, plan, choice.source[t], t):
            return False
        generate_edge(state, plan, log, choice.source[t], t, 0.0, params.refraction)
    return True


@kernel
def add_other_significant_sources(state, plan, log, params, room, choice):
    """Give terms that grew an edge their other significant sources as well.

    With few samples per input, the best of many correlated sources cannot be identified; all of
    them, kept small by weight decay, then predict better than any one. Not done where they would
    take more than a tenth of the room: a user who limits the edges wants a selection.
    """
    net = state.network
    n_nodes = choice.evidences.shape[1]
    wanted = np.zeros(choice.evidences.shape, np.bool_)
    count = 0
    for t in range(wanted.shape[0]):
        if choice.length[t] == 1:
            for s in range(n_nodes):
                G = choice.evidences[t, s]
                wanted[t, s] = G > 0.0 and G >= choice.least[t]
                count += wanted[t, s]
    if 10 * count > room or not has_room(state, log, 0, count):
        return 0
    added = 0
    for t in range(wanted.shape[0]):
        for s in range(n_nodes):
            if not wanted[t, s] or has_edge_into(net, plan, s, t):
                continue
            if not closes_cycle(net, plan, s, t):
                generate_edge(state, plan, log, s, t, 0.0, params.refraction)
                rebuild(net, plan)
                added += 1
    return added


@kernel
def any_closes_cycle(net, plan, sources, term):
    """Would one of these sources close a cycle if it fed `term` through new nodes? (-1: none.)"""
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
