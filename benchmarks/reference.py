"""The same step twice more: in C, called on the package's own arrays, and in NumPy node by node."""

import ctypes
from collections.abc import Callable

import numpy as np
from cases import Case
from compiler import compiled
from numpy.typing import NDArray

from dirad.core.network import N_INPUTS, OUTPUT
from dirad.core.order import LENGTH

# The wider of two vector lengths is not always the faster: both are compiled, the faster counts.
TUNED = ("-march=native", "-ffast-math")
BUILDS = (TUNED, (*TUNED, "-mprefer-vector-width=256"))

# fmt: off
POINTERS = (
    "counts", "units", "bias", "edges",
    "status", "order", "in_start", "in_edge", "out_start", "out_edge",
    "state", "term_0", "term_1", "delta", "thresholded_delta", "target", "sample_weight",
    "edge_weight", "out_weight", "edge_source", "out_term", "edge_pull", "term_pull",
)
# fmt: on


class Job(ctypes.Structure):
    """The record of reference.c."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int64) for name in ("columns", "samples", "width")),
        *((name, ctypes.c_double) for name in ("gamma", "delta_min", "tolerance")),
    )


def job_for(case: Case) -> Job:
    """Return the addresses of a case's arrays. The case must outlive the job."""
    work, potential = case.scratch.work, case.scratch.potential
    arrays = {**case.state.network._asdict(), **case.scratch.plan._asdict(), **work._asdict()}
    arrays.update(edge_pull=potential.edges, term_pull=potential.terms)
    return Job(
        *(arrays[name].ctypes.data for name in POINTERS),
        work.state.shape[1],
        int(work.width[0]),
        int(work.width[1]),
        case.params.gamma,
        case.params.delta_min,
        case.params.acceptable_mismatch,
    )


def c_steps(case: Case) -> list[Callable[[NDArray], None]]:
    """Return, for each build, a function that takes as many steps as its argument has places."""
    job = job_for(case)
    result = []
    for library in filter(None, (compiled("reference.c", *flags) for flags in BUILDS)):
        take_steps = library.take_steps
        take_steps.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p]
        take_steps.restype = None

        def steps(error: NDArray, take_steps=take_steps, case=case) -> None:
            take_steps(ctypes.byref(job), len(error), error.ctypes.data)

        result.append(steps)
    return result


def numpy_steps(case: Case) -> Callable[[NDArray], None]:
    """Return a function that takes as many steps as its argument has places, node by node."""
    network, params = case.state.network, case.params
    plan, work, potential = case.scratch.plan, case.scratch.work, case.scratch.potential
    n_inputs, n = int(network.counts[N_INPUTS]), int(work.width[0])
    order = [int(u) for u in plan.order[: plan.status[LENGTH]]]
    into = np.split(plan.in_edge[: plan.in_start[-1]], plan.in_start[1:-1])
    out_of = np.split(plan.out_edge[: plan.out_start[-1]], plan.out_start[1:-1])
    source, term, weight = (network.edges[name] for name in ("source", "term", "weight"))
    state, delta, target = work.state[:, :n], work.delta[:, :n], work.target[:, :n]
    is_output = network.units["kind"] == OUTPUT

    def activation(t: int) -> NDArray:
        edges = into[t]
        return weight[edges].astype(np.float32) @ state[source[edges]] + np.float32(
            network.bias[t // 2, t % 2]
        )

    def pull_on(pulls: NDArray, which: NDArray | int, rows: NDArray, d: NDArray) -> None:
        thresholded_delta = np.where(np.abs(d) >= params.delta_min, d, np.float32(0))
        pulls["gradient"][which] = rows @ d / n
        pulls["net"][which] = rows @ thresholded_delta / n
        pulls["total"][which] = np.abs(rows) @ np.abs(thresholded_delta) / n

    def step() -> float:
        for u in order:
            if is_output[u]:
                state[n_inputs + u] = 1 / (1 + np.exp(-activation(2 * u)))
            else:
                K = np.float32(network.units["gain"][u])
                work.term_0[u, :n] = activation(2 * u)
                work.term_1[u, :n] = 2 * np.tanh(K / 2 * activation(2 * u + 1)) + 1
                state[n_inputs + u] = work.term_0[u, :n] * work.term_1[u, :n]
        outputs = np.flatnonzero(is_output)
        error = state[n_inputs + outputs] - target[network.units["output"][outputs]]
        cost = float((error**2).sum() / 2 / n)
        for u in reversed(order):
            a = state[n_inputs + u]
            pull = weight[out_of[u]].astype(np.float32) @ delta[term[out_of[u]]]
            if is_output[u]:
                own = a - target[network.units["output"][u]]
                own = np.where(np.abs(own) >= params.acceptable_mismatch, own, np.float32(0))
                delta[2 * u] = (own + pull) * a * (1 - a)
            else:
                s = work.term_1[u, :n]
                K = np.float32(network.units["gain"][u])
                delta[2 * u] = pull * s
                delta[2 * u + 1] = pull * work.term_0[u, :n] * (K / 4 * (s + 1) * (3 - s))
        one = np.ones(n, np.float32)
        for u in order:
            for t in range(2 * u, 2 * u + (1 if is_output[u] else 2)):
                pull_on(potential.terms, t, one, delta[t])
                pull_on(potential.edges, into[t], state[source[into[t]]], delta[t])
        weight[:] -= params.gamma * potential.edges["gradient"]
        for u in order:
            t = 0 if is_output[u] else 1
            network.bias[u, t] -= params.gamma * potential.terms["gradient"][2 * u + t]
        return cost

    def steps(error: NDArray) -> None:
        for i in range(len(error)):
            error[i] = step()

    return steps
