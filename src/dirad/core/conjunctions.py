"""Gates on several steps that read as "x above 3 and y below 5"."""

from collections.abc import Mapping

import numpy as np

from dirad.core.network import MODULATORY, Network
from dirad.core.thresholds import HIGH, LOW

LEVEL = 3.9  # |K·z| from which on the factor is within 2 % of −1 or 3


def conjunctions(
    network: Network, conditions: Mapping[int, str], opposites: Mapping[int, str]
) -> dict[int, str]:
    """Return the condition of each unit that is a conjunction of others, by unit.

    Its term 1 has edges from such hidden units alone that are a constant times a factor with a
    known condition, and its factor is 3 only where each of them has the sign that raises it.
    `opposites` are the conditions under which their factors are −1.
    """
    edges = network.edges[network.edges["source"] >= 0]
    found: dict[int, str] = {}
    for unit in np.flatnonzero(network.units["kind"] == MODULATORY).tolist():
        own = edges[edges["term"] == 2 * unit + 1]
        parts = (own["source"] - network.n_inputs).tolist()
        if len(parts) < 2 or not all(part in conditions for part in parts):
            continue
        if np.isin(edges["term"], 2 * own["source"] - 2 * network.n_inputs).any():
            continue  # a source that is itself no constant times its factor
        K, bias = float(network.units["gain"][unit]), float(network.bias[unit, 1])
        scale = own["weight"] * network.bias[parts, 0]
        highest = bias + np.maximum(HIGH * scale, LOW * scale).sum()
        without_one = highest - np.abs((HIGH - LOW) * scale).min()
        if K * highest >= LEVEL and K * without_one <= -LEVEL:
            texts = [
                conditions[part] if rises else opposites[part]
                for part, rises in zip(parts, scale > 0, strict=True)
            ]
            found[unit] = " and ".join(texts)
    return found
