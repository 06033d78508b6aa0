"""States forward, per-sample gradients backward, over an arbitrary acyclic network.

Rows are nodes or terms, columns are samples, so that the inner loops run along samples. The work
arrays may be float32 (fast) or float64 (exact); the network's own numbers are always float64.
Each operation's gradient follows its forward rule. Columns beyond the last sample are padding:
finite, and of weight 0.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.compilation import borrowed_by_kernels, inlined_kernel, kernel
from dirad.core.network import (
    LOGISTIC,
    MODULATORY,
    N_INPUTS,
    OUTPUT,
    SOFTMAX,
    TRANSFER,
    Network,
)
from dirad.core.order import LENGTH

LANES = 16  # rows are padded to a multiple of this many columns: one vector of float32
CACHE_LINE = 64  # bytes
TILE = 256  # columns worked on at a time, so that a tile of all rows stays in the L2 cache

# Costs. Cross-entropy goes with logistic and softmax outputs.
SQUARED, CROSS_ENTROPY = 0, 1


@borrowed_by_kernels
class Workspace(NamedTuple):
    """Scratch for one batch: nothing here outlives a step."""

    state: NDArray  # (nodes, samples) a
    term_0: NDArray  # (units, samples) a of term 0 (σ₀ is the identity)
    term_1: NDArray  # (units, samples) a of term 1, i.e. σ₁(z₁)
    delta: NDArray  # (terms, samples) δ = ∂C/∂z per sample
    thresholded_delta: (
        NDArray  # (terms, samples) δ with those under δ_min as 0: what potentials see
    )
    target: NDArray  # (outputs, samples) what the outputs should be
    sample_weight: NDArray  # (samples,) weight in the cost; 0 in padding columns
    width: NDArray[np.int64]  # (2,) samples in the batch; the same padded to whole lanes
    edge_weight: NDArray  # (edges,) w in the order of plan.in_edge
    edge_source: NDArray[np.int64]  # (edges,) source in the order of plan.in_edge
    out_weight: NDArray  # (edges,) w in the order of plan.out_edge
    out_term: NDArray[np.int64]  # (edges,) term in the order of plan.out_edge
    row: NDArray  # (samples,) scratch


def padded(n: int) -> int:
    """Return n rounded up to whole lanes."""
    return -(-n // LANES) * LANES


def aligned_zeros(shape: tuple[int, ...], dtype: type) -> NDArray:
    """Return zeros that begin on a cache line, so that no vector straddles two of them."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + CACHE_LINE, np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def new_workspace(network: Network, n_samples: int, dtype: type = np.float64) -> Workspace:
    """Return scratch for batches of at most `n_samples`."""
    units, edges = len(network.units), len(network.edges)
    columns = padded(max(n_samples, 1))
    if columns % 1024 == 0:
        columns += LANES  # rows a power of two apart would fight for the same cache lines
    return Workspace(
        state=aligned_zeros((network.n_inputs + units, columns), dtype),
        term_0=aligned_zeros((units, columns), dtype),
        term_1=aligned_zeros((units, columns), dtype),
        delta=aligned_zeros((2 * units, columns), dtype),
        thresholded_delta=aligned_zeros((2 * units, columns), dtype),
        target=aligned_zeros((network.n_outputs, columns), dtype),
        sample_weight=aligned_zeros((columns,), dtype),
        width=np.array([0, 0], np.int64),
        edge_weight=np.zeros(edges, dtype),
        edge_source=np.zeros(edges, np.int64),
        out_weight=np.zeros(edges, dtype),
        out_term=np.zeros(edges, np.int64),
        row=aligned_zeros((columns,), dtype),
    )


def load_batch(
    work: Workspace,
    X: NDArray,
    y: NDArray | None = None,
    sample_weight: NDArray | None = None,
) -> None:
    """Write samples (rows of X, of y) into the workspace's columns."""
    n = len(X)
    width = padded(n)
    if width > work.state.shape[1]:
        raise ValueError(f"the workspace holds {work.state.shape[1]} samples, not {n}")
    work.width[:] = n, width
    work.state[: X.shape[1], :n] = X.T
    work.state[: X.shape[1], n:width] = 0
    work.sample_weight[:n] = 1 if sample_weight is None else sample_weight
    work.sample_weight[n:width] = 0
    if y is not None:
        work.target[:, :n] = y.T
        work.target[:, n:width] = 0


