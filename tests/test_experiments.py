"""The experiments: small runs of each, and the statistics that tables are made of."""

import math

import numpy as np
import pytest

from dirad.datasets import Dataset
from dirad.engine import run_all
from dirad.params import preset
from experiments import ablation, digits, missing, pairs, parity, shapes
from experiments.tabular import small


def square(x):
    return x * x


def test_results_come_in_the_order_of_jobs_for_any_number_of_workers():
    seen = []
    jobs = [(n,) for n in range(7)]
    alone = run_all(square, jobs, progress=lambda done, total: seen.append((done, total)))
    together = run_all(square, jobs, workers=2)
    assert alone == together == [n * n for n in range(7)]
    assert seen == [(n, 7) for n in range(8)]


def test_parity_rows_do_not_depend_on_the_number_of_workers():
    alone = parity.measure([2, 3], [0, 1], workers=1)
    together = parity.measure([2, 3], [0, 1], workers=2)
    assert alone == together
    assert len(alone) == 2 * 2 * len(parity.METHODS)


def test_parity_summary_counts_runs_and_marks_what_is_quoted():
    runs = [
        parity.Run(2, "DIRAD", 0, True, 3, 1, 100, 20, "a"),
        parity.Run(2, "DIRAD", 1, False, 5, 2, 300, 40, "a"),
    ]
    ours, quoted = parity.summarize(runs)
    assert (ours["solved"], ours["runs"], ours["edges"], ours["edges_max"]) == (1, 2, 4.0, 5)
    assert ours["distinct"] == 1  # two seeds, one network: not two results
    assert "quoted" in quoted["method"]
    assert (quoted["solved"], quoted["runs"]) == (2, 5)


def test_parity_is_of_the_bits_and_not_of_the_distractors():
    X = parity.fresh_samples(3, 2, seed=0)
    assert X.shape == (8 * parity.FRESH_DRAWS, 5)
    assert np.array_equal(parity.odd(X, 3), (X[:, :3] > 0).sum(axis=1) % 2)
    assert len(np.unique(X[:, :3], axis=0)) == 8


def test_parity_from_a_stream_with_a_distractor_gives_other_networks_for_other_seeds():
    first, second = (parity.run_dirad(2, seed, distractors=1) for seed in (0, 1))
    assert first.network != second.network
    assert first.edges <= parity.parity_edges(2)


def test_chosen_pairs_are_different_and_in_range():
    assert pairs.choose_pairs(45) == list(pairs.ALL_PAIRS)
    assert len(set(pairs.choose_pairs(6))) == 6
    with pytest.raises(ValueError, match="45 pairs"):
        pairs.choose_pairs(46)


@pytest.fixture
def small_mnist(monkeypatch):
    """Noise with one brighter pixel per class, in the form of MNIST."""
    rng = np.random.default_rng(0)

    def draw(n):
        y = np.arange(n) % 10
        X = rng.uniform(0, 0.6, (n, 196))
        X[np.arange(n), 10 * y + 5] += 0.3  # not separable: methods differ
        return X.astype(np.float32), y

    data = Dataset(*draw(900), *draw(300))
    monkeypatch.setattr(pairs, "mnist", lambda: data)
    monkeypatch.setattr(digits, "mnist", lambda: data)
    monkeypatch.setattr(ablation, "mnist", lambda: data)
    return data


def test_pairs_compare_all_methods_at_equal_size(small_mnist):
    runs = pairs.measure([(0, 1), (2, 3)], [3])
    assert {run.method for run in runs} == set(pairs.METHODS)
    assert all(run.edges <= 3 for run in runs if run.size == 3)
    rows = {row["method"]: row for row in pairs.summarize(runs)}
    assert "difference" not in rows["greedy logistic"]
    gaps = [
        a.accuracy - b.accuracy
        for a in runs
        for b in runs
        if a.method == "DIRAD" and b.method == "greedy logistic" and a.pair == b.pair
    ]
    assert np.std(gaps) > 0  # else nothing below could fail
    assert rows["DIRAD"]["difference"] == pytest.approx(np.mean(gaps))
    assert rows["DIRAD"]["difference_se"] == pytest.approx(np.std(gaps, ddof=1) / math.sqrt(2))


def test_the_papers_protocol_has_ten_outputs(small_mnist):
    network = pairs.grow_paper((0, 1), 0, preset("paper", max_steps=20)).network
    assert (network.n_inputs, network.n_outputs) == (196, 10)
    rows = pairs.summarize_paper([pairs.run_paper((0, 1), 0, preset("paper", max_steps=20))])
    assert rows[-1]["edges"] == "3,296"


