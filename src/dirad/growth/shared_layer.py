"""A layer of nodes that all outputs share, built at once where a limit of edges is to be filled.

Growth one process at a time gives every output its own nodes: a node has to pay for its edges by
what it gains for one output. Where there are several outputs and many samples, a layer is built
instead whose nodes feed every output, and `thinning` then removes and exchanges its edges until
`max_edges` are left. The terms of a new node are random combinations of the inputs; all edges
into the outputs have weight 0, so that no response changes.
"""

import math

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import N_EDGES, N_INPUTS, N_OUTPUTS
from dirad.core.random import LAYER_SOURCES, LAYER_WEIGHTS, normal, write_permutation
from dirad.growth.edge_generation import new_node, place_edge
from dirad.growth.evidence import needed_evidence, product_evidence
from dirad.growth.state import GAIN, N_SAMPLES, PHASE, SEED, write_event
from dirad.history import GATE, GROWING

LEAST_OUTPUTS = 3  # fewer share little
LEAST_INPUTS = 50  # with fewer, thresholds on single inputs and their products are worth more
LEAST_EDGES = 200  # of max_edges: with fewer, each edge should be chosen by its own evidence
LEAST_EDGES_PER_OUTPUT = 20
LEAST_SAMPLES_PER_EDGE = 5  # with fewer, every edge has to be significant
SIGNIFICANCE = 1e-3  # probability that a layer is built though inputs and outputs are independent
LEAST_STEPS = 1000  # of max_steps
EDGES_PER_NODE = 16  # share of max_edges for which a node is built
MOST_EDGES = 60_000  # that a layer begins with
TERM_0_SPREAD = 0.5  # standard deviation of term 0, whose bias is 1; that of term 1 is 1


@kernel
def wants_shared_layer(state, params):
    """Does this network begin with a shared layer?"""
    net = state.network
    outputs = net.counts[N_OUTPUTS]
    return (
        params.ordering == GAIN
        and count_shared_nodes(params) > 0
        and state.clock[PHASE] == GROWING
        and net.counts[N_EDGES] == 0
        and outputs >= LEAST_OUTPUTS
        and count_usable_inputs(net) >= LEAST_INPUTS
        and params.max_edges >= max(LEAST_EDGES, LEAST_EDGES_PER_OUTPUT * outputs)
        and state.clock[N_SAMPLES] >= LEAST_SAMPLES_PER_EDGE * params.max_edges
        and params.max_steps > LEAST_STEPS
    )


@kernel
def count_shared_nodes(params):
    """Number of nodes of a shared layer."""
    return min(params.shared_nodes, params.max_hidden, params.max_edges // EDGES_PER_NODE)


@kernel
def count_usable_inputs(net):
    """Number of inputs that may be sources."""
    n = 0
    for s in range(net.counts[N_INPUTS]):
        if net.usable[s]:
            n += 1
    return n


@kernel
def count_sources_per_term(net, params):
    """Number of inputs that feed each term of a new node: all of them, within MOST_EDGES."""
    per_node = MOST_EDGES // count_shared_nodes(params) - net.counts[N_OUTPUTS]
    return max(1, min(count_usable_inputs(net), per_node // 2))


@kernel
def count_layer_edges(net, params):
    """Number of edges that a shared layer begins with."""
    k, outputs = count_sources_per_term(net, params), net.counts[N_OUTPUTS]
    return count_shared_nodes(params) * (2 * k + outputs) + k * outputs


@kernel
def has_significant_source(net, work):
    """Is there an input whose covariance with an output's gradient cannot be chance?"""
    n, n_inputs = work.width[0], net.counts[N_INPUTS]
    least = needed_evidence(n_inputs * net.counts[N_OUTPUTS], SIGNIFICANCE)
    for u in range(net.counts[N_OUTPUTS]):
        delta = work.delta[2 * u]
        for s in range(n_inputs):
            if net.usable[s] and product_evidence(delta, delta * delta, work.state[s], n) > least:
                return True
    return False


@kernel
def build_shared_layer(state, plan, log, params):
    """Build the layer, and an edge of weight 0 from every one of its sources to every output."""
    net = state.network
    n_inputs, outputs = net.counts[N_INPUTS], net.counts[N_OUTPUTS]
    k, nodes = count_sources_per_term(net, params), count_shared_nodes(params)
    for i in range(nodes):
        u = new_node(state, 1.0, 1.0, 0.0, params.refraction)
        write_event(state, log, GATE, -1, -1, 2 * u + 1, u, -1, 0.0)
        for t in range(2):
            spread = (TERM_0_SPREAD if t == 0 else 1.0) / math.sqrt(k)
            sources = choose_inputs(state, k, 2 * i + t)
            for s in sources:
                place = (2 * i + t) * n_inputs + s
                w = spread * normal(state.clock[SEED], LAYER_WEIGHTS, 0, place)
                place_edge(state, plan, log, net.counts[N_EDGES], s, 2 * u + t, w, 0)
        for o in range(outputs):
            place_edge(state, plan, log, net.counts[N_EDGES], n_inputs + u, 2 * o, 0.0, 0)
    sources = choose_inputs(state, k, 2 * nodes)
    for o in range(outputs):
        for s in sources:
            place_edge(state, plan, log, net.counts[N_EDGES], s, 2 * o, 0.0, 0)


@kernel
def choose_inputs(state, k, place):
    """Return k usable inputs, drawn at random where there are more."""
    net = state.network
    usable = np.flatnonzero(net.usable)
    if k < usable.shape[0]:
        order = np.empty(usable.shape[0], np.int64)
        write_permutation(state.clock[SEED], LAYER_SOURCES, place, order)
        usable = usable[order]
    return usable[:k]
