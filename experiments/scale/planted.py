"""Data and networks of any size, made by hand."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, Network, new_network

INPUTS_PER_CAUSE = 8
CAUSES_OF_INPUT = 3
NOISE = 0.5
TELLING = 10  # inputs that the classes depend on, beside two that are multiplied
EDGES_PER_NODE = 10


class Planted(NamedTuple):
    """Samples of two classes."""

    X: NDArray[np.float64]  # (n, inputs)
    y: NDArray[np.int64]  # (n,)


def planted(n_inputs: int, n_samples: int, seed: int = 0) -> Planted:
    """Return inputs that share hidden causes, and classes that depend on a dozen of the inputs.

    So every input can be predicted from a few others, and most say nothing of the class, whatever
    the number of inputs.
    """
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n_samples, max(n_inputs // INPUTS_PER_CAUSE, CAUSES_OF_INPUT)))
    X = NOISE * rng.normal(size=(n_samples, n_inputs))
    for _ in range(CAUSES_OF_INPUT):
        X += causes[:, rng.integers(causes.shape[1], size=n_inputs)]
    first = X[:, :TELLING]
    signal = first @ np.linspace(0.5, 1.5, first.shape[1]) + X[:, -1] * X[:, -2]
    return Planted(X, (signal > np.median(signal)).astype(np.int64))


def network_of(n_edges: int, n_inputs: int, n_outputs: int, seed: int = 0) -> Network:
    """Return an acyclic network with this many edges; a node has about ten."""
    rng = np.random.default_rng(seed)
    hidden = n_edges // EDGES_PER_NODE
    units = n_outputs + hidden
    # Units in order: modulatory nodes, then outputs, which feed nothing.
    unit = np.concatenate([np.arange(n_outputs, units), np.arange(n_outputs)])
    earlier = n_inputs + np.minimum(np.arange(units), hidden)  # nodes that come before each
    terms = np.concatenate([2 * unit, 2 * unit[:hidden] + 1])
    earlier = np.concatenate([earlier, earlier[:hidden]])
    chosen = rng.permutation(_distinct_pairs(earlier, n_edges, rng))
    source, term = chosen[:, 0], terms[chosen[:, 1]]
    network = new_network(n_inputs, n_outputs, 0, units, n_edges)
    network.counts[N_UNITS], network.counts[N_EDGES] = units, n_edges
    network.units["kind"][n_outputs:] = MODULATORY
    network.units["output"][n_outputs:] = -1
    network.bias[n_outputs:, 1] = 0.1 * rng.normal(size=hidden)
    fan_in = np.bincount(term, minlength=2 * units)
    network.edges["source"] = np.where(source < n_inputs, source, source + n_outputs)
    network.edges["term"] = term
    network.edges["weight"] = rng.normal(size=n_edges) / np.sqrt(fan_in[term])
    return network


def _distinct_pairs(
    earlier: NDArray[np.int64], wanted: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return pairs (source, place of a term), each once, a source among those that come before."""
    if earlier.sum() < wanted:
        raise ValueError(f"{wanted:,} edges do not fit between {earlier.max():,} nodes")
    pairs = np.zeros((0, 2), np.int64)
    while len(pairs) < wanted:
        place = rng.integers(len(earlier), size=wanted)
        more = np.stack([rng.integers(earlier[place]), place], axis=1)
        pairs = np.unique(np.concatenate([pairs, more]), axis=0)
    return rng.permutation(pairs)[:wanted]
