"""Any bytes as input of exported C: no undefined behaviour, in float and in fixed point."""

import shutil

import numpy as np
import pytest

import exported_models as plain
from c_models import COMPACT, STRICT, CModel, compact_in_c, compact_net, in_c, model
from dirad.export import Fixed, to_c
from dirad.export.compact import evaluate
from dirad.export.compact.evaluate import class_indices
from experiments.boards import host_answers

N_QUICK, N_ALL = 10_000, 1_000_000
STOP = (
    "-O1",
    *STRICT,
    "-fsanitize=undefined,address,float-cast-overflow",
    "-fno-sanitize-recover=all",
)
QUICK = (
    ("softmax", None),
    ("softmax", 16),
    ("regressor", 32),
    ("two classes", None),
    ("two classes", 16),
    ("system", None),
)
EXTREME = np.array(
    [
        0,
        1,
        -1,
        2**31 - 1,
        -(2**31),
        -(2**31) + 1,
        2**30,
        -(2**30),
        0x7F800000,
        0x7FC00000,
        0x7F800001,
    ],
    np.int64,
).astype(np.int32)  # as float: ±0, the smallest and largest, infinite, not a number

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")

# After the values, the class and the model that answers: they must exist.
_CLASS = """#include <stdlib.h>
#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    model_predict((const {number} *)x, ({number} *)out);
#ifdef MODEL_CLASSES
    const int k = model_predict_class((const {number} *)x);
    if (k < 0 || k >= MODEL_N_OUTPUTS)
        abort();
#endif
#ifdef MODEL_MODELS
    const int m = model_route((const {number} *)x);
    if (m < 0 || m >= MODEL_N_MODELS)
        abort();
#endif
}
"""


def any_bytes(n, n_inputs, seed=0):
    """Random words; in half of the rows some are extreme, in some all."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-(2**31), 2**31, (n, n_inputs)).astype(np.int32)
    share = rng.choice([0.0, 0.0, 0.3, 1.0], n)
    where = rng.uniform(size=X.shape) < share[:, None]
    X[where] = rng.choice(EXTREME, int(where.sum()))
    return X


def exported(kind, bits) -> CModel:
    if kind in plain.SYSTEMS:
        n = plain.answers(kind).shape[1]
        own = plain.model(kind)
        return CModel({"model.h": to_c(own)}, "", "", own.n_features_in_, (n, np.float32))
    return in_c(kind, bits)


def stopped_by_nothing(kind, bits, n):
    """A sanitizer would end the program, and `host_answers` raise its message."""
    own = exported(kind, bits)
    X = any_bytes(n, own.n_inputs)
    source = _CLASS.replace("{number}", "float" if bits is None else "int32_t")
    found = host_answers(source, X, own.answer, options=STOP, files=own.files)
    assert len(found) == n
    if bits is None:
        return
    # The same bytes as float, converted by model_input; the same answers without sanitizers.
    for taken, given in ((own.source, X.view(np.float32)), (own.whole_source, X)):
        one = host_answers(taken, given, own.answer, options=STOP, files=own.files)
        other = host_answers(taken, given, own.answer, options=("-O3",), files=own.files)
        assert np.array_equal(one, other)


@pytest.mark.parametrize(("kind", "bits"), QUICK)
def test_no_bytes_are_undefined_behaviour(kind, bits):
    stopped_by_nothing(kind, bits, N_QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [None, 16, 32])
@pytest.mark.parametrize("kind", ["softmax", "binary", "columns", "two classes", "numbers"])
def test_a_million_bytes_are_no_undefined_behaviour(kind, bits):
    stopped_by_nothing(kind, bits, N_ALL)


@pytest.mark.slow
@pytest.mark.parametrize("kind", plain.SYSTEMS)
def test_a_million_bytes_are_no_undefined_behaviour_of_a_system(kind):
    stopped_by_nothing(kind, None, N_ALL)


_COMPACT = """#include <stdlib.h>
#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    uint8_t bytes[MODEL_N_INPUTS];
    for (int i = 0; i < MODEL_N_INPUTS; i++)
        bytes[i] = {input};
    model_predict(bytes, (int32_t *)out);
    const int k = model_predict_class(bytes);
    if (k < 0 || k >= MODEL_N_CLASSES)
        abort();
    ((int32_t *)out)[MODEL_N_OUTPUTS] = k;
}
"""


def stopped_by_no_bytes(kind, n):
    """Any floats, made bytes in C, and any bytes; both are as Python computes them."""
    own, net = compact_in_c(kind), compact_net()
    floats = any_bytes(n, own.n_inputs).view(np.float32)
    # Signalling NaNs and the like are the lowest byte in C; Python refuses them.
    x = net.to_bytes(np.where(np.isnan(floats), -np.inf, floats))
    given = np.random.default_rng(1).integers(0, 256, x.shape, dtype=np.uint8)
    given[::3] = np.where(given[::3] < 128, 0, 255)
    from_float = _COMPACT.replace("{input}", "model_input(i, ((const float *)x)[i])")
    from_bytes = _COMPACT.replace("{input}", "((const uint8_t *)x)[i]")
    options = [o for o in STOP if o != "-Werror"]  # what is not called here is unused
    for source, X, taken in ((from_float, floats, x), (from_bytes, given, given)):
        found = host_answers(source, X, own.answer, options=options, files=own.files)
        rows = evaluate(net, taken)
        assert np.array_equal(found, np.column_stack([rows, class_indices(rows)]))


@pytest.mark.parametrize("kind", COMPACT)
def test_no_bytes_are_undefined_behaviour_of_a_compact_network(kind):
    stopped_by_no_bytes(kind, N_QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMPACT)
def test_a_million_bytes_are_no_undefined_behaviour_of_a_compact_network(kind):
    stopped_by_no_bytes(kind, N_ALL)


def test_a_sanitizer_stops_what_is_undefined():
    """Guards the tests above: a sanitizer that is off would let all pass."""
    source = """#include <stdint.h>
void answer(const void *x, void *out);
void answer(const void *x, void *out) { *(int32_t *)out = *(const int32_t *)x + 1; }
"""
    X = np.array([[2**31 - 1]], np.int32)
    with pytest.raises(RuntimeError, match="signed integer overflow"):
        host_answers(source, X, (1, np.int32), options=STOP)


@pytest.mark.parametrize("bits", [16, 32])
def test_any_float_is_an_input_of_fixed_point(bits):
    """Converted by model_input, every float is within the range, or missing where it may be."""
    fixed = Fixed(bits, -3.0, 1e3)
    own = model("binary")
    source = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    for (int i = 0; i < MODEL_N_INPUTS; i++)
        ((int32_t *)out)[i] = model_input(i, ((const float *)x)[i]);
}
"""
    X = any_bytes(1000, 3).view(np.float32)
    files = {"model.h": to_c(own, fixed=fixed)}
    options = [o for o in STOP if o != "-Werror"]  # what is not called here is unused
    found = host_answers(source, X, (3, np.int32), options=options, files=files)
    clipped = np.clip(np.where(np.isnan(X), -3.0, X).astype(float), -3.0, 1e3)
    fraction = 20  # 1,000 has 10 bits, of 30
    assert np.abs(found / 2.0**fraction - clipped).max() <= 2.0**-fraction