@kernel
def load_weights(net, plan, work):
    """Copy the weights in the order in which the passes read them."""
    for p in range(plan.in_start[-1]):
        e = plan.in_edge[p]
        work.edge_weight[p] = net.edges[e].weight
        work.edge_source[p] = net.edges[e].source
    for p in range(plan.out_start[-1]):
        e = plan.out_edge[p]
        work.out_weight[p] = net.edges[e].weight
        work.out_term[p] = net.edges[e].term


@kernel
def add_weighted_rows(out, rows, which, weights, start, stop, lo):
    """out[m] += Σ_p weights[p] · rows[which[p], lo + m], four rows at a time."""
    # Unsigned indices need no test for being negative, which would stand in the vectors' way.
    n, lo = np.uint64(out.shape[0]), np.uint64(lo)
    p = start
    while p + 4 <= stop:
        w0, w1, w2, w3 = weights[p], weights[p + 1], weights[p + 2], weights[p + 3]
        r0, r1 = np.uint64(which[p]), np.uint64(which[p + 1])
        r2, r3 = np.uint64(which[p + 2]), np.uint64(which[p + 3])
        for m in range(n):
            i = lo + m
            out[m] += (w0 * rows[r0, i] + w1 * rows[r1, i]) + (w2 * rows[r2, i] + w3 * rows[r3, i])
        p += 4
    while p < stop:
        w0, r0 = weights[p], np.uint64(which[p])
        for m in range(n):
            out[m] += w0 * rows[r0, lo + m]
        p += 1


@kernel
def tanh_row(row, factor):
    """row[m] = tanh(factor · row[m]).

    In float32 by a convergent of Lambert's continued fraction, which vectorizes; its error stays
    under 1e-5 and it is exact at 0, where neutrality needs it.
    """
    f = row.dtype.type
    scale = f(factor)
    if row.itemsize == 8:
        for m in range(row.shape[0]):
            row[m] = math.tanh(scale * row[m])
    else:
        n1, n2, n3, n4 = (
            f(4729725.0 / 34459425.0),
            f(135135.0 / 34459425.0),
            f(990.0 / 34459425.0),
            f(1.0 / 34459425.0),
        )
        d1, d2, d3, d4 = (
            f(16216200.0 / 34459425.0),
            f(945945.0 / 34459425.0),
            f(13860.0 / 34459425.0),
            f(45.0 / 34459425.0),
        )
        one, edge = f(1.0), f(6.2971)
        for m in range(row.shape[0]):
            x = min(max(scale * row[m], -edge), edge)
            q = x * x
            up = one + q * (n1 + q * (n2 + q * (n3 + q * n4)))
            down = one + q * (d1 + q * (d2 + q * (d3 + q * d4)))
            row[m] = x * up / down


@kernel
def exp_row(row):
    """row[m] = e^row[m], for row[m] ≤ 0.

    In float32 as (e^(x/64))^64 with a Taylor polynomial inside, which vectorizes; it is off by less
    than 1e-5, and exact at 0.
    """
    f = row.dtype.type
    if row.itemsize == 8:
        for m in range(row.shape[0]):
            row[m] = math.exp(row[m])
    else:
        one, least, scale = f(1.0), f(-87.0), f(1.0 / 64.0)
        c2, c3, c4 = f(1.0 / 2.0), f(1.0 / 6.0), f(1.0 / 24.0)
        c5, c6 = f(1.0 / 120.0), f(1.0 / 720.0)
        for m in range(row.shape[0]):
            x = scale * max(row[m], least)
            y = one + x * (one + x * (c2 + x * (c3 + x * (c4 + x * (c5 + x * c6)))))
            y2 = y * y
            y4 = y2 * y2
            y8 = y4 * y4
            y16 = y8 * y8
            y32 = y16 * y16
            row[m] = y32 * y32


