"""How much a candidate would gain, and whether that could be chance.

For a candidate source (or product of sources) p and a term with deltas δ, the evidence is

    G = −n·ln(1 − z²/n),   z² = (Σ pᵐδᵐ)² / Σ (pᵐδᵐ)²,

twice the log-likelihood that one parameter on p would gain to first order, with the empirical
Fisher information as curvature. z² is the squared score statistic, G its form for small n: it
passes all bounds when every sample pulls the same way. The same number ranks candidates (gain
per edge) and tests them (against the best of `tries` candidates under pure noise).
"""

import math

from dirad.core.compilation import kernel


@kernel
def evidence(total, squares, n):
    """G from Σ pδ and Σ (pδ)² over n samples."""
    if squares <= 0.0:
        return 0.0
    share = min(total * total / (squares * n), 1.0 - 1e-12)
    return -n * math.log1p(-share)


@kernel
def needed_evidence(tries, significance):
    """G that the best of `tries` noise candidates passes with at most this probability.

    P(G > x) ≤ 2·e^(−x/2) for one candidate; all of them share the risk (Bonferroni).
    """
    return 2.0 * math.log(2.0 * max(tries, 1.0) / max(significance, 1e-300))


@kernel
def centred_deltas(work, term, has_bias, row):
    """Write the deltas of a term into `row`, less their mean where a bias can take it up."""
    n = work.width[0]
    mean = 0.0
    if has_bias:
        for m in range(n):
            mean += work.delta[term, m]
        mean /= n
    f = row.dtype.type
    shift = f(mean)
    for m in range(n):
        row[m] = work.delta[term, m] - shift


@kernel
def source_evidence(states, s, mean, row, n):
    """G of the single source s for the deltas in `row`; `mean` is taken off its states."""
    f = row.dtype.type
    total, squares, cross, delta_squares = f(0.0), f(0.0), f(0.0), f(0.0)
    for m in range(n):
        d = row[m]
        x = states[s, m] * d
        total += x
        squares += x * x
        cross += x * d
        delta_squares += d * d
    mean_total = 0.0
    if mean != 0.0:
        for m in range(n):
            mean_total += row[m]
    spread = squares - 2.0 * mean * cross + mean * mean * delta_squares
    return evidence(total - mean * mean_total, max(spread, 0.0), n)


@kernel
def product_evidence(row, states, s, n):
    """G of the product of source s with what is already multiplied into `row`."""
    f = row.dtype.type
    total, squares = f(0.0), f(0.0)
    for m in range(n):
        x = states[s, m] * row[m]
        total += x
        squares += x * x
    return evidence(np_float(total), np_float(squares), n)


@kernel
def np_float(x):
    """Widen a number to float64."""
    return 1.0 * x
