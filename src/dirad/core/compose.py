"""Networks made of networks: side by side, averaged, or each let through by a gate."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import (
    FREE,
    LINEAR,
    MODULATORY,
    N_EDGES,
    N_UNITS,
    TRANSFER,
    Network,
    new_network,
    output_units,
)

# σ₁(z; K) = 4/(1 + e^(−K·z)) − 1 is 0 at z = −1 and 1 at z = 0: a closed gate and an open gate.
GATE_GAIN, GATE_BIAS = float(np.log(3.0)), -1.0
N_PARAMETERS_PER_GATE = 4  # these two, and the weights of the edges from the gate and to the output


def concatenate_outputs(networks: Sequence[Network]) -> Network:
    """Return one network that computes what these networks of one output compute side by side."""
    n_inputs = networks[0].n_inputs
    units = [np.flatnonzero(one.units["kind"] != FREE) for one in networks]
    edges = [np.flatnonzero(one.edges["source"] >= 0) for one in networks]
    result = new_network(
        n_inputs,
        len(networks),
        int(networks[0].counts[TRANSFER]),
        sum(map(len, units)),
        sum(map(len, edges)),
    )
    unit, edge = 0, 0
    for column, (one, its_units, its_edges) in enumerate(zip(networks, units, edges, strict=True)):
        new_number = np.full(len(one.units), -1)
        new_number[its_units] = np.arange(unit, unit + len(its_units))
        rows = slice(unit, unit + len(its_units))
        result.units[rows] = one.units[its_units]
        result.units["output"][rows] = np.where(one.units["output"][its_units] >= 0, column, -1)
        result.bias[rows] = one.bias[its_units]
        part = _renumbered(one.edges[its_edges], n_inputs, new_number)
        result.edges[edge : edge + len(part)] = part
        unit, edge = unit + len(its_units), edge + len(part)
    result.counts[N_UNITS], result.counts[N_EDGES] = unit, edge
    return result


def _renumbered(edges: NDArray, n_inputs: int, new_number: NDArray[np.int64]) -> NDArray:
    """Return edges between the same units under other numbers."""
    edges = edges.copy()
    inner = edges["source"] >= n_inputs
    edges["source"][inner] = n_inputs + new_number[edges["source"][inner] - n_inputs]
    edges["term"] = 2 * new_number[edges["term"] // 2] + edges["term"] % 2
    return edges


def _merged(edges: NDArray) -> NDArray:
    """Return the edges, where several from a node to a term become one with the sum of weights."""
    ends = np.stack([edges["source"], edges["term"]])
    _, first, same = np.unique(ends, axis=1, return_index=True, return_inverse=True)
    result = edges[first]
    result["weight"] = np.bincount(same.ravel(), edges["weight"], len(first))
    return result[np.argsort(first)]  # the order of the edges is kept


def average_activations(networks: Sequence[Network]) -> Network:
    """Return one network whose output activations are the means of those of the networks."""
    first = networks[0]
    n_inputs, n_outputs, share = first.n_inputs, first.n_outputs, 1.0 / len(networks)
    n_hidden, n_edges = (
        sum(getattr(one, name) for one in networks) for name in ("n_hidden", "n_edges")
    )
    transfer = int(first.counts[TRANSFER])
    result = new_network(n_inputs, n_outputs, transfer, n_outputs + n_hidden, n_edges)
    unit, edge = n_outputs, 0
    for one in networks:
        outputs, hidden = output_units(one), np.flatnonzero(one.units["kind"] == MODULATORY)
        new_number = np.full(len(one.units), -1)
        new_number[outputs] = np.arange(n_outputs)
        new_number[hidden] = np.arange(unit, unit + len(hidden))
        result.units[unit : unit + len(hidden)] = one.units[hidden]
        result.bias[unit : unit + len(hidden)] = one.bias[hidden]
        result.bias[:n_outputs] += share * one.bias[outputs]
        part = _renumbered(one.edges[one.edges["source"] >= 0], n_inputs, new_number)
        unit_number = part["source"] - n_inputs
        if ((unit_number >= 0) & (unit_number < n_outputs)).any():
            raise ValueError("networks in which an output feeds other nodes cannot be averaged")
        part["weight"][part["term"] < 2 * n_outputs] *= share
        result.edges[edge : edge + len(part)] = part
        unit, edge = unit + len(hidden), edge + len(part)
    result = result._replace(edges=_merged(result.edges))
    result.counts[N_UNITS], result.counts[N_EDGES] = unit, len(result.edges)
    return result


def compose_gated(
    bias: NDArray[np.float64],
    sources: NDArray[np.int64],
    weights: NDArray[np.float64],
    n_inputs: int,
) -> Network:
    """Return one network of linear functions that gates let through.

    `bias` is (gates, outputs), `sources` and `weights` are (gates, outputs, edges), where a weight
    of 0 is no edge. The network's inputs are those of the functions, then the gates. A function
    without edges is a constant: an edge from its gate. Any other enters term 0 of a modulatory
    node, whose term 1 is fed by the gate.
    """
    n_gates, n_outputs = bias.shape
    gate, output = np.nonzero((weights != 0).any(axis=2))
    unit = n_outputs + np.arange(len(gate))
    own, place = np.nonzero(weights[gate, output])
    fixed_gate, fixed = np.nonzero(~(weights != 0).any(axis=2))
    ones = np.ones(len(unit))
    edges = [
        (sources[gate, output][own, place], 2 * unit[own], weights[gate, output][own, place]),
        (n_inputs + gate, 2 * unit + 1, ones),
        (n_inputs + n_gates + unit, 2 * output, ones),
        (n_inputs + fixed_gate, 2 * fixed, bias[fixed_gate, fixed]),
    ]
    n_units, n_edges = n_outputs + len(unit), sum(len(part[0]) for part in edges)
    result = new_network(n_inputs + n_gates, n_outputs, LINEAR, n_units, n_edges)
    result.units["kind"][unit] = MODULATORY
    result.units["output"][unit] = -1
    result.units["gain"][unit] = GATE_GAIN
    result.bias[unit, 0] = bias[gate, output]
    result.bias[unit, 1] = GATE_BIAS
    for name, columns in zip(("source", "term", "weight"), zip(*edges, strict=True), strict=True):
        result.edges[name] = np.concatenate(columns)
    result.counts[N_UNITS], result.counts[N_EDGES] = n_units, n_edges
    return result


class GatedPartIndex(NamedTuple):
    """Where each part of a gated network is: by output and gate."""

    unit: NDArray[np.int64]  # (outputs, gates) its modulatory node, or -1 where it is constant
    constant: NDArray[np.float64]  # (outputs, gates) its value where there is no such node


def index_gated_parts(network: Network, n_gates: int) -> GatedPartIndex:
    """Find the parts of a network that `compose_gated` returned."""
    edges = network.edges[network.edges["source"] >= 0]
    source, unit = edges["source"], edges["term"] // 2
    gate = source - (network.n_inputs - n_gates)
    from_gate = (gate >= 0) & (gate < n_gates)
    to_node = from_gate & (edges["term"] % 2 == 1)
    column = np.full(len(network.units), -1)
    column[output_units(network)] = np.arange(network.n_outputs)
    gate_of_unit = np.zeros(len(network.units), np.int64)
    gate_of_unit[unit[to_node]] = gate[to_node]
    shape = network.n_outputs, n_gates
    result = GatedPartIndex(np.full(shape, -1), np.zeros(shape))
    constant = from_gate & ~to_node
    result.constant[column[unit[constant]], gate[constant]] = edges["weight"][constant]
    inner = source >= network.n_inputs
    node = source[inner] - network.n_inputs
    result.unit[column[unit[inner]], gate_of_unit[node]] = node
    return result


def with_output_scale(network: Network, offset: NDArray, spread: NDArray) -> Network:
    """Return a network whose linear outputs are offset + spread times those of `network`."""
    network = network.copy()
    for column, unit in enumerate(output_units(network)):
        into = (network.edges["source"] >= 0) & (network.edges["term"] == 2 * unit)
        network.edges["weight"][into] *= spread[column]
        network.bias[unit, 0] = network.bias[unit, 0] * spread[column] + offset[column]
    return network
