"""The weight decay with which a wide network begins to grow, by leave-one-out cross-validation.

Where samples are few compared with the inputs, more weight decay than the default predicts better.
Leaving one sample out changes the activation a of an output to

    a + l·r/(1 − l·c),    l = xᵀF⁻¹x,

for a sample of inputs x, residual r = (answer − target)·weight and curvature c, where F is the
curvature of the cost in the parameters: exactly for linear outputs, and to second order for others.
So the cost of all samples, each predicted by a network without it, takes one fit.
"""

import numpy as np

from dirad.growth.wide.costs import costs_of_answers, total_cost
from dirad.growth.wide.draft import Draft, solution

FACTORS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)  # of the weight decay that are compared
ENOUGH = 50  # samples per input, with which weight decay hardly matters
TOLERANCE = 0.01  # the least decay is taken whose cost is so close to the best
LEAST_LEFT = 1e-3  # of 1 − l·c
LEAST_EXPLAINED = 0.05  # share of the cost of a constant answer that a linear network must save


def leave_one_out_cost(draft: Draft) -> float:
    """Return the cost of all samples, each predicted as if it had been left out."""
    design, answers = draft.design(), draft.answers()
    residual = (answers - draft.samples.targets) * draft.samples.weight[:, None]
    curvature = draft.curvature(answers)
    activation = draft.activation.copy()
    fishers = draft.fishers(design, curvature)
    for o in range(activation.shape[1]):
        solved = solution(fishers[min(o, len(fishers) - 1)], design.T)
        leverage = np.einsum("ij,ji->i", design, solved)
        left = np.maximum(1.0 - leverage * curvature[:, o], LEAST_LEFT)
        activation[:, o] += leverage * residual[:, o] / left
    return total_cost(activation, draft.samples, draft.transfer)


def best_decay(draft: Draft) -> float:
    """Fit a network that has not grown yet; return the weight decay that predicts samples left out.

    It is at least that of the draft.
    """
    samples, least = draft.samples, draft.decay
    draft.solve(8, 1e-4)
    enough = ENOUGH * np.count_nonzero(draft.usable)
    if np.count_nonzero(samples.weight) > enough or least == 0.0:
        return least
    decays, costs = [least], [leave_one_out_cost(draft)]
    for factor in FACTORS[1:]:
        draft.decay = factor * least
        draft.solve(8, 1e-4)
        decays.append(draft.decay)
        costs.append(leave_one_out_cost(draft))
    # Where inputs alone explain nothing, the strongest decay is best, and would prevent growth.
    mean = samples.weight @ samples.targets / samples.weight.sum()
    constant = np.broadcast_to(mean, samples.targets.shape)
    explained = 1.0 - min(costs) / float(
        samples.weight @ costs_of_answers(constant, samples.targets, draft.transfer)
    )
    if explained < LEAST_EXPLAINED:
        return least
    good = np.array(costs) <= min(costs) + TOLERANCE * abs(min(costs))
    return decays[int(np.argmax(good))]
