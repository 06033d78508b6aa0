"""The second generative process: edge-node conversion (ENC).

An edge i → j of weight w becomes i → k → j, where k is modulatory and i enters its term 0. The
responses stay as they are because w_kj · w_ik · σ₁(b_k1) = w.
"""

import math

from dirad.core.compilation import kernel
from dirad.core.network import N_INPUTS, new_edge, new_unit
from dirad.core.potential import edge_exhausted
from dirad.growth.state import STEP, write_event
from dirad.history import ENC


@kernel
def gate_at_birth(weight, gate_floor):
    """Return (w_kj, b_k1, K) of a new node, so that w_kj·σ₁(b_k1) = w and σ₁′(b_k1)·w_kj = 1.

    The second condition is what makes δ_k1 = ∂C/∂w_ij for every sample. The paper opens the gate
    fully: σ₁(0) = 1, w_kj = w, K = 1/w. This grows without bound for weak edges and is undefined
    for w = 0. Below `gate_floor` we keep w_kj at that floor instead and close the gate as far as
    w asks for, wholly at w = 0; both conditions still hold and K stays small.
    """
    if abs(weight) >= gate_floor and weight != 0.0:
        return weight, 0.0, 1.0 / weight
    out = -gate_floor if weight < 0.0 else gate_floor
    s = 0.25 * (1.0 + weight / out)  # the logistic inside σ₁; in [1/4, 1/2)
    K = 1.0 / (4.0 * out * s * (1.0 - s))
    return out, math.log(s / (1.0 - s)) / K, K


@kernel
def convert(state, scratch, e, params):
    """Put a modulatory node on edge e; return its unit number.

    Edge e keeps its number as the out-edge k → j, so that sums at j keep their order.
    """
    net = state.network
    now = state.clock[STEP]
    source, term, weight = net.source[e], net.term[e], net.weight[e]
    out, bias, K = gate_at_birth(weight, params.gate_floor)
    k = new_unit(net, K, bias, net.edge_owner[e])
    net.source[e] = net.counts[N_INPUTS] + k
    net.weight[e] = params.k_w * out
    first = new_edge(net, source, 2 * k, 1.0 / params.k_w)
    state.unit_born[k] = now
    state.unit_rest[k] = now
    for t in range(2):
        state.bias_mean[k, t] = 0.0
        state.bias_square[k, t] = 0.0
    state.edge_rest[e] = now + params.refraction
    state.edge_rest[first] = now + params.refraction
    state.edge_born[first] = now
    state.edge_fading[first] = False
    state.edge_mean[first] = 0.0
    state.edge_square[first] = 0.0
    state.unit_rest[term // 2] = now + params.refraction
    write_event(state, scratch.log, ENC, e, net.source[e], term, k, first, weight)
    scratch.changed[0] = 1
    return k


@kernel
def may_convert(state, scratch, e, params):
    """ENC condition: immediate potential exhausted, total potential not; never at weight 0."""
    net = state.network
    if params.enc == 0 or net.edge_frozen[e] or state.edge_rest[e] > state.clock[STEP]:
        return False
    if net.weight[e] == 0.0 and params.gate_floor == 0.0:
        return False
    if scratch.potential.edge_total[e] <= 0.0:
        return False
    return edge_exhausted(net, scratch.potential, e, params.R1, params.R2)
