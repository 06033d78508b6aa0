"""Thinning: the edges of a shared layer are removed and exchanged until `max_edges` are left.

A round lets the edges of the least magnitude fade, |w| times the standard deviation of the
source, and adds the sources with the most evidence. The edges allowed fall steeply at first, so
that most steps are taken by a small network; the share exchanged falls to 0. In the last quarter
of the phase nothing is exchanged. γ is annealed over the whole phase.

Inputs are disturbed by noise in every step, which falls to 0 in that last quarter: a network of
thousands of edges would otherwise fit the samples by heart.
"""

import math

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import MODULATORY, N_EDGES, N_INPUTS, N_UNITS, OUTPUT
from dirad.core.order import rebuild
from dirad.core.propagate import LANES
from dirad.core.random import INPUT_NOISE, bits
from dirad.growth.edge_generation import generate_edge
from dirad.growth.evidence import product_evidence
from dirad.growth.gates import standard_deviation
from dirad.growth.shared_layer import count_layer_edges
from dirad.growth.state import PHASE, PHASE_START, SEED, STEP
from dirad.growth.update import thinning_length
from dirad.history import THINNING

THINNING_INTERVAL = 100  # steps between two rounds
THINNING_SAMPLES = 2000  # samples on which a round's candidates are compared
EXCHANGE_END = 0.75  # share of the phase after which the edges stay as they are
STEEPNESS = 12  # edges above max_edges fall as (1 − t)¹²
EXCHANGED_SHARE = 0.3  # of max_edges, in the first round


@kernel
def steps_until_last_exchange(state, params):
    """Number of steps in the phase after which the last round takes place."""
    return max(1, int(EXCHANGE_END * thinning_length(state, params)))


@kernel
def is_thinning_round(state, params):
    """Is there a round of thinning after this step?"""
    since = state.clock[STEP] + 1 - state.clock[PHASE_START]
    last = steps_until_last_exchange(state, params)
    return since == last or (since < last and since % THINNING_INTERVAL == 0)


@kernel
def noise_factor(state, params):
    """How much of the noise is left: 1 until the last round, then falling to 0."""
    length, last = thinning_length(state, params), steps_until_last_exchange(state, params)
    since = state.clock[STEP] - state.clock[PHASE_START]
    return min(1.0, max(0.0, (length - since) / max(length - last, 1)))


