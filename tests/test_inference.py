"""Programs and their evaluation: against the plain twin, whatever the batch."""

import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import naive
from dirad.core.edits import new_edge
from dirad.core.network import LINEAR, MODULATORY, SOFTMAX, TRANSFER, new_network
from dirad.estimators.importances import input_importances
from dirad.inference import (
    LARGEST_CHUNK,
    Builder,
    evaluate,
    joined,
    node_states,
    plain,
    respond,
    silent,
    weighted,
)
from dirad.program import OUTPUTS, SCORE, Transfer
from networks import PAIRS, cases, random_case
from networks import plain as twin


@given(cases(n_samples=(1, 13)))
def test_all_states_agree_with_the_twin(case):
    nodes = np.concatenate(
        [
            np.arange(case.network.n_inputs),
            case.network.n_inputs + np.array(sorted(twin(case.network).units)),
        ]
    )
    found = node_states(case.network, case.X, nodes)
    for x, row in zip(case.X, found, strict=True):
        state, _ = naive.states(twin(case.network), x)
        assert row.tolist() == pytest.approx([state[s] for s in nodes], rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("pair", PAIRS)
def test_a_sample_does_not_depend_on_its_batch(pair):
    """Neither on the number of samples nor on the chunk in which it is computed, to the bit."""
    case = random_case(3, 2 * LARGEST_CHUNK + 5, pair, n_hidden=9, n_inputs=20, n_outputs=12)
    together = respond(case.network, case.X)
    for part in ([0], [600], [7, 9], range(100, 117), range(3, LARGEST_CHUNK + 11)):
        assert np.array_equal(respond(case.network, case.X[list(part)]), together[list(part)])
    for order in (np.asfortranarray(case.X), case.X[::-1][::-1]):
        assert np.array_equal(respond(case.network, order), together)


def test_nothing_overflows():
    builder = Builder(2)
    z = builder.inputs.sums
    results = {
        "logistic": builder.block(Transfer.LOGISTIC, z),
        "modulated": builder.block(Transfer.MODULATED, z, z, constant=3.0),
        "softmax": builder.pooling(Transfer.SOFTMAX, builder.inputs),
    }
    found = evaluate(builder.program(results), np.array([[800.0, -1e4]]))
    assert found["logistic"].tolist() == [[1.0, 0.0]]
    assert found["modulated"].tolist() == [[2400.0, 1e4]]
    assert found["softmax"].tolist() == [[1.0, 0.0]]


POSITIVE = st.lists(st.floats(0.01, 100.0), min_size=1, max_size=12)


@given(POSITIVE, st.floats(0.5, 8.0))
def test_poolings(values, c):
    builder = Builder(len(values))
    results = {
        str(transfer): builder.pooling(transfer, builder.inputs, c)
        for transfer in (Transfer.SOFTMAX, Transfer.SHARE, Transfer.POWER_MEAN)
    }
    found = {
        k: v[0].tolist() for k, v in evaluate(builder.program(results), np.array([values])).items()
    }
    powers = [math.exp(v - max(values)) for v in values]
    mean = (sum(v**-c for v in values) / len(values)) ** (-1 / c)
    assert found["softmax"] == pytest.approx([p / sum(powers) for p in powers])
    assert found["share"] == pytest.approx([v / sum(values) for v in values])
    assert found["power_mean"] == pytest.approx([mean])


def test_the_other_transfers():
    builder = Builder(3)
    z = builder.inputs.sums
    results = {
        "clipped": builder.block(Transfer.CLIPPED, z, constant=1.5),
        "logarithm": builder.block(Transfer.LOGARITHM, z, constant=np.array([0.5, 0.5, 0.1])),
        "square": builder.block(Transfer.SQUARE, z),
        "exceeds": builder.block(Transfer.EXCEEDS, z, constant=2.0),
    }
    found = evaluate(builder.program(results), np.array([[-3.0, 1.0, 2.0]]))
    assert found["clipped"].tolist() == [[-1.5, 1.0, 1.5]]
    assert found["logarithm"].tolist() == [[math.log(0.5), 0.0, math.log(2.0)]]
    assert found["square"].tolist() == [[9.0, 1.0, 4.0]]
    assert found["exceeds"].tolist() == [[1.0, 0.0, 0.0]]


def test_scaling_is_folded_into_weights_and_equal_values_are_taken_once():
    signals = joined(
        plain(np.array([0, 1])).less(np.array([1.0, 0.0]), np.array([2.0, 1.0])), silent(1)
    )
    row, entries = np.array([0, 0, 0, 0]), np.array([0, 1, 2, 0])
    sums = weighted(np.array([5.0]), row, signals.take(entries), np.array([4.0, 3.0, 9.0, 2.0]))
    assert list(sums.terms) == [(5.0 - 4.0 / 2 - 2.0 / 2, [(0, 4.0 / 2 + 2.0 / 2), (1, 3.0)])]


def test_only_needed_values_are_kept():
    builder = Builder(2)
    both = builder.block(Transfer.SQUARE, builder.inputs.sums)
    shares = builder.pooling(Transfer.SHARE, both)
    more = builder.linear(both.times(3.0).sums)
    program = builder.program({OUTPUTS: shares, SCORE: more.take(np.array([1]))})
    assert [step.width for step in program.steps] == [2, 2, 1]
    assert (program.outputs, program.score) == ([4, 5], 6)
    score = program.only([SCORE])
    assert [step.width for step in score.steps] == [1, 1]
    X = np.array([[1.0, 2.0]])
    assert evaluate(score, X)[SCORE] == evaluate(program, X)[SCORE] == 12.0


def test_outputs_that_feed_others():
    """A softmax over outputs of several levels takes copies of them, side by side."""
    network = new_network(1, 2, LINEAR, 3, 4)
    network.units["kind"][2] = MODULATORY
    network.counts[1] = 3
    for source, term, weight in ((0, 0, 2.0), (1, 4, 1.0), (3, 2, -1.0)):
        new_edge(network, source, term, weight)
    states = node_states(network, np.array([[3.0]]), np.arange(4))
    assert states.tolist() == [[3.0, 6.0, -6.0, 6.0]]
    network.counts[4] = SOFTMAX
    assert respond(network, np.array([[3.0]]))[0, 1] == pytest.approx(1 / (1 + math.exp(12.0)))


def test_a_cycle_is_refused():
    network = new_network(1, 1, LINEAR, 3, 4)
    network.units["kind"][1:] = MODULATORY
    network.counts[1] = 3
    new_edge(network, 2, 4, 1.0)
    new_edge(network, 3, 2, 1.0)
    with pytest.raises(ValueError, match="cycle"):
        respond(network, np.zeros((1, 1)))


def test_numba_is_not_needed():
    code = "import sys, dirad.inference; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@given(cases(n_samples=(1, 5)))
def test_importances_are_the_mean_slopes_of_the_activations(case):
    linear = case.network.copy()
    linear.counts[TRANSFER] = LINEAR
    step = 1e-6
    slopes = []
    for column in range(linear.n_inputs):
        shift = np.zeros(linear.n_inputs)
        shift[column] = step
        difference = respond(linear, case.X + shift) - respond(linear, case.X - shift)
        slopes.append(np.abs(difference / (2 * step)).mean(axis=0).sum())
    expected = np.array(slopes) / sum(slopes) if sum(slopes) > 1e-9 else np.zeros(len(slopes))
    np.testing.assert_allclose(input_importances(case.network, case.X), expected, atol=1e-4)
