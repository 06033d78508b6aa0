"""Compact networks: what they compute, how they are stored, and that C computes the same."""

import ctypes
import shutil
import subprocess
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_iris

import naive
from dirad import DIRADClassifier, DIRADRegressor
from dirad.export.compact import TooSmall, budget, compact_source, evaluate, predict, to_compact
from dirad.export.compact.budget import STORAGES
from dirad.export.compact.draft import draft_of, node_values
from dirad.export.compact.encode import decoded, encoded
from dirad.export.compact.evaluate import class_indices
from dirad.export.compact.flash import estimated_flash, flash, has_compiler
from dirad.export.compact.form import CompactNetwork, OutOfRange, Weights, bounds, check_bounds
from dirad.export.compact.refit import Trainer, TrainingSamples, _delta, refit
from dirad.export.compact.scaling import Storage, scaled
from dirad.export.compact.straight import straight_bytes
from experiments.boards import BOARDS, measure
from exported_models import model, xor

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is missing")
needs_arm = pytest.mark.skipif(not has_compiler(), reason="arm-none-eabi-gcc is missing")
TRAPS = ["-fsanitize=undefined,address", "-fno-sanitize-recover=all"]
STRICT = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-pedantic", "-O1"]
FORMATS = [storage.formats for storage in STORAGES]

MAIN = """
#include <stdio.h>
int main(void)
{
    static uint8_t x[MODEL_N_INPUTS];
    int32_t out[MODEL_N_OUTPUTS];
    while (fread(x, 1, sizeof x, stdin) == sizeof x) {
        model_predict(x, out);
        fwrite(out, sizeof out[0], MODEL_N_OUTPUTS, stdout);
    }
    return 0;
}
"""


