"""Streams of one task raise no alarm, whatever the distribution of inputs and labels."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from dirad import PREVALClassifier
from dirad.preval.events import KNOWN, LEARNING, NEW
from experiments import false_alarms
from experiments.commands import run as run_command

# Enough batches for an L0 to be regrown twice, after 4 and after 16 of them.
SHORT = 18 * 200


@pytest.mark.parametrize(
    ("kind", "seed"),
    [
        ("Cauchy", 0),
        ("0.1 % outliers, × 1,000", 1),
        ("labels are noise, 2 classes", 0),
        ("labels are noise, 5 classes", 0),
        ("a class of 2 %", 1),
    ],
)
def test_one_task_is_one_model(kind, seed):
    X, y = false_alarms.task(kind, SHORT, seed)
    clf = PREVALClassifier(random_state=seed, n_jobs=1).partial_fit(X, y)
    assert [report.kind for report in clf.reports_] == [LEARNING] + 17 * [KNOWN]
    assert len(clf.models_) == 1


@pytest.mark.parametrize("batches", [1, 2, 4, 10])
def test_another_rule_is_noticed_at_once_while_a_model_adapts(batches):
    n = 200 * batches
    X, y = false_alarms.task("20 % of labels wrong", n + 200, 0)
    clf = PREVALClassifier(random_state=0, n_jobs=1).partial_fit(X[:n], y[:n])
    clf.partial_fit(X[n:], 1 - y[n:])
    assert clf.reports_[-1].kind == NEW


def test_runs_become_rows():
    runs = [
        false_alarms.Run("Cauchy", 0, 59, [4], 2, 0.9, [0.001, 0.5], [0.5]),
        false_alarms.Run("Cauchy", 1, 59, [], 1, 1.0, [0.02, 0.5, 0.7, 0.9], []),
    ]
    (row,) = false_alarms.alarm_rows(runs)
    assert (row["batches"], row["false alarms"], row["streams"]) == (118, 1, 2)
    assert (row["models per stream"], row["accuracy"]) == ("1.50", pytest.approx(0.95))
    low, high = false_alarms.interval(1, 118)
    assert row["95 % interval of the rate"] == f"{low:.4f} to {high:.4f}"
    assert 0 < low < 1 / 118 < high < 0.05
    assert false_alarms.interval(3, 3)[1] == 1.0
    adapting, stable = false_alarms.rate_rows(runs)
    assert adapting["batches"] == 6
    assert adapting["promised 0.05"].startswith("0.375 ±")
    assert adapting["promised 0.01"].startswith("0.250 ±")
    assert (stable["batches"], stable["model"]) == (1, "stable")


def test_a_run_judges_every_batch_but_the_first():
    one = false_alarms.run("normal inputs", 3, 650)  # three batches, and a rest that is left
    assert (one.judged, one.alarms, one.models) == (2, [], 1)
    assert (len(one.adapting), len(one.stable)) == (2, 3)
    assert one.accuracy > 0.9
    assert all(0 <= p <= 1 for p in one.adapting + one.stable)


def test_kinds_are_what_they_are_called():
    for kind in false_alarms.KINDS:
        X, y = false_alarms.task(kind, 4000, 0)
        assert X.shape == (4000, false_alarms.N_INPUTS)
        assert np.isfinite(X).all()
        shares = np.bincount(y) / len(y)
        classes = 5 if "5 classes" in kind else 2
        assert len(shares) == classes
        assert shares.min() == pytest.approx(0.02, abs=0.001) if "2 %" in kind else True
    X, _ = false_alarms.task("0.1 % outliers, × 1,000", 20_000, 0)
    assert np.mean(np.abs(X).max(axis=1) > 20) == pytest.approx(0.001, rel=0.6)


def test_the_command_tells_what_is_too_short(capsys):
    assert run_command(["alarms", "--samples", "300"]) == 2
    assert "at least 400" in capsys.readouterr().err


@pytest.mark.slow
def test_no_kind_raises_more_alarms_than_promised(capsys, tmp_path):
    assert run_command(["alarms", "--json", "--out", str(tmp_path)]) == 0
    as_users, rates = (part["rows"] for part in json.loads(capsys.readouterr().out)["sections"])
    assert len(as_users) == len(false_alarms.KINDS)
    likely = [binom.ppf(0.999, n * 8 * 59, false_alarms.PROMISED) for n in (1, len(as_users))]
    assert likely == [1, 3]
    for row in as_users:
        assert row["batches"] == 8 * 59
        assert row["false alarms"] <= likely[0], row
    assert sum(row["false alarms"] for row in as_users) <= likely[1]
    for row in rates:
        for promised in false_alarms.RATES:
            share, error = map(float, row[f"promised {promised}"].split(" ± "))
            assert share <= promised + 3 * error, row
