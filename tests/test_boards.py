"""Exported C on emulated boards: the host's answers, and counts that can be trusted."""

import numpy as np
import pytest

import exported_models as plain
from c_models import (
    COMPACT,
    KINDS,
    STRICT,
    compact_in_c,
    compact_net,
    in_c,
    inputs,
    model,
    ranges,
    system_in_c,
)
from dirad.export import c_size, to_c_learner
from dirad.export.compact import evaluate
from dirad.export.compact.evaluate import class_indices
from dirad.export.exported import exported
from dirad.export.fixed_point import fixed_program
from dirad.export.fixed_run import whole_inputs
from dirad.export.learner import learner_tables
from experiments.boards import BOARDS, host_answers, measure

N_QUICK, N_ALL = 300, 10_000
WORD = (1, np.int32)

_SUM = """#include <stdint.h>
void answer(const void *x, void *out);
static const int32_t table[50] = { 1, 2, 3 };
static int32_t calls[10];
void answer(const void *x, void *out)
{
    const int32_t *given = x;
    volatile int32_t copies[40];
    for (int i = 0; i < 40; i++)
        copies[i] = given[i % 2];
    calls[given[0] & 7]++;
    *(int32_t *)out = copies[0] + copies[39] + table[given[0] & 31];
}
"""
_TURNS = """#include <stdint.h>
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    uint32_t n = *(const uint32_t *)x;
    *(uint32_t *)out = n;
#ifdef __arm__
    __asm__ volatile(".syntax unified\\n1: subs %0, %0, #1\\n bne 1b" : "+l"(n)::"cc");
#else
    __asm__ volatile("1: addi %0, %0, -1\\n bnez %0, 1b" : "+r"(n));
#endif
}
"""
_CRASHES = _TURNS[: _TURNS.index("#ifdef")] + "__builtin_trap(); }"


@pytest.fixture(params=BOARDS)
def board(request):
    own = BOARDS[request.param]
    if own.missing:
        pytest.skip(f"missing: {', '.join(own.missing)}")
    return own


def floats(kind, n):
    return inputs(kind)[:n]


# ------------------------------------------------------------------ what is measured


def test_instructions_are_counted_one_by_one(board):
    turns = np.array([[1], [10], [100_000]], np.uint32)
    least, most = (measure(board, _TURNS, X, WORD, options=("-Os",)) for X in (turns[:1], turns))
    assert most.instructions - least.instructions == pytest.approx(2 * turns.mean() - 2, abs=0.5)
    assert most.most - least.most == pytest.approx(2 * 99_999, abs=1)


def test_bytes_and_stack_are_those_of_the_model_in_every_run(board):
    X = np.array([[3, 4], [1, 1]], np.int32)
    found, again = (measure(board, _SUM, X, WORD) for _ in range(2))
    assert found[1:] == again[1:]
    assert found.answers.ravel().tolist() == [3 + 4, 1 + 1 + 2]
    assert 200 + 30 <= found.flash <= 200 + 200  # the table and a little code
    assert 40 <= found.ram <= 48
    assert 160 <= found.stack <= 160 + 40


def test_a_program_that_crashes_is_reported(board):
    with pytest.raises(RuntimeError, match=f"{board.core} failed"):
        measure(board, _CRASHES, np.ones((1, 1), np.uint32), WORD)


# ------------------------------------------------------------------ exports


def run_on(board, own, X):
    """What a model in C answers on the host and on the board."""
    expected = host_answers(own.source, X, own.answer, files=own.files)
    options = ("-Os", *STRICT, "-Wno-unused-function")
    found = measure(board, own.source, X, own.answer, files=own.files, options=options)
    assert found.answers.shape == expected.shape == (len(X), own.answer[0])
    return expected, found


def compare(board, kind, bits, n):
    """The answers on the board are the host's: bit for bit, or nearly so in float."""
    expected, found = run_on(board, in_c(kind, bits), floats(kind, n))
    if bits is None:
        assert np.abs(found.answers - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())
    else:
        assert np.array_equal(found.answers, expected)
    return found


@pytest.mark.parametrize(
    ("kind", "bits"), [("softmax", None), ("regressor", 32), ("two classes", 16)]
)
def test_a_board_gives_the_answers_of_the_host(board, kind, bits):
    found = compare(board, kind, bits, N_QUICK)
    size = c_size(model(kind), fixed=None if bits is None else ranges(kind, bits))
    assert found.flash > size.flash
    assert found.stack >= size.ram
    if bits is not None:
        assert found.ram == 0  # nothing but the stack


@pytest.mark.slow
@pytest.mark.parametrize("bits", [None, 16, 32])
@pytest.mark.parametrize("kind", KINDS)
def test_a_board_gives_ten_thousand_answers_of_the_host(board, kind, bits):
    compare(board, kind, bits, N_ALL)


def compare_compact(board, kind, n):
    net, X = compact_net(), floats("softmax", n)
    expected, found = run_on(board, compact_in_c(kind), X)
    rows = evaluate(net, net.to_bytes(X))
    assert np.array_equal(expected, np.column_stack([rows, class_indices(rows)]))
    assert np.array_equal(found.answers, expected)
    assert found.ram == 0


