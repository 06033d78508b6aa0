"""Kernels compiled, or loaded from the disk cache, before they are needed."""

from dirad.engine import current
from dirad.estimators.growing import DIRADClassifier


def warm_up(preset: str = "default") -> None:
    """Load the kernels of a preset here and on every other machine that takes part.

    Call this before runs are spread over processes: with a cold cache each of them would compile
    for a minute.
    """
    fit_tiny(preset)
    current().on_every_node(fit_tiny, preset)


def fit_tiny(preset: str) -> None:
    """Fit XOR for a few steps, which needs every kernel of the preset."""
    X, y = [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [1.0, 1.0]], [0, 1, 1, 0]
    model = DIRADClassifier(preset=preset, max_steps=60, settle_steps=2, random_state=0)
    model.fit(X, y).score(X, y)
