"""Networks that grow only what the data demands."""

from dirad.core.network import Network
from dirad.estimators import DIRADClassifier, DIRADRegressor, PREVALClassifier, watch
from dirad.growth.adapt import Batch, adapt, new_data, step
from dirad.growth.state import State, new_state
from dirad.history import Event, History
from dirad.params import PRESETS, Params, preset

__version__ = "0.1.0"

__all__ = [
    "PRESETS",
    "Batch",
    "DIRADClassifier",
    "DIRADRegressor",
    "Event",
    "History",
    "Network",
    "PREVALClassifier",
    "Params",
    "State",
    "adapt",
    "new_data",
    "new_state",
    "preset",
    "step",
    "watch",
]
