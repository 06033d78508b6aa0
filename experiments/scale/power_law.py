"""Power laws through measured costs: cost = constant · size^exponent."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

LARGER = 4  # sizes that are fitted: small ones cost what every call costs


class PowerLaw(NamedTuple):
    """A straight line through logarithms."""

    constant: float
    exponent: float
    spread: float  # standard error of the exponent; NaN where two sizes leave no rest

    def at(self, size: float) -> float:
        """Return the cost of a size.

        >>> PowerLaw(2.0, 1.5, 0.0).at(4)
        16.0
        """
        return float(self.constant * size**self.exponent)

    def __str__(self) -> str:
        spread = "" if np.isnan(self.spread) else f" ± {self.spread:.2f}"
        return f"{self.exponent:.2f}{spread}"


def fit_power_law(
    sizes: Sequence[float], costs: Sequence[float], largest: int = LARGER
) -> PowerLaw:
    """Return the law of the least squares, in logarithms, through the largest sizes.

    >>> print(fit_power_law([10, 100, 1000], [3, 30, 300]))
    1.00 ± 0.00
    """
    x, y = np.asarray(sizes, float), np.asarray(costs, float)
    kept = (x > 0) & (y > 0)  # of what is too cheap to be measured there is no logarithm
    x, y = x[kept], y[kept]
    if len(np.unique(x)) < 2:
        raise ValueError(f"a power law needs two sizes with a cost above 0, got {x.tolist()}")
    order = np.argsort(x, kind="stable")[-largest:]
    x, y = np.log(x[order]), np.log(y[order])
    centred = x - x.mean()
    exponent = float(centred @ y / (centred @ centred))
    level = float(y.mean() - exponent * x.mean())
    rest = y - level - exponent * x
    spread = float("nan")
    if len(x) > 2:
        spread = float(np.sqrt(rest @ rest / (len(x) - 2) / (centred @ centred)))
    return PowerLaw(float(np.exp(level)), exponent, spread)


def law_of(rows: Sequence[Mapping[str, float]], cost: str) -> PowerLaw | None:
    """Return the law of one cost in rows that have a size; None where too few of them show any."""
    shown = [row for row in rows if row[cost] > 0]
    if len(shown) < 2:
        return None
    return fit_power_law([row["size"] for row in shown], [row[cost] for row in shown])
