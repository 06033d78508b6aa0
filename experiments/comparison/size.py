"""What a method keeps when a stream is over, in bytes.

- A learned number takes 4 bytes, whatever precision the program computes with.
- A sample that is kept as it came takes one byte per input where inputs are pixels or small
  integers, 4 where they are features, and one for its label where that is kept. Our own buffer is
  counted in the same way.
- Random weights that a seed gives again take nothing.
- Of a sparse network each edge takes 4 bytes and the index of its source, in the order of the terms
  that edges enter; each term takes its number of edges. An index takes 1, 2 or 4 bytes, as the
  number of possible sources demands. What lets a cluster's prediction through is the same for all
  of them and counted once.
- Records of what happened, which no answer depends on, are not counted.
"""

from typing import Any

import numpy as np

from dirad.core.network import Network
from dirad.preval.choice import ContinualSystem
from dirad.preval.expert import with_bases
from dirad.preval.l1 import L1Training
from dirad.preval.learner import Learner
from dirad.preval.predictor import Predictor
from dirad.preval.system import System

NUMBER = 4  # bytes


def peer_bytes(peer: Any, n_inputs: int, input_bytes: int = 1) -> int:
    """Return what a peer keeps, in bytes; an input of a sample takes `input_bytes`."""
    kept = getattr(peer, "n_integers", 0)  # inputs and labels of samples
    inputs = getattr(peer, "n_samples_stored", 0) * n_inputs
    numbers = getattr(peer, "n_stored", 0) - kept - getattr(peer, "n_reproducible", 0)
    return NUMBER * numbers + input_bytes * inputs + (kept - inputs)


def system_bytes(system: ContinualSystem, input_bytes: int = 1) -> int:
    """Return what a system of ours keeps, in bytes; an input of a sample takes `input_bytes`."""
    total = NUMBER * system.n_parameters
    models = system.models
    if isinstance(system, System):  # models may be built on removed ones
        models = with_bases(models).values()
        total += _recent_samples(system) * (system.n_inputs * input_bytes + 1)
        total += 0 if system.refinement is None else NUMBER * system.refinement.answers.size
    for model in models:
        total += edge_index_bytes(model.network)
        if isinstance(model.l1, Predictor):
            total += l1_index_bytes(model.l1)
        elif isinstance(model.l1, L1Training):
            total += sum(edge_index_bytes(path.network) for path in model.l1.pathways)
        if isinstance(model, Learner):
            total += len(model.buffer) * (model.network.n_inputs * input_bytes + 1)
    return total


def _recent_samples(system: System) -> int:
    """Return how many samples are kept outside the models: for tests, and for corrections."""
    batches = [X for X, _ in system.recent]
    batches += [] if system.undecided is None else [system.undecided.X]
    batches += [] if system.refinement is None else [system.refinement.X]
    return sum(map(len, batches))


def l1_index_bytes(l1: Predictor) -> int:
    """Return the bytes of the indices of an L1: which states predict which targets."""
    targets = index_width(l1.states.n) * len(l1.targets)
    if l1.network is None:
        return targets
    return targets + edge_index_bytes(l1.network, None if l1.clusters is None else l1.states.n)


def edge_index_bytes(network: Network, n_sources: int | None = None) -> int:
    """Return the bytes of the indices of edges, or only of those that leave the first nodes."""
    if n_sources is None:
        n_sources = network.n_inputs + int(np.count_nonzero(network.units["kind"] >= 0))
    edges = network.edges
    edges = edges[(edges["source"] >= 0) & (edges["source"] < n_sources)]
    return index_width(n_sources) * (len(edges) + len(np.unique(edges["term"])))


def index_width(n: int) -> int:
    """Return the bytes of an index below n.

    >>> [index_width(n) for n in (196, 256, 257, 70_000)]
    [1, 1, 2, 4]
    """
    return 1 if n <= 2**8 else 2 if n <= 2**16 else 4
