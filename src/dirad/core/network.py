"""The network: flat arrays of units, terms and edges.

Nodes are numbered inputs first: node ``s`` is input ``s`` if ``s < n_inputs``, else unit
``s - n_inputs``. A *unit* is a node that computes: an output (one term) or a modulatory node (two
terms). Term ``t`` of unit ``u`` has the number ``2 * u + t``. An edge goes from a node to a term.

Arrays have spare capacity; a free place is marked by kind ``FREE`` or source ``-1``. A unit or an
edge keeps its number for life, and sums run in the order of these numbers, so that growth leaves
the rounding of existing sums alone.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import kernel

# Places in `counts`.
N_INPUTS, N_UNITS, N_EDGES, N_OUTPUTS = 0, 1, 2, 3

# Kinds of unit.
FREE, OUTPUT, MODULATORY = -1, 1, 2

# Transfer of the output nodes.
LOGISTIC, LINEAR, SOFTMAX = 0, 1, 2

NOBODY = -1  # owner of a part that belongs to no one in particular


class Network(NamedTuple):
    """A sparse acyclic network. All arrays are C-contiguous; absence is -1."""

    counts: NDArray[np.int64]  # (4,) inputs; places used for units, for edges; outputs
    transfer: NDArray[np.int64]  # (1,) LOGISTIC, LINEAR or SOFTMAX
    usable: NDArray[np.bool_]  # (inputs,) may this input become the source of an edge?
    kind: NDArray[np.int8]  # (units,) FREE, OUTPUT or MODULATORY
    output: NDArray[np.int64]  # (units,) column of the target this output answers, or -1
    gain: NDArray[np.float64]  # (units,) K, the steepness of σ₁ (modulatory nodes)
    bias: NDArray[np.float64]  # (units, 2) b of each term
    unit_owner: NDArray[np.int64]  # (units,) whose pathway this is, or NOBODY
    unit_frozen: NDArray[np.bool_]  # (units,) its biases and gain never change
    source: NDArray[np.int64]  # (edges,) node the edge leaves, or -1: a free place
    term: NDArray[np.int64]  # (edges,) term the edge enters
    weight: NDArray[np.float64]  # (edges,) w
    edge_owner: NDArray[np.int64]  # (edges,) whose pathway this is, or NOBODY
    edge_frozen: NDArray[np.bool_]  # (edges,) its weight never changes

    @property
    def n_inputs(self) -> int:
        """Number of input nodes."""
        return int(self.counts[N_INPUTS])

    @property
    def n_outputs(self) -> int:
        """Number of output nodes."""
        return int(self.counts[N_OUTPUTS])

    @property
    def n_hidden(self) -> int:
        """Number of modulatory nodes."""
        return int(np.count_nonzero(self.kind[: self.counts[N_UNITS]] == MODULATORY))

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return int(np.count_nonzero(self.source[: self.counts[N_EDGES]] >= 0))

    @property
    def n_biases(self) -> int:
        """Number of biases: one per output, one per term of a modulatory node that has any."""
        used = self.kind[: self.counts[N_UNITS]] >= 0
        modulatory = self.kind[: self.counts[N_UNITS]] == MODULATORY
        term_0 = used & (~modulatory | (self.bias[: self.counts[N_UNITS], 0] != 0))
        return int(np.count_nonzero(term_0) + np.count_nonzero(modulatory))

    @property
    def n_parameters(self) -> int:
        """Edges, biases and Ks."""
        return self.n_edges + self.n_biases + self.n_hidden

    def copy(self) -> "Network":
        """Return an independent copy."""
        return Network(*(array.copy() for array in self))


def new_network(
    n_inputs: int,
    n_outputs: int,
    transfer: int = LOGISTIC,
    unit_capacity: int = 0,
    edge_capacity: int = 0,
) -> Network:
    """Return inputs and outputs alone: no edge, no hidden node, every bias 0."""
    units = max(unit_capacity, n_outputs)
    edges = edge_capacity
    network = Network(
        counts=np.array([n_inputs, n_outputs, 0, n_outputs], np.int64),
        transfer=np.array([transfer], np.int64),
        usable=np.ones(n_inputs, np.bool_),
        kind=np.full(units, FREE, np.int8),
        output=np.full(units, -1, np.int64),
        gain=np.ones(units),
        bias=np.zeros((units, 2)),
        unit_owner=np.full(units, NOBODY, np.int64),
        unit_frozen=np.zeros(units, np.bool_),
        source=np.full(edges, -1, np.int64),
        term=np.full(edges, -1, np.int64),
        weight=np.zeros(edges),
        edge_owner=np.full(edges, NOBODY, np.int64),
        edge_frozen=np.zeros(edges, np.bool_),
    )
    network.kind[:n_outputs] = OUTPUT
    network.output[:n_outputs] = np.arange(n_outputs)
    return network


def extended(array: np.ndarray, length: int, fill: object) -> np.ndarray:
    """Return a copy of `array` with `length` rows, new ones filled with `fill`."""
    result = np.full((length, *array.shape[1:]), fill, array.dtype)
    result[: len(array)] = array
    return result


def with_capacity(network: Network, units: int, edges: int) -> Network:
    """Return the same network in arrays with room for `units` units and `edges` edges."""
    units = max(units, len(network.kind))
    edges = max(edges, len(network.source))
    return network._replace(
        kind=extended(network.kind, units, FREE),
        output=extended(network.output, units, -1),
        gain=extended(network.gain, units, 1.0),
        bias=extended(network.bias, units, 0.0),
        unit_owner=extended(network.unit_owner, units, NOBODY),
        unit_frozen=extended(network.unit_frozen, units, False),
        source=extended(network.source, edges, -1),
        term=extended(network.term, edges, -1),
        weight=extended(network.weight, edges, 0.0),
        edge_owner=extended(network.edge_owner, edges, NOBODY),
        edge_frozen=extended(network.edge_frozen, edges, False),
    )


@kernel
def new_edge(net, source, term, weight):
    """Place an edge; return its number (the lowest free place)."""
    e = net.counts[N_EDGES]
    for place in range(net.counts[N_EDGES]):
        if net.source[place] < 0:
            e = place
            break
    if e == net.counts[N_EDGES]:
        net.counts[N_EDGES] += 1
    net.source[e] = source
    net.term[e] = term
    net.weight[e] = weight
    net.edge_owner[e] = net.unit_owner[term // 2]
    net.edge_frozen[e] = False
    return e


@kernel
def new_unit(net, gain, bias_1, owner):
    """Place a modulatory node with term-0 bias 0; return its unit number."""
    u = net.counts[N_UNITS]
    for place in range(net.counts[N_UNITS]):
        if net.kind[place] == FREE:
            u = place
            break
    if u == net.counts[N_UNITS]:
        net.counts[N_UNITS] += 1
    net.kind[u] = MODULATORY
    net.output[u] = -1
    net.gain[u] = gain
    net.bias[u, 0] = 0.0
    net.bias[u, 1] = bias_1
    net.unit_owner[u] = owner
    net.unit_frozen[u] = False
    return u


@kernel
def free_edge(net, e):
    """Give an edge's place back."""
    net.source[e] = -1
    net.term[e] = -1
    net.weight[e] = 0.0


@kernel
def free_unit(net, u):
    """Give a node's place back; its edges must be gone."""
    net.kind[u] = FREE
    net.bias[u, 0] = 0.0
    net.bias[u, 1] = 0.0
    net.gain[u] = 1.0


@kernel
def copy_into(net, target):
    """Write the learned content of `net` into `target`, which has the same capacity."""
    target.counts[:] = net.counts
    target.kind[:] = net.kind
    target.output[:] = net.output
    target.gain[:] = net.gain
    target.bias[:] = net.bias
    target.unit_owner[:] = net.unit_owner
    target.unit_frozen[:] = net.unit_frozen
    target.source[:] = net.source
    target.term[:] = net.term
    target.weight[:] = net.weight
    target.edge_owner[:] = net.edge_owner
    target.edge_frozen[:] = net.edge_frozen
