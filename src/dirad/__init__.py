"""Networks that grow only what the data demands."""

from dirad.core.network import Network
from dirad.estimators import DIRADClassifier, DIRADRegressor, PREVALClassifier, watch
from dirad.growth.adapt import Batch, adapt, new_data, step
from dirad.growth.state import State, new_state
from dirad.history import Event, History
from dirad.params import PRESETS, Params, preset
from dirad.storage import ModelError, load, save

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Batch",
    "DIRADClassifier",
    "DIRADRegressor",
    "Event",
    "History",
    "ModelError",
    "Network",
    "PREVALClassifier",
    "Params",
    "State",
    "adapt",
    "load",
    "new_data",
    "new_state",
    "preset",
    "save",
    "step",
    "watch",
]
