"""Pictures of networks, predictions, growth and streams, as displays in scikit-learn's style.

Each has `from_estimator` (some also `from_predictions`) and `plot(ax=None)`, which set `figure_`,
`ax_` and, if there are several panels, `axes_`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirad.plot.conflicts import ConflictDisplay
    from dirad.plot.contributions import ExplanationDisplay
    from dirad.plot.dependence import PartialDependenceDisplay
    from dirad.plot.growth import GrowthDisplay
    from dirad.plot.matrices import AccuracyMatrixDisplay, RoutingDisplay
    from dirad.plot.network import NetworkDisplay
    from dirad.plot.timeline import TimelineDisplay

__all__ = [
    "AccuracyMatrixDisplay",
    "ConflictDisplay",
    "ExplanationDisplay",
    "GrowthDisplay",
    "NetworkDisplay",
    "PartialDependenceDisplay",
    "RoutingDisplay",
    "TimelineDisplay",
]
_MODULES = {
    "conflicts": ("ConflictDisplay",),
    "contributions": ("ExplanationDisplay",),
    "dependence": ("PartialDependenceDisplay",),
    "growth": ("GrowthDisplay",),
    "matrices": ("AccuracyMatrixDisplay", "RoutingDisplay"),
    "network": ("NetworkDisplay",),
    "timeline": ("TimelineDisplay",),
}


def __getattr__(name: str) -> Any:
    """Import a display when it is first used: reports need this package without matplotlib."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
