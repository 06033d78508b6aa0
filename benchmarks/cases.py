"""Random acyclic networks, and everything that steps on them need."""

from typing import NamedTuple

import numpy as np

from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, Network, new_network
from dirad.core.propagate import load_batch
from dirad.growth.state import Scratch, State, new_scratch, new_state
from dirad.params import Params, preset

INPUTS, OUTPUTS = 196, 10
MOST_HIDDEN = 194  # with inputs and outputs 400 nodes
BATCH = 100


class Case(NamedTuple):
    """A network, a batch for it in the workspace, and the constants of a step."""

    state: State
    scratch: Scratch
    params: Params


def steps_only() -> Params:
    """The paper's adaptation in float32: gradient descent, all potentials; nothing may grow."""
    return preset(
        "paper", precision="float32", gamma=0.01, perturbation=0.0, K_rule="constant", max_edges=0
    )


def hidden_for(n_edges: int) -> int:
    """Modulatory nodes for so many edges: about ten edges each, until there are 400 nodes."""
    return min(MOST_HIDDEN, n_edges // 10)


def random_network(n_edges: int, rng: np.random.Generator) -> Network:
    """Return an acyclic network: every term is fed, every hidden node feeds a later one."""
    hidden = hidden_for(n_edges)
    network = new_network(INPUTS, OUTPUTS, 0, OUTPUTS + hidden, n_edges)
    place = np.arange(OUTPUTS, OUTPUTS + hidden)  # unit numbers, in a topological order
    terms = np.concatenate([2 * place, 2 * place + 1, 2 * np.arange(OUTPUTS)])
    before = np.concatenate([place, place, np.full(OUTPUTS, OUTPUTS + hidden)]) - OUTPUTS
    pairs: dict[tuple[int, int], None] = {}

    def feed(i: int, among: int) -> None:
        s = int(rng.integers(among))
        node = s if s < INPUTS else s + OUTPUTS  # hidden nodes are numbered after the outputs
        pairs[node, int(terms[i])] = None

    for i in range(len(terms)):
        feed(i, INPUTS + int(before[i]))
    for u in place:
        later = np.flatnonzero(before > u - OUTPUTS)
        pairs[INPUTS + int(u), int(terms[rng.choice(later)])] = None
    while len(pairs) < n_edges:
        i = int(rng.integers(len(terms)))
        feed(i, INPUTS + int(before[i]))
    edges = np.array(list(pairs), np.int64)
    rng.shuffle(edges)  # numbers say when an edge was born, not where it is
    fan_in = np.bincount(edges[:, 1], minlength=2 * len(network.units))
    network.counts[N_UNITS], network.counts[N_EDGES] = OUTPUTS + hidden, n_edges
    network.units["kind"][place] = MODULATORY
    network.edges["source"], network.edges["term"] = edges.T
    network.edges["weight"] = rng.normal(size=n_edges) / np.sqrt(fan_in[edges[:, 1]])
    network.bias[:, 1] = 0.1 * rng.normal(size=len(network.bias))
    return network


def new_case(n_edges: int, seed: int = 0) -> Case:
    """Return a network of so many edges with a random batch in its workspace."""
    rng = np.random.default_rng(seed)
    params = steps_only()
    network = random_network(n_edges, rng)
    state = new_state(
        INPUTS,
        OUTPUTS,
        unit_capacity=len(network.units) - OUTPUTS,
        edge_capacity=n_edges,
    )
    state = state._replace(network=network, best=network.copy())
    scratch = new_scratch(state, params, BATCH)
    X = rng.normal(size=(BATCH, INPUTS))
    y = np.eye(OUTPUTS)[rng.integers(OUTPUTS, size=BATCH)]
    load_batch(scratch.work, X, y)
    return Case(state, scratch, params)