def random_net(seed: int, formats, n_inputs=30, n_hidden=4, n_outputs=3, density=0.2):
    """A network of random edges, whose rows may be empty."""
    rng = np.random.default_rng(seed)
    start, source, weight = [0], [], []
    for row in range(2 * n_hidden + n_outputs):
        n = n_inputs + min(row // 2, n_hidden)
        own = np.flatnonzero(rng.random(n) < density * rng.integers(0, 3))
        source += own.tolist()
        levels = formats[int(row >= 2 * n_hidden)].levels
        weight += rng.choice(levels, len(own)).tolist()
        start.append(len(source))
    rows = 2 * n_hidden + n_outputs
    return CompactNetwork(
        n_inputs, n_hidden, np.array(start), np.array(source, int), np.array(weight, int),
        rng.integers(-127, 128, rows), 1, 3,
        rng.integers(0, 16, n_hidden), rng.integers(4, 16, n_hidden), formats,
        np.zeros(n_inputs), np.ones(n_inputs), np.ones(n_outputs), np.zeros(n_outputs),
        tuple(range(n_outputs)),
    )  # fmt: skip


def random_bytes(n: int, net: CompactNetwork, seed: int = 0) -> NDArray[np.uint8]:
    """Bytes of every size: whole ranges, extremes, and few that are not 0."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 256, (n, net.n_inputs), dtype=np.uint8)
    x[: n // 4] = rng.choice(np.array([0, 255], np.uint8), (n // 4, net.n_inputs))
    x[n // 4 : n // 2][rng.random((n // 2 - n // 4, net.n_inputs)) < 0.8] = 0
    return x


def edges_of(net: CompactNetwork) -> list[tuple[int, int, int]]:
    return list(zip(net.row.tolist(), net.source.tolist(), net.weight.tolist(), strict=True))


def in_c(
    net: CompactNetwork, x: NDArray[np.uint8], folder: Path, *, fast: bool = False
) -> NDArray[np.int32]:
    """The outputs of the C on this machine, with sanitizers."""
    (folder / "main.c").write_text(compact_source(net, fast=fast) + MAIN)
    subprocess.run(["gcc", *STRICT, *TRAPS, "main.c", "-o", "main"], cwd=folder, check=True)
    run = subprocess.run([folder / "main"], input=x.tobytes(), capture_output=True, check=True)
    return np.frombuffer(run.stdout, np.int32).reshape(len(x), net.n_outputs)


@pytest.mark.parametrize("formats", FORMATS)
def test_evaluation_is_that_of_plain_loops(formats):
    net = random_net(1, formats)
    x = random_bytes(40, net)
    assert evaluate(net, x).tolist() == [naive.compact_outputs(net, row) for row in x.tolist()]


@pytest.mark.parametrize("formats", [*FORMATS, (Weights(3, 5), Weights(6, 2))])
@pytest.mark.parametrize("density", [0.0, 0.01, 0.3, 1.0])
def test_edges_are_read_back(formats, density):
    for seed in range(5):
        for n_hidden in (0, 1, 7):
            net = random_net(seed, formats, 400, n_hidden, density=density)
            assert list(decoded(net, encoded(net))) == edges_of(net)


@needs_gcc
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("storage", range(len(STORAGES)))
def test_c_equals_python_bit_for_bit(storage, fast, tmp_path):
    net = random_net(storage, FORMATS[storage], n_hidden=(0, 3, 6)[storage % 3])
    net = replace(net, bias_bytes=STORAGES[storage].bias_bytes)
    x = random_bytes(10_000, net)
    assert np.array_equal(in_c(net, x, tmp_path, fast=fast), evaluate(net, x))


@needs_gcc
@pytest.mark.parametrize("density", [0.0, 0.05])
def test_straight_lines_of_rows_without_edges(density, tmp_path):
    for seed in range(4):
        net = random_net(seed, FORMATS[7], 5, 4, density=density)
        net = replace(net, weight=np.where(net.weight % 5 == 0, 0, net.weight))
        x = random_bytes(200, net)
        assert np.array_equal(in_c(net, x, tmp_path, fast=True), evaluate(net, x))


@needs_arm
def test_straight_lines_take_a_fraction_of_the_instructions():
    board = BOARDS["m0"]
    if board.missing:
        pytest.skip(f"missing: {', '.join(board.missing)}")
    call = (
        "void answer(const void *x, void *out);\n"
        "void answer(const void *x, void *out) { model_predict(x, out); }\n"
    )
    net = random_net(3, FORMATS[1], 196, 6, density=0.1)
    x = random_bytes(20, net)
    table, lines = (
        measure(board, compact_source(net, fast=fast) + call, x, (3, np.int32))
        for fast in (False, True)
    )
    assert np.array_equal(table.answers, lines.answers)
    assert lines.instructions < table.instructions / 5


def test_bounds_hold_and_are_checked():
    net = random_net(0, FORMATS[0])
    found = bounds(net)
    assert np.abs(evaluate(net, random_bytes(500, net))).max() <= found.sums.max()
    with pytest.raises(ValueError, match="32 bits"):
        check_bounds(replace(net, bias=net.bias * 10**8))


def test_gradients_are_those_of_finite_differences():
    net = random_net(3, FORMATS[0], 10, 3, density=0.5)
    net = replace(net, gate_shift=np.full(3, 14), product_shift=np.full(3, 12))
    rng = np.random.default_rng(0)
    x = random_bytes(8, net)
    target = rng.dirichlet(np.ones(3), 8).astype(np.float32)
    training = TrainingSamples(x, target, np.ones(8, np.float32), "softmax", 1e-3)
    every = np.arange(8)
    weight, bias = net.weight.astype(np.float32), (net.bias << 3).astype(np.float32)
    of_weight, of_bias = Trainer(net).gradients(weight, bias, training, every, x.astype(np.float32))
    for values, gradient, step in ((weight, of_weight, 0.25), (bias, of_bias, 8.0)):
        for i in range(0, len(values), 3):
            losses = []
            for sign in (1, -1):
                values[i] += sign * step
                losses.append(naive.compact_loss(net, weight, bias, x.tolist(), target, 1e-3))
                values[i] -= sign * step
            assert gradient[i] == pytest.approx(
                (losses[0] - losses[1]) / (2 * step), rel=0.02, abs=1e-6
            )


@pytest.mark.parametrize("kind", ["softmax", "binary", "regressor", "columns"])
def test_a_compact_network_answers_as_the_model(kind):
    own = model(kind)
    X = load_iris().data if kind == "softmax" else xor()[0]
    if kind in ("regressor", "columns"):
        X = np.random.default_rng(0).normal(own.input_mean_, own.input_spread_, (300, 10))
    answers = own.predict(X)
    found = to_compact(own, None, X, answers)
    assert found.after is not None
    assert found.after > 0.95
    assert found.net.n_edges == own.n_edges_


def test_drafts_compute_what_the_network_computes():
    own = model("softmax")
    X = load_iris().data
    low, high = X.min(axis=0), X.max(axis=0)
    draft = draft_of(own, low, high)
    nodes = node_values(draft, (X - low) / (high - low) * 255)
    rows = range(2 * draft.n_hidden, draft.n_rows)
    logits = np.stack([
        draft.bias[r]
        + draft.weight[draft.start[r] : draft.start[r + 1]]
        @ nodes[draft.source[draft.start[r] : draft.start[r + 1]]]
        for r in rows
    ])  # fmt: skip
    powers = np.exp(logits - logits.max(axis=0))
    assert np.allclose((powers / powers.sum(axis=0)).T, own.predict_proba(X), atol=1e-9)


def test_a_refit_repairs_what_rounding_breaks():
    X, y = xor()
    own = model("binary")
    storage = Storage((Weights(6, 2), Weights(6, 2)), 1)
    start = scaled(draft_of(own, np.zeros(3), np.ones(3)), storage, np.uint8(X * 255))
    x = start.net.to_bytes(X)
    target = np.where(y, 1.0, 0.0)[:, None].astype(np.float32)
    scale = float(start.net.scale[0])
    training = TrainingSamples(x, target, np.ones(len(x), np.float32), "logistic", scale)
    rates = [
        np.mean(class_indices(evaluate(one.rounded(), x)) == y)
        for one in (start, refit(start, training, steps=1000, seed=0))
    ]
    assert rates[1] >= max(rates[0], 0.95)


def test_the_bytes_are_kept_and_edges_pruned():
    X, y = load_iris(return_X_y=True)
    own = DIRADClassifier(random_state=0, structure="wide").fit(X, y)
    sizes = {most: to_compact(own, most, X, y, storages=STORAGES[1:3]) for most in (262, 512)}
    for most, found in sizes.items():
        assert found.flash <= most
        assert found.after > 0.9
    assert sizes[262].net.n_edges < sizes[512].net.n_edges <= own.n_edges_
    assert sizes[262].net.n_hidden == 0 < sizes[512].net.n_hidden  # their code takes 120 bytes
    fast = to_compact(own, 250, X, y, storages=STORAGES[1:3], fast=True)
    assert fast.flash == flash(fast.net, fast=True) <= 250
    assert fast.net.n_edges < own.n_edges_
    assert fast.after > 0.9


def test_the_same_twice():
    X, y = load_iris(return_X_y=True)
    texts = {
        compact_source(to_compact(model("softmax"), 400, X, y, storages=STORAGES[:2]).net)
        for _ in range(2)
    }
    assert len(texts) == 1


def test_what_has_no_compact_form_says_why():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(TooSmall, match="100 bytes"):
        to_compact(model("softmax"), 100, X, y)
    holes = X.copy()
    holes[::7, 1] = np.nan
    own = DIRADClassifier(random_state=0, max_edges=10).fit(holes, y)
    with pytest.raises(ValueError, match="missing values in x1"):
        to_compact(own, 1024)
    with pytest.raises(ValueError, match="missing"):
        to_compact(model("softmax"), 1024, holes, y)
    with pytest.raises(TypeError, match="PREVALClassifier"):
        to_compact(model("alone"), 1024)
    with pytest.raises(ValueError, match="uint8"):
        evaluate(random_net(0, FORMATS[0]), np.zeros((2, 30)))


@needs_arm
@pytest.mark.parametrize("storage", range(len(STORAGES)))
@pytest.mark.parametrize("n_hidden", [0, 5])
def test_the_estimate_of_flash_is_near_and_not_below(storage, n_hidden):
    net = replace(
        random_net(0, FORMATS[storage], n_hidden=n_hidden, density=0.1),
        bias_bytes=STORAGES[storage].bias_bytes,
    )
    for one in (net, replace(net, classes=None)):
        assert 0 <= estimated_flash(one) - flash(one) <= 80
    for one in (net, replace(random_net(1, FORMATS[storage], n_hidden=n_hidden), classes=None)):
        measured = flash(one, fast=True)
        assert 0 <= straight_bytes(one) - measured <= 110 + 0.5 * measured


@needs_gcc
def test_inputs_and_classes_in_c(tmp_path):
    X, y = load_iris(return_X_y=True)
    net = to_compact(model("softmax"), None, X, y).net
    calls = "int c(const uint8_t *x) { return model_predict_class(x); }\n"
    calls += "int i(int k, float v) { return model_input(k, v); }\n"
    (tmp_path / "main.c").write_text(compact_source(net) + calls)
    build = ["gcc", "-shared", "-fPIC", "main.c", "-o", "main.so"]
    subprocess.run(build, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "main.so"))
    x = [[library.i(k, ctypes.c_float(v)) for k, v in enumerate(row)] for row in X.tolist()]
    assert np.array_equal(x, net.to_bytes(X))
    found = [library.c(bytes(row)) for row in net.to_bytes(X).tolist()]
    assert np.array_equal(np.array(net.classes)[found], predict(net, X))
    beyond = [library.i(0, ctypes.c_float(v)) for v in (-1e30, 1e30, float("nan"))]
    assert beyond == [0, 255, 0]


@needs_gcc
@pytest.mark.parametrize("options", [(), ("-mfma", "-ffp-contract=fast")])
def test_c_and_python_make_the_same_bytes(tmp_path, options):
    rng = np.random.default_rng(0)
    low = np.array([0.0, -1e-3, 4.3, -2e38, 1e9, 5.0, -1e-39])
    high = np.array([1.0, 1e-3, 7.9, 1e38, 1e9 + 1, 5.0, 0.1])
    n = len(low)
    net = replace(random_net(0, FORMATS[0], n), low=low, high=high)
    calls = "int i(int k, float v) { return model_input(k, v); }\n"
    (tmp_path / "main.c").write_text(compact_source(net) + calls)
    build = ["gcc", "-O2", *options, "-shared", "-fPIC", "main.c", "-o", "main.so"]
    subprocess.run(build, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "main.so"))
    width = high - low
    X = rng.uniform(low - 0.1 * width, high + 0.1 * width, (20_000, n))
    steps = rng.integers(0, 511, X.shape) / 510  # ends, middles, and halves between two bytes
    X[::2] = (low + steps * width)[::2]
    X[1], X[3], X[5] = low, high, np.nextafter(high, np.inf)
    x = [[library.i(k, ctypes.c_float(v)) for k, v in enumerate(row)] for row in X.tolist()]
    assert np.array_equal(x, net.to_bytes(X))
    ideal = np.clip((X - low) / np.where(width > 0, width, 1.0) * 255, 0, 255)
    assert np.abs(ideal - x)[:, [0, 1, 2, 3, 6]].max() < 0.5 + 1e-3


@pytest.mark.parametrize("ends", [(-3e38, 3e38), (0.0, 1e39), (2.0, 1.0), (0.0, np.inf)])
def test_ranges_that_float_cannot_hold_are_refused(ends):
    net = random_net(0, FORMATS[0])
    bad = replace(net, low=np.full(30, ends[0]), high=np.full(30, ends[1]))
    with pytest.raises(ValueError, match="input 0 has the range"):
        compact_source(bad)
    with pytest.raises(ValueError, match="input 0 has the range"):
        to_compact(model("softmax"), None, low=ends[0], high=ends[1])


def test_names_and_labels_are_left_as_they_are(tmp_path):
    net = replace(
        random_net(0, FORMATS[0], 3),
        names=("{name} /* a", "b */ c", "{NAME}\\"),
        classes=("{name}", "/* d */", "{NAME}"),
        low=np.array([0.0, -1.0, 0.5]),
    )
    for source in (compact_source(net, "own"), compact_source(replace(net, classes=None), "own")):
        assert "They are: {name} / * a, b * / c, {NAME}" in source
        assert "own_low[i]" in source
        if shutil.which("gcc"):
            (tmp_path / "main.c").write_text(source + "int main(void) { return 0; }\n")
            check = ["gcc", *STRICT, "-Wno-unused-function", "-fsyntax-only", "main.c"]
            subprocess.run(check, cwd=tmp_path, check=True)
    labels = '{ "{name}", "/* d */", "{NAME}" }'
    assert f"#define OWN_CLASSES {labels}" in compact_source(net, "own")


_ON_AVR = """
#include <avr/io.h>
static const uint8_t given[MODEL_N_INPUTS] = {{ {x} }};
int main(void)
{{
    int32_t out[MODEL_N_OUTPUTS];
    UCSR0B = 1 << TXEN0;
    model_predict(given, out);
    for (unsigned i = 0; i < sizeof out; i++) {{
        while (!(UCSR0A & (1 << UDRE0)))
            ;
        UDR0 = ((const uint8_t *)out)[i];
    }}
    for (;;)
        ;
}}
"""


@pytest.mark.skipif(
    shutil.which("avr-gcc") is None or shutil.which("qemu-system-avr") is None,
    reason="avr-gcc or qemu-system-avr is missing",
)
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("storage", [2, 4, 6, 7])
def test_where_int_has_16_bits(storage, fast, tmp_path):
    net = random_net(storage, FORMATS[storage], 300, n_hidden=3, density=0.5)
    bias = np.where(net.bias < 0, net.bias, 32000)  # stored as 64,768 and more
    net = replace(net, bias_bytes=2, bias=bias)
    x = np.maximum(random_bytes(8, net)[-1:], 200)
    main = _ON_AVR.format(x=", ".join(map(str, x[0])))
    (tmp_path / "main.c").write_text(compact_source(net, fast=fast) + main)
    build = ["avr-gcc", "-mmcu=atmega2560", "-std=c99", "-Os", "main.c", "-o", "main.elf"]
    subprocess.run(build, cwd=tmp_path, check=True)
    emulate = ["qemu-system-avr", "-M", "mega2560", "-bios", "main.elf", "-display", "none"]
    emulate += ["-monitor", "none", "-serial", "stdio"]
    board = subprocess.Popen(
        emulate, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    stop = threading.Timer(30, board.kill)
    stop.start()
    try:
        found = board.stdout.read(4 * net.n_outputs)
    finally:
        stop.cancel()
        board.kill()
        board.wait()
    assert np.array_equal(np.frombuffer(found, np.int32), evaluate(net, x)[0])


def test_ways_to_store_the_network_that_are_out_of_range_are_left_out(monkeypatch):
    X, y = load_iris(return_X_y=True)
    own, real = model("softmax"), budget._size

    def size(one, storage):
        if storage.formats == STORAGES[1].formats:
            raise OutOfRange("a sum could leave 32 bits")
        return real(one, storage)

    monkeypatch.setattr(budget, "_size", size)
    found = to_compact(own, 400, X, y, storages=STORAGES[1:3])
    assert found.net.formats == STORAGES[2].formats


def test_no_budget_is_exceeded(monkeypatch):
    """Code that grows as edges are removed: the size is checked until it is kept."""
    X, y = load_iris(return_X_y=True)
    own = DIRADClassifier(random_state=0, structure="wide").fit(X, y)
    real = budget.flash
    monkeypatch.setattr(budget, "has_compiler", lambda: True)
    monkeypatch.setattr(
        budget, "flash", lambda net, fast=False: real(net) + int(0.8 * (own.n_edges_ - net.n_edges))
    )
    monkeypatch.setattr(budget, "LEAST_STEPS", 10)
    monkeypatch.setattr(budget, "EPOCHS", 0.0)
    for most in range(300, 400, 15):
        found = to_compact(own, most, X, y, storages=STORAGES[1:2])
        assert found.flash <= most
        assert found.net.n_edges > 0
    most = 451 + own.n_edges_  # so that the whole network takes 451 bytes
    monkeypatch.setattr(budget, "flash", lambda net, fast=False: most - net.n_edges)
    expected = f"450 bytes are too few: without any edge it takes {most}"
    with pytest.raises(TooSmall, match=expected):
        to_compact(own, 450, X, y, storages=STORAGES[1:2])


def test_values_of_a_regressor():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 5, (400, 2))
    y = 100 + 20 * X[:, 0] - 7 * X[:, 1]
    own = DIRADRegressor(random_state=0).fit(X, y)
    found = to_compact(own, 600, X, y, storages=STORAGES[-1:])
    assert found.after > 0.99
    assert "model_value" in compact_source(found.net)
    x, ones = np.zeros((2, 2), np.uint8), np.ones(2, np.float32)
    training = TrainingSamples(x, ones[:, None], ones, "linear", 1.0)
    assert _delta(np.zeros((1, 2), np.float32), training, np.arange(2)).tolist() == [[-0.5, -0.5]]