@inlined_kernel
def modulatory_forward(net, plan, work, u, lo, hi):
    """a = z₀ · σ₁(z₁), with σ₁(z) = 4/(1+e^(−Kz)) − 1 = 2·tanh(Kz/2) + 1."""
    f = work.state.dtype.type
    one, two = f(1.0), f(2.0)
    first, second = work.term_0[u, lo:hi], work.term_1[u, lo:hi]
    state = work.state[net.counts[N_INPUTS] + u, lo:hi]
    b0, b1 = f(net.bias[u, 0]), f(net.bias[u, 1])
    for m in range(hi - lo):
        first[m] = b0
        second[m] = b1
    start, middle, stop = plan.in_start[2 * u], plan.in_start[2 * u + 1], plan.in_start[2 * u + 2]
    add_weighted_rows(first, work.state, work.edge_source, work.edge_weight, start, middle, lo)
    add_weighted_rows(second, work.state, work.edge_source, work.edge_weight, middle, stop, lo)
    tanh_row(second, 0.5 * net.units[u].gain)
    for m in range(hi - lo):
        second[m] = two * second[m] + one
        state[m] = first[m] * second[m]


@inlined_kernel
def modulatory_backward(net, plan, work, u, lo, hi):
    """∂C/∂a = Σ w·δ over the out-edges; δ₀ = ∂C/∂a·σ₁, δ₁ = ∂C/∂a·z₀·σ₁′.

    σ₁′(z) = K·(σ₁+1)·(3−σ₁)/4.
    """
    f = work.state.dtype.type
    pull = work.row[lo:hi]
    for m in range(hi - lo):
        pull[m] = f(0.0)
    start, stop = plan.out_start[u], plan.out_start[u + 1]
    add_weighted_rows(pull, work.delta, work.out_term, work.out_weight, start, stop, lo)
    first, second = work.term_0[u, lo:hi], work.term_1[u, lo:hi]
    delta_0, delta_1 = work.delta[2 * u, lo:hi], work.delta[2 * u + 1, lo:hi]
    slope, one, three = f(0.25 * net.units[u].gain), f(1.0), f(3.0)
    for m in range(hi - lo):
        s = second[m]
        delta_0[m] = pull[m] * s
        delta_1[m] = pull[m] * first[m] * (slope * (s + one) * (three - s))


@inlined_kernel
def output_forward(net, plan, work, u, lo, hi):
    """a = σ(z): logistic, or z itself (linear; softmax is applied to all outputs together)."""
    f = work.state.dtype.type
    state = work.state[net.counts[N_INPUTS] + u, lo:hi]
    b = f(net.bias[u, 0])
    for m in range(hi - lo):
        state[m] = b
    start, stop = plan.in_start[2 * u], plan.in_start[2 * u + 1]
    add_weighted_rows(state, work.state, work.edge_source, work.edge_weight, start, stop, lo)
    if net.counts[TRANSFER] == LOGISTIC:
        half = f(0.5)
        tanh_row(state, 0.5)
        for m in range(hi - lo):
            state[m] = half * state[m] + half


@inlined_kernel
def output_backward(net, plan, work, u, cost, tolerance, lo, hi):
    """δ = ∂C/∂z of an output: its own mismatch, and what it passes on if it feeds others.

    C = ½(a−y)² or cross-entropy; a mismatch under `tolerance` counts as none.
    """
    f = work.state.dtype.type
    zero, one = f(0.0), f(1.0)
    limit = f(tolerance)
    state = work.state[net.counts[N_INPUTS] + u, lo:hi]
    target = work.target[net.units[u].output, lo:hi]
    delta = work.delta[2 * u, lo:hi]
    weight = work.sample_weight[lo:hi]
    pull = work.row[lo:hi]
    logistic = net.counts[TRANSFER] == LOGISTIC
    start, stop = plan.out_start[u], plan.out_start[u + 1]
    for m in range(hi - lo):
        pull[m] = zero
    if stop > start:
        add_weighted_rows(pull, work.delta, work.out_term, work.out_weight, start, stop, lo)
    steep = cost == SQUARED and logistic
    for m in range(hi - lo):
        a = state[m]
        mismatch = a - target[m]
        mismatch = mismatch if abs(mismatch) >= limit else zero
        slope = a * (one - a) if logistic else one
        own = mismatch * slope if steep else mismatch
        delta[m] = weight[m] * own + pull[m] * slope


