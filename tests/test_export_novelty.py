"""Novelty of exported PREVAL systems against Python, on samples that were not fitted to."""

import ctypes
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from dirad import PREVALClassifier
from dirad.export import Fixed, rerouted_share, to_c, to_onnx, to_python
from dirad.export.exported import exported
from dirad.export.fixed_run import run as run_fixed
from dirad.export.fixed_run import whole_inputs
from dirad.export.fixed_system import fixed_model
from dirad.export.novelty import tied_scores
from dirad.preval.calibration import calibrate, normal_score, quantile_levels
from dirad.preval.dependence import Memory
from exported_models import ALONE, SYSTEMS, inputs, model, task

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
TRAPS = ["-fsanitize=undefined", "-fsanitize-undefined-trap-on-error"]
# The whole header in double precision.
IN_DOUBLE = ["-Dfloat=double"] + [
    f"-D{name}f={name}" for name in ("exp", "log", "log1p", "sqrt", "pow", "fabs", "erfc")
]

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")

_MAIN = """#define MODEL_WATCH
#include "model.h"
void all(const float *given, {number} *out, {number} *novelty, int *known, int *route,
         {number} *score, float *p, int *is_new, long n);
void all(const float *given, {number} *out, {number} *novelty, int *known, int *route,
         {number} *score, float *p, int *is_new, long n)
{{
{watch}    for (long k = 0; k < n; k++) {{
        {number} x[MODEL_N_INPUTS];
        for (int i = 0; i < MODEL_N_INPUTS; i++)
            x[i] = {input};
        model_predict(x, out + k * MODEL_N_OUTPUTS);
        novelty[k] = model_novelty(x);
        known[k] = model_is_known(x);
        route[k] = model_route(x);
        model_scores s;
        model_evaluate(x, &s);
        for (int m = 0; m < MODEL_N_MODELS; m++)
            score[k * MODEL_N_MODELS + m] = s.score[m];
{add}    }}
{end}}}
"""
_END = """    for (int m = 0; m < MODEL_N_MODELS; m++)
        p[m] = model_watch_p(&w, m);
    *is_new = model_watch_is_new(&w);
    model_watch_next(&w);
    if (w.n != 0 || w.batches != 1 || model_watch_p(&w, 0) != 1.0f)
        *is_new = -1;
"""


class InC(NamedTuple):
    """What compiled headers say."""

    outputs: NDArray[np.float64]
    novelty: NDArray[np.float64]
    known: NDArray[np.bool_]
    route: NDArray[np.int64]  # places of models
    score: NDArray
    p: NDArray[np.float64]  # of all samples as one batch, by model
    is_new: bool


class Header:
    """A compiled header."""

    def __init__(self, source: str, folder: Path, n_outputs: int, n_models: int, *options: str):
        self.fixed = "model_input" in source
        number, given = "int32_t" if self.fixed else "float", "given[k * MODEL_N_INPUTS + i]"
        watch = "model_watch" in source
        if "-Dfloat=double" in options:
            source = re.sub(r"(\d)f\b", r"\1", source)  # constants too, of nine digits
        (folder / "model.h").write_text(source)
        main = _MAIN.format(
            number=number,
            input=f"model_input(i, {given})" if self.fixed else given,
            watch="    model_watch w = { 0 };\n" if watch else "    (void)p;\n    (void)is_new;\n",
            add="        model_watch_add(&w, x);\n" if watch else "",
            end=_END if watch else "",
        )
        (folder / "main.c").write_text(main)
        build = ["gcc", *STRICT, *options, "-shared", "-fPIC", "main.c", "-o", "m.so", "-lm"]
        subprocess.run(build, cwd=folder, check=True)
        self.library = ctypes.CDLL(str(folder / "m.so"))
        self.real = np.float64 if "-Dfloat=double" in options else np.float32
        self.n_outputs, self.n_models = n_outputs, n_models

    def __call__(self, X: NDArray) -> InC:
        number, n = np.int32 if self.fixed else self.real, len(X)
        shapes = [(n, self.n_outputs), (n,), (n,), (n,), (n, self.n_models), (self.n_models,), (1,)]
        types = [number, number, np.int32, np.int32, number, self.real, np.int32]
        arrays = [np.zeros(s, t) for s, t in zip(shapes, types, strict=True)]
        X = np.ascontiguousarray(X, self.real)
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (X, *arrays)]
        self.library.all(*pointers, ctypes.c_long(n))
        out, novelty, known, route, score, p, is_new = arrays
        assert is_new[0] >= 0
        shares, z = (2.0**30, 2.0**16) if self.fixed else (1.0, 1.0)
        return InC(out / shares, novelty / z, known > 0, route, score, p, bool(is_new[0]))


