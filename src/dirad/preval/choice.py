"""Ours or the paper's: the system that the settings ask for."""

from dirad.preval.expert import Expert
from dirad.preval.learner import Learner
from dirad.preval.paper import PaperSystem
from dirad.preval.paper_model import PaperExpert, PaperLearner
from dirad.preval.settings import Settings
from dirad.preval.system import System

ContinualSystem = System | PaperSystem  # both have the same methods
AnyModel = Learner | Expert | PaperLearner | PaperExpert


def new_system(
    n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
) -> ContinualSystem:
    """Return a new system: ours where samples are kept in a buffer, else the paper's."""
    kind = System if settings.buffer_size else PaperSystem
    return kind(n_inputs, n_classes, settings, seed=seed, threads=threads)