@inlined_kernel
def softmax_forward(net, plan, work, lo, hi):
    """Turn the outputs' activations into probabilities, sample by sample."""
    f = work.state.dtype.type
    n_inputs = net.counts[N_INPUTS]
    top = work.row[lo:hi]
    for m in range(hi - lo):
        top[m] = f(-1e30)
    for i in range(plan.status[LENGTH]):
        u = plan.order[i]
        if net.units[u].kind == OUTPUT:
            z = work.state[n_inputs + u, lo:hi]
            for m in range(hi - lo):
                top[m] = max(top[m], z[m])
    for i in range(plan.status[LENGTH]):
        u = plan.order[i]
        if net.units[u].kind == OUTPUT:
            z = work.state[n_inputs + u, lo:hi]
            for m in range(hi - lo):
                z[m] -= top[m]
            exp_row(z)
    for m in range(hi - lo):
        top[m] = f(0.0)
    for i in range(plan.status[LENGTH]):
        u = plan.order[i]
        if net.units[u].kind == OUTPUT:
            z = work.state[n_inputs + u, lo:hi]
            for m in range(hi - lo):
                top[m] += z[m]
    for i in range(plan.status[LENGTH]):
        u = plan.order[i]
        if net.units[u].kind == OUTPUT:
            z = work.state[n_inputs + u, lo:hi]
            for m in range(hi - lo):
                z[m] = z[m] / top[m]


@kernel
def forward(net, plan, work):
    """States of all units for the batch in the workspace."""
    load_weights(net, plan, work)
    for lo in range(0, work.width[1], TILE):
        hi = min(lo + TILE, work.width[1])
        for i in range(plan.status[LENGTH]):
            u = plan.order[i]
            if net.units[u].kind == MODULATORY:
                modulatory_forward(net, plan, work, u, lo, hi)
            else:
                output_forward(net, plan, work, u, lo, hi)
        if net.counts[TRANSFER] == SOFTMAX:
            softmax_forward(net, plan, work, lo, hi)


@kernel
def backward(net, plan, work, cost, tolerance):
    """δ of all terms, per sample, from the outputs back. Needs `forward` of the same batch."""
    for lo in range(0, work.width[1], TILE):
        hi = min(lo + TILE, work.width[1])
        for i in range(plan.status[LENGTH] - 1, -1, -1):
            u = plan.order[i]
            if net.units[u].kind == MODULATORY:
                modulatory_backward(net, plan, work, u, lo, hi)
            else:
                output_backward(net, plan, work, u, cost, tolerance, lo, hi)


@kernel
def cross_entropy_summand(share, p, weight):
    """−share·ln p, weighted; a logarithm takes long, so not where the share is 0."""
    if share == 0.0:
        return 0.0
    return -weight * share * math.log(min(max(p, 1e-12), 1.0 - 1e-12))


@kernel
def mean_cost(net, plan, work, cost):
    """Mean cost per sample: ½Σ(a−y)², or the cross-entropy of the outputs."""
    n_inputs = net.counts[N_INPUTS]
    n = work.width[0]
    sample_weight = work.sample_weight
    total, weight = 0.0, 0.0
    for m in range(n):
        weight += sample_weight[m]
    for i in range(plan.status[LENGTH]):
        u = plan.order[i]
        if net.units[u].kind != OUTPUT:
            continue
        a, y = work.state[n_inputs + u], work.target[net.units[u].output]
        part = 0.0
        if cost == SQUARED:
            for m in range(n):
                part += 0.5 * sample_weight[m] * (a[m] - y[m]) ** 2
        else:
            for m in range(n):
                part += cross_entropy_summand(y[m], np.float64(a[m]), sample_weight[m])
            if net.counts[TRANSFER] == LOGISTIC:
                for m in range(n):
                    part += cross_entropy_summand(
                        1.0 - y[m], 1.0 - np.float64(a[m]), sample_weight[m]
                    )
        total += part
    return total / max(weight, 1e-300)