def header_of(kind: str, folder: Path, *options: str, **settings) -> Header:
    own = model(kind)
    source = to_c(own, **settings)
    return Header(source, folder, len(own.classes_), len(own.models_), *options)


def numbers_of(own: PREVALClassifier) -> NDArray[np.int64]:
    return np.array([one.number for one in own.models_])


def ranges(X: NDArray, bits: int) -> Fixed:
    return Fixed(bits, X.min(axis=0).tolist(), X.max(axis=0).tolist())


def p_values(own: PREVALClassifier, X: NDArray) -> NDArray[np.float64]:
    return np.array([verdict.p_inputs for verdict in own._state.system.judge(X)])


# ------------------------------------------------------------------ float


@needs_gcc
@pytest.mark.parametrize("kind", SYSTEMS + ALONE)
def test_float_tells_what_python_tells(kind, tmp_path):
    own, X = model(kind), inputs(kind)[::5]
    said = header_of(kind, tmp_path)(X)
    expected = own.novelty(X)
    assert np.abs(said.novelty - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())
    assert np.array_equal(said.known, own.is_known(X))
    assert 0.0 < said.known.mean() < 1.0
    assert np.array_equal(numbers_of(own)[said.route], own.route(X))


@needs_gcc
@pytest.mark.parametrize("rate", [0.001, 0.2])
def test_is_known_keeps_another_rate(rate, tmp_path):
    own, X = model("system"), inputs("system")[::5]
    said = header_of("system", tmp_path, false_alarms=rate)(X)
    assert np.array_equal(said.known, own.is_known(X, rate))


@needs_gcc
@pytest.mark.parametrize("kind", ["system", "alone"])
def test_the_batch_test_has_the_same_p_values(kind, tmp_path):
    own = model(kind)
    exact = header_of(kind, tmp_path, *IN_DOUBLE)
    for seed, low, n in ((11, 0.0, 30), (12, 0.0, 200), (13, 8.0, 50), (14, 4.0, 5)):
        X = task(low, seed, n)[0]
        said, expected = exact(X), p_values(own, X)
        assert np.abs(said.p - expected).max() < 1e-6
        rate = own._state.system.settings.batch_rate(0)
        assert said.is_new == bool((expected < rate).all())


@needs_gcc
def test_dependent_samples_count_for_less(tmp_path):
    own = with_calibration("system", memory=Memory(3.0, 2.0, 2.0))
    exact = Header(to_c(own), tmp_path, len(own.classes_), 2, *IN_DOUBLE)
    for seed, low, n in ((11, 0.0, 30), (12, 0.3, 200), (13, 8.0, 50), (14, 1.0, 5)):
        X = task(low, seed, n)[0]
        assert np.abs(exact(X).p - p_values(own, X)).max() < 1e-6


@needs_gcc
def test_few_independent_samples_raise_no_alarm(tmp_path):
    own = with_calibration("system", memory=Memory(1e3, 2.0, 2.0))
    said = Header(to_c(own), tmp_path, len(own.classes_), 2)(task(4.0, 1, 100)[0])
    assert (said.p == 1.0).all()
    assert not said.is_new


