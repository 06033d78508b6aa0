"""How much each input matters to a fitted network."""

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR, TRANSFER, Network, output_units
from dirad.core.order import new_plan
from dirad.core.propagate import backward, forward, load_batch, new_workspace


def input_importances(network: Network, X: NDArray, limit: int = 1000) -> NDArray[np.float64]:
    """Return the mean |∂z/∂x| of the outputs' activations z over (scaled) samples, summing to 1."""
    X = X[:limit]
    linear = network.copy()
    linear.counts[TRANSFER] = LINEAR
    plan, work = new_plan(linear), new_workspace(linear, len(X))
    edges = linear.edges
    from_inputs = np.flatnonzero((edges["source"] >= 0) & (edges["source"] < linear.n_inputs))
    rows = linear.n_inputs + output_units(linear)
    total = np.zeros(linear.n_inputs)
    load_batch(work, X)
    forward(linear, plan, work)
    answers = work.state[rows].copy()
    for column in range(linear.n_outputs):
        work.target[:] = answers
        work.target[column] -= 1.0  # a mismatch of 1 there and 0 elsewhere: δ is then ∂z/∂z_term
        backward(linear, plan, work, 0, 0.0)
        slope = np.zeros((linear.n_inputs, len(X))) if len(from_inputs) else None
        if slope is None:
            break
        weighted = (
            edges["weight"][from_inputs, None] * work.delta[edges["term"][from_inputs], : len(X)]
        )
        np.add.at(slope, edges["source"][from_inputs], weighted)
        total += np.abs(slope).mean(axis=1)
    return total / total.sum() if total.sum() > 0 else total
