"""Rules: several conditions on inputs at once, found by a small tree.

Steps and corners compare one or two conditions. Where it takes three or more ("x is red and y is
above 2 and z is below 5"), no part of the rule gains anything, and growth would stop. A regression
tree of the residuals, whose splits need not gain anything by themselves later on, proposes such
rules: each of its regions is one. (The tree is scikit-learn's, so the estimators bring it.)

A rule is a node that is open where all of its conditions hold: a step for each condition, and a
gate on their sum

    σ₁(K·(Σ aᵢ − threshold)),

where aᵢ is ¾ if condition i holds and −¼ if not. Steps that the network has already are shared.
"""

from collections.abc import Callable

from numpy.typing import NDArray

from dirad.growth.wide.bins import Bins
from dirad.growth.wide.draft import Draft
from dirad.growth.wide.gate import CONSTANT, NEW_STEP, SCALE, Gate, alone

STEEPNESS = 30.0  # gain of a step, in standard deviations of its input
LEAST_SHARED = 0.4  # share of this gain that a step must have for rules to share it
SHARP = 8.0  # gain of the gate on the sum of steps

Condition = tuple[int, int, float]  # input, 1 for above and −1 for below, threshold
Rule = tuple[Condition, ...]
# Proposes rules, given inputs (samples, inputs), the Newton step of each output (samples, outputs),
# weights (samples,) and a random seed.
Propose = Callable[[NDArray, NDArray, NDArray, int], list[Rule]]


def rule_gates(rule: Rule, draft: Draft, bins: Bins) -> tuple[Gate, ...]:
    """Return the nodes of a rule: steps that are new, and the gate on all of its steps.

    A rule of one condition is its step, or nothing where the network has that.
    """
    known, new = draft.steps, []
    sums: list[tuple[int, float]] = []
    total = 0.0  # of the steps where all conditions hold
    for node, sign, at in rule:
        total += 0.75
        step = Gate(CONSTANT, 0.0, SCALE, alone(node), float(sign), at)
        gain = STEEPNESS / bins.spread_at(step)
        place = known.get((node, at), -1)
        if place >= 0 and abs(draft.nodes[place].gain) >= LEAST_SHARED * gain:
            opens_above = draft.nodes[place].gain > 0
            sums.append((draft.n_inputs + place, 1.0 if opens_above == (sign > 0) else -1.0))
            total -= 0.0 if opens_above == (sign > 0) else 0.5
        else:
            sums.append((NEW_STEP - len(new), 1.0))
            new.append(step._replace(gain=sign * gain))
    if len(rule) == 1:
        return tuple(new)
    return (*new, Gate(CONSTANT, 0.0, SCALE, tuple(sums), SHARP, total - 0.5))
