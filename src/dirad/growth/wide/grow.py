"""How a wide network grows: rounds of growth, the number of nodes, the fit to all samples."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dirad.core.input_groups import NO_GROUPS, InputGroups
from dirad.growth.wide.bins import Bins
from dirad.growth.wide.costs import Samples, total_cost, transferred
from dirad.growth.wide.decay import best_decay
from dirad.growth.wide.draft import Draft
from dirad.growth.wide.gate import NEW_STEP, Gate
from dirad.growth.wide.pruning import (
    NEGLIGIBLE,
    NEGLIGIBLE_OF_MEAN,
    average,
    needed,
    remove_negligible_edges,
)
from dirad.growth.wide.rules import Propose
from dirad.growth.wide.saturation import begin, begin_like
from dirad.growth.wide.scan import Candidate, Search

GROWTH_SAMPLES = 4000  # on which a network grows
HELD_OUT_SAMPLES = 2000  # which find the number of nodes
SOLVED_OPERATIONS = 5e9  # of one Newton step at the end: more samples than that allows are left out
GROWTH_RATE = 0.4  # candidates per round, as a share of the nodes (at least one)
FAST_RATE = 1.2  # the same for other members of a committee
MOST_NODES = 150
SIZE_WITH_RULES = 1.2  # times the nodes of the first network of a committee
PATIENCE = 1.6, 40  # growth ends at 1.6 times the nodes of the best held-out cost, + 40
LEAST_DROP = 1e-3  # drop of the held-out cost that counts, relative to the cost itself
LEAST_SHARE = 1e-4  # and relative to the cost of a network without edges
DECAYS = (0.25, 1.0, 4.0, 16.0)  # factors of the weight decay that are compared
FINAL_STEPS = 10  # of Newton's method at the end


class WideFit(NamedTuple):
    """A wide network of the size that held-out samples ask for."""

    draft: Draft  # fitted to all samples
    held_out_answers: NDArray[np.float64]  # (held out, outputs) by a network fitted to the rest
    growth_decay: float  # weight decay while nodes were added


def grow_to_best(draft: Draft, bins: Bins, held_out: Samples, rows: NDArray[np.intp]) -> int:
    """Grow a network until the cost of held-out samples rises; return the best number of nodes.

    `rows` are the places of these samples in the draft, where their weight is 0.
    """
    best, best_nodes, first = np.inf, len(draft.nodes), len(draft.nodes)
    least = LEAST_SHARE * total_cost(np.zeros_like(held_out.targets), held_out, draft.transfer)
    while True:
        cost = total_cost(draft.activation[rows], held_out, draft.transfer)
        if cost < min((1.0 - LEAST_DROP) * best, best - least):
            best, best_nodes = cost, len(draft.nodes)
        elif len(draft.nodes) - first > PATIENCE[0] * (best_nodes - first) + PATIENCE[1]:
            return best_nodes
        if len(draft.nodes) - first >= MOST_NODES or not grow_once(draft, bins):
            return best_nodes


def grow_once(
    draft: Draft,
    bins: Bins,
    rate: float = GROWTH_RATE,
    most: int = MOST_NODES,
    *,
    propose: Propose | None = None,
) -> int:
    """Take one round of growth, of so many candidates at most; return how many were added."""
    quota = min(most, max(1, int(rate * (len(draft.nodes) - draft.n_first))))
    search = Search(draft, bins, propose=propose)
    chosen = search.best(quota)
    for candidate in chosen:
        insert(draft, candidate)
    draft.rounds.append(len(draft.nodes))
    draft.solve(1, known=search.fishers)
    draft.record_cost()
    return len(chosen)


def insert(draft: Draft, candidate: Candidate) -> None:
    """Add the nodes of a candidate, but for steps that the network has already."""
    added: list[int] = []
    for gate in candidate.gates:
        last = gate is candidate.gates[-1]
        same = draft.steps.get((gate.gate[0][0], gate.threshold), -1) if gate.is_step else -1
        if not last and same >= 0 and draft.nodes[same].gain == gate.gain:
            added.append(draft.n_inputs + same)
        else:
            added.append(draft.add(resolved(gate, added), feeds_outputs=last))


def resolved(gate: Gate, added: list[int]) -> Gate:
    """Return a gate with the numbers of nodes that its candidate has added before it."""

    def number(node: int) -> int:
        return added[NEW_STEP - node] if node <= NEW_STEP else node

    sums = tuple((number(node), weight) for node, weight in gate.gate)
    return gate._replace(source=number(gate.source), gate=sums)


def fit_linear(
    samples: Samples, transfer: int, decay: float, usable: NDArray[np.bool_], inputs: NDArray
) -> NDArray[np.float64]:
    """Return the answers of a network without hidden nodes, fitted to some samples, to inputs."""
    with threadpool_limits(1, user_api="blas"):
        draft = Draft(samples, transfer, decay, usable)
        draft.decay = best_decay(draft)
        draft.solve(12)
        return transferred(draft.activations_of(inputs), transfer)


def fit_wide(
    samples: Samples,
    held_out: NDArray[np.bool_],
    transfer: int,
    decay: float,
    usable: NDArray[np.bool_],
    seed: int,
    groups: InputGroups = NO_GROUPS,
) -> WideFit:
    """Grow on all samples but those `held_out`, which find the number of nodes and the decay.

    Then the outputs are fitted to all samples. Sums run in one thread, so that no result depends
    on the number of threads.
    """
    with threadpool_limits(1, user_api="blas"):
        rest = some_rows(np.flatnonzero(~held_out), GROWTH_SAMPLES, seed)
        test = some_rows(np.flatnonzero(held_out), HELD_OUT_SAMPLES, seed)
        places = np.arange(len(rest), len(rest) + len(test))  # of the samples held out
        grown, tested = samples.take(np.concatenate([rest, test])), samples.take(test)
        grown.weight[places] = 0.0
        draft = begin(grown, transfer, decay, usable)
        growth_decay = draft.decay
        bins = Bins(grown, usable, seed, groups)
        n_nodes = grow_to_best(draft, bins, tested, places)
        draft = copied(draft, grown, range(n_nodes))
        choose_decay(draft, tested, places)
        answers = transferred(draft.activations_of(samples.inputs[held_out]), transfer)
        return WideFit(fitted_to_all(draft, samples, seed), answers, growth_decay)


def fit_alike(
    samples: Samples,
    held_out: NDArray[np.bool_],
    like: WideFit,
    seeds: tuple[int, int],
    groups: InputGroups = NO_GROUPS,
    *,
    propose: Propose | None = None,
) -> Draft:
    """Return another network of about the size of the first, grown on all samples but `held_out`.

    `seeds` are those of the first network and of this one. With rules, which `propose` brings, it
    is larger, because a rule takes several nodes.
    """
    first = like.draft
    with threadpool_limits(1, user_api="blas"):
        grown = samples.take(some_rows(np.flatnonzero(~held_out), GROWTH_SAMPLES, seeds[1]))
        draft = begin_like(first, grown, like.growth_decay)
        bins = Bins(grown, first.usable, seeds[1], groups)
        grown_nodes = len(first.nodes) - first.n_first
        size = first.n_first + int(grown_nodes * (SIZE_WITH_RULES if propose else 1.0))
        while len(draft.nodes) < size:
            if not grow_once(draft, bins, FAST_RATE, size - len(draft.nodes), propose=propose):
                break
        draft.decay = first.decay
        return fitted_to_all(draft, samples, seeds[0])


def fitted_to_all(draft: Draft, samples: Samples, seed: int) -> Draft:
    """Return a network whose outputs are fitted to all samples, or to as many as allowed."""
    operations = (len(draft.features) + 1) ** 2 * len(draft.bias)
    most = max(GROWTH_SAMPLES, int(SOLVED_OPERATIONS / operations))
    solved = samples.take(some_rows(np.arange(len(samples.inputs)), most, seed))
    draft = copied(draft, solved, range(len(draft.nodes)))
    draft.solve(FINAL_STEPS)
    return draft


def finished(drafts: Sequence[Draft]) -> Draft:
    """Return a network, or the average of a committee, without superfluous edges and nodes."""
    with threadpool_limits(1, user_api="blas"):
        if len(drafts) > 1:
            draft = average(drafts)
            remove_negligible_edges(draft, NEGLIGIBLE_OF_MEAN)
            return copied(draft, draft.samples, needed(draft))
        draft = drafts[0]
        remove_negligible_edges(draft, NEGLIGIBLE)
        draft = copied(draft, draft.samples, needed(draft))
        draft.solve(FINAL_STEPS, 1e-5)
    return draft


def choose_decay(draft: Draft, held_out: Samples, rows: NDArray[np.intp]) -> None:
    """Set the weight decay that predicts held-out samples best."""
    decays = [factor * draft.decay for factor in DECAYS]
    found = []
    for draft.decay in decays:
        draft.solve(4, 1e-3)
        found.append(total_cost(draft.activation[rows], held_out, draft.transfer))
    draft.decay = decays[int(np.argmin(found))]
    draft.solve(4, 1e-3)


def some_rows(rows: NDArray[np.intp], most: int, seed: int) -> NDArray[np.intp]:
    """Return all rows, or as many as allowed at random."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).permutation(rows)[:most])


def copied(draft: Draft, samples: Samples, kept: Sequence[int]) -> Draft:
    """Return the network of some nodes, by number of the gate, with its states for some samples."""
    result = Draft(samples, draft.transfer, draft.decay, draft.usable)
    result.feed(draft.feeding_inputs)
    result.n_first = int(np.count_nonzero(np.asarray(kept) < draft.n_first))
    place = dict(enumerate(range(draft.n_inputs)))  # of a node in the result
    feeding = set(draft.features)
    for i in kept:
        gate, node = draft.nodes[i], draft.n_inputs + i
        place[node] = result.add(gate.moved(place), feeds_outputs=node in feeding)
    rows = [i for i in np.argsort(draft.features).tolist() if draft.features[i] in place]
    result.weights, result.removed, result.bias = (
        draft.weights[rows],
        draft.removed[rows],
        draft.bias,
    )
    starts = [draft.n_first, *draft.rounds]
    result.rounds = [
        int(np.searchsorted(kept, end))
        for start, end in zip(starts, draft.rounds, strict=False)
        if len(kept) and start <= kept[-1]
    ]
    result.costs = draft.costs[: len(result.rounds) + 1]
    return result
