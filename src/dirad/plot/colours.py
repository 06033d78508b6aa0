"""The colours of all pictures, and the colour of a weight."""

import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from numpy.typing import NDArray

# Blue and vermilion of Okabe and Ito, which colour-blind readers can tell apart. No shade is so
# light that it vanishes on white.
POSITIVE, NEGATIVE, NEUTRAL = "#0072b2", "#d55e00", "#8a8a8a"
INK, PALE, GRID = "#222222", "#666666", "#dddddd"
INPUT_FILL, OUTPUT_FILL = "#eeeeee", "#ffffff"
HIDDEN_FILL, HIDDEN_EDGE = "#fdf0b8", "#8a6d00"
WEIGHTS = LinearSegmentedColormap.from_list(
    "weights",
    [
        (0.0, "#7a3500"),
        (0.2, NEGATIVE),
        (0.499, "#f0c3a0"),
        (0.501, "#b3d4ea"),
        (0.8, POSITIVE),
        (1.0, "#003c60"),
    ],
)

# For pictures of streams.
NAVY, QUIET, ACCENT, ALERT = "#1b3a4b", "#8fa3ad", "#1f77b4", "#d1495b"
TASK_COLOURS = ("#1f77b4", "#e07b00", "#2a9d55", "#8e44ad", "#b5762a")
VERDICT_COLOURS = {  # in the order of their lanes
    "learning": QUIET, "known": NAVY, "back": "#2a86b8", "new": ALERT, "new inputs": ALERT,
    "shifted inputs": "#c4622d", "new rule": "#8c1d6b", "mixed": "#e9a23b", "undecided": "#8e6bbf",
}  # fmt: skip


def weight_scale(weights: NDArray[np.float64]) -> float:
    """Return the |weight| of full colour and width: a quantile, so that outliers do not set it."""
    return float(np.quantile(np.abs(weights), 0.95)) if np.any(weights) else 1.0


def weight_colours(weights: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """Return one colour per weight: blue above 0, vermilion below, darker for larger |weight|."""
    return WEIGHTS(0.5 + 0.5 * np.clip(weights / scale, -1, 1))


def task_colour(task: int) -> str:
    """Return the colour of a task; colours repeat after the last."""
    return TASK_COLOURS[task % len(TASK_COLOURS)]
