"""The diagnostic for the paper's stopping condition."""

from itertools import combinations, product

import numpy as np
import pytest

from dirad import new_state, preset
from dirad.core.edits import new_edge
from dirad.growth.conflict import conflicts, edge_gradients_per_sample

PAPER = preset("paper")


def parity(n):
    X = np.array(list(product([-1.0, 1.0], repeat=n)))
    return X, (X.prod(axis=1) > 0).astype(float)[:, None]


def one_edge(n, source=0, weight=0.0):
    network = new_state(n, 1).network
    new_edge(network, source, 0, weight)
    return network


@pytest.mark.parametrize("n", [2, 3, 4])
def test_parity_is_resolved_by_the_product_of_all_other_inputs_only(n):
    X, y = parity(n)
    found = conflicts(one_edge(n), 0, X, y, PAPER, order=n)
    for conflict in found[: n - 2]:
        assert conflict.covariance == pytest.approx(0.0, abs=1e-12)
    resolving = found[n - 2]
    assert resolving.sources == tuple(range(1, n))
    assert abs(resolving.correlation) == pytest.approx(1.0)
    assert resolving.exhaustive


def test_equals_brute_force():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 5)), rng.integers(0, 2, (50, 1)).astype(float)
    network = one_edge(5, source=2, weight=0.7)
    gradient, states = edge_gradients_per_sample(network, 0, X, y, PAPER)
    for size, found in enumerate(conflicts(network, 0, X, y, PAPER, order=3), start=1):
        covariances = {
            sources: np.cov(states[list(sources)].prod(axis=0), gradient, bias=True)[0, 1]
            for sources in combinations(range(5), size)
        }
        best = max(covariances, key=lambda key: abs(covariances[key]))
        assert found.sources == best
        assert found.covariance == pytest.approx(covariances[best])
        assert found.tried == len(covariances)


def test_a_small_budget_extends_the_best_products():
    X, y = parity(6)
    found = conflicts(one_edge(6), 0, X, y, PAPER, order=5, budget=12)
    assert [c.exhaustive for c in found] == [True, False, False, False, True]


def test_an_edge_that_is_not_there():
    X, y = parity(2)
    with pytest.raises(ValueError, match="no edge 3"):
        conflicts(one_edge(2), 3, X, y, PAPER)