@kernel
def add_input_noise(state, work, params):
    """Add or subtract, at random, a share of its standard deviation to every input."""
    net = state.network
    if state.clock[PHASE] != THINNING or params.input_noise == 0.0:
        return
    n = work.width[0]
    words = -(-n // 64)
    share = params.input_noise * noise_factor(state, params)
    one = np.uint64(1)
    for s in range(net.counts[N_INPUTS]):
        row = work.state[s]
        size = share * standard_deviation(row, n)
        signs = (row.dtype.type(size), row.dtype.type(-size))
        for j in range(words):
            word = bits(state.clock[SEED], INPUT_NOISE, state.clock[STEP], s * words + j)
            for m in range(64 * j, min(64 * j + 64, n)):
                row[m] += signs[word & one]
                word >>= one


@kernel
def limit_samples(work):
    """Use the first samples only, which are a random part."""
    n = min(work.width[0], THINNING_SAMPLES)
    work.width[0], work.width[1] = n, -(-n // LANES) * LANES


@kernel
def thin(state, plan, work, log, params):
    """One round: fade the weakest edges, and add others in exchange. Needs both passes."""
    since = state.clock[STEP] + 1 - state.clock[PHASE_START]
    done = since / steps_until_last_exchange(state, params)
    above = max(count_layer_edges(state.network, params) - params.max_edges, 0)
    keep = params.max_edges + int(above * (1.0 - done) ** STEEPNESS)
    share = EXCHANGED_SHARE * 0.5 * (1.0 + math.cos(math.pi * done))
    exchanged = int(share * params.max_edges)
    alive = fade_least_magnitudes(state, work, keep - exchanged)
    add_most_evident(state, plan, work, log, min(keep - alive, params.max_edges), params)


@kernel
def fade_least_magnitudes(state, work, keep):
    """Let edges fade until `keep` are left, least |w|·(deviation of the source) first.

    Return the number left.
    """
    net = state.network
    n_edges = net.counts[N_EDGES]
    spread = np.empty(net.counts[N_INPUTS] + net.counts[N_UNITS])
    for s in range(spread.shape[0]):
        spread[s] = standard_deviation(work.state[s], work.width[0])
    magnitude = np.full(n_edges, -1.0)
    alive = 0
    for e in range(n_edges):
        edge = net.edges[e]
        if edge.source >= 0 and not state.edge_life[e].fading:
            magnitude[e] = abs(edge.weight) * spread[edge.source]
            alive += 1
    if alive <= keep:
        return alive
    kept = are_largest(magnitude, keep)
    for e in range(n_edges):
        if magnitude[e] >= 0.0 and not kept[e]:
            state.edge_life[e].fading = 1
    return keep


@kernel
def add_most_evident(state, plan, work, log, count, params):
    """Add the `count` edges with the most evidence. Return how many there were.

    The evidence is that of a source alone; projected on all other sources of its term it would
    take much longer and, as edges are exchanged again and again, select no better.
    """
    net = state.network
    if count <= 0:
        return 0
    evidence = edge_evidences(net, plan, work)
    flat = evidence.reshape(-1)
    chosen = are_largest(flat, min(count, flat.shape[0]))
    n_nodes = evidence.shape[1]
    added = 0
    for i in range(flat.shape[0]):
        if chosen[i] and flat[i] > 0.0:
            generate_edge(state, plan, log, i % n_nodes, i // n_nodes, 0.0, params.refraction)
            added += 1
    rebuild(net, plan)
    return added


@kernel
def edge_evidences(net, plan, work):
    """Return G of every edge that could be added, (terms, nodes); 0 where there is one.

    Nodes of the layer feed outputs only, so that no edge closes a cycle. Edges among them
    were tried, and made no difference on MNIST.
    """
    n_inputs, n_units, n = net.counts[N_INPUTS], net.counts[N_UNITS], work.width[0]
    found = np.zeros((2 * n_units, n_inputs + n_units))
    connected = np.zeros(n_inputs + n_units, np.bool_)
    for t in range(2 * n_units):
        u = t // 2
        if net.units[u].kind < 0 or (t % 2 == 1 and net.units[u].kind == OUTPUT):
            continue
        connected[:] = False
        for p in range(plan.in_start[t], plan.in_start[t + 1]):
            connected[net.edges[plan.in_edge[p]].source] = True
        delta = work.delta[t]
        square = delta * delta
        for s in range(n_inputs + n_units):
            if connected[s]:
                continue
            if s < n_inputs:
                allowed = net.usable[s]
            else:
                shared = net.units[s - n_inputs].kind == MODULATORY
                allowed = shared and net.units[u].kind == OUTPUT
            if allowed:
                found[t, s] = product_evidence(delta, square, work.state[s], n)
    return found


@kernel
def are_largest(values, k):
    """Mark the k largest of some numbers; of equal ones, the first."""
    marked = np.zeros(values.shape[0], np.bool_)
    if k <= 0:
        return marked
    least = kth_largest(values, k)
    equal = k  # how many of those equal to the k-th are among the k largest
    for i in range(values.shape[0]):
        if values[i] > least:
            marked[i] = True
            equal -= 1
    for i in range(values.shape[0]):
        if values[i] == least and equal > 0:
            marked[i] = True
            equal -= 1
    return marked


@kernel
def kth_largest(values, k):
    """Return the k-th largest of some numbers, k ≥ 1 (Hoare's selection)."""
    a = values.copy()
    lo, hi, place = 0, a.shape[0] - 1, k - 1
    while lo < hi:
        pivot = a[(lo + hi) // 2]
        i, j = lo, hi
        while i <= j:
            while a[i] > pivot:
                i += 1
            while a[j] < pivot:
                j -= 1
            if i <= j:
                a[i], a[j] = a[j], a[i]
                i += 1
                j -= 1
        if place <= j:
            hi = j
        elif place >= i:
            lo = i
        else:
            break
    return a[place]