def with_calibration(kind: str, **changes) -> PREVALClassifier:
    """A copy of a system whose models have another calibration."""
    from copy import deepcopy
    from dataclasses import replace

    own = deepcopy(model(kind))
    system = own._stream.system.working_copy()
    system.models = [
        replace(one, calibration=one.calibration._replace(**changes)) for one in system.models
    ]
    own._stream = own._stream._replace(system=system)
    return own


def test_equal_quantiles_have_the_score_of_their_mean_level():
    quantiles = np.sort(np.r_[np.linspace(0, 1, 61), np.full(40, 0.5)])
    found = tied_scores(quantiles, 300)
    tied = np.abs(quantiles - 0.5) < 1e-12
    assert np.isnan(found[~tied]).all()
    assert np.allclose(found[tied], normal_score(np.array([0.5]), quantiles, 300))
    assert np.isnan(tied_scores(np.linspace(0, 1, 101), 300)).all()
    assert len(quantile_levels(300)) == 101


@needs_gcc
@pytest.mark.parametrize("fixed", [None, 32])
def test_ties_are_counted_as_in_python(fixed, tmp_path):
    own, known = model("system"), task(0, 3, 400)[0]
    logs = own.models_[0].evaluate(known).log_error
    some = np.sort(np.r_[np.quantile(logs, np.linspace(0, 1, 61)), np.full(40, logs[7])])
    shape = own.models_[0].calibration.quantiles.shape
    copy = with_calibration("system", quantiles=np.broadcast_to(some, shape).copy())
    X = known[5:10]  # among them the sample whose error is tied
    options = IN_DOUBLE if fixed is None else []
    fixed = None if fixed is None else ranges(inputs("system"), fixed)
    said = Header(to_c(copy, fixed=fixed), tmp_path, len(own.classes_), 2, *options)(X)
    assert np.abs(said.p - p_values(copy, X)).max() < (1e-6 if options else 1e-3)


def test_python_tells_novelty():
    for kind in SYSTEMS + ALONE:
        module: dict = {}
        exec(to_python(model(kind)), module)
        X = inputs(kind)[::50].astype(float)
        found = np.array([module["novelty"](row) for row in X.tolist()])
        assert np.abs(found - model(kind).novelty(X)).max() < 1e-6
        known = [module["is_known"](row) for row in X.tolist()]
        assert known == model(kind).is_known(X).tolist()


@pytest.mark.parametrize("kind", SYSTEMS + ALONE)
def test_onnx_tells_novelty(kind):
    X = inputs(kind)[::5].astype(float)
    session = onnxruntime.InferenceSession(to_onnx(model(kind), false_alarms=0.1))
    novelty, known = session.run(["novelty", "known"], {"X": X})
    assert np.abs(novelty - model(kind).novelty(X)).max() < 1e-6
    assert np.array_equal(known, model(kind).is_known(X, 0.1))


# ------------------------------------------------------------------ fixed point


class Digits(NamedTuple):
    """A system of two tasks of four digits each; two more digits are new to it."""

    system: PREVALClassifier
    X: NDArray  # held out
    y: NDArray

    @property
    def is_new(self) -> NDArray[np.bool_]:
        return self.y > 7


@cache
def digits() -> Digits:
    X, y = load_digits(return_X_y=True)
    train = np.arange(len(X)) % 2 == 0
    system = PREVALClassifier(random_state=0)
    for own in ((0, 1, 2, 3), (4, 5, 6, 7)):
        chosen = train & np.isin(y, own)
        system.partial_fit(X[chosen], y[chosen]).finish()
    return Digits(system, X[~train], y[~train])


