"""The system that a preset's settings ask for."""

from typing import Any

from dirad.preval.buffer_system import BufferSystem
from dirad.preval.settings import Settings
from dirad.preval.stream_system import StreamSystem
from dirad.preval.system import System


def new_system(
    n_inputs: int, n_classes: int, settings: Settings, *, seed: int = 0, threads: int = 1
) -> System[Any]:
    """Return a new system: ours where samples are kept, else the paper's."""
    kind = BufferSystem if settings.buffer_size else StreamSystem
    return kind(n_inputs, n_classes, settings, seed=seed, threads=threads)
