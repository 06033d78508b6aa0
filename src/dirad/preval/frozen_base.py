"""A network that grows on top of an earlier one, which is frozen."""

import numpy as np

from dirad.core.network import FREE, Network
from dirad.growth.state import State, new_state, with_state_capacity


def grow_on_top_of(network: Network, seed: int) -> State:
    """Return the initial state of a training on top of a finished network, which is frozen.

    Its nodes may feed new ones; its own parameters, and so its answers, never change.
    """
    units, edges = len(network.units), len(network.edges)
    state = with_state_capacity(new_state(network.n_inputs, 0, seed=seed), units + 16, edges + 32)
    frozen = network.copy()
    frozen.units["frozen"][frozen.units["kind"] != FREE] = 1
    frozen.edges["frozen"][frozen.edges["source"] >= 0] = 1
    for one in (state.network, state.best, state.trimmed):
        one.counts[:] = frozen.counts
        one.usable[:] = frozen.usable
        one.units[:units] = frozen.units
        one.bias[:units] = frozen.bias
        one.edges[:edges] = frozen.edges
    # Born long ago: frozen nodes and edges are not protected as new ones are.
    state.unit_life["born"][:units] = np.iinfo(np.int32).min
    state.edge_life["born"][:edges] = np.iinfo(np.int32).min
    return state