@needs_gcc
@pytest.mark.parametrize("bits", [16, 32])
def test_digits_in_fixed_point(bits, tmp_path):
    system, X, y = digits()
    fixed = Fixed(bits, 0.0, 16.0)
    source = to_c(system, fixed=fixed)
    said = Header(source, tmp_path, 8, 2, *TRAPS)(X)
    is_new = y > 7
    exact = system.novelty(X)
    assert abs(roc_auc_score(is_new, said.novelty) - roc_auc_score(is_new, exact)) < 0.001
    right = system.classes_[said.outputs.argmax(axis=1)] == y
    assert abs(right[~is_new].mean() - (system.predict(X) == y)[~is_new].mean()) <= 0.002
    assert np.mean(said.known != system.is_known(X)) < 0.005
    share = np.mean(numbers_of(system)[said.route] != system.route(X))
    assert share == rerouted_share(system, X, fixed)
    assert share < 0.005
    assert "<math.h>" not in source[: source.index("#ifdef MODEL_WATCH")]


@needs_gcc
def test_the_promised_rate_holds_for_digits(tmp_path):
    """Few samples of each digit: their errors are ranked together."""
    system, X, y = digits()
    known, even = y < 8, np.arange(len(X)) % 2 == 0
    source = to_c(system, fixed=Fixed(16, 0.0, 16.0), calibration=X[known & even])
    said = Header(source, tmp_path, 8, 2, *TRAPS)(X)
    alarms = ~said.known
    assert near_promise(int(alarms[known & ~even].sum()), int((known & ~even).sum()), 0.05)
    assert alarms[~known].mean() > 0.5


def near_promise(alarms: int, n: int, rate: float) -> bool:
    """Are so many alarms within the interval of a rate? As many other samples gave the limit."""
    low, high = binom.interval(0.999, n, rate)
    # The limit has an error of its own: twice the variance of the binomial.
    return abs(alarms - rate * n) <= (high - low) / 2 * np.sqrt(2.0)


@needs_gcc
@pytest.mark.parametrize(("kind", "bits"), [("system", 32), ("shared", 16), ("alone", 16)])
def test_fixed_point_is_close(kind, bits, tmp_path):
    own, X = model(kind), inputs(kind)[::5]
    said = header_of(kind, tmp_path, *TRAPS, fixed=ranges(X, bits))(X)
    exact = own.novelty(X)
    assert np.abs(said.novelty - exact).max() < (0.05 if bits == 16 else 0.005)
    assert np.mean(said.known != own.is_known(X)) < 0.005
    same = numbers_of(own)[said.route] == own.route(X)
    assert same.mean() > 0.995
    off = np.abs(said.outputs - own.predict_proba(X))[same]
    assert off.max() < (0.02 if bits == 16 else 0.001)


@needs_gcc
@pytest.mark.parametrize("kind", ["shared", "alone"])
def test_c_computes_the_integers_of_numpy(kind, tmp_path):
    X = inputs(kind)[::5]
    fixed = ranges(X, 16)
    said = header_of(kind, tmp_path, fixed=fixed)(X)
    for i, member in enumerate(exported(model(kind)).members):
        own = fixed_model(member.program, fixed)
        values = run_fixed(own, whole_inputs(own.inputs, X))
        assert np.array_equal(values[own.score], said.score[:, i])
        shares = values[list(own.outputs)].T[said.route == i] / 2**30
        columns = list(member.columns)
        assert np.array_equal(shares, said.outputs[said.route == i][:, columns])


@needs_gcc
@pytest.mark.parametrize(("fixed", "rate"), [(None, 0.05), (16, 0.05), (32, 0.01)])
def test_the_promised_rate_holds(fixed, rate, tmp_path):
    """Calibrated by many samples as it is exported, it calls as many known ones new as promised."""
    both = [np.concatenate([task(low, seed, 4000)[0] for low in (0, 8)]) for seed in (21, 22)]
    calibration, X = both
    fixed = None if fixed is None else ranges(inputs("system"), fixed)
    settings = {"fixed": fixed, "false_alarms": rate, "calibration": calibration}
    said = header_of("system", tmp_path, **settings)(X)
    assert near_promise(int((~said.known).sum()), len(X), rate)


