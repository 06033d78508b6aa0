"""Networks that grow only what the data call for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dirad.client import Client, ClientError
    from dirad.core.network import Network
    from dirad.estimators import (
        DIRADClassifier,
        DIRADRegressor,
        PREVALClassifier,
        PREVALRegressor,
        watch,
    )
    from dirad.explanation import Explanation, explain
    from dirad.growth.adapt import Batch, adapt, new_data, step
    from dirad.growth.state import State, new_state
    from dirad.history import Event, History
    from dirad.params import PRESETS, Params, preset
    from dirad.storage import ModelError, load, save

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Batch",
    "Client",
    "ClientError",
    "DIRADClassifier",
    "DIRADRegressor",
    "Event",
    "Explanation",
    "History",
    "ModelError",
    "Network",
    "PREVALClassifier",
    "PREVALRegressor",
    "Params",
    "State",
    "adapt",
    "explain",
    "load",
    "new_data",
    "new_state",
    "preset",
    "save",
    "step",
    "watch",
]

# Names are imported when they are first used: a command that needs none of them starts at once.
_HOMES = {
    "client": ("Client", "ClientError"),
    "core.network": ("Network",),
    "estimators": (
        "DIRADClassifier",
        "DIRADRegressor",
        "PREVALClassifier",
        "PREVALRegressor",
        "watch",
    ),
    "explanation": ("Explanation", "explain"),
    "growth.adapt": ("Batch", "adapt", "new_data", "step"),
    "growth.state": ("State", "new_state"),
    "history": ("Event", "History"),
    "params": ("PRESETS", "Params", "preset"),
    "storage": ("ModelError", "load", "save"),
}


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            found = getattr(import_module(f"{__name__}.{module}"), name)
            globals()[name] = found
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
