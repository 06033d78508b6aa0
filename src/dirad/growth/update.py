"""How parameters move: gradient descent as in the paper, or Adam; and what becomes of K."""

import math

from dirad.core.compilation import kernel
from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, OUTPUT
from dirad.core.potential import effective_samples
from dirad.core.random import PERTURBATION, normal
from dirad.growth.state import N_SAMPLES, PHASE, PHASE_START, SEED, STEP
from dirad.history import SETTLING

# Params.optimizer and Params.K_rule as numbers.
SGD, ADAM = 0, 1
DECAY, DECAY_SIGNED, FOLLOW, CONSTANT = 0, 1, 2, 3

TINY = 1e-12
LEAST_SAMPLES = 100  # a prior as strong as a whole truth table would forbid to learn it
FOLLOW_LIMITS = (1.0, 100.0)  # range of |K| where K follows 1/w


@kernel
def rate(state, params):
    """γ: constant while growing, falling to 0 along a half cosine while settling."""
    if state.clock[PHASE] != SETTLING:
        return params.gamma
    done = (state.clock[STEP] - state.clock[PHASE_START]) / max(params.settle_steps, 1)
    return params.gamma * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))


@kernel
def perturb_zero_weights(state, plan, work, potential, params):
    """Noise on the gradient of zero weights, to get them off zero (paper, 'Free parameter').

    The paper adds noise of deviation 0.05·|∂Cᵐ/∂w| to each sample's gradient. Its mean over the
    batch is one normal number of deviation 0.05·√(Σ|∂Cᵐ/∂w|²)/N, which is what is drawn here.
    """
    net = state.network
    for t in range(plan.in_start.shape[0] - 1):
        for p in range(plan.in_start[t], plan.in_start[t + 1]):
            e = plan.in_edge[p]
            if net.edges[e].weight != 0.0 or net.edges[e].frozen:
                continue
            squares = 0.0
            for m in range(work.width[1]):
                g = work.state[net.edges[e].source, m] * work.delta[t, m]
                squares += g * g
            deviation = params.perturbation * math.sqrt(squares) / effective_samples(work)
            noise = deviation * normal(state.clock[SEED], PERTURBATION, state.clock[STEP], e)
            potential.edges[e].gradient += noise
            if params.perturbation_in_exhaustion == 1:
                potential.edges[e].net += noise


@kernel
def adam_move(gradient, mean, square, age, step_size, correction, params):
    """Return (change, new mean, new mean square) of one parameter.

    The start-up correction goes by the parameter's own age, since parts are born at any step.
    """
    mean = params.momentum * mean + (1.0 - params.momentum) * gradient
    square = params.scale_memory * square + (1.0 - params.scale_memory) * gradient * gradient
    i = min(age, correction.shape[0] - 1)
    change = mean * correction[i, 0] / (math.sqrt(square * correction[i, 1]) + 1e-8)
    return step_size * change, mean, square


@kernel
def move_parameters(state, potential, correction, params):
    """One step of every weight and bias that is not frozen."""
    net = state.network
    step_size = rate(state, params)
    now = state.clock[STEP]
    shrink = params.prior / max(state.clock[N_SAMPLES], LEAST_SAMPLES)
    for e in range(net.counts[N_EDGES]):
        if net.edges[e].source < 0 or net.edges[e].frozen:
            continue
        if state.edge_life[e].fading:
            net.edges[e].weight *= params.fading
            continue
        gradient = potential.edges[e].gradient + shrink * net.edges[e].weight
        if params.optimizer == SGD:
            net.edges[e].weight -= step_size * gradient
        else:
            change, state.edge_life[e].mean, state.edge_life[e].square = adam_move(
                gradient,
                state.edge_life[e].mean,
                state.edge_life[e].square,
                now - state.edge_life[e].born,
                step_size,
                correction,
                params,
            )
            net.edges[e].weight -= change
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind < 0 or net.units[u].frozen:
            continue
        for t in range(2):
            if net.units[u].kind == OUTPUT and t == 1:
                continue
            if net.units[u].kind == MODULATORY and t == 0 and params.term_0_bias == 0:
                continue
            gradient = potential.terms[2 * u + t].gradient
            if params.optimizer == SGD:
                net.bias[u, t] -= step_size * gradient
            else:
                change, state.bias_mean[u, t], state.bias_square[u, t] = adam_move(
                    gradient,
                    state.bias_mean[u, t],
                    state.bias_square[u, t],
                    now - state.unit_life[u].born,
                    step_size,
                    correction,
                    params,
                )
                net.bias[u, t] -= change


@kernel
def move_gains(state, plan, params):
    """K after ENC.

    `decay`: K ← 0.9·K + 0.1·K_final as written; for K < 0 this crosses 0 and inverts the
    modulation. `decay-signed`: the same towards −K_final where K is negative. `follow`: K = 1/w
    of the (first) out-edge. `constant`: K stays.
    """
    net = state.network
    if params.K_rule == CONSTANT:
        return
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind != MODULATORY or net.units[u].frozen:
            continue
        if params.K_rule == FOLLOW:
            if plan.out_start[u + 1] > plan.out_start[u]:
                w = net.edges[plan.out_edge[plan.out_start[u]]].weight
                size = min(max(1.0 / max(abs(w), TINY), FOLLOW_LIMITS[0]), FOLLOW_LIMITS[1])
                net.units[u].gain = -size if w < 0.0 else size
        else:
            final = params.K_final
            if params.K_rule == DECAY_SIGNED and net.units[u].gain < 0.0:
                final = -final
            net.units[u].gain += params.K_decay * (final - net.units[u].gain)
