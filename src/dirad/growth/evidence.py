"""Evidence: how much a candidate would gain, and whether that could be chance.

A candidate p (a source, or a product of sources) for a term with deltas δ has the score Σ pᵐδᵐ:
the gradient that a parameter on p would get. The term's own parameters can reduce a part of it,
since p correlates with the sources x that already feed the term. The rest is the *efficient score*

    u = Σ pᵐδ̃ᵐ,   δ̃ᵐ = δᵐ − (δᵐ)² Σₑ βₑxₑᵐ,   β = F⁻¹ Σ x δ,   F = Σ (δᵐ)² x xᵀ,

with the empirical Fisher information F of the term's parameters. Its variance v is what is left
of Σ (pᵐδᵐ)² after the same projection. The evidence is

    G = −n·ln(1 − z²/n),   z² = u²/v,

twice the log-likelihood that one parameter on p would gain. For small n the logarithm matters: G
has no bound when the gradients of all samples have the same sign. The same number ranks
candidates (gain per edge) and tests them (against the best of `tries` candidates of pure noise).
"""

import math
from typing import NamedTuple

import numpy as np

from dirad.core.compilation import kernel

MAX_PROJECTED = 256  # a term with more in-edges is projected on its bias alone
SAMPLE_BLOCK = 1024  # samples worked on at a time, so that a few rows of them stay in the L1 cache
RIDGE = 1e-6  # relative; keeps F invertible when sources are collinear


class ResidualScore(NamedTuple):
    """The part of a term's deltas that its own parameters cannot explain."""

    residual: np.ndarray  # (samples,) δ̃
    square: np.ndarray  # (samples,) δ²
    own: np.ndarray  # (parameters, samples) xₑδ², the bias first where there is one
    inverse: np.ndarray  # (parameters, parameters) L⁻¹ where F = LLᵀ


@kernel
def squared_z(total, variance):
    """z² from the efficient score and its variance; G rises with it."""
    return total * total / variance if variance > 0.0 else 0.0


@kernel
def g_statistic(squared, n):
    """G from z² over n samples."""
    return -n * math.log1p(-min(squared / n, 1.0 - 1e-12))


@kernel
def needed_evidence(tries, significance):
    """G that the best of `tries` noise candidates passes with at most this probability.

    P(G > x) ≤ 2·e^(−x/2) for one candidate; Bonferroni's correction for all of them.
    """
    return max(0.0, 2.0 * math.log(2.0 * max(tries, 1.0) / max(significance, 1e-300)))


@kernel
def dot_product(x, y, n):
    """Σ xᵐyᵐ, in the precision of the rows."""
    total = x.dtype.type(0.0)
    for m in range(n):
        total += x[m] * y[m]
    return np.float64(total)


@kernel
def cross_products(states, which, rows, n, out):
    """out[c, i] = Σ states[which[c]]ᵐ·rows[i]ᵐ.

    A piece of the samples at a time, which stays in the cache for all pairs of rows, and four of
    `rows` at a time. The pieces are added up in float64.
    """
    zero = states.dtype.type(0.0)
    k = rows.shape[0]
    out[:] = 0.0
    for lo in range(0, n, SAMPLE_BLOCK):
        hi = min(lo + SAMPLE_BLOCK, n)
        for c in range(which.shape[0]):
            x = states[which[c], lo:hi]
            i = 0
            while i + 4 <= k:
                r0, r1 = rows[i, lo:hi], rows[i + 1, lo:hi]
                r2, r3 = rows[i + 2, lo:hi], rows[i + 3, lo:hi]
                s0, s1, s2, s3 = zero, zero, zero, zero
                for m in range(hi - lo):
                    s0 += x[m] * r0[m]
                    s1 += x[m] * r1[m]
                    s2 += x[m] * r2[m]
                    s3 += x[m] * r3[m]
                out[c, i] += s0
                out[c, i + 1] += s1
                out[c, i + 2] += s2
                out[c, i + 3] += s3
                i += 4
            while i < k:
                out[c, i] += dot_product(x, rows[i, lo:hi], hi - lo)
                i += 1


