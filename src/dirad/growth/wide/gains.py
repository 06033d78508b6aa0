"""What candidates gain, to second order, from sums of residuals and of curvatures."""

import numpy as np
from numpy.typing import NDArray

LEAST_LEFT = 1e-4  # share of a feature that the present ones do not explain


def gain(u: NDArray, v: NDArray, decay: float) -> NDArray:
    """Return what the best weight of a feature gains, from its score and its curvature."""
    return u * u / np.maximum(v + decay, 1e-30)


def variance_of(residual: NDArray, curvature: NDArray) -> float:
    """Return the variance of residuals relative to the curvature: 1 for well-fitted classes."""
    return float((residual**2).sum()) / max(float(curvature.sum()), 1e-300)


def gain_on_feeding_source(g: NDArray, h: NDArray, decay: float) -> NDArray:
    """Return the gain of every gate on a source that feeds the outputs already.

    g and h are cumulative sums over bins; the weight of the source itself takes up the mean.
    """
    all_g, all_h = g[..., -1:], np.maximum(h[..., -1:], 1e-12)
    u = g - h / all_h * all_g
    v = h - h * h / all_h
    return np.where(v > LEAST_LEFT * all_h, gain(u, v, decay), 0.0)


def gated_gains(g: NDArray, h: NDArray, feeds: NDArray, decay: float) -> tuple[NDArray, NDArray]:
    """Return the gains of gates on sources that are open below, or above, each threshold.

    g and h are cumulative sums over bins; `feeds` tells which sources feed the outputs already. A
    node is ¾ of its source where the gate is open and −¼ where it is closed.
    """
    all_g, all_h = g[..., -1:], h[..., -1:]
    feeding = gain_on_feeding_source(g, h, decay)
    below = gain(g - 0.25 * all_g, (all_h + 8.0 * h) / 16.0, decay)
    above = gain(0.75 * all_g - g, (9.0 * all_h - 8.0 * h) / 16.0, decay)
    return np.where(feeds, feeding, below), np.where(feeds, feeding, above)


def corner_gain(g: NDArray, h: NDArray, step_sign: int, gate_sign: int, decay: float) -> NDArray:
    """Return the gain of every corner, from sums over all cells up to each one.

    Axes are (input of the step, its bin, input of the gate, its bin). A corner is ¾ where step and
    gate are open, −¼ where the step alone is, and 0 elsewhere; the bias takes up its mean.
    """
    all_g, all_h = g[0, -1, 0, -1], max(float(h[0, -1, 0, -1]), 1e-12)
    step_g, step_h = g[:, :, :, -1:], h[:, :, :, -1:]  # where the step is open
    both_g, both_h = g, h  # where step and gate are open
    if step_sign > 0:
        step_g, step_h = all_g - step_g, all_h - step_h
        both_g, both_h = g[:, -1:] - both_g, h[:, -1:] - both_h
    if gate_sign > 0:
        both_g, both_h = step_g - both_g, step_h - both_h
    mean = both_h - 0.25 * step_h
    u = both_g - 0.25 * step_g - mean / all_h * all_g
    v = (8.0 * both_h + step_h) / 16.0 - mean * mean / all_h
    return np.where(v > 1e-3 * all_h, gain(u, v, decay), 0.0)


def largest(values: NDArray, count: int) -> list[int]:
    """Return the places of the largest values above 0, the largest first."""
    flat = values.ravel()
    count = min(count, len(flat))
    top = np.argpartition(-flat, count - 1)[:count]
    top = top[np.lexsort((top, -flat[top]))]
    return [int(place) for place in top if flat[place] > 0]
