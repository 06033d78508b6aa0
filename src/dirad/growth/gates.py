"""Gates: modulatory nodes with a threshold.

A modulatory node whose term 1 has one steep source is a step: σ₁(K·(x − θ)) rises from −1 to 3 at
the threshold θ. Three kinds of candidates for a term are compared:

- a *step*: the gate alone, multiplied with the constant 1 (two edges),
- a *gated edge*: the gate multiplied with another source (three edges),
- a *corner*: the gate multiplied with a step of another source (four edges).

A gate is a conversion of a new edge whose node has its source and its threshold from the start.
Its last edge has weight 0, so that no response changes.
"""

import math

import numpy as np

from dirad.core.compilation import kernel
from dirad.core.network import N_INPUTS
from dirad.core.propagate import tanh_row
from dirad.growth.edge_generation import generate_edge, has_edge_into, new_gate
from dirad.growth.evidence import g_statistic, squared_z
from dirad.growth.gate_scan import (
    GAIN,
    GATE,
    N_COLUMNS,
    RATE,
    SIGN,
    SOURCE,
    STEP_GAIN,
    STEP_GATE,
    STEP_SIGN,
    STEP_THRESHOLD,
    THRESHOLD,
    scan_corners,
    scan_gated_edges,
    scan_steps,
)
from dirad.growth.products import total_potential

SCAN_OPERATIONS = 1e6  # samples visited in the scan of gated edges of one term, and of corners
LEAST_SCANNED = 1000  # samples
RESCORED = 16  # candidates that are scored again on all samples
STEEPNESS = (1.5, 4.0, 12.0)  # K of a new gate, times the standard deviation of its source


@kernel
def edges_for_gate(candidate):
    """Return the number of edges that a candidate would add."""
    if candidate[STEP_GATE] >= 0.0:
        return 4
    return 2 if candidate[SOURCE] < 0.0 else 3


@kernel
def units_for_gate(candidate):
    """Return the number of nodes that a candidate would add."""
    return 2 if candidate[STEP_GATE] >= 0.0 else 1


@kernel
def search_gates(net, plan, work, term, score, candidates, bins, rows, best):
    """Write the gate with the most gain per edge to `best`. Return (G, candidates tried).

    Where there are many sources, gates are scanned for those of the strongest steps, on sources of
    large total potential.
    """
    n = work.width[0]
    count = candidates.shape[0]
    kept = np.zeros((RESCORED, N_COLUMNS))
    strength = np.empty(count)
    tries = scan_steps(score, candidates, bins, n, kept, strength)
    few = int(math.sqrt(SCAN_OPERATIONS / LEAST_SCANNED))
    gates = take_strongest(candidates, strength, few)
    sources = candidates
    if count > few:
        for i in range(count):
            strength[i] = total_potential(work, candidates[i], score.residual)
        sources = take_strongest(candidates, strength, few)
    visits = max(1.0, float(gates.shape[0]) * sources.shape[0])
    n = min(n, max(LEAST_SCANNED, int(SCAN_OPERATIONS / visits)))
    tries += scan_gated_edges(net, plan, work, term, score, sources, gates, bins, n, rows, kept)
    tries += scan_corners(score, gates, bins, n, kept)
    return rescore(net, plan, work, term, score, kept, rows, best), tries


@kernel
def take_strongest(candidates, strength, few):
    """Return the few candidates of the largest strength above 0, which is then set to −1."""
    chosen = np.empty(min(few, candidates.shape[0]), np.int64)
    number = 0
    while number < chosen.shape[0]:
        best = 0
        for i in range(candidates.shape[0]):
            if strength[i] > strength[best]:
                best = i
        if strength[best] <= 0.0:
            break
        chosen[number] = candidates[best]
        strength[best] = -1.0
        number += 1
    return chosen[:number]


@kernel
def rescore(net, plan, work, term, score, kept, rows, best):
    """Score the kept candidates on all samples, as nodes of several steepnesses.

    Write the one with the most gain per edge to `best`, and return its G.
    """
    n = work.width[0]
    best_rate, best_G = 0.0, 0.0
    for i in range(kept.shape[0]):
        candidate = kept[i]
        if candidate[RATE] <= 0.0:
            continue
        spread = standard_deviation(work.state[int(candidate[GATE])], n)
        step_spread = 1.0
        if candidate[STEP_GATE] >= 0.0:
            step_spread = standard_deviation(work.state[int(candidate[STEP_GATE])], n)
        for steepness in STEEPNESS:
            candidate[GAIN] = steepness / max(spread, 1e-30)
            candidate[STEP_GAIN] = steepness / max(step_spread, 1e-30)
            write_feature(work, candidate, rows[0, 0], rows[1, 0])
            own = -1
            if candidate[SOURCE] >= 0.0 and has_edge_into(net, plan, int(candidate[SOURCE]), term):
                own = int(candidate[SOURCE])
            G = feature_evidence(work, score, rows[0, 0], own)
            if G > edges_for_gate(candidate) * best_rate:
                best_rate, best_G = G / edges_for_gate(candidate), G
                for column in range(N_COLUMNS):
                    best[column] = candidate[column]
    return best_G


