"""Inputs with long tails feed the outputs through nodes that saturate.

A linear term moves an answer as far as its input is from all others: a house that is larger than
any seen before gets a price that no house has. A gate on the constant 1 is almost linear where the
samples are, and bounded beyond:

    σ₁(K·z)/K = 1/K + 2·tanh(K·z/2)/K ≈ 1/K + z.

With several classes inputs feed the outputs directly, however long their tails: probabilities are
bounded, and the differences of correlated inputs, which tell such classes apart, stay exact.
"""

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import SOFTMAX
from dirad.growth.wide.costs import Samples
from dirad.growth.wide.decay import best_decay
from dirad.growth.wide.draft import Draft
from dirad.growth.wide.gate import CONSTANT, Gate, alone

LONG_TAIL = 4.0  # standard deviations that some value of an input must be away from the mean
LEAST_VALUES = 10  # different values that it must have
LEVEL = 2.2  # K times the largest distance: there a node has three quarters of its input


def begin(samples: Samples, transfer: int, decay: float, usable: NDArray[np.bool_]) -> Draft:
    """Return a network that has not grown yet, with the weight decay that suits it."""
    draft = Draft(samples, transfer, decay, usable)
    if transfer != SOFTMAX:
        saturate(draft)
    draft.decay = best_decay(draft)
    draft.solve(12)
    draft.record_cost()
    return draft


def begin_like(first: Draft, samples: Samples, decay: float) -> Draft:
    """Return a network for other samples that begins with the same nodes as another one."""
    draft = Draft(samples, first.transfer, decay, first.usable)
    draft.feed(first.feeding_inputs)
    for gate in first.nodes[: first.n_first]:
        draft.add(gate, feeds_outputs=True)
    draft.n_first = first.n_first
    draft.solve(12)
    draft.record_cost()
    return draft


def saturate(draft: Draft) -> None:
    """Let inputs with long tails feed the outputs through nodes that saturate."""
    known = draft.samples.inputs[draft.samples.weight > 0]
    reach = np.abs(known).max(axis=0)
    long = [
        node
        for node in draft.feeding_inputs
        if reach[node] > LONG_TAIL and len(np.unique(known[:, node])) > LEAST_VALUES
    ]
    draft.feed([node for node in draft.feeding_inputs if node not in long])
    for node in long:
        K = LEVEL / float(reach[node])
        draft.add(Gate(CONSTANT, 0.0, 1.0 / K, alone(node), K, 0.0), feeds_outputs=True)
    draft.n_first = len(draft.nodes)
