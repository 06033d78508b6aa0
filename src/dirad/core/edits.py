"""Kernels that add edges and nodes to a network in place, and remove them."""

from dirad.core.compilation import kernel
from dirad.core.network import FREE, MODULATORY, N_EDGES, N_UNITS


@kernel
def lowest_free_edge(net):
    """Return the lowest free place for an edge."""
    for place in range(net.counts[N_EDGES]):
        if net.edges[place].source < 0:
            return place
    return net.counts[N_EDGES]


@kernel
def put_edge(net, e, source, term, weight):
    """Write an edge into the free place e."""
    net.counts[N_EDGES] = max(net.counts[N_EDGES], e + 1)
    net.edges[e].source = source
    net.edges[e].term = term
    net.edges[e].weight = weight
    net.edges[e].frozen = 0


@kernel
def new_edge(net, source, term, weight):
    """Place an edge; return its number (the lowest free place)."""
    e = lowest_free_edge(net)
    put_edge(net, e, source, term, weight)
    return e


@kernel
def new_unit(net, gain, gate_bias):
    """Place a modulatory node with term-0 bias 0; return its unit number."""
    u = net.counts[N_UNITS]
    for place in range(net.counts[N_UNITS]):
        if net.units[place].kind == FREE:
            u = place
            break
    if u == net.counts[N_UNITS]:
        net.counts[N_UNITS] += 1
    net.units[u].kind = MODULATORY
    net.units[u].output = -1
    net.units[u].gain = gain
    net.bias[u, 0] = 0.0
    net.bias[u, 1] = gate_bias
    net.units[u].frozen = 0
    return u


@kernel
def free_edge(net, e):
    """Give an edge's place back."""
    net.edges[e].source = -1
    net.edges[e].term = -1
    net.edges[e].weight = 0.0


@kernel
def free_unit(net, u):
    """Give a node's place back; its edges must be gone."""
    net.units[u].kind = FREE
    net.bias[u, 0] = 0.0
    net.bias[u, 1] = 0.0
    net.units[u].gain = 1.0


@kernel
def copy_into(net, target):
    """Write the learned content of `net` into `target`, which has the same capacity.

    In loops: for an assignment of whole arrays, Numba compiles for seconds what it would say about
    arrays of different lengths.
    """
    for i in range(net.counts.shape[0]):
        target.counts[i] = net.counts[i]
    for u in range(net.units.shape[0]):
        target.units[u] = net.units[u]
        target.bias[u, 0] = net.bias[u, 0]
        target.bias[u, 1] = net.bias[u, 1]
    for e in range(net.edges.shape[0]):
        target.edges[e] = net.edges[e]
