"""Model files: written completely or not at all, checked when read, never executed."""

from dirad.storage.errors import ModelError
from dirad.storage.model_file import ModelFile, load, read, save

__all__ = ["ModelError", "ModelFile", "load", "read", "save"]
