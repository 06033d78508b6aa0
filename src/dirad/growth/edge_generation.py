"""The first generative process: a new in-edge of weight 0, from the best-aligned source."""

from dirad.core.compilation import kernel
from dirad.core.edits import lowest_free_edge, new_unit, put_edge
from dirad.core.network import FREE, MODULATORY, N_INPUTS, N_UNITS, OUTPUT
from dirad.core.order import CHANGED, mark_descendants
from dirad.core.potential import bias_exhausted, edge_exhausted
from dirad.core.random import TIE, uniform
from dirad.growth.state import SEED, STEP, write_event
from dirad.growth.update import has_bias
from dirad.history import EDGE, GATE


@kernel
def generate_edge(state, plan, log, source, term, weight, refraction):
    """Add the edge source → term; with weight 0 it changes no response. Return its number."""
    e = lowest_free_edge(state.network)
    place_edge(state, plan, log, e, source, term, weight, refraction)
    return e


@kernel
def place_edge(state, plan, log, e, source, term, weight, refraction):
    """Add the edge source → term in the free place e."""
    put_edge(state.network, e, source, term, weight)
    now = state.clock[STEP]
    state.edge_life[e].born = now
    state.edge_life[e].rest = now + refraction
    state.edge_life[e].fading = 0
    state.edge_life[e].mean = 0.0
    state.edge_life[e].square = 0.0
    state.unit_life[term // 2].rest = now + refraction
    write_event(state, log, EDGE, e, source, term, -1, -1, weight)
    plan.status[CHANGED] = 1


@kernel
def new_node(state, gain, offset, gate_bias, refraction):
    """Add a modulatory node without edges, with the biases of its two terms.

    Return its unit number.
    """
    net = state.network
    now = state.clock[STEP]
    u = new_unit(net, gain, gate_bias)
    net.bias[u, 0] = offset
    state.unit_life[u].born = now
    state.unit_life[u].rest = now + refraction
    for t in range(2):
        state.bias_mean[u, t] = 0.0
        state.bias_square[u, t] = 0.0
    return u


@kernel
def new_gate(state, plan, log, source, threshold, sign, gain, offset, params):
    """Add a node offset · σ₁(gain · sign · (source − threshold)) that feeds nothing yet.

    Return its unit number.
    """
    u = new_node(state, gain, offset, -sign * threshold, params.refraction)
    generate_edge(state, plan, log, source, 2 * u + 1, sign, params.refraction)
    write_event(state, log, GATE, -1, source, 2 * u + 1, u, -1, threshold)
    return u


@kernel
def has_edge_into(net, plan, source, term):
    """Does `source` already have an edge into `term`?"""
    for p in range(plan.in_start[term], plan.in_start[term + 1]):
        if net.edges[plan.in_edge[p]].source == source:
            return True
    return False


@kernel
def may_be_source(net, u, outputs_as_sources):
    """May unit u be a source at all, cycles apart?"""
    if net.units[u].kind == FREE:
        return False
    return net.units[u].kind != OUTPUT or outputs_as_sources == 1


@kernel
def born_this_step(state, u):
    """Was this node created in the current step? It has no states until the next batch."""
    modulatory = state.network.units[u].kind == MODULATORY
    return modulatory and state.unit_life[u].born == state.clock[STEP]


@kernel
def best_source(state, scratch, term, params):
    """Return the candidate with the largest |Σₘ aᵐδᵐ|, or -1 where there is none.

    Candidates are all nodes that close no cycle and do not feed the term yet. Ties, to six
    digits, are broken at random or by number.
    """
    net, plan, work = state.network, scratch.plan, scratch.work
    n_inputs = net.counts[N_INPUTS]
    mark_descendants(net, plan, term // 2, scratch.marked)
    best, best_score, ties = -1, -1.0, 0
    for s in range(n_inputs + net.counts[N_UNITS]):
        if s < n_inputs:
            if not net.usable[s]:
                continue
        elif (
            scratch.marked[s - n_inputs]
            or not may_be_source(net, s - n_inputs, params.outputs_as_sources)
            or born_this_step(state, s - n_inputs)
        ):
            continue
        if has_edge_into(net, plan, s, term):
            continue
        total = 0.0
        for m in range(work.width[1]):
            total += work.state[s, m] * work.thresholded_delta[term, m]
        score = abs(total)
        slack = 1e-6 * max(score, best_score) + 1e-12
        if score > best_score + slack:
            best, best_score, ties = s, score, 1
        elif score >= best_score - slack and params.ties == 1:
            # Reservoir choice: each of the tied sources with the same chance.
            ties += 1
            place = term * (n_inputs + net.units.shape[0]) + s
            if uniform(state.clock[SEED], TIE, state.clock[STEP], place) * ties < 1.0:
                best, best_score = s, max(score, best_score)
    return best


@kernel
def term_exhausted(net, plan, potential, term, params):
    """Is the immediate potential exhausted: of the bias, if it adapts, and of all in-edges?"""
    if has_bias(net, term, params) and not bias_exhausted(
        potential, term, params.delta_min, params.R1
    ):
        return False
    for p in range(plan.in_start[term], plan.in_start[term + 1]):
        if not edge_exhausted(net, potential, plan.in_edge[p], params.R1, params.R2):
            return False
    return True


@kernel
def may_generate(state, scratch, term, params):
    """Edge generation condition: immediate potential exhausted, total potential not."""
    net = state.network
    u = term // 2
    if net.units[u].frozen or state.unit_life[u].rest > state.clock[STEP]:
        return False
    if scratch.potential.terms[term].total <= 0.0:
        return False
    return term_exhausted(net, scratch.plan, scratch.potential, term, params)
