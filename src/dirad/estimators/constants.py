"""Constants of `Params` as parameters of an estimator."""

import inspect
from dataclasses import fields
from typing import Any

from sklearn.base import BaseEstimator

from dirad.params import Params, preset

_CONSTANTS = tuple(field.name for field in fields(Params))


def accepts_constants(cls: type) -> type:
    """Put every constant of `Params` into the signature of ``cls.__init__``, default None.

    scikit-learn reads an estimator's parameters from that signature. None means: as in the preset.
    """
    init = cls.__init__
    signature = inspect.signature(init)
    own = [p for p in signature.parameters.values() if p.kind != p.VAR_KEYWORD]
    names = {p.name for p in own}
    extra = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None)
        for name in _CONSTANTS
        if name not in names
    ]
    init.__signature__ = signature.replace(parameters=own + extra)  # type: ignore[attr-defined]
    return cls


def set_constants(estimator: BaseEstimator, constants: dict[str, Any]) -> None:
    """Set every constant as an attribute; an unknown name is an error."""
    for name in constants:
        if name not in _CONSTANTS:
            raise TypeError(f"{type(estimator).__name__} has no parameter {name!r}")
    for name in _CONSTANTS:
        if not hasattr(estimator, name):
            setattr(estimator, name, constants.get(name))


def params_of(estimator: Any, **forced: Any) -> Params:
    """Return the preset with what the user said, and what the task demands where he did not."""
    said = {name: getattr(estimator, name) for name in _CONSTANTS}
    said = {name: value for name, value in said.items() if value is not None}
    return preset(estimator.preset, **{**forced, **said})
