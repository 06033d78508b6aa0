"""How a wide network grows: rounds of growth, the number of nodes, and superfluous edges."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dirad.encoding import NO_GROUPS, InputGroups
from dirad.growth.wide.draft import Draft, Samples, total_cost, transferred
from dirad.growth.wide.scan import Bins, Search

GROWTH_SAMPLES = 4000  # on which a network grows
SOLVED_OPERATIONS = 5e9  # of one Newton step at the end: more samples than that allows are left out
GROWTH_RATE = 0.1  # candidates per round, as a share of the nodes (at least one)
MOST_NODES = 150
PATIENCE = 1.6, 15  # growth ends at 1.6 times the nodes of the best held-out cost, + 15
LEAST_DROP = 1e-3  # drop of the held-out cost that counts, relative to the cost itself
LEAST_SHARE = 1e-4  # and relative to the cost of a network without edges
FINAL_STEPS = 25  # of Newton's method at the end
NEGLIGIBLE = 0.1  # nats: an edge into an output that explains less is removed


class WideFit(NamedTuple):
    """A wide network of the size that held-out samples ask for."""

    draft: Draft  # fitted to all samples
    held_out_answers: NDArray[np.float64]  # (held out, outputs) by a network fitted to the rest


def grow(
    samples: Samples,
    transfer: int,
    decay: float,
    usable: NDArray[np.bool_],
    seed: int,
    most_nodes: int,
    held_out: Samples | None = None,
    groups: InputGroups = NO_GROUPS,
) -> tuple[Draft, int, NDArray[np.float64]]:
    """Grow a network; return it, the best number of nodes, and its answers to held-out samples."""
    samples = some_of(samples, GROWTH_SAMPLES, seed)
    draft = Draft(samples, transfer, decay, usable)
    bins = Bins(samples.inputs, usable, seed, groups)
    best, best_nodes, best_answers = np.inf, 0, np.empty((0, samples.targets.shape[1]))
    least = 0.0
    if held_out is not None:
        least = LEAST_SHARE * total_cost(np.zeros_like(held_out.targets), held_out, transfer)
    while True:
        if held_out is not None:
            activation = draft.activations_of(held_out.inputs)
            cost = total_cost(activation, held_out, transfer)
            if cost < min((1.0 - LEAST_DROP) * best, best - least):
                best, best_nodes = cost, len(draft.nodes)
                best_answers = transferred(activation, transfer)
            elif len(draft.nodes) > PATIENCE[0] * best_nodes + PATIENCE[1]:
                break
        if len(draft.nodes) >= most_nodes or not grow_once(draft, bins):
            break
    return draft, best_nodes, best_answers


def grow_once(draft: Draft, bins: Bins) -> int:
    """Take one round of growth; return the number of candidates added."""
    quota = max(1, int(GROWTH_RATE * len(draft.nodes)))
    chosen = Search(draft, bins).best(quota)
    for candidate in chosen:
        node = -1
        for gate in candidate.gates:
            last = gate is candidate.gates[-1]
            first = gate is candidate.gates[0]
            node = draft.add(gate if first else gate._replace(source=node), feeds_outputs=last)
    draft.rounds.append(len(draft.nodes))
    draft.solve(3)
    draft.record_cost()
    return len(chosen)


def fit_wide(
    samples: Samples,
    held_out: NDArray[np.bool_],
    transfer: int,
    decay: float,
    usable: NDArray[np.bool_],
    seed: int,
    groups: InputGroups = NO_GROUPS,
) -> WideFit:
    """Find the number of nodes by the samples `held_out`, then grow on all samples.

    Sums run in one thread, so that no result depends on the number of threads.
    """
    with threadpool_limits(1, user_api="blas"):
        rest, test = samples.take(np.flatnonzero(~held_out)), samples.take(np.flatnonzero(held_out))
        arguments = (transfer, decay, usable, seed)
        _, n_nodes, answers = grow(rest, *arguments, MOST_NODES, test, groups)
        draft, _, _ = grow(samples, *arguments, n_nodes, groups=groups)
        if len(samples.inputs) > GROWTH_SAMPLES:
            operations = (len(draft.features) + 1) ** 2 * len(draft.bias)
            most = max(GROWTH_SAMPLES, int(SOLVED_OPERATIONS / operations))
            draft = with_samples(draft, some_of(samples, most, seed))
        draft.solve(FINAL_STEPS, 1e-9)
        remove_negligible_edges(draft)
        draft.solve(FINAL_STEPS, 1e-9)
    return WideFit(draft, answers)


def some_of(samples: Samples, most: int, seed: int) -> Samples:
    """Return all samples, or as many as allowed at random."""
    n = len(samples.inputs)
    if n <= most:
        return samples
    return samples.take(np.sort(np.random.default_rng(seed).permutation(n)[:most]))


def with_samples(draft: Draft, samples: Samples) -> Draft:
    """Return the same network with its states for other samples."""
    result = Draft(samples, draft.transfer, draft.decay, draft.usable)
    feeding = set(draft.features)
    for i, gate in enumerate(draft.nodes):
        result.add(gate, feeds_outputs=draft.n_inputs + i in feeding)
    result.weights, result.bias = draft.weights, draft.bias
    result.rounds, result.costs = draft.rounds, draft.costs
    return result


def remove_negligible_edges(draft: Draft) -> None:
    """Set weights to 0 whose removal would raise the cost least (optimal brain surgeon).

    ½·w²/[F⁻¹]ₑₑ is what the cost rises while the other parameters of the output adjust.
    """
    design, curvature = draft.design(), draft.curvature(draft.answers())
    for o in range(len(draft.bias)):
        inverse = np.linalg.inv(draft.fisher(design, curvature[:, o]))
        rise = 0.5 * draft.weights[:, o] ** 2 / np.diag(inverse)[1:]
        draft.weights[rise < NEGLIGIBLE, o] = 0.0
