"""Optional packages, which only some exports need."""

from importlib import import_module
from typing import Any


def needs(package: str) -> Any:
    """Return a package, or raise an error that tells how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ImportError(f"this export needs {name}: pip install {name}") from error
