"""Parameter updates: gradient descent as in the paper, or Adam; and the schedule of K."""

import math

from dirad.core.compilation import kernel, strict_order_kernel
from dirad.core.network import MODULATORY, N_EDGES, N_UNITS, OUTPUT
from dirad.core.potential import total_weight
from dirad.core.random import PERTURBATION, normal
from dirad.growth.state import N_SAMPLES, PHASE, PHASE_START, SEED, STEP
from dirad.history import SETTLING, THINNING, TRIMMING

# Params.optimizer and Params.K_rule as numbers.
SGD, ADAM = 0, 1
GAIN_DECAY, GAIN_DECAY_SIGNED, GAIN_FOLLOWS_WEIGHT, GAIN_CONSTANT = 0, 1, 2, 3

TRIM_INTERVAL = 200  # steps between two rounds of trimming
TRIM_RATE = 0.3
TINY = 1e-12
EPSILON = 1e-8  # Adam's: keeps the division defined where all gradients are 0
DECAY_SAMPLE_FLOOR = 100  # for weight decay: with fewer samples it would prevent learning
GAIN_RANGE = (1.0, 100.0)  # range of |K| where K follows 1/w


@kernel
def thinning_length(state, params):
    """Number of steps that the phase of thinning takes."""
    return max(1, min(params.thinning_steps, params.max_steps - state.clock[PHASE_START]))


@kernel
def learning_rate(state, params):
    """Return γ: constant during growth, annealed along a half cosine while settling.

    While thinning, and in every round of trimming, it is annealed as well. Thinning has its
    own γ.
    """
    since = state.clock[STEP] - state.clock[PHASE_START]
    if state.clock[PHASE] == TRIMMING:
        done = (since % TRIM_INTERVAL) / TRIM_INTERVAL
        return TRIM_RATE * params.gamma * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
    if state.clock[PHASE] == THINNING:
        done = since / thinning_length(state, params)
        return params.thinning_gamma * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))
    if state.clock[PHASE] == SETTLING:
        done = since / max(params.settle_steps, 1)
    else:
        return params.gamma
    return params.gamma * 0.5 * (1.0 + math.cos(math.pi * min(done, 1.0)))


@kernel
def perturb_zero_weight_gradients(state, plan, work, potential, params):
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
            deviation = params.perturbation * math.sqrt(squares) / total_weight(work)
            noise = deviation * normal(state.clock[SEED], PERTURBATION, state.clock[STEP], e)
            potential.edges[e].gradient += noise
            if params.perturbation_in_exhaustion == 1:
                potential.edges[e].net += noise


@strict_order_kernel
def adam_moments(gradient, mean, square, params):
    """Return the moving means of a gradient and of its square, the moments that Adam needs."""
    gradient_square = gradient * gradient
    return (
        params.momentum * (mean - gradient) + gradient,
        params.scale_memory * (square - gradient_square) + gradient_square,
    )


@kernel
def move_weights_and_biases(state, potential, correction, params):
    """One step of every weight and bias that is not frozen."""
    move_weights(state, potential, correction, params)
    move_biases(state, potential, correction, params)


@strict_order_kernel
def move_weights(state, potential, correction, params):
    """One step of every weight, with weight decay; a fading edge only loses weight.

    The bias correction of Adam's moments depends on the age of the parameter, since parameters
    are created at any step.
    """
    net = state.network
    step_size = learning_rate(state, params)
    prior = params.thinning_prior if state.clock[PHASE] == THINNING else params.prior
    shrink = prior / max(state.clock[N_SAMPLES], DECAY_SAMPLE_FLOOR)
    for e in range(net.counts[N_EDGES]):
        edge, life = net.edges[e], state.edge_life[e]
        if edge.source < 0 or edge.frozen:
            continue
        if life.fading:
            edge.weight *= params.fading
            continue
        gradient = potential.edges[e].gradient + shrink * edge.weight
        if params.optimizer == SGD:
            edge.weight -= step_size * gradient
            continue
        life.mean, life.square = adam_moments(gradient, life.mean, life.square, params)
        age = min(state.clock[STEP] - life.born, correction.shape[0] - 1)
        first, second = correction[age, 0], correction[age, 1]
        edge.weight -= life.mean * (step_size * first) / (math.sqrt(life.square * second) + EPSILON)


@kernel
def has_bias(net, term, params):
    """Has this term a bias that adapts?"""
    return net.units[term // 2].kind == OUTPUT or term % 2 == 1 or params.term_0_bias == 1


@strict_order_kernel
def move_biases(state, potential, correction, params):
    """One step of every bias, without weight decay."""
    net = state.network
    step_size = learning_rate(state, params)
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind < 0 or net.units[u].frozen:
            continue
        age = min(state.clock[STEP] - state.unit_life[u].born, correction.shape[0] - 1)
        first, second = correction[age, 0], correction[age, 1]
        for t in range(1 if net.units[u].kind == OUTPUT else 2):
            if not has_bias(net, 2 * u + t, params):
                continue
            gradient = potential.terms[2 * u + t].gradient
            if params.optimizer == SGD:
                net.bias[u, t] -= step_size * gradient
                continue
            mean, square = adam_moments(
                gradient, state.bias_mean[u, t], state.bias_square[u, t], params
            )
            state.bias_mean[u, t], state.bias_square[u, t] = mean, square
            net.bias[u, t] -= step_size * mean * first / (math.sqrt(square * second) + EPSILON)


@kernel
def schedule_gains(state, plan, params):
    """K after ENC.

    `decay`: K ← 0.9·K + 0.1·K_final as written; for K < 0 this crosses 0 and inverts the
    modulation. `decay-signed`: the same towards −K_final where K is negative. `follow`: K = 1/w
    of the (first) out-edge. `constant`: K stays.
    """
    net = state.network
    if params.K_rule == GAIN_CONSTANT:
        return
    for u in range(net.counts[N_UNITS]):
        if net.units[u].kind != MODULATORY or net.units[u].frozen:
            continue
        if params.K_rule == GAIN_FOLLOWS_WEIGHT:
            if plan.out_start[u + 1] > plan.out_start[u]:
                w = net.edges[plan.out_edge[plan.out_start[u]]].weight
                size = min(max(1.0 / max(abs(w), TINY), GAIN_RANGE[0]), GAIN_RANGE[1])
                net.units[u].gain = -size if w < 0.0 else size
        else:
            final = params.K_final
            if params.K_rule == GAIN_DECAY_SIGNED and net.units[u].gain < 0.0:
                final = -final
            net.units[u].gain += params.K_decay * (final - net.units[u].gain)
