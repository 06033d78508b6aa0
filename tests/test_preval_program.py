"""The program of a finished PREVAL model computes what the model itself does."""

import numpy as np
import pytest
from dirad.preval.buffer_model import BufferModel

from dirad.export.system import expert_parts
from dirad.inference import evaluate
from dirad.preval.program import (
    ERRORS,
    GATES,
    L0,
    MODE_ERRORS,
    TINY,
    expert_program,
    l0_program,
)
from dirad.program import OUTPUTS, SCORE
from exported_models import ALONE, SYSTEMS, inputs, model

CASES = [(kind, place) for kind in ALONE + SYSTEMS for place in range(1 if kind in ALONE else 2)]


def close(found, expected):
    """Are results equal up to rounding?

    A model takes logits from probabilities: close to 0 and 1 these have few digits.
    """
    return found == pytest.approx(np.asarray(expected), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_answers_and_score(kind, place):
    one, X = model(kind).models_[place], inputs(kind)[:500].astype(float)
    found = evaluate(expert_program(expert_parts(one)), X)
    assert set(found) == {OUTPUTS, SCORE}
    assert close(found[OUTPUTS], one.probabilities(X))
    assert close(found[SCORE][:, 0], one.score(X))


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_details(kind, place):
    one, X = model(kind).models_[place], inputs(kind)[:500].astype(float)
    parts = expert_parts(one)
    program = expert_program(parts, details=True)
    found, l1 = evaluate(program, X), one.l1
    assert close(found[OUTPUTS], one.probabilities(X))
    assert close(found[SCORE][:, 0], one.score(X))
    assert close(found[L0], one.respond(X))
    assert close(evaluate(l0_program(parts), X)[OUTPUTS], one.respond(X))
    scaled = one.scaled(X)
    assert close(np.abs(found[ERRORS]), l1.errors(scaled))
    if l1.gates is None:
        assert found[GATES].shape == (len(X), 0)
    else:
        assert close(found[GATES], l1.gates.values(l1.states(scaled)))
    squares = l1.squares(scaled) / np.count_nonzero(l1.predicts_input) + TINY
    if isinstance(one, BufferModel):
        assert close(found[MODE_ERRORS], squares)
    only = evaluate(program.only([ERRORS]), X)
    assert np.array_equal(only[ERRORS], found[ERRORS])


@pytest.mark.parametrize("score", ["squared", "conflicts"])
def test_other_scores(score):
    one, X = model("system").models_[0], inputs("system")[:500].astype(float)
    before = one.settings
    one.settings = before.replace(score=score)
    try:
        for details in (False, True):
            found = evaluate(expert_program(expert_parts(one), details=details), X)
            assert close(found[SCORE][:, 0], one.score(X))
            assert close(found[OUTPUTS], one.probabilities(X))
    finally:
        one.settings = before


def test_large_offsets_cost_no_digits():
    """Inputs that lie 1e12 spreads from 0, as a model may learn them."""
    X = np.round(inputs("system")[:100].astype(float) * 64) / 64  # adding the shift is then exact
    parts = expert_parts(model("system").models_[0])
    parts = parts._replace(offset=np.round(parts.offset * 64) / 64)
    shift = 1e12 * np.ceil(parts.spread)
    moved = parts._replace(offset=parts.offset + shift)
    expected = evaluate(expert_program(parts, details=True), X)
    found = evaluate(expert_program(moved, details=True), X + shift)
    assert np.array_equal(found[SCORE], expected[SCORE])
    assert not np.array_equal(evaluate(expert_program(moved), X + shift)[SCORE], expected[SCORE])
