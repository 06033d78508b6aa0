"""Exported C as a model for `experiments.boards`, and inputs for it."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import exported_models as plain
import test_missing_export as missing
from dirad.export import Fixed, to_c

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
KINDS = ("softmax", "binary", "regressor", "columns", *missing.KINDS)

_FLOAT = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    model_predict((const float *)x, (float *)out);
}
"""
_FROM_FLOAT = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    int32_t whole[MODEL_N_INPUTS];
    for (int i = 0; i < MODEL_N_INPUTS; i++)
        whole[i] = model_input(i, ((const float *)x)[i]);
    model_predict(whole, (int32_t *)out);
}
"""
_WHOLE = _FLOAT.replace("float", "int32_t")


class CModel(NamedTuple):
    """A header, and functions around it that take a sample and write its outputs."""

    files: dict[str, str]
    source: str  # takes float inputs
    whole_source: str  # in fixed point: takes whole numbers
    n_inputs: int
    answer: tuple[int, type]  # number and type of the outputs


@cache
def model(kind: str):
    """The fitted model of a kind."""
    return missing.model(kind) if kind in missing.KINDS else plain.model(kind)


@cache
def inputs(kind: str) -> NDArray[np.float32]:
    """Inputs like those it was fitted to, some missing or unknown where they may be."""
    if kind not in missing.KINDS:
        return plain.inputs(kind)
    rng = np.random.default_rng(0)
    columns = [rng.choice(column, plain.N) for column in missing.given()[1].T]
    return np.column_stack(columns)


@cache
def ranges(kind: str, bits: int) -> Fixed:
    """Fixed point for the ranges of these inputs."""
    X = inputs(kind)
    return Fixed(bits, np.nanmin(X, axis=0).tolist(), np.nanmax(X, axis=0).tolist())


@cache
def in_c(kind: str, bits: int | None) -> CModel:
    """The model in C: in float, or in fixed point with weights of 16 or 32 bits."""
    fixed = None if bits is None else ranges(kind, bits)
    own = model(kind)
    n_outputs = plain.answers(kind).shape[1] if kind not in missing.KINDS else _n_outputs(own)
    return CModel(
        {"model.h": to_c(own, fixed=fixed)},
        _FLOAT if bits is None else _FROM_FLOAT,
        _FLOAT if bits is None else _WHOLE,
        own.n_features_in_,
        (n_outputs, np.float32 if bits is None else np.int32),
    )


def _n_outputs(own) -> int:
    return len(own.classes_) if hasattr(own, "classes_") else 1
