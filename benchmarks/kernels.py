"""The package's own kernels in the order of a step, looped in compiled code."""

import numba

from dirad.core.compilation import SAFE_FAST_MATH
from dirad.core.potential import edge_potentials, term_potentials, threshold_deltas
from dirad.core.propagate import backward, forward, mean_cost
from dirad.growth.update import move_weights_and_biases


@numba.njit(fastmath=SAFE_FAST_MATH, error_model="numpy")
def dirad_steps(state, scratch, params, error):
    """Take as many steps as `error` has places, on the batch in the workspace."""
    net, plan, work, potential = state.network, scratch.plan, scratch.work, scratch.potential
    for i in range(error.shape[0]):
        forward(net, plan, work)
        error[i] = mean_cost(net, plan, work, params.cost)
        backward(net, plan, work, params.cost, params.acceptable_mismatch)
        threshold_deltas(net, work, params.delta_min)
        term_potentials(net, work, potential)
        edge_potentials(plan, work, potential)
        move_weights_and_biases(state, potential, scratch.correction, params)