@needs_gcc
def test_batches_of_known_samples_are_known_in_fixed_point(tmp_path):
    own, fixed = model("system"), ranges(inputs("system"), 16)
    watch = header_of("system", tmp_path, fixed=fixed)
    for seed in range(30, 40):
        X = task(0, seed, 60)[0]
        said, expected = watch(X), p_values(own, X)
        assert np.abs(said.p - expected).max() < 1e-2
        assert not said.is_new
    assert watch(task(4, 1, 60)[0]).is_new


def test_a_calibration_by_other_samples_is_theirs():
    rng = np.random.default_rng(0)
    logs, groups = rng.normal(0, 1, 500), rng.integers(0, 2, 500)
    before = calibrate(logs, groups, 3)
    from dirad.export.novelty import limits, recalibrated

    after = recalibrated(before, logs[:300] + 5.0, np.zeros(300, np.int64))
    assert abs(after.mean[after.row[0]] - 5.0) < 0.2
    assert after.mean[after.row[1]] == before.mean[before.row[1]]
    for own in (before, after):
        rows = np.arange(len(own.mean))
        found = limits(own, 0.05)
        by_row = own._replace(row=rows)
        assert by_row.known(found, rows, 0.05).all()
        assert not by_row.known(found + 1e-9, rows, 0.05).any()


def test_what_cannot_be_calibrated_says_why():
    X = inputs("system")
    with pytest.raises(ValueError, match=r"\(samples, 3\), got"):
        to_c(model("system"), calibration=X[:, :2])
    with pytest.raises(ValueError, match="paper's models have no calibration"):
        to_c(model("paper system"), calibration=inputs("paper system"))
    with pytest.raises(ValueError, match="false_alarms must be between 0 and 1"):
        to_c(model("system"), false_alarms=0.0)
    with pytest.raises(ValueError, match="a single network has no routes"):
        rerouted_share(model("binary"), X)


# ------------------------------------------------------------------ hostile inputs

_HOSTILE = """#define MODEL_WATCH
#include <string.h>
#include "model.h"
int main(void)
{
    uint32_t seed = 1;
    long found = 0;
    model_watch w = { 0 };
    for (long k = 0; k < %(n)d; k++) {
        %(number)s x[MODEL_N_INPUTS], out[MODEL_N_OUTPUTS];
        unsigned char bytes[sizeof x];
        for (unsigned i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
        memcpy(x, bytes, sizeof x);
%(input)s        model_predict(x, out);
        model_watch_add(&w, x);
        found += model_predict_class(x) + model_is_known(x) + (model_novelty(x) > 0);
        if (k %% 100 == 99) {
            found += model_watch_is_new(&w);
            model_watch_next(&w);
        }
    }
    return found < 0;
}
"""
_AS_FLOAT = """        for (int i = 0; i < MODEL_N_INPUTS; i += 2) {
            float value;
            memcpy(&value, &x[i], sizeof value);
            x[i] = model_input(i, value);
        }
"""


@needs_gcc
@pytest.mark.parametrize(
    ("kind", "fixed", "n"),
    [
        ("alone", None, 2000),
        ("shared", 16, 2000),
        pytest.param("system", None, 1_000_000, marks=pytest.mark.slow),
        pytest.param("system", 16, 1_000_000, marks=pytest.mark.slow),
        pytest.param("shared", 32, 1_000_000, marks=pytest.mark.slow),
    ],
)
def test_any_bytes_are_an_input(kind, fixed, n, tmp_path):
    source = to_c(model(kind), fixed=None if fixed is None else ranges(inputs(kind), fixed))
    number = "float" if fixed is None else "int32_t"
    given = "" if fixed is None else _AS_FLOAT
    (tmp_path / "model.h").write_text(source)
    (tmp_path / "main.c").write_text(_HOSTILE % {"number": number, "input": given, "n": n})
    checks = ["-fsanitize=undefined,address", "-fno-sanitize-recover"]
    build = ["gcc", *STRICT, *checks, "main.c", "-o", "hostile", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "hostile"], check=True)
