"""The second generative process: edge-node conversion (ENC).

An edge i → j of weight w becomes i → k → j, where k is modulatory and i enters its term 0. The
responses stay as they are because w_kj · w_ik · σ₁(b_k1) = w.
"""

import math

from dirad.core.compilation import kernel, strict_order_kernel
from dirad.core.edits import new_edge, new_unit
from dirad.core.network import N_INPUTS
from dirad.core.order import CHANGED
from dirad.core.potential import edge_exhausted
from dirad.growth.state import STEP, write_event
from dirad.history import ENC


@strict_order_kernel
def function_preserving_init(weight, gate_floor):
    """Return (w_kj, b_k1, K) of a new node, so that w_kj·σ₁(b_k1) = w and σ₁′(b_k1)·w_kj = 1.

    The second condition is what makes δ_k1 = ∂C/∂w_ij for every sample. The paper opens the gate
    fully: σ₁(0) = 1, w_kj = w, K = 1/w. This grows without bound for weak edges and is undefined
    for w = 0. Below `gate_floor` we keep w_kj at that floor instead and close the gate as far as
    w asks for, wholly at w = 0; both conditions still hold and K stays small.
    """
    if abs(weight) >= gate_floor and weight != 0.0:
        return weight, 0.0, 1.0 / weight
    out = -gate_floor if weight < 0.0 else gate_floor
    share = weight / out  # in [0, 1)
    s, rest = 0.25 + 0.25 * share, 0.75 - 0.25 * share  # the logistic inside σ₁, and 1 − s
    slope = 4.0 * out * s * rest  # 1/K
    return out, math.log(s / rest) * slope, 1.0 / slope


@kernel
def convert_edge(state, plan, log, e, params):
    """Put a modulatory node on edge e; return its unit number.

    Edge e keeps its number as the out-edge k → j, so that sums at j keep their order.
    """
    net = state.network
    now = state.clock[STEP]
    source, term, weight = net.edges[e].source, net.edges[e].term, net.edges[e].weight
    out, bias, K = function_preserving_init(weight, params.gate_floor)
    k = new_unit(net, K, bias)
    net.edges[e].source = net.counts[N_INPUTS] + k
    net.edges[e].weight = params.k_w * out
    first = new_edge(net, source, 2 * k, 1.0 / params.k_w)
    state.unit_life[k].born = now
    state.unit_life[k].rest = now + params.refraction
    for t in range(2):
        state.bias_mean[k, t] = 0.0
        state.bias_square[k, t] = 0.0
    state.edge_life[e].rest = now + params.refraction
    state.edge_life[first].rest = now + params.refraction
    state.edge_life[first].born = now
    state.edge_life[first].fading = 0
    state.edge_life[first].mean = 0.0
    state.edge_life[first].square = 0.0
    state.unit_life[term // 2].rest = now + params.refraction
    write_event(state, log, ENC, e, net.edges[e].source, term, k, first, weight)
    plan.status[CHANGED] = 1
    return k


@kernel
def may_convert(state, scratch, e, params):
    """ENC condition: immediate potential exhausted, total potential not; never at weight 0."""
    net = state.network
    if params.enc == 0 or net.edges[e].frozen or state.edge_life[e].rest > state.clock[STEP]:
        return False
    if net.edges[e].weight == 0.0 and params.gate_floor == 0.0:
        return False
    if scratch.potential.edges[e].total <= 0.0:
        return False
    return edge_exhausted(net, scratch.potential, e, params.R1, params.R2)