@kernel
def inverse_factor(matrix):
    """L⁻¹ for matrix = LLᵀ (Cholesky).

    LAPACK is not used: its sums may change with the number of threads.
    """
    k = matrix.shape[0]
    L = np.zeros((k, k))
    for i in range(k):
        for j in range(i + 1):
            total = matrix[i, j]
            for x in range(j):
                total -= L[i, x] * L[j, x]
            L[i, j] = math.sqrt(max(total, 1e-300)) if i == j else total / L[j, j]
    result = np.zeros((k, k))
    for j in range(k):
        result[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, k):
            total = 0.0
            for x in range(j, i):
                total += L[i, x] * result[x, j]
            result[i, j] = -total / L[i, i]
    return result


@kernel
def residual_score(net, plan, work, term, has_bias):
    """Return the `ResidualScore` of a term, from the deltas in the workspace."""
    n = work.width[0]
    delta = work.delta[term]
    start, stop = plan.in_start[term], plan.in_start[term + 1]
    n_edges = stop - start if stop - start <= MAX_PROJECTED else 0
    first = 1 if has_bias else 0
    k = first + n_edges
    square = np.empty(n, delta.dtype)
    residual = np.empty(n, delta.dtype)
    own = np.empty((k, n), delta.dtype)
    for m in range(n):
        square[m] = delta[m] * delta[m]
        residual[m] = delta[m]
        if has_bias:
            own[0, m] = square[m]
    for i in range(n_edges):
        source = work.state[net.edges[plan.in_edge[start + i]].source]
        for m in range(n):
            own[first + i, m] = source[m] * square[m]
    fisher = np.zeros((k, k))
    score = np.zeros(k)
    sources = np.empty(n_edges, np.int64)
    for i in range(n_edges):
        sources[i] = net.edges[plan.in_edge[start + i]].source
        score[first + i] = dot_product(work.state[sources[i]], delta, n)
    cross_products(work.state, sources, own, n, fisher[first:])
    if has_bias:
        for m in range(n):
            score[0] += delta[m]
            fisher[0, 0] += square[m]
        for i in range(1, k):
            fisher[0, i] = fisher[i, 0]
    largest = 0.0
    for i in range(k):
        largest = max(largest, fisher[i, i])
    for i in range(k):
        fisher[i, i] += RIDGE * largest + 1e-30
    inverse = inverse_factor(fisher)
    beta = np.zeros(k)  # F⁻¹·score = L⁻ᵀL⁻¹·score
    for i in range(k):
        total = 0.0
        for j in range(i + 1):
            total += inverse[i, j] * score[j]
        for j in range(i + 1):
            beta[j] += inverse[i, j] * total
    for i in range(k):
        b = delta.dtype.type(beta[i])
        for m in range(n):
            residual[m] -= b * own[i, m]
    return ResidualScore(residual, square, own, inverse)


@kernel
def source_evidence(score, source, cross, n):
    """G of one candidate source (a row of states), projected on the term's own parameters.

    `cross` holds the source's products with the rows of `score.own`.
    """
    f = source.dtype.type
    total, squares = f(0.0), f(0.0)
    for m in range(n):
        a = source[m]
        total += a * score.residual[m]
        squares += a * a * score.square[m]
    shared = 0.0  # the part of the variance that the term's own parameters explain
    for i in range(cross.shape[0]):
        y = 0.0
        for j in range(i + 1):
            y += score.inverse[i, j] * cross[j]
        shared += y * y
    left = np.float64(squares) - shared
    # Almost nothing left: the candidate is a linear combination of the present sources.
    if left < 1e-4 * squares:
        return 0.0
    return g_statistic(squared_z(np.float64(total), left), n)


@kernel
def product_evidence(partial, partial_square, source, n):
    """G of a product: `source` times the partial product in the two rows.

    `partial` is ∏a·δ̃ and `partial_square` ∏a²·δ². The variance is not projected.
    """
    f = source.dtype.type
    total, squares = f(0.0), f(0.0)
    for m in range(n):
        a = source[m]
        total += a * partial[m]
        squares += a * a * partial_square[m]
    return g_statistic(squared_z(np.float64(total), np.float64(squares)), n)
