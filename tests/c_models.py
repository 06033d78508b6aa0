"""Exported C as a model for `experiments.boards`, and inputs for it."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_iris

import exported_models as plain
import test_missing_export as missing
from dirad.export import CompactNetwork, Fixed, compact_source, to_c
from dirad.export.compact.budget import STORAGES
from test_compact import random_net

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror")
KINDS = ("softmax", "binary", "regressor", "columns", *missing.KINDS)
COMPACT = ("compact", "straight-line")  # the same network in two forms of C

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
_TO_BYTES = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    uint8_t bytes[MODEL_N_INPUTS];
    for (int i = 0; i < MODEL_N_INPUTS; i++)
        bytes[i] = model_input(i, ((const float *)x)[i]);
    model_predict(bytes, (int32_t *)out);
    ((int32_t *)out)[MODEL_N_OUTPUTS] = model_predict_class(bytes);
}
"""
_BYTES = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    model_predict((const uint8_t *)x, (int32_t *)out);
    ((int32_t *)out)[MODEL_N_OUTPUTS] = model_predict_class((const uint8_t *)x);
}
"""
_SYSTEM = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    {number} given[MODEL_N_INPUTS], *to = ({number} *)out;
    for (int i = 0; i < MODEL_N_INPUTS; i++)
        given[i] = {input};
    model_predict(given, to);
    to += MODEL_N_OUTPUTS;
    *to++ = model_novelty(given);
    *to++ = ({number})model_is_known(given);
    *to++ = ({number})model_route(given);
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


@cache
def compact_net() -> CompactNetwork:
    """A compact network of random edges, over inputs like those of "softmax"."""
    X = load_iris(return_X_y=True)[0]
    net = random_net(1, STORAGES[0].formats, X.shape[1], 6, density=0.4)
    return replace(net, low=X.min(axis=0), high=X.max(axis=0))


@cache
def compact_in_c(kind: str) -> CModel:
    """A compact network as a table or as straight lines: its outputs, and its class."""
    net = compact_net()
    files = {"model.h": compact_source(net, fast=kind != "compact")}
    return CModel(files, _TO_BYTES, _BYTES, net.n_inputs, (net.n_outputs + 1, np.int32))


@cache
def system_in_c(kind: str, bits: int | None) -> CModel:
    """A continual system: its probabilities, novelty, whether known, and who answers."""
    X, own = plain.inputs(kind), plain.model(kind)
    fixed = bits and Fixed(bits, X.min(axis=0).tolist(), X.max(axis=0).tolist())
    number, given = ("float", "((const float *)x)[i]")
    if bits:
        number, given = "int32_t", f"model_input(i, {given})"
    source = _SYSTEM.replace("{number}", number).replace("{input}", given)
    n = len(own.classes_) + 3
    answer = (n, np.int32 if bits else np.float32)
    return CModel({"model.h": to_c(own, fixed=fixed)}, source, "", own.n_features_in_, answer)


def _n_outputs(own) -> int:
    return len(own.classes_) if hasattr(own, "classes_") else 1
