"""Gates that read as an if: where the threshold is, how wide, and who writes it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dirad import DIRADRegressor
from dirad.core.describe import notation
from dirad.core.edits import new_edge, new_unit
from dirad.core.network import LINEAR, new_network
from dirad.core.thresholds import threshold_of, thresholds
from dirad.export import formula_text, to_c
from dirad.inference import respond


def gate(weight, bias, gain, *, source=0, constant=1.0, of=None):
    """Return a network y0 = h1 = (constant + of) · σ₁(gain · (weight · source + bias))."""
    network = new_network(2, 1, LINEAR, unit_capacity=2, edge_capacity=4)
    unit = new_unit(network, gain, bias)
    network.bias[unit, 0] = constant
    new_edge(network, source, 2 * unit + 1, weight)
    new_edge(network, 2 + unit, 0, 1.0)
    if of is not None:
        new_edge(network, of, 2 * unit, 1.0)
    return network


def factor(network, x):
    return respond(network, np.column_stack([x, np.zeros_like(x)]))[:, 0]


numbers = st.floats(0.1, 10).flatmap(lambda x: st.sampled_from([x, -x]))


@given(numbers, st.floats(-10, 10), numbers)
def test_the_factor_changes_at_the_threshold_within_the_width(weight, bias, gain):
    network = gate(weight, bias, gain)
    found = threshold_of(network, 1, np.full(2, 1e3))
    assert found is not None
    assert found.source == 0
    at = factor(network, np.array([found.value]))
    assert at == pytest.approx(1.0, abs=1e-6)  # half way between −1 and 3
    ends = found.value + found.half_width * np.array([-1.0, 1.0])
    low, high = factor(network, ends) if found.above else factor(network, ends)[::-1]
    assert (low, high) == pytest.approx((-0.6, 2.6), abs=1e-6)  # 10 % and 90 % of the way
    far = found.value + 100 * found.half_width * np.array([-1.0, 1.0])
    below, above = factor(network, far)
    assert (above, below) == pytest.approx((3, -1) if found.above else (-1, 3))


def test_a_gate_is_a_threshold_only_where_it_is_steep_for_its_input():
    network = gate(1.0, -3.4, 10.0)  # 80 % of the change within ± 0.22
    assert threshold_of(network, 1, np.array([1.0, 1.0])) is not None
    assert threshold_of(network, 1, np.array([0.43, 1.0])) is None
    assert threshold_of(network, 1, np.array([0.0, 1.0])) is None  # a constant input
    assert threshold_of(network, 1, None) is None
    assert threshold_of(network, 0, np.ones(2)) is None  # an output


def test_two_sources_or_a_hidden_source_are_no_threshold():
    network = gate(1.0, 0.0, 10.0)
    new_edge(network, 1, 3, 1.0)
    assert thresholds(network, np.ones(2)) == {}
    twice = gate(1.0, -1.0, 10.0)
    new_edge(twice, 0, 3, 1.0)  # the same source by two edges: 2·x0 − 1
    assert thresholds(twice, np.ones(2))[1].value == 0.5
    hidden = gate(1.0, 0.0, 10.0, source=3)
    hidden.edges["source"][0] = 2 + 1  # of itself: never evaluated, only described
    assert threshold_of(hidden, 1, np.ones(2)) is None


def test_equations_write_thresholds_in_the_units_of_the_input():
    spread = np.array([1.0, 1.0])
    names = ["income", "age"]
    soft = gate(1.0, -3.4, 10.0, of=1)
    assert soft.equations(names, spread)[1] == (
        "h1 = (1·age + 1) · (3 if income above 3.40 ± 0.22 else −1)"
    )
    sharp = gate(-1.0, 3.4, 100.0, constant=0.5)
    assert sharp.equations(names, spread)[1] == "h1 = 1.5 if income below 3.40 else −0.5"
    assert "σ₁" in sharp.equations(names)[1]
    assert formula_text(sharp, names, spread).endswith("h1 = 1.5 if income below 3.40 else −0.5")
    assert [line[0] for line in notation(sharp, spread)] == ["“"]
    assert [line[0] for line in notation(sharp)] == ["σ"]


def conjunction(bias, weights=(1.0, -1.0), constants=(0.25, 0.25)):
    """Return a gate on two steps: x0 above 3, and x1 below 5."""
    network = new_network(2, 1, LINEAR, unit_capacity=4, edge_capacity=8)
    steps = [new_unit(network, 100.0, -3.0), new_unit(network, 100.0, 5.0)]
    both = new_unit(network, 8.0, bias)
    network.bias[both, 0] = 0.25
    for source, (step, sign) in enumerate(zip(steps, (1.0, -1.0), strict=True)):
        network.bias[step, 0] = constants[source]
        new_edge(network, source, 2 * step + 1, sign)
        new_edge(network, 2 + step, 2 * both + 1, weights[source])
    new_edge(network, 2 + both, 0, 1.0)
    return network


@pytest.mark.parametrize(
    ("network", "text"),
    [
        (conjunction(-0.5), "income above 3.00 and age above 5.00"),
        (conjunction(-1.0, (1.0, 1.0)), "income above 3.00 and age below 5.00"),
        (conjunction(-1.0, (1.0, 1.0), (0.25, -0.25)), None),  # 3 needs more than both give
        (conjunction(0.0, (1.0, 1.0)), None),  # one of them is enough
    ],
)
def test_gates_on_several_steps_read_as_a_conjunction(network, text):
    line = network.equations(["income", "age"], np.ones(2))[-1]
    assert line == (f"h3 = 0.75 if {text} else −0.25" if text else line)
    assert ("σ₁" in line) == (text is None)


@pytest.mark.parametrize(
    ("value", "spread", "text"),
    [
        (-52301.27, 12000.0, "x below −52301"),
        (1e6 + 0.25, 1.0, "x below 1000000.25"),
        (2.5e-9, 1e-9, "x below 2.5e-09"),
        (1e300, 1e299, "x below 1e+300"),
    ],
)
def test_thresholds_have_the_digits_that_the_spread_needs(value, spread, text):
    network = gate(-1.0, value, 1e3 / spread)
    found = threshold_of(network, 1, np.array([spread, 1.0]))
    assert found is not None
    assert found.condition("x") == text


@pytest.fixture(scope="module")
def planted():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(40, 12, 800), rng.lognormal(1, 0.6, 800)])
    y = 0.3 * X[:, 0] * np.where(X[:, 1] > 3.4, 1, -0.4) + rng.normal(0, 1, 800)
    return DIRADRegressor(random_state=0).fit(X, y)


def test_a_fitted_model_shows_its_threshold_everywhere(planted):
    lines = planted.equations()
    assert lines == planted.network_.equations(None, planted.input_spread_)
    gates = thresholds(planted.network_, planted.input_spread_)
    assert any(
        one.source == 1 and math.isclose(one.value, 3.4, abs_tol=0.2) for one in gates.values()
    )
    condition = next(iter(gates.values())).condition(f"x{next(iter(gates.values())).source}")
    assert any(condition in line for line in lines)
    comment = to_c(planted).split("#ifndef")[0]
    assert comment.isascii()
    assert condition.replace("±", "+-").replace("−", "-") in comment
