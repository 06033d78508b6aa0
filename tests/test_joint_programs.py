"""Programs side by side, and means of squares by a kernel: the same results, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirad import inference
from dirad.core import compilation
from dirad.inference import Builder, Signals, evaluate, plain, weighted
from dirad.preval.joint_evaluation import JointEvaluation
from dirad.preval.settings import PRESETS
from dirad.preval.system import System
from dirad.program import OUTPUTS, SCORE, Program, Transfer
from dirad.side_by_side import result_name, side_by_side

SEEDS = st.integers(0, 2**20)
N_INPUTS = 6


def squares_program(seed: int, *, extra: bool = False, squares_taken: bool = False) -> Program:
    """Return scaled inputs, means of squared sums of 0 to 9 of them, and poolings of the means."""
    rng = np.random.default_rng(seed)
    builder = Builder(N_INPUTS)
    scaled = builder.linear(builder.inputs.times(rng.normal(size=N_INPUTS)).sums)
    if extra:
        bent = builder.block(Transfer.LOGISTIC, scaled.sums)
        scaled = builder.block(Transfer.MODULATED, scaled.sums, bent.sums, 1.0)
    sizes = rng.integers(1, 6, 4)
    n_rows = int(sizes.sum())
    counts = rng.integers(0, N_INPUTS + 1, n_rows)
    source = np.concatenate([rng.permutation(N_INPUTS)[:count] for count in counts])
    row = np.repeat(np.arange(n_rows), counts)
    sums = weighted(
        rng.normal(size=n_rows),
        row,
        scaled.take(source.astype(np.int64)),
        rng.normal(size=len(row)),
    )
    squares = builder.block(Transfer.SQUARE, sums)
    group = np.repeat(np.arange(4), sizes)
    means = builder.linear(weighted(np.full(4, 1e-12), group, squares, (1.0 / sizes)[group]))
    results = {
        OUTPUTS: builder.pooling(Transfer.SOFTMAX, means),
        SCORE: builder.pooling(Transfer.POWER_MEAN, means, 3.0),
    }
    if squares_taken:
        results["squares"] = plain(squares.value[:2])
    return builder.program(results)


def naive_score(program: Program, x: list[float]) -> float:
    """Compute the score of one sample, node by node."""
    values = list(x)
    for _, step in program.numbered:
        if isinstance(step, inference.Pooling):
            run = values[step.start : step.start + step.taken]
            if step.transfer == Transfer.POWER_MEAN:
                mean = sum(v**-step.constant for v in run) / len(run)
                values.append(mean ** (-1.0 / step.constant))
            else:
                values += [0.0] * step.taken
            continue
        new = []
        for node in step.nodes:
            z = node.terms[0].bias + sum(w * values[s] for s, w in node.terms[0].edges)
            new.append(z * z if node.transfer == Transfer.SQUARE else z)
        values += new
    return values[int(program.results[SCORE][0])]


@pytest.fixture
def loaded(monkeypatch):
    """Return a function that says whether kernels are used."""

    def use(kernels: bool) -> None:
        monkeypatch.setattr(inference, "are_kernels_loaded", lambda: kernels)

    return use


@pytest.mark.parametrize("n", [1, 3, 8, 41, 300])
@pytest.mark.parametrize("seed", range(6))
def test_a_kernel_gives_the_same_bits(loaded, n, seed):
    program = squares_program(seed)
    assert any(group.is_mean_of_squares for group in program.groups)
    X = np.random.default_rng(seed).normal(size=(n, N_INPUTS))
    found = []
    for kernels in (False, True):
        loaded(kernels)
        found.append(evaluate(program, X))
    for name in program.results:
        assert np.array_equal(found[0][name], found[1][name])
    score = [naive_score(program, x) for x in X.tolist()]
    assert found[1][SCORE][:, 0] == pytest.approx(score, rel=1e-9)


def test_squares_that_are_taken_elsewhere_are_computed(loaded):
    program = squares_program(3, squares_taken=True)
    assert not any(group.is_mean_of_squares for group in program.groups)
    loaded(True)
    X = np.random.default_rng(0).normal(size=(20, N_INPUTS))
    assert np.array_equal(evaluate(program, X)[SCORE], evaluate(squares_program(3), X)[SCORE])


@given(st.lists(st.tuples(SEEDS, st.booleans()), min_size=1, max_size=4), st.integers(1, 20))
def test_programs_side_by_side_give_the_same_bits(kinds, n):
    programs = [squares_program(seed, extra=extra) for seed, extra in kinds]
    joint = side_by_side(programs)
    X = np.random.default_rng(n).normal(size=(n, N_INPUTS))
    found = evaluate(joint, X)
    for i, program in enumerate(programs):
        for name, own in evaluate(program, X).items():
            assert np.array_equal(found[result_name(name, i)], own)
    assert sum(len(group.steps) > 0 for group in joint.groups) <= 9


@pytest.mark.parametrize("other", [0, 1, 2])
def test_a_pooling_may_take_values_of_several_steps(other):
    """Side by side with another program, these are no longer one after the other."""
    builder = Builder(N_INPUTS)
    first = builder.block(Transfer.LOGISTIC, builder.inputs.sums)
    second = builder.block(Transfer.LOGISTIC, first.take(np.array([1, 3])).sums)
    run = Signals(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    pooled = builder.pooling(Transfer.SOFTMAX, run.take(np.arange(4, 8)))
    programs = [builder.program({OUTPUTS: pooled}), squares_program(other, extra=other > 1)]
    X = np.random.default_rng(0).normal(size=(20, N_INPUTS))
    for order in (programs, programs[::-1]):
        found = evaluate(side_by_side(order), X)
        for i, program in enumerate(order):
            assert np.array_equal(found[result_name(OUTPUTS, i)], evaluate(program, X)[OUTPUTS])


def test_much_work_is_worth_loading_numba(monkeypatch):
    program = squares_program(1)
    entries = sum(group.n_squared_entries for group in program.groups)
    monkeypatch.setattr(inference, "are_kernels_loaded", lambda: False)
    monkeypatch.setattr(inference, "WORTH_LOADING", 100 * entries)
    assert not inference._is_worth_a_kernel(program, 99)
    assert inference._is_worth_a_kernel(program, 100)
    monkeypatch.setattr(inference, "find_spec", lambda name: None)
    assert not inference._is_worth_a_kernel(program, 100)
    assert isinstance(compilation.are_kernels_loaded(), bool)


def test_models_are_evaluated_together_as_each_by_itself():
    rng = np.random.default_rng(0)
    settings = PRESETS["default"].replace(l0=PRESETS["default"].l0.replace(batch_size=100))
    system = System(8, 4, settings, seed=0)
    for task in range(2):
        mix = rng.normal(size=(8, 8))
        X = rng.normal(size=(600, 8)) @ mix + 3 * task
        system.learn(X, 2 * task + (X[:, 0] > X[:, 0].mean()).astype(np.int64))
    models = system.calibrated
    assert len(models) == 2
    X = rng.normal(size=(50, 8))
    together = system.evaluate(X)
    for one in together:
        for found, own in zip(one.scores, one.model.evaluate(X), strict=True):
            assert np.array_equal(found, own)
    known = system._joint
    assert isinstance(known, JointEvaluation)
    system.evaluate(X)
    assert system._joint is known
    system.finish(np.zeros((0, 8)), np.zeros(0, np.int64))
    system.evaluate(X)
    assert system._joint is not known
