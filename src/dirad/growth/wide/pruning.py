"""The average of wide networks, and the removal of edges and nodes that hardly matter.

The members of a committee have found much the same, each in its own words: most edges of their
average can be removed, if the others make up for them. What is kept are the answers; the targets
play no part, so that the average does not become one more fit to the samples.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import LINEAR
from dirad.growth.wide.draft import Draft
from dirad.growth.wide.gate import Gate

NEGLIGIBLE = 0.02  # nats: an edge into an output that explains less is removed
NEGLIGIBLE_OF_MEAN = 0.25  # the same for the mean of a committee
MOST_LOST = 0.01  # nats per sample that all edges removed may explain together
REMOVED_AT_ONCE = 20  # one in so many edges


def needed(draft: Draft) -> list[int]:
    """Return the gates from which an edge leads to an output, directly or through other gates."""
    nodes = {node for node, some in zip(draft.features, draft.weights, strict=True) if some.any()}
    for i in reversed(range(len(draft.nodes))):
        if draft.n_inputs + i in nodes:
            nodes.update((draft.nodes[i].source, *(node for node, _ in draft.nodes[i].gate)))
    return [i for i in range(len(draft.nodes)) if draft.n_inputs + i in nodes]


def remove_negligible_edges(draft: Draft, negligible: float) -> None:
    """Remove edges into outputs that hardly matter, and adjust the others.

    Edges whose removal raises the cost by less than `negligible` nats go, and all together raise
    it by MOST_LOST per sample. Squared errors are divided by their mean for that.
    """
    answers, weight = draft.answers(), draft.samples.weight
    n = max(float(weight.sum()), 1e-300)
    nats = np.ones(len(draft.bias))
    if draft.transfer == LINEAR:
        nats = weight @ (answers - draft.samples.targets) ** 2 / n
    budget = MOST_LOST * n / len(draft.bias)
    fishers = draft.fishers(draft.design(), draft.curvature(answers))
    for o, unit in enumerate(nats):
        fisher = fishers[min(o, len(fishers) - 1)]
        weights = np.append(draft.bias[o], draft.weights[:, o])
        kept = without_least(weights, fisher, negligible * unit, budget * unit)
        draft.bias[o], draft.weights[:, o] = kept[0], kept[1:]
    draft.removed = draft.weights == 0.0
    draft.activation = draft.design() @ np.vstack([draft.bias, draft.weights])


def without_least(
    weights: NDArray, fisher: NDArray, limit: float, budget: float
) -> NDArray[np.float64]:
    """Return weights of which some are 0: the least important are removed, a few at a time.

    Optimal brain surgeon: ½·w²/[F⁻¹]ₑₑ is what the cost rises without weight e if the other
    parameters adjust. It may be `limit` for one weight, and `budget` for all together. The first
    weight is the bias, which stays.
    """
    left, inverse, kept = np.arange(len(weights)), np.linalg.inv(fisher), weights.copy()
    while len(left) > 1:
        rises = 0.5 * kept[1:] ** 2 / np.diag(inverse)[1:]
        least = 1 + np.argsort(rises, kind="stable")[: max(1, len(rises) // REMOVED_AT_ONCE)]
        least = least[rises[least - 1] < limit]
        if not len(least):
            break
        solved = np.linalg.solve(inverse[np.ix_(least, least)], kept[least])
        while len(least) > 1 and 0.5 * kept[least] @ solved > min(len(least) * limit, budget):
            least = least[: len(least) // 2]  # of several alike not all are superfluous
            solved = np.linalg.solve(inverse[np.ix_(least, least)], kept[least])
        budget -= 0.5 * float(kept[least] @ solved)
        if budget < 0.0:
            break
        rest = np.delete(np.arange(len(left)), least)
        across = inverse[np.ix_(rest, least)]
        block = inverse[np.ix_(least, least)]
        kept = kept[rest] - across @ solved
        inverse = inverse[np.ix_(rest, rest)] - across @ np.linalg.solve(block, across.T)
        left = left[rest]
    result = np.zeros_like(weights)
    result[left] = kept
    return result


def average(drafts: Sequence[Draft]) -> Draft:
    """Return one network whose activations are the means of those of some networks.

    The networks have the same samples, inputs and weight decay.
    """
    first, n_inputs, share = drafts[0], drafts[0].n_inputs, 1.0 / len(drafts)
    result = Draft(first.samples, first.transfer, first.decay, first.usable)
    result.feed(first.feeding_inputs)
    result.bias = share * np.sum([one.bias for one in drafts], axis=0)
    n_direct = len(result.features)  # inputs that feed the outputs
    result.weights = share * np.sum([one.weights[:n_direct] for one in drafts], axis=0)
    nodes: dict[Gate, int] = {}  # equal nodes of several networks become one
    for one in drafts:
        place = dict(enumerate(range(n_inputs)))  # of a node in the result
        feeding = dict(zip(one.features, one.weights, strict=True))
        for i, gate in enumerate(one.nodes, start=n_inputs):
            gate = gate.moved(place)
            if gate not in nodes:
                nodes[gate] = result.add(gate, feeds_outputs=False, state=one.states[:, i])
            place[i] = nodes[gate]
            if i in feeding:
                result.feed_also(nodes[gate])
                result.weights[result.features.index(nodes[gate])] += share * feeding[i]
    result.removed = result.weights == 0.0
    result.activation = result.design() @ np.vstack([result.bias, result.weights])
    return result
