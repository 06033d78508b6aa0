"""The error for images or an encoder that cannot be used, and for packages that are missing."""

from importlib import import_module
from typing import Any


class ImageError(ValueError):
    """Images or an encoder cannot be used; the message names the file."""


def required(module: str) -> Any:
    """Import a module of the extra `images`."""
    try:
        return import_module(module)
    except ImportError as error:
        package = {"PIL": "Pillow"}.get(module.partition(".")[0], module)
        need = f"features of images need {package}: pip install 'dirad[images]'"
        raise ImportError(need) from error
