"""Learning on the device: C in double precision against plain loops and the package's step."""

import ctypes
import shutil
import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dirad import DIRADClassifier, DIRADRegressor
from dirad.core.network import TRANSFER
from dirad.estimators.columns import encoding_of
from dirad.export import to_c_learner
from dirad.export.learner import LearnerTables, learner_tables
from dirad.growth.adapt import Batch, step
from dirad.growth.state import N_SAMPLES, new_state, with_state_capacity
from dirad.params import preset
from exported_models import model

STRICT = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O1"]
KINDS = ("softmax", "binary", "regressor", "columns", "paper regressor", "paper", "gaps")
RATE, DECAY = 0.01, 0.003

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")

_MAIN = """#include "model.h"
long run(const dirad_real *x, const dirad_real *y, dirad_real *out, dirad_real *parameters,
         long n, long batch, dirad_real rate, dirad_real decay);
long run(const dirad_real *x, const dirad_real *y, dirad_real *out, dirad_real *parameters,
         long n, long batch, dirad_real rate, dirad_real decay)
{
    long learned = 0;
    const uint32_t edges = dirad_edges(&model), all = edges + 2u * model.n_units;
    model.decay = decay;
    for (long k = 0; k < n; k++) {
        dirad_forward(&model, x + k * MODEL_N_INPUTS, out + k * model.n_outputs);
        learned += dirad_learn(&model, x + k * MODEL_N_INPUTS, y + k * model.n_outputs);
        if ((k + 1) % batch == 0) {
            dirad_step(&model, rate);
            for (uint32_t i = 0; i < all; i++)
                *parameters++ = i < edges ? model.weight[i] : model.bias[i - edges];
        }
    }
    return learned;
}
"""


@cache
def fitted(kind: str):
    """A fitted estimator; "gaps" has missing numbers and categories."""
    if kind != "gaps":
        return model(kind)
    rng = np.random.default_rng(0)
    X = rng.normal(5, 3, (300, 3))
    X[:, 2] = rng.integers(0, 3, 300)
    y = np.where(X[:, 2] == 1, X[:, 0], X[:, 1])
    X[::7, 1] = np.nan
    own = DIRADRegressor(random_state=0, max_edges=12, categorical_features=[2])
    return own.fit(X, y)


def samples(kind: str, n: int) -> tuple[NDArray, NDArray]:
    """Samples that were not fitted to, and targets as the network's outputs have them."""
    own, rng = fitted(kind), np.random.default_rng(3)
    X = rng.normal(0.5, 1.0, (n, own.n_features_in_))
    if kind == "gaps":
        X[:, 2] = rng.integers(0, 4, n)
        X[::5, 1] = np.nan
    width = own.network_.n_outputs
    if isinstance(own, DIRADClassifier):
        y = np.eye(max(width, 2))[rng.integers(0, max(width, 2), n)]
        return X, y[:, 1:] if width == 1 else y
    return X, rng.normal(1.0, 2.0, (n, width))


def compiled(source: str, folder: Path, *options: str) -> ctypes.CDLL:
    (folder / "model.h").write_text(source)
    (folder / "main.c").write_text(_MAIN)
    library = folder / "learn.so"
    build = ["gcc", *STRICT, *options, "-shared", "-fPIC", "main.c", "-o", library, "-lm"]
    subprocess.run(build, cwd=folder, check=True)
    return ctypes.CDLL(str(library))


def run_c(kind: str, folder: Path, n: int, batch: int, *options: str) -> tuple[NDArray, NDArray]:
    """Return outputs before each sample is learned, and all parameters after each step."""
    library = compiled(to_c_learner(fitted(kind)), folder, "-DDIRAD_DOUBLE", *options)
    made, (X, y) = learner_tables(fitted(kind)), samples(kind, n)
    out = np.zeros(y.shape)
    parameters = np.zeros((n // batch, len(made.weight) + len(made.bias)))
    arrays = [np.ascontiguousarray(a) for a in (X, y)]
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, out, parameters)]
    longs = ctypes.c_long(n), ctypes.c_long(batch)
    library.run(*pointers, *longs, ctypes.c_double(RATE), ctypes.c_double(DECAY))
    return out, parameters


