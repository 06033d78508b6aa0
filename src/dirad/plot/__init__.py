"""Pictures of networks, of their growth and of streams, in the style of scikit-learn's displays.

Each has `from_estimator` (some also `from_predictions`), `plot(ax=None)`, `ax_` and `figure_`.
"""

from dirad.plot.conflicts import ConflictDisplay
from dirad.plot.growth import GrowthDisplay
from dirad.plot.matrices import AccuracyMatrixDisplay, RoutingDisplay
from dirad.plot.network import NetworkDisplay
from dirad.plot.timeline import TimelineDisplay

__all__ = [
    "AccuracyMatrixDisplay",
    "ConflictDisplay",
    "GrowthDisplay",
    "NetworkDisplay",
    "RoutingDisplay",
    "TimelineDisplay",
]
