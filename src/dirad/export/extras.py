"""Optional packages, which only some exports need."""

from importlib import import_module
from typing import Any


def needs(package: str, extra: str) -> Any:
    """Return a package, or raise an error that tells how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ImportError(f"this export needs {package}: pip install 'dirad[{extra}]'") from error
