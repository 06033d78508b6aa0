"""How the models of a system are asked what they make of samples."""

from collections.abc import Callable, Sequence
from typing import Any

# (models, the name of a method, the arguments for each model) -> the answer of each
Asking = Callable[[Sequence[Any], str, Sequence[Sequence[Any]]], list[Any]]


def ask_in_turn(
    models: Sequence[Any], question: str, arguments: Sequence[Sequence[Any]]
) -> list[Any]:
    """Return the answers of models, one after the other."""
    return [getattr(model, question)(*args) for model, args in zip(models, arguments, strict=True)]
