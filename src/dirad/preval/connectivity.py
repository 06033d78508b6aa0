"""Which nodes of L0 may predict which: the paper's rule, in two readings.

The rule: no node n₁ may have a path to n₀ through L1 if it has one through L0. A pathway of L1
leads from its sources to the prediction of one target and nowhere else, so the rule asks of every
source of n₀'s pathway that it is not an ancestor of n₀ in L0, nor n₀ itself.

- ``strict``: just that. An input has no ancestors, so other inputs may predict it.
- ``top_down``: in addition, only hidden nodes and outputs predict ("only the nodes at a higher
  level of computation predict the states of those in the lower levels").

Ours, ``apart``: the rule in both directions. What is computed from a node does not predict it
either: it would hand the node's own state back, and then nothing is ever new.
"""

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import FREE, OUTPUT, Network
from dirad.core.order import LENGTH, build_plan

CONNECTIVITY = ("strict", "top_down", "apart")


def live_nodes(network: Network) -> NDArray[np.int64]:
    """Return the numbers of all nodes: inputs, then the units that exist."""
    units = np.flatnonzero(network.units["kind"] != FREE)
    return np.concatenate([np.arange(network.n_inputs), network.n_inputs + units])


def is_output(network: Network, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of these nodes are outputs."""
    result = nodes >= network.n_inputs
    result[result] = network.units["kind"][nodes[result] - network.n_inputs] == OUTPUT
    return result


def paths(network: Network) -> NDArray[np.bool_]:
    """Return whether there is a path from node i to node j: (nodes, nodes), with each to itself."""
    n_inputs = network.n_inputs
    plan = build_plan(network)
    reach = np.eye(n_inputs + len(network.units), dtype=bool)
    for u in plan.order[: plan.status[LENGTH]]:
        for p in range(plan.in_start[2 * u], plan.in_start[2 * u + 2]):
            reach[:, n_inputs + u] |= reach[:, network.edges["source"][plan.in_edge[p]]]
    return reach


def allowed_sources(
    network: Network, targets: NDArray[np.int64], nodes: NDArray[np.int64], connectivity: str
) -> NDArray[np.bool_]:
    """Return which of `nodes` may predict which of `targets`: (targets, nodes)."""
    if connectivity not in CONNECTIVITY:
        raise ValueError(f"connectivity must be one of {CONNECTIVITY}, got {connectivity!r}")
    reach = paths(network)
    allowed = ~reach[np.ix_(nodes, targets)].T
    if connectivity == "apart":
        allowed &= ~reach[np.ix_(targets, nodes)]
    if connectivity == "top_down":
        allowed &= nodes >= network.n_inputs
    return allowed