def test_held_out_samples_are_training_samples_that_are_not_trained_on(small_mnist):
    held = pairs.load_pair((0, 1), held_out=True)
    whole = pairs.load_pair((0, 1))
    rows = {row.tobytes() for row in whole.X_train}
    fitted = {row.tobytes() for row in held.X_train}
    tested = {row.tobytes() for row in held.X_test}
    assert fitted | tested == rows
    assert not fitted & tested
    assert not tested & {row.tobytes() for row in whole.X_test}


def test_digits_keep_their_size(small_mnist):
    run = digits.run("DIRAD", 30, 0)
    assert run.edges <= 30
    assert run.accuracy > 0.3
    row = digits.summarize([run])[0]
    assert math.isnan(row["accuracy_sd"])  # one seed has no spread


def test_tabular_pairs_folds_and_judges():
    runs = small.measure(1, names=["iris"])
    assert [run.fold for run in runs] == [0, 1, 2, 3, 4] * 2
    (row,) = small.summarize(runs)
    assert row["folds"] == 5
    assert row["linear_parameters"] == 15
    assert row["within_one_se"] == (row["difference"] >= -row["difference_se"])


@pytest.mark.parametrize(
    ("base", "variants"),
    [("paper", {**ablation.LADDER, **ablation.READINGS}), ("default", ablation.PIECES)],
)
def test_every_variant_but_the_reference_changes_something(base, variants):
    same = [name for name, changes in variants.items() if preset(base, **changes) == preset(base)]
    assert same == [ablation.PAPER if base == "paper" else ablation.DEFAULT]


def test_ablation_differences_are_paired_with_the_reference():
    def run(variant, case, accuracy):
        return ablation.Run("ladder", variant, "pairs", case, accuracy, 10, 1, 100)

    runs = [
        run(ablation.PAPER, "a", 0.90),
        run(ablation.PAPER, "b", 0.70),
        run("other", "b", 0.75),
        run("other", "a", 0.93),
    ]
    ((_, rows),) = ablation.tables(runs)
    assert rows[0]["difference"] is None
    assert rows[1]["difference"] == pytest.approx(0.04)
    assert rows[1]["difference_se"] == pytest.approx(0.01)


def test_ablation_runs_in_the_order_of_its_jobs(small_mnist):
    jobs = [job for job in ablation.sweep_jobs([(0, 1)], [0]) if job[1] == "sweep R1"][:2]
    runs = ablation.measure(jobs)
    assert [run.variant for run in runs] == ["1.5", "2"]
    assert all(0.0 <= run.accuracy <= 1.0 for run in runs)


def test_shapes_are_drawn_varied_and_summarized():
    assert all(
        len(shapes.varied(problem, "few samples", 1)[0]) == 500 for problem in shapes.PROBLEMS
    )
    X, y = shapes.varied("spirals", "rotated", 0)
    Z, same = shapes.varied("spirals", "noise inputs", 0)
    assert np.array_equal(y, same)
    assert (X.shape, Z.shape) == ((2000, 2), (2000, 5))
    with pytest.raises(ValueError, match="no problem 'square'"):
        shapes.draw("square", 10, 0)
    runs = shapes.measure([0], problems=["moons"], variants=["few samples"])
    (row,) = shapes.summarize(runs)
    assert row["DIRAD"] == round(runs[0].score, 4) > 0.9
    assert row["most edges"] == runs[0].edges > 0
    others = max(row["boosting"], row["MLP"])
    assert row["less the best other"] == pytest.approx(row["DIRAD"] - others, abs=2e-4)


def test_gaps_are_made_and_summarized():
    table = missing.load("breast cancer")
    at_random, telling = (missing.with_gaps(table, gaps, 0) for gaps in missing.GAPS[1:])
    assert np.isnan(at_random).mean() == pytest.approx(0.3, abs=0.01)
    assert np.isnan(telling).mean() == pytest.approx(0.3 * 0.6, abs=0.01)
    assert (
        table.X[np.isnan(telling)] > np.median(table.X, axis=0)[np.where(np.isnan(telling))[1]]
    ).all()
    assert np.array_equal(missing.with_gaps(table, "none", 0), table.X)
    with pytest.raises(ValueError, match="no gaps 'odd'"):
        missing.with_gaps(table, "odd", 0)
    runs = missing.measure([0], data=["wine"], gaps=["telling"])
    (row,) = missing.summarize(runs)
    assert [run.method for run in runs] == list(missing.METHODS)
    assert row["DIRAD"] == round(runs[0].score, 4) > 0.8
    assert row["less boosting"] == pytest.approx(row["DIRAD"] - row["boosting"])
    assert runs[1].edges == 0 < runs[0].edges == row["edges"]


def test_gaps_that_tell_are_of_numbers_alone():
    mixed = missing.Table(
        np.tile(np.arange(10.0)[:, None], 2), np.array([True, False]), np.zeros(10)
    )
    found = np.isnan(missing.with_gaps(mixed, "telling", 0))
    assert not found[:, 0].any()
    assert not found[:7, 1].any()
    assert found[7:, 1].any()
