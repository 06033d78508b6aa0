"""The experiment on accuracy in a number of bytes: its tables, its peers, and its cache."""

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier

from commands import run_experiment
from dirad.export.compact.flash import has_compiler
from dirad.export.compact.form import Weights
from experiments.boards import host_answers
from experiments.device import digits, plan, rectifiers, sensors
from experiments.device.trees import by_emlearn, votes

CALLS: list[tuple[str, int]] = []
BUDGET = 700


@dataclass(frozen=True)
class Made:
    """A result."""

    method: str
    value: int


def make(method, value):
    """Make a result, and note it; one that is interrupted is not made."""
    if value < 0:
        raise KeyboardInterrupt
    CALLS.append((method, value))
    return Made(method, value)


def test_finished_runs_are_not_repeated(tmp_path):
    path = tmp_path / "runs.jsonl"
    CALLS.clear()
    jobs = [("DIRAD", 1), ("emlearn", 2), ("emlearn", -1)]
    with pytest.raises(KeyboardInterrupt):
        plan.execute(make, jobs, 0, path)
    assert CALLS == [("DIRAD", 1), ("emlearn", 2)]
    found = plan.execute(make, [*jobs[:2][::-1], ("DIRAD", 3)], 0, path)
    assert found == [
        {"method": "emlearn", "value": 2},
        {"method": "DIRAD", "value": 1},
        {"method": "DIRAD", "value": 3},
    ]
    assert CALLS == [("DIRAD", 1), ("emlearn", 2), ("DIRAD", 3)]


def test_digits_are_summarized_over_seeds():
    runs = [
        digits.Run("DIRAD", 1024, seed, accuracy, 1000 + seed, "what")
        for seed, accuracy in enumerate((0.9, 0.94))
    ]
    rows = digits.summarize([*runs, digits.Run("emlearn", 1024, 0, 0.7, 900, "trees")])
    assert rows[0] == {
        "bytes": 1024,
        "method": "DIRAD",
        "accuracy": pytest.approx(0.92),
        "accuracy_sd": pytest.approx(np.std([0.9, 0.94], ddof=1)),
        "flash": 1000.5,
        "what": "what",
        "runs": 2,
    }
    assert [(row["method"], row["runs"]) for row in rows] == [("DIRAD", 2), ("emlearn", 1)]


def test_sensors_are_ranked_among_the_methods_that_ran():
    scores = {"magic": (0.8, 0.9), "phoneme": (0.7, 0.7)}
    runs = [
        sensors.Run(data, 512, method, 0, accuracy, 500, "")
        for data, of_data in scores.items()
        for method, accuracy in zip(("DIRAD", "m2cgen"), of_data, strict=True)
    ]
    rows = sensors.summarize(runs)
    assert rows == [
        {"bytes": 512, "data": "magic", "DIRAD": 0.8, "m2cgen": 0.9},
        {"bytes": 512, "data": "phoneme", "DIRAD": 0.7, "m2cgen": 0.7},
        {"bytes": 512, "data": "mean rank", "DIRAD": 1.5, "m2cgen": 1.0},
    ]


def test_a_pruned_perceptron_fits_and_is_rounded(monkeypatch):
    monkeypatch.setattr(rectifiers, "STEPS", 200)
    X, y = load_digits(return_X_y=True)
    X = (X / 16).astype(np.float32)
    own = Weights(4, 4)
    network, flash = rectifiers.grown(X[:1200], y[:1200], BUDGET, own, 16, 0)
    assert flash == rectifiers.flash(network, own) <= BUDGET
    assert rectifiers.accuracy(network, X[1200:], y[1200:]) > 0.75
    for column in network.hidden_weights.T:  # odd levels of four bits, of one scale
        sizes = np.unique(np.abs(column[column != 0]).round(6))
        assert len(sizes) <= 8
    edges = rectifiers.without_zeros(network)
    assert edges < 16 * (64 + 10)
    assert flash >= rectifiers.CODE + edges


@pytest.mark.skipif(find_spec("emlearn") is None, reason="emlearn is missing")
def test_trees_in_c_answer_as_those_of_scikit_learn():
    before = np.geterr()
    X, y = load_digits(return_X_y=True)
    X = X.astype(np.int16)
    forest = RandomForestClassifier(5, max_leaf_nodes=20, random_state=0).fit(X, y)
    source = by_emlearn(forest, X.shape[1])
    source = source.replace("int32_t answer(", "int32_t class_of(")
    source += (
        "void answer(const void *x, void *out);\n"
        "void answer(const void *x, void *out) { *(int32_t *)out = class_of(x, out); }\n"
    )
    found = host_answers(source, X, (1, np.int32), options=("-O1",)).ravel()
    assert np.array_equal(found, votes(forest, X, 10))
    assert np.geterr() == before  # importing emlearn changes it


@pytest.mark.skipif(not has_compiler(), reason="arm-none-eabi-gcc is missing")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--sizes", "999"), "--sizes takes"),
        (("--part", "sensors", "--sizes", "1"), "--sizes takes"),
        (("--methods", "m2cgen"), "--methods takes DIRAD"),
        (("--part", "sensors", "--methods", "pruned MLP"), "--methods takes DIRAD"),
    ],
)
def test_what_the_command_refuses(capfdbinary, arguments, said):
    code, text, errors = run_experiment(capfdbinary, "device", *arguments)
    assert (code, text) == (2, "")
    assert said in errors
