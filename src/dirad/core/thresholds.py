"""Gates that read as an if: which modulatory nodes are thresholds of an input, where, how wide.

The factor σ₁(K·z) = 4/(1 + e^(−K·z)) − 1 of a node whose term 1 has a single source x is a function
of x alone: with z = w·x + b it rises or falls between −1 and 3 around θ = −b/w. It makes the middle
80 % of its change within θ ± ln 9/|K·w|. Where that range is narrow compared with the spread of x,
the node is an if: "3 if x above θ else −1".
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dirad.core.network import MODULATORY, Network

MAX_HALF_WIDTH = 0.5  # standard deviations of the source; wider transitions are no threshold
NEGLIGIBLE_HALF_WIDTH = 0.05  # standard deviations; narrower transitions are not written out
LOW, HIGH = -1.0, 3.0  # the factor on the two sides of a threshold
LN_9 = math.log(9.0)  # logistic(±ln 9) = 0.9 and 0.1


class Threshold(NamedTuple):
    """The factor of a node as an if: it is 3 on one side of the threshold and −1 on the other."""

    source: int  # the node that is compared: an input
    value: float  # θ, in the unit of the source
    half_width: float  # the factor makes the middle 80 % of its change within θ ± half_width
    above: bool  # is the factor 3 above the threshold, or below it?
    spread: float  # standard deviation of the source

    @property
    def is_sharp(self) -> bool:
        """Whether the width of the transition is negligible."""
        return self.half_width <= NEGLIGIBLE_HALF_WIDTH * self.spread

    def condition(self, name: str) -> str:
        """Return the condition under which the factor is 3, given the name of the source.

        >>> Threshold(0, 3.4213, 0.12, True, 1.0).condition("income")
        'income above 3.42 ± 0.12'
        """
        width = "" if self.is_sharp else f" ± {_rounded(self.half_width, self.spread)}"
        value = _rounded(self.value, self.spread)
        return f"{name} {'above' if self.above else 'below'} {value}{width}"


def _rounded(value: float, spread: float) -> str:
    """Return a value with a resolution of a hundredth of the spread, however far from 0 it is.

    >>> _rounded(-52301.27, 12000.0), _rounded(1e-9, 2e-9)
    ('−52301', '1e-09')
    """
    decimals = max(-math.floor(math.log10(spread / 100.0)), 0)
    if decimals > 6 or abs(value) >= 1e9:
        ratio = max(abs(value) / spread, 1e-2)
        text = f"{value:.{min(math.ceil(math.log10(ratio)) + 3, 16)}g}"
    else:
        text = f"{value:.{decimals}f}"
    return text.replace("-", "−", 1) if value < 0 else text


def threshold_of(
    network: Network, unit: int, spread: NDArray[np.float64] | None
) -> Threshold | None:
    """Return the factor of a modulatory node as a threshold of an input; None if it is none.

    `spread` holds the standard deviation of each input. Factors of hidden nodes are no thresholds:
    the spread of a hidden node is not known.
    """
    if spread is None or network.units["kind"][unit] != MODULATORY:
        return None
    into = network.edges[(network.edges["source"] >= 0) & (network.edges["term"] == 2 * unit + 1)]
    sources = np.unique(into["source"])
    if len(sources) != 1 or sources[0] >= network.n_inputs:
        return None
    source, weight = int(sources[0]), float(into["weight"].sum())
    K, bias = float(network.units["gain"][unit]), float(network.bias[unit, 1])
    return single_threshold(source, K * weight, K * bias, float(spread[source]))


def single_threshold(source: int, slope: float, bias: float, spread: float) -> Threshold | None:
    """Return σ₁(slope · x + bias) as a threshold of x; None if it changes too gradually."""
    if slope == 0.0 or not spread > 0.0:
        return None
    half_width = LN_9 / abs(slope)
    if half_width > MAX_HALF_WIDTH * spread:
        return None
    return Threshold(source, -bias / slope, half_width, slope > 0.0, spread)


def thresholds(network: Network, spread: NDArray[np.float64] | None) -> dict[int, Threshold]:
    """Return the threshold of every unit that has one, by unit."""
    found = {int(u): threshold_of(network, int(u), spread) for u in range(len(network.units))}
    return {unit: one for unit, one in found.items() if one is not None}