@pytest.mark.parametrize("kind", COMPACT)
def test_a_board_gives_the_answers_of_a_compact_network(board, kind):
    compare_compact(board, kind, N_QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("kind", COMPACT)
def test_a_board_gives_ten_thousand_answers_of_a_compact_network(board, kind):
    compare_compact(board, kind, N_ALL)


def board_of(name):
    if BOARDS[name].missing:
        pytest.skip(f"missing: {', '.join(BOARDS[name].missing)}")
    return BOARDS[name]


@pytest.mark.parametrize("bits", [None, 16, 32])
def test_a_board_gives_the_answers_of_a_continual_system(bits):
    """Probabilities, novelty, whether a sample is known, and which model answers."""
    own, X = system_in_c("system", bits), plain.inputs("system")
    X = X[:: len(X) // N_QUICK][:N_QUICK]
    X[::7] += 20  # of no task
    expected, found = run_on(board_of("m4f" if bits is None else "m3"), own, X)
    assert len(np.unique(expected[:, -1])) == 2  # both models answer
    assert 0.1 < expected[:, -2].mean() < 0.95  # some samples are unknown
    if bits is not None:
        assert np.array_equal(found.answers, expected)
        return
    assert np.array_equal(found.answers[:, -2:], expected[:, -2:])
    error = np.abs(found.answers - expected) / np.maximum(1.0, np.abs(expected))
    assert error.max() < 1e-5


_LEARNS = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    static float seen = 0.0f;
    const float *given = x;
    float *to = out;
    const uint32_t edges = dirad_edges(&model), all = edges + 2u * model.n_units;
    dirad_forward(&model, given + 1, to);
    if (given[0] > seen) { /* the stack is measured by a second call */
        seen = given[0];
        dirad_learn(&model, given + 1, given + 1 + MODEL_N_INPUTS);
        if ((long)seen % 8 == 0)
            dirad_step(&model, 0.01f);
    }
    for (uint32_t i = 0; i < all; i++)
        to[MODEL_N_OUTPUTS + i] = i < edges ? model.weight[i] : model.bias[i - edges];
}
"""


@pytest.mark.parametrize("name", ["m0", "m4f"])
@pytest.mark.parametrize("kind", ["softmax", "regressor"])
def test_a_board_learns_as_the_host_does(name, kind):
    """Parameters after every step; outputs after the sample was learned, on the board as well."""
    board, own = board_of(name), model(kind)
    made, rng, n = learner_tables(own), np.random.default_rng(0), 80
    n_outputs = own.network_.n_outputs
    targets = rng.normal(1.0, 0.5, (n, n_outputs))
    if kind == "softmax":
        targets = np.eye(n_outputs)[rng.integers(0, n_outputs, n)]
    X = np.column_stack([1 + np.arange(n), floats(kind, n), targets]).astype(np.float32)
    files = {"model.h": to_c_learner(own)}
    answer = (n_outputs + len(made.weight) + len(made.bias), np.float32)
    expected = host_answers(_LEARNS, X, answer, files=files)
    found = measure(board, _LEARNS, X, answer, files=files)
    assert np.abs(expected[-1] - expected[0])[n_outputs:].max() > 0.05  # it has learned
    parameters = slice(n_outputs, None)
    for part in (parameters, slice(0, n_outputs)):
        error = found.answers[:, part] - expected[:, part]
        assert np.abs(error).max() < 2e-5 * max(1.0, np.abs(expected[:, part]).max())


@pytest.mark.parametrize("kind", ["softmax", "regressor"])
def test_wider_weights_need_what_is_said(kind):
    board = BOARDS["m0"]
    if board.missing:
        pytest.skip(f"missing: {', '.join(board.missing)}")
    flash, said = [], []
    for bits in (16, 32):
        own = in_c(kind, bits)
        X = np.zeros((1, own.n_inputs), np.int32)
        flash.append(measure(board, own.whole_source, X, own.answer, files=own.files).flash)
        said.append(c_size(model(kind), fixed=ranges(kind, bits)).flash)
    assert flash[1] - flash[0] == pytest.approx(said[1] - said[0], abs=8)  # alignment


# ------------------------------------------------------------------ classes without probabilities

_CLASS_AND_SHARES = """#include "model.h"
void answer(const void *x, void *out);
void answer(const void *x, void *out)
{
    *(int32_t *)out = model_predict_class((const int32_t *)x);
    model_predict((const int32_t *)x, (int32_t *)out + 1);
}
"""


def near_ties(classify, X):
    """Whole inputs between samples of different classes, bisected until they are neighbours."""
    own = classify(X)
    changes = np.flatnonzero(own[1:] != own[:-1])
    low, high, first, found = X[changes], X[changes + 1], own[changes], []
    for _ in range(31):
        middle = (low + high) >> 1
        same = (classify(middle) == first)[:, None]
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        found += [low, middle, high]
    return np.concatenate(found)


@pytest.mark.parametrize("bits", [16, 32])
@pytest.mark.parametrize("kind", ["softmax", "binary"])
def test_classes_told_by_sums_are_those_of_the_highest_probability(kind, bits):
    own = in_c(kind, bits)
    assert "told by sums" in own.files["model.h"]
    answer = (1 + own.answer[0], np.int32)

    def answers(X):
        return host_answers(_CLASS_AND_SHARES, X.astype(np.int32), answer, files=own.files)

    program = exported(model(kind)).members[0].program
    X = whole_inputs(fixed_program(program, ranges(kind, bits)).inputs, floats(kind, 400))
    X = np.concatenate([X, near_ties(lambda X: answers(X)[:, 0], X)])
    found = answers(X)
    assert len(np.unique(found[:, 0])) == found.shape[1] - 1
    assert np.array_equal(found[:, 0], found[:, 1:].argmax(axis=1))
    best_two = np.sort(found[:, 1:], axis=1)[:, -2:]
    assert (np.diff(best_two) < 64).any()  # nearly tied
