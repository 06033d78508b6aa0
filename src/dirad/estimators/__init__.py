"""scikit-learn estimators: one network that grows, and a system of models that keeps learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirad.estimators.continual import PREVALClassifier
    from dirad.estimators.continual_regressor import PREVALRegressor
    from dirad.estimators.detector import watch
    from dirad.estimators.growing import DIRADClassifier, DIRADRegressor

__all__ = ["DIRADClassifier", "DIRADRegressor", "PREVALClassifier", "PREVALRegressor", "watch"]

# Imported when they are first used: answers of a saved model need no scikit-learn.
_HOMES = {
    "DIRADClassifier": "growing",
    "DIRADRegressor": "growing",
    "PREVALClassifier": "continual",
    "PREVALRegressor": "continual_regressor",
    "watch": "detector",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = found
    return found