class Twin:
    """The same in plain loops over lists: one sample at a time, nothing taken from the package."""

    def __init__(self, made: LearnerTables, transfer: str, squared: bool, gate_biases: bool):
        self.t, self.transfer, self.squared, self.gate_biases = made, transfer, squared, gate_biases
        self.w, self.b = made.weight.copy(), made.bias.copy()
        self.n_in = len(made.mean)
        n = len(self.w) + len(self.b)
        self.gradient, self.mean, self.square = np.zeros((3, n))
        self.count = self.steps = 0

    def forward(self, x: NDArray) -> NDArray:
        t = self.t
        self.a = [*((x - t.mean) / t.spread), *([0.0] * len(t.output))]
        self.terms = [(0.0, 0.0)] * len(t.output)
        for u, column in enumerate(t.output):
            z, m = (self._sum(2 * u + k) for k in (0, 1))
            if column < 0:
                s = 4.0 / (1.0 + np.exp(-t.gain[u] * m)) - 1.0
                self.terms[u] = z, s
                self.a[self.n_in + u] = z * s
            else:
                logistic = self.transfer == "logistic"
                self.a[self.n_in + u] = 1.0 / (1.0 + np.exp(-z)) if logistic else z
        units = [u for u, column in enumerate(t.output) if column >= 0]
        if self.transfer == "softmax":
            z = np.array([self.a[self.n_in + u] for u in units])
            for u, p in zip(units, np.exp(z) / np.exp(z).sum(), strict=True):
                self.a[self.n_in + u] = p
        out = np.zeros(len(units))
        for u in units:
            out[t.output[u]] = self.a[self.n_in + u]
        return out if t.scale is None else out * t.scale + t.offset

    def _sum(self, term: int) -> float:
        edges = range(self.t.start[term], self.t.start[term + 1])
        return self.b[term] + sum(self.w[e] * self.a[self.t.source[e]] for e in edges)

    def learn(self, x: NDArray, y: NDArray) -> None:
        t, delta = self.t, np.zeros(len(self.b))
        self.forward(x)
        if t.scale is not None:
            y = (y - t.offset) / t.scale
        for u in reversed(range(len(t.output))):
            pull = sum(
                self.w[e] * delta[term]
                for term in range(len(self.b))
                for e in range(t.start[term], t.start[term + 1])
                if t.source[e] == self.n_in + u
            )
            if t.output[u] < 0:
                z, s = self.terms[u]
                delta[2 * u] = pull * s
                delta[2 * u + 1] = pull * z * t.gain[u] * (s + 1) * (3 - s) / 4
            else:
                a = self.a[self.n_in + u]
                slope = a * (1 - a) if self.transfer == "logistic" else 1.0
                own = (a - y[t.output[u]]) * (slope if self.squared else 1.0)
                delta[2 * u] = own + pull * slope
        for term, d in enumerate(delta):
            self.gradient[len(self.w) + term] += d
            for e in range(t.start[term], t.start[term + 1]):
                self.gradient[e] += d * self.a[t.source[e]]
        self.count += 1

    def step(self) -> NDArray:
        self.steps += 1
        n = len(self.w)
        for i in range(len(self.gradient)):
            g = self.gradient[i] / self.count + (DECAY * self.w[i] if i < n else 0.0)
            term = i - n
            if i >= n and self.t.output[term // 2] < 0:
                if term % 2 == 0 and not self.gate_biases:
                    continue
            elif i >= n and term % 2 == 1:
                continue
            self.mean[i] = 0.9 * self.mean[i] + 0.1 * g
            self.square[i] = 0.99 * self.square[i] + 0.01 * g * g
            first, second = 1 - 0.9**self.steps, 1 - 0.99**self.steps
            move = RATE * (self.mean[i] / first) / (np.sqrt(self.square[i] / second) + 1e-8)
            if i < n:
                self.w[i] -= move
            else:
                self.b[term] -= move
        self.gradient[:], self.count = 0.0, 0
        return np.concatenate([self.w, self.b])


def twin_of(kind: str) -> Twin:
    own = fitted(kind)
    transfer = ("logistic", "linear", "softmax")[own.network_.counts[TRANSFER]]
    squared = isinstance(own, DIRADRegressor) or own.preset == "paper"
    return Twin(learner_tables(own), transfer, squared, own.preset != "paper")


def network_inputs(kind: str, X: NDArray) -> NDArray:
    if kind != "gaps":
        return X
    rows = []
    fill = encoding_of(fitted(kind)).fill[1]
    for x0, x1, c in X:
        gap = np.isnan(x1)
        rows.append([x0, fill if gap else x1, float(gap), c == 0, c == 1, c == 2])
    return np.array(rows, float)


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_those_of_plain_loops(kind, tmp_path):
    n, batch = 40, 8
    out, parameters = run_c(kind, tmp_path, n, batch)
    X, y = samples(kind, n)
    inputs, twin = network_inputs(kind, X), twin_of(kind)
    for k in range(n):
        expected = twin.forward(inputs[k])
        assert np.abs(out[k] - expected).max() < 1e-12 * max(1.0, np.abs(expected).max())
        twin.learn(inputs[k], y[k])
        if (k + 1) % batch == 0:
            after = twin.step()
            scale = np.maximum(1.0, np.abs(after))
            assert (np.abs(parameters[k // batch] - after) / scale).max() < 1e-12
            twin.w[:], twin.b[:] = np.split(parameters[k // batch], [len(twin.w)])


@pytest.mark.parametrize("kind", ["softmax", "binary", "regressor"])
def test_a_step_is_that_of_the_package(kind, tmp_path):
    n = 24
    _, parameters = run_c(kind, tmp_path, n, n)
    own, made = fitted(kind), learner_tables(fitted(kind))
    X, y = samples(kind, n)
    X = (X - made.mean) / made.spread
    y = y if made.scale is None else (y - made.offset) / made.scale
    cost = "squared" if isinstance(own, DIRADRegressor) else "cross-entropy"
    params = preset("default", precision="float64", gamma=RATE, prior=DECAY * 1000, cost=cost)
    state = state_of(own, made)
    state.clock[N_SAMPLES] = 1000
    state, _ = step(state, Batch(X, y), params)
    network = state.network
    expected = np.concatenate(
        [network.edges["weight"][: len(made.weight)], network.bias[: len(made.output)].ravel()]
    )
    assert np.abs(parameters[0] - expected).max() < 1e-12


def state_of(own, made: LearnerTables):
    """A state of the package with the network of the tables."""
    network = own.network_
    n_units, n_edges = len(made.output), len(made.weight)
    state = new_state(network.n_inputs, network.n_outputs, transfer=int(network.counts[TRANSFER]))
    state = with_state_capacity(state, n_units + 8, n_edges + 8)
    net = state.network
    net.counts[1], net.counts[2] = n_units, n_edges
    for u in range(n_units):
        output = int(made.output[u])
        net.units[u] = (2 if output < 0 else 1, output, made.gain[u], 0)
    net.bias[:n_units] = made.bias.reshape(-1, 2)
    term = np.repeat(np.arange(2 * n_units), np.diff(made.start))
    for e in range(n_edges):
        net.edges[e] = (made.source[e], term[e], made.weight[e], 0)
    return state


def test_float_adapts_to_a_shifted_sensor(tmp_path):
    """A sensor drifts; a few hundred labelled samples bring the accuracy back."""
    rng = np.random.default_rng(0)

    def drifted(n, shift):
        X = rng.normal(0, 1, (n, 3))
        y = (X[:, 0] + 0.5 * X[:, 1] ** 2 > 0.5).astype(int)
        return X + shift, y

    classifier = DIRADClassifier(random_state=0).fit(*drifted(1000, 0.0))
    source = to_c_learner(classifier)
    library = compiled(source, tmp_path)
    X, y = drifted(2000, np.array([1.0, 0.3, 0.0]))
    before = classifier.score(X, y)
    X32 = np.ascontiguousarray(X, np.float32)
    target = np.ascontiguousarray(y[:, None], np.float32)
    out = np.zeros((len(X), 1), np.float32)
    made = learner_tables(classifier)
    parameters = np.zeros((100, len(made.weight) + len(made.bias)), np.float32)
    pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (X32, target, out, parameters)]
    numbers = ctypes.c_long(len(X)), ctypes.c_long(20), ctypes.c_float(0.03), ctypes.c_float(0.0)
    library.run(*pointers, *numbers)
    last = (out[1000:, 0] > 0.5) == y[1000:]
    assert last.mean() > before + 0.1
    assert last.mean() > 0.9


def test_samples_that_are_not_finite_are_left_out(tmp_path):
    """Neither a missing input, nor one whose gradient overflows, changes what others teach."""
    library = compiled(to_c_learner(fitted("binary")), tmp_path, "-DDIRAD_DOUBLE")
    other = shutil.copy(tmp_path / "learn.so", tmp_path / "other.so")  # with its own parameters
    X, y = samples("binary", 6)
    bad = np.repeat(X[:1], 4, axis=0)
    bad[0, 0], bad[1, 1], bad[2] = np.nan, np.inf, 1e308
    found = []
    for one, inputs, targets in (
        (library, X, y),
        (ctypes.CDLL(str(other)), np.r_[bad, X], np.r_[y[:3], [[np.nan]], y]),
    ):
        made, out = learner_tables(fitted("binary")), np.zeros(targets.shape)
        parameters = np.zeros(len(made.weight) + len(made.bias))
        arrays = [np.ascontiguousarray(a) for a in (inputs, targets)]
        pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays, out, parameters)]
        numbers = ctypes.c_long(len(inputs)), ctypes.c_long(len(inputs))
        one.run.restype = ctypes.c_long
        learned = one.run(*pointers, *numbers, ctypes.c_double(RATE), ctypes.c_double(DECAY))
        assert learned == 6
        found.append(parameters)
    assert np.array_equal(*found)


_HOSTILE = """#include <string.h>
#include "model.h"
int main(void)
{
    uint32_t seed = 1;
    for (long k = 0; k < 100000; k++) {
        dirad_real x[MODEL_N_INPUTS], y[MODEL_N_OUTPUTS], out[MODEL_N_OUTPUTS];
        unsigned char bytes[sizeof x + sizeof y];
        for (unsigned i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)((seed = seed * 1664525u + 1013904223u) >> 24);
        memcpy(x, bytes, sizeof x);
        memcpy(y, bytes + sizeof x, sizeof y);
        dirad_forward(&model, x, out);
        dirad_learn(&model, x, y);
        if (k % 3 == 0)
            dirad_step(&model, (dirad_real)0.01);
    }
    for (uint32_t e = 0; e < dirad_edges(&model); e++)
        if (!dirad_is_finite(model.weight[e]))
            return 2;
    for (uint32_t t = 0; t < 2u * model.n_units; t++)
        if (!dirad_is_finite(model.bias[t]))
            return 3;
    return 0;
}
"""


@pytest.mark.parametrize("options", [(), ("-DDIRAD_SGD",)])
def test_any_bytes_leave_finite_parameters(options, tmp_path):
    (tmp_path / "model.h").write_text(to_c_learner(fitted("regressor")))
    (tmp_path / "main.c").write_text(_HOSTILE)
    checks = ["-fsanitize=undefined,address", "-fno-sanitize-recover"]
    build = ["gcc", *STRICT, *checks, *options, "main.c", "-o", "hostile", "-lm"]
    subprocess.run(build, cwd=tmp_path, check=True)
    subprocess.run([tmp_path / "hostile"], check=True)


def test_labels_are_left_as_they_are():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    own = DIRADClassifier(random_state=0, max_edges=2).fit(X, ["{name}", "{NAME}"] * 2)
    own.feature_names_in_ = np.array(["{name}"], object)
    source = to_c_learner(own, name="own")
    assert '#define OWN_CLASSES { "{NAME}", "{name}" }' in source
    assert '#define OWN_INPUTS { "{name}" }' in source
    assert "dirad_step(&own, 0.003f)" in source
    assert "int k = dirad_class(&own, x);" in source


def test_what_does_not_learn_says_why():
    with pytest.raises(TypeError, match="only a single network learns"):
        to_c_learner(model("system"))
    with pytest.raises(ValueError, match="name must be letters"):
        to_c_learner(fitted("binary"), name="my model")
