"""Classes that come and go in a stream, and inputs of one class alone."""

import numpy as np
import pytest

from dirad import PREVALClassifier

CENTRES = {"a": (0.0, 0.0), "b": (3.0, 0.0), "c": (0.0, 9.0)}


def rows(names, n, seed):
    rng = np.random.default_rng(seed)
    y = rng.choice(list(names), n)
    return np.array([CENTRES[name] for name in y]) + rng.normal(0, 0.5, (n, 2)), y


@pytest.fixture(scope="module")
def model():
    """A stream in which class b goes and comes back, and c comes and goes."""
    model = PREVALClassifier(random_state=0, steps_per_batch=100)
    for seed, names in enumerate(["ab"] * 4 + ["a"] * 3 + ["ab"] * 2 + ["abc"] * 4 + ["ab"] * 2):
        model.partial_fit(*rows(names, 200, seed))
    return model


def test_a_class_that_goes_is_no_change_and_is_not_forgotten(model):
    assert [(one.kind, one.model) for one in model.reports_[1:9]] == [("known", 0)] * 8
    assert model.score(*rows("ab", 500, 90)) > 0.98


def test_a_class_that_comes_is_new_and_what_was_there_stays_known(model):
    assert model.reports_[9].kind in ("new", "mixed", "undecided")
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert model.score(*rows("abc", 500, 91)) > 0.95
    assert [(one.kind, one.model) for one in model.reports_[-2:]] == [("known", 0)] * 2


def test_a_class_without_samples_is_never_the_answer_in_its_absence(model):
    X, y = rows("b", 300, 92)
    assert (model.predict(X) == y).mean() > 0.98
    assert model.predict_proba(X).shape == (300, 3)
