"""A network that goes on where an earlier one ended, which stays as it is."""

import numpy as np

from dirad.core.network import FREE, Network
from dirad.growth.state import State, new_state, with_room


def continued(network: Network, seed: int) -> State:
    """Return the start of an adaptation on top of a finished network, all of it frozen.

    Its nodes may feed new ones; its own parameters, and so its answers, never change.
    """
    units, edges = len(network.units), len(network.edges)
    state = with_room(new_state(network.n_inputs, 0, seed=seed), units + 16, edges + 32)
    frozen = network.copy()
    frozen.units["frozen"][frozen.units["kind"] != FREE] = 1
    frozen.edges["frozen"][frozen.edges["source"] >= 0] = 1
    for one in (state.network, state.best):
        one.counts[:] = frozen.counts
        one.usable[:] = frozen.usable
        one.units[:units] = frozen.units
        one.bias[:units] = frozen.bias
        one.edges[:edges] = frozen.edges
    # What is old need not be protected or left in peace: nothing touches it.
    state.unit_life["born"][:units] = np.iinfo(np.int32).min
    state.edge_life["born"][:edges] = np.iinfo(np.int32).min
    return state