@kernel
def standard_deviation(row, n):
    """Standard deviation of the first n numbers."""
    mean, square = 0.0, 0.0
    for m in range(n):
        mean += row[m]
    mean /= n
    for m in range(n):
        square += (row[m] - mean) ** 2
    return math.sqrt(square / n)


@kernel
def write_gate(source, threshold, steepness, n, out):
    """out = σ₁(steepness · (source − threshold))."""
    f = out.dtype.type
    shift, one, two = f(threshold), f(1.0), f(2.0)
    for m in range(n):
        out[m] = source[m] - shift
    tanh_row(out[:n], 0.5 * steepness)
    for m in range(n):
        out[m] = two * out[m] + one


@kernel
def write_feature(work, candidate, out, scratch):
    """Write the state that the last node of a candidate would have."""
    n = work.width[0]
    steepness = candidate[SIGN] * candidate[GAIN]
    write_gate(work.state[int(candidate[GATE])], candidate[THRESHOLD], steepness, n, out)
    if candidate[STEP_GATE] >= 0.0:
        step = work.state[int(candidate[STEP_GATE])]
        steepness = candidate[STEP_SIGN] * candidate[STEP_GAIN]
        write_gate(step, candidate[STEP_THRESHOLD], steepness, n, scratch)
        quarter = out.dtype.type(0.25)
        for m in range(n):
            out[m] *= quarter * scratch[m] + quarter
    elif candidate[SOURCE] >= 0.0:
        source = work.state[int(candidate[SOURCE])]
        for m in range(n):
            out[m] *= source[m]


@kernel
def feature_evidence(work, score, feature, own):
    """G of a feature, projected on the bias of the term and on the source `own` (-1: none)."""
    n = work.width[0]
    total, square, mean, bias = 0.0, 0.0, 0.0, 1e-300
    cross, own_square, own_mean = 0.0, 1e-300, 0.0
    for m in range(n):
        x, q = np.float64(feature[m]), np.float64(score.square[m])
        total += x * score.residual[m]
        square += x * x * q
        mean += x * q
        bias += q
    if own >= 0:
        for m in range(n):
            a, q = np.float64(work.state[own, m]), np.float64(score.square[m])
            cross += a * feature[m] * q
            own_square += a * a * q
            own_mean += a * q
    variance = square - mean * mean / bias
    own_square -= own_mean * own_mean / bias
    cross -= own_mean * mean / bias
    if own_square > 0.0:
        variance -= cross * cross / own_square
    # Almost nothing left: the feature is a linear combination of bias and source.
    if variance < 1e-4 * square:
        return 0.0
    return g_statistic(squared_z(total, variance), n)


@kernel
def apply_gate(state, plan, log, term, candidate, params):
    """Add the nodes of a candidate; its last edge has weight 0, so that no response changes."""
    n_inputs = state.network.counts[N_INPUTS]
    source = np.int64(candidate[SOURCE])
    offset, weight = (1.0, 0.0) if source < 0 else (0.0, 1.0)  # of the gate's term 0
    if candidate[STEP_GATE] >= 0.0:
        step = np.int64(candidate[STEP_GATE])
        sign, gain = candidate[STEP_SIGN], candidate[STEP_GAIN]
        u = new_gate(state, plan, log, step, candidate[STEP_THRESHOLD], sign, gain, 1.0, params)
        source, offset, weight = n_inputs + u, 0.25, 0.25  # (σ₁ + 1) / 4 is 0 or 1
    gate = np.int64(candidate[GATE])
    sign, gain = candidate[SIGN], candidate[GAIN]
    u = new_gate(state, plan, log, gate, candidate[THRESHOLD], sign, gain, offset, params)
    if source >= 0:
        generate_edge(state, plan, log, source, 2 * u, weight, params.refraction)
    generate_edge(state, plan, log, n_inputs + u, term, 0.0, params.refraction)
