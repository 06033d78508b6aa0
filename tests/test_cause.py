"""What kind of change an alarm shows, and which inputs it names."""

import numpy as np
import pandas as pd
import pytest

from dirad import PREVALClassifier, PREVALRegressor
from dirad.preval.cause import kind_of_change
from dirad.preval.events import ModelEvent

N = 8  # inputs


def task(n, seed):
    X = np.random.default_rng(seed).normal(size=(n, N))
    X[:, 5] += X[:, 6]  # so that one input tells of another
    return X, (X[:, 0] + X[:, 1] > 0).astype(int)


CHANGES = {
    "moved": lambda X, y: (X + 4.0 * (np.arange(N) == 3), y),
    "wider": lambda X, y: (X * np.where(np.arange(N) == 3, 5.0, 1.0), y),
    "constant": lambda X, y: (np.where(np.arange(N) == 3, 2.0, X), y),
    "another rule": lambda X, y: (X, (X[:, 3] - X[:, 0] > 0).astype(int)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_planted_cause_is_among_the_first_three_inputs(name):
    named, kinds = [], []
    for seed in range(5):
        X, y = task(2000, seed)
        X[1200:], y[1200:] = CHANGES[name](X[1200:], y[1200:])
        model = PREVALClassifier(random_state=seed).partial_fit(X, y)
        event = next(e for e in model.events_ if e.kind == "opened" and e.batch > 0)
        named.append(3 in [change[0] for change in event.evidence["inputs"][:3]])
        kinds.append(event.evidence["cause"])
    assert np.mean(named) >= 0.9
    expected = "new rule" if name == "another rule" else "shifted inputs"
    assert kinds.count(expected) >= 4


def test_inputs_that_nobody_has_seen_with_classes_that_nobody_has_seen():
    X, y = task(2000, 0)
    X[1200:] += 9.0
    y[1200:] += 2
    model = PREVALClassifier(random_state=0).partial_fit(X, y)
    assert model.events_[1].evidence["cause"] == "new inputs"


def test_explain_speaks_of_a_batch_and_learns_nothing():
    X, y = task(1400, 0)
    model = PREVALClassifier(random_state=0).partial_fit(X[:1200], y[:1200])
    assert model.explain(X[1200:], y[1200:]).kind == "known"
    found = model.explain(X[1200:] + 5.0 * (np.arange(N) == 2))
    assert found.kind in ("shifted inputs", "new inputs")
    assert found.inputs[0].input == 2
    assert found.inputs[0].found - found.inputs[0].usual == pytest.approx(5.0, abs=0.5)
    assert "temperature: 4.88 ± 0.98, usually" in found.text([*"ab", "temperature", *"defgh"])
    assert model.n_samples_seen_ == 1200
    with pytest.raises(ValueError, match="8 features"):
        model.explain(X[:, :3])


def test_a_rule_of_numbers_that_changed():
    X, _ = task(2000, 0)
    y = X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=2000)
    model = PREVALRegressor(random_state=0).partial_fit(X[:1600], y[:1600])
    found = model.explain(X[1600:], y[1600:] + 3.0 * X[1600:, 4])
    assert found.kind == "new rule"
    assert found.inputs[0].input == 4


def test_kinds():
    usual, none = np.ones(10, bool), np.zeros(10, bool)
    nan = float("nan")
    assert kind_of_change(0.5, 1e-9, 1e-4, usual) == "new rule"
    assert kind_of_change(1e-9, 0.5, 1e-4, none) == "shifted inputs"
    assert kind_of_change(1e-9, 1e-9, 1e-4, usual) == "new inputs"
    assert kind_of_change(1e-9, nan, 1e-4, usual) == "shifted inputs"
    assert kind_of_change(1e-9, nan, 1e-4, none) == "new inputs"


def test_an_event_in_words():
    change = [1, 0.0, 4.0, 1.0, 1.0, 50.0]
    event = ModelEvent(7, "opened", 2, {"cause": "shifted inputs", "inputs": [change]})
    assert str(event) == ("batch 7: model 2 opened (shifted inputs; input 1: 4 ± 1, usually 0 ± 1)")
    assert "load: 4" in event.text(["u", "load"])


def test_an_alarm_is_explained_against_the_model_that_fits_best():
    """Not against the one in use, from which it differs also as the known task does."""
    X, y = task(3000, 0)
    X[1200:2000] += 6.0 * (np.arange(N) == 1)  # another task
    X[2200:] += 5.0 * (np.arange(N) == 3)  # the first one, with an input that moved
    model = PREVALClassifier(random_state=0).partial_fit(X[:2000], y[:2000])
    assert model.reports_[-1].model == 1
    found = model.explain(X[2200:], y[2200:])
    assert found.model == 0
    assert found.inputs[0].input == 3
    assert 1 not in [one.input for one in found.inputs]


def test_classes_never_seen_are_explained_by_what_tells_them_apart():
    X, y = task(2000, 0)
    model = PREVALClassifier(random_state=0).partial_fit(X[:1600], y[:1600])
    found = model.explain(X[1600:], np.where(X[1600:, 4] > 0.3, 7, 8))
    assert found.kind == "new rule"
    assert found.inputs[0].input == 4


def test_of_two_rules_the_closer_one_is_explained():
    X, _ = task(5000, 0)
    y = 3.0 * X[:, 0] + 0.1 * np.random.default_rng(0).normal(size=5000)
    y[1600:3200] += 4.0 * (X[:, 2] - X[:, 0])[1600:3200]  # another rule; then the first one again
    model = PREVALRegressor(random_state=0).partial_fit(X[:4600], y[:4600])
    assert len(model.models_) == 2
    for start in (y[4600:], y[4600:] + 4.0 * (X[:, 2] - X[:, 0])[4600:]):
        found = model.explain(X[4600:], start + 3.0 * X[4600:, 4])
        assert found.kind == "new rule"
        assert found.inputs[0].input == 4


def test_an_input_that_others_determine_does_not_hide_the_one_that_moved():
    rng = np.random.default_rng(0)
    fluid = rng.choice(["water", "oil"], 2000)  # two inputs, each of which determines the other
    flow = rng.normal(20, 1, 2000)
    failed = (flow > 20) ^ (fluid == "oil")
    flow[1600:] += 4.0
    X = pd.DataFrame({"flow": flow, "pressure": rng.normal(3, 0.2, 2000), "fluid": fluid})
    model = PREVALClassifier(random_state=0).partial_fit(X, failed)
    event = next(e for e in model.events_ if e.kind == "opened" and e.batch > 0)
    names = model.encoding_.names(model.feature_names_in_)
    assert names[event.evidence["inputs"][0][0]] == "flow"
