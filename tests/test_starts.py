"""Several starts: one network is kept of some that are grown from different seeds."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import make_moons

from dirad import DIRADClassifier, DIRADRegressor
from dirad.estimators.starts import STARTS, description_length, number_of_starts
from dirad.params import preset
from networks import FixedSeed

QUICK = {"structure": "compact", "settle_steps": 100, "max_steps": 600}


PRIORS = 1.0, 0.3, 1.0
BREADTHS = 50, 50, 0


def moons(n=400):
    """Return samples whose inputs are standardized, so that weights mean the same inside."""
    X, y = make_moons(n, noise=0.2, random_state=0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def alone(start, X, y, kind=DIRADClassifier, **options):
    """Fit one network as a start of a fit with `random_state=0` does."""
    seed = np.random.RandomState(0).randint(2**31, size=STARTS)[start]
    model = kind(n_init=1, prior=PRIORS[start], breadth=BREADTHS[start], **{**QUICK, **options})
    model.random_state = FixedSeed(int(seed))
    return model.fit(X, y)


def nats_of_edges(model, n, prior):
    """Return the nats of edges and of their weights under a Gaussian prior."""
    edges = model.network_.edges
    weights = edges["weight"][edges["source"] >= 0]
    of_weights = (0.5 * prior * weights**2 - 0.5 * np.log(prior)).sum()
    return 0.7 * 0.5 * np.log(n) * len(weights) + of_weights


def nats(model, X, y, prior):
    """Return the description length of samples, edges and weights."""
    p = model.predict_proba(X)[np.arange(len(y)), y]
    return -np.log(p).sum() + nats_of_edges(model, len(y), prior)


def test_the_start_with_the_shortest_description_is_kept():
    X, y = moons()
    kept = DIRADClassifier(random_state=0, **QUICK).fit(X, y)
    starts = [alone(start, X, y) for start in range(STARTS)]
    lengths = [nats(one, X, y, prior) for one, prior in zip(starts, PRIORS, strict=True)]
    assert len(set(lengths)) == STARTS  # the seeds matter here
    best = starts[int(np.argmin(lengths))]
    assert kept.predict_proba(X).tolist() == best.predict_proba(X).tolist()
    assert kept.history_.edges.tolist() == best.history_.edges.tolist()


def test_numbers_are_described_by_the_logarithm_of_their_mean_squared_error():
    X = np.random.default_rng(0).normal(size=(400, 3))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = X[:, 0] * X[:, 1]
    y = (y - y.mean()) / y.std()
    kept = DIRADRegressor(random_state=0, **QUICK).fit(X, y)
    starts = [alone(start, X, y, DIRADRegressor) for start in range(STARTS)]
    lengths = [
        200 * np.log(np.mean((one.predict(X) - y) ** 2)) + nats_of_edges(one, 400, prior)
        for one, prior in zip(starts, PRIORS, strict=True)
    ]
    assert len(set(lengths)) == STARTS
    best = starts[int(np.argmin(lengths))]
    np.testing.assert_array_equal(kept.predict(X), best.predict(X))


def test_weights_count_in_the_description():
    X, y = moons(200)
    model = alone(0, X, y)
    weight = np.where(np.arange(200) < 50, 4.0, 0.0)
    found = description_length(model.network_, X, y[:, None], weight, preset("default"))
    p = model.predict_proba(X[:50])[np.arange(50), y[:50]]
    assert found == pytest.approx(-200 * np.log(p).mean() + nats_of_edges(model, 200, 1.0))


def test_a_fit_that_was_stopped_goes_on_as_if_it_had_not():
    X, y = moons(250)
    whole = DIRADClassifier(random_state=0, **QUICK).fit(X, y)
    halted = DIRADClassifier(random_state=0, **QUICK).fit(X, y, steps=130)
    stops = 0
    while not halted.is_stable_:
        halted = pickle.loads(pickle.dumps(halted)).resume(X, y, steps=130)
        stops += 1
    assert stops > 6
    assert halted.predict_proba(X).tolist() == whole.predict_proba(X).tolist()
    assert halted.n_steps_ == whole.n_steps_


def test_held_out_samples_choose_where_there_are_any():
    X, y = moons()
    options = {"random_state": 0, "validation_fraction": 0.3, **QUICK}
    several = DIRADClassifier(n_init=3, **options).fit(X, y, steps=700 * 3)
    first = DIRADClassifier(n_init=1, **options).fit(X, y)
    assert several.is_stable_
    assert several.predict_proba(X).tolist() != first.predict_proba(X).tolist()


def test_when_there_is_more_than_one_start():
    unlimited, limited = preset("default"), preset("default", max_edges=20)
    assert number_of_starts("auto", unlimited, 1, "auto") == STARTS
    assert number_of_starts("auto", unlimited, 4, "auto") == 1
    assert number_of_starts("auto", unlimited, 1, "wide") == 1
    assert number_of_starts("auto", limited, 1, "auto") == 1
    assert number_of_starts("auto", preset("paper"), 1, "auto") == 1
    assert number_of_starts(2, limited, 1, "compact") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_init": 0}, 'n_init must be "auto" or a positive integer, got 0'),
        ({"n_init": "many"}, "got 'many'"),
        ({"n_init": 2, "committee": 3}, "n_init=2 cannot be combined with committee=3"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DIRADClassifier(**options).fit(*moons())
