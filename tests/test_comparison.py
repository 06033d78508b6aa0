"""The comparison: streams alike for all, numbers that mean what they say, runs made once."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dirad.datasets import small_digits
from dirad.preval.events import Verdict
from dirad.preval.judgement import Judgement
from experiments.commands import run as command
from experiments.comparison import alarms, plan, tables
from experiments.comparison.alarm_tables import alarm_table
from experiments.comparison.curves import curves, sized_points
from experiments.comparison.figures import draw_sizes, draw_tasks
from experiments.comparison.methods import DRIVEN, METHODS, WIDE, Ours, settings_for
from experiments.comparison.part_tables import ablation_table
from experiments.comparison.run import SIZES, Done, Result, noticed, restored, routing, run
from experiments.comparison.scenario import Scenario, standard, unseen

pytest.importorskip("river")

TINY = Scenario("digits", tasks=3, per_task=230, batch_size=23)


@pytest.fixture(scope="module")
def results():
    return {name: run(TINY, 0, name).results for name in plan.methods_on("digits")}


def test_every_method_answers_and_counts_what_it_stores(results):
    for name, found in results.items():
        one = found[0]
        if name.startswith("ADWIN"):
            assert not one.accuracies
            continue
        R = np.array(one.accuracies)
        assert R.shape == (3, 3)
        assert (R[np.triu_indices(3, 1)] == 0).all()
        assert one.stored > 100
        assert one.n_bytes > one.samples
        if name.startswith("ours"):
            assert one.n_bytes > 4 * one.stored  # indices
        else:
            assert one.n_bytes <= 4 * one.stored
        assert one.seconds >= 0
    assert results["ours (default)"][1].method == DRIVEN


def test_ours_beats_every_other_method_that_detects_tasks(results):
    ours = results["ours (default)"][0]
    assert noticed(ours) == ([0, 0], 0)
    assert ours.models == 3
    assert ours.routed > 0.95
    assert ours.auroc > 0.95
    for name in ("ours (paper)", "Gaussian per task"):
        assert np.mean(ours.accuracies[-1]) >= np.mean(results[name][0].accuracies[-1])


def test_what_was_driven_is_told_where_ours_opens_a_model(results):
    ours, driven = results["ours (default)"]
    assert driven.opened == ours.opened[1:]


def result(opened, tasks=3):
    return Result(Scenario("digits", tasks, 100, 10), 0, "ours (default)", opened=opened)


def test_delays_and_false_alarms_by_hand():
    assert noticed(result([0, 10, 20])) == ([0, 0], 0)
    assert noticed(result([0, 13])) == ([3, -1], 0)
    assert noticed(result([0, 4, 10, 12, 29])) == ([0, 9], 2)


def test_routing_by_hand():
    class Router:
        def route(self, X):
            return np.array([5, 5, 5, 7, 7, 5])

    class Stream:
        X_test = np.zeros((6, 1))
        task_test = np.array([0, 0, 0, 1, 1, 1])
        classes = ((0,), (1,))

    right, pure, _ = routing(Router(), Stream())
    assert (right, pure) == (pytest.approx(5 / 6), pytest.approx(5 / 6))


def test_unseen_samples_were_never_shown():
    stream = TINY.stream(1)
    shown = {row.tobytes() for row in stream.X}
    fresh = unseen(TINY, 1, 0)
    assert len(fresh) > 50
    assert not any(row.tobytes() in shown for row in fresh)


def test_false_alarms_are_counted_on_samples_that_were_never_shown(monkeypatch):
    shown, asked, labels = [], [], set()

    def judge(model, X):
        asked.append(X)
        return Judgement(model, None, Verdict(0, 0.5, 0.9, 0.5, 0.5, 0.5), None, None)

    def learned(X, y, seed):
        shown.extend(X)
        labels.update(y.tolist())
        assert len(labels) == 2
        return "the model"

    monkeypatch.setattr(alarms, "SHOWN", 200)
    monkeypatch.setattr(alarms, "learned", learned)
    monkeypatch.setattr(alarms, "judge", judge)
    found = alarms.measure("digits", 3)
    own = np.isin(small_digits().y_test, list(labels))
    assert len(found.chances["test"]["20"]) == own.sum() // 20
    assert len(shown) == 200
    batches = [len(found.chances[name][str(size)]) for name in alarms.SETS for size in SIZES]
    assert len(asked) == sum(batches) > 5
    seen = {row.tobytes() for row in shown}
    assert not any(row.tobytes() in seen for X in asked for row in X)


def test_a_model_knows_what_it_learned():
    X, y = small_digits().X_train, small_digits().y_train
    own = np.isin(y, (0, 1))
    model = alarms.learned(X[own].astype(float), y[own], 0)
    assert set(model.classes) == {0, 1}
    found = alarms.p_values(model, X[np.isin(y, (5, 6))].astype(float), 50)
    assert len(found) == np.isin(y, (5, 6)).sum() // 50
    assert max(found) < 1e-6


def test_rates_of_alarms_by_hand():
    few = {"20": [0.5, 0.04], "100": [0.005], "500": [0.5]}
    none = {"20": [0.5, 0.5], "100": [0.5], "500": [0.5]}
    some = [alarms.Alarms("mnist", n, {"training": few, "test": none}) for n in range(3)]
    rows = alarm_table(some).rows
    assert [row["asked"] for row in rows] == ["training"] * 3 + ["test"] * 3
    assert rows[0]["promised 0.05"].startswith("0.500")
    assert rows[1]["promised 0.01"].startswith("1.000")
    assert rows[4]["promised 0.05"].startswith("0.000")
    small = {"20": [0.0], "100": [], "500": []}  # too few samples for larger batches
    some += [alarms.Alarms("digits", n, {"training": small, "test": small}) for n in range(3)]
    every = {(row["asked"], row["data"], row["batch"]): row for row in alarm_table(some).rows}
    assert len(every) == 2 * (3 + 1 + 3)
    assert every["training", "all", 20]["promised 0.05"].startswith("0.750")
    assert every["training", "all", 20]["models"] == 6
    assert every["test", "digits", 20]["promised 0.01"].startswith("1.000")


def test_all_tables_and_pictures(results):
    flat = [one for found in results.values() for one in found]
    found = {table.title: table for table in tables.sections(flat)}
    name = TINY.name
    assert len(found[f"{name}: 3 tasks"].rows) == len(results) - 2 + 1
    assert len(found[f"{name}: detection and routing"].rows) == 5
    assert len(found[f"{name}: novelty of single samples"].rows) >= 4
    assert {row["batch"] for row in found["False alarms of the models above"].rows} >= {20}
    accuracies, stored = curves(flat)
    for figure in (draw_tasks(accuracies, name), draw_sizes(accuracies, stored, name)):
        assert figure.axes


def test_a_result_survives_its_file(results, tmp_path):
    done = run(TINY, 0, "nearest class mean")
    cache = plan.ResultCache(tmp_path / "runs.jsonl")
    cache.add("key", done)
    again = restored(plan.ResultCache(tmp_path / "runs.jsonl").results["key"])
    assert again[0].accuracies == done.results[0].accuracies
    assert again[0].scenario == TINY


def test_finished_runs_are_not_made_again(tmp_path, monkeypatch):
    jobs = [(TINY, order, "nearest class mean", None) for order in (0, 1)]
    first = plan.execute(jobs, tmp_path / "runs.jsonl")
    monkeypatch.setattr(plan, "run", None)
    again = plan.execute(jobs, tmp_path / "runs.jsonl")
    assert [one.accuracies for one in again] == [one.accuracies for one in first]


def test_one_run_of_each_kind_is_made_again_after_a_change(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    made = []

    def work(scenario, order, method, changes=None):
        made.append((scenario.per_task, order, method))
        return Done([Result(scenario, order, method)])

    monkeypatch.setattr(plan, "run", work)
    kinds = [(TINY, {}), (replace(TINY, per_task=115), {}), (TINY, {"modes": 1})]
    jobs = [(one, order, "ours (default)", changes) for one, changes in kinds for order in (0, 1)]
    jobs += [(TINY, 0, "nearest class mean", None)]
    plan.execute(jobs, path)
    lines = [json.loads(line) | {"code": "other"} for line in path.open()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made.clear()
    assert plan.recheck(jobs, path) == []
    ours = [(samples, 0, "ours (default)") for samples in (230, 115, 230)]
    assert made == [*ours, (230, 0, "nearest class mean")]
    made.clear()
    plan.execute(jobs, path)
    assert made == []


def test_runs_beside_those_of_methods_are_made_once_and_rechecked(tmp_path, monkeypatch):
    made = []

    def work(data, seed):
        made.append((data, seed))
        return alarms.Alarms(data, seed, {})

    monkeypatch.setattr(plan, "measure_alarms", work)
    series = plan.alarms(["digits", "fashion-mnist", "mnist"], 1, 7)
    assert series.jobs == [(name, n) for name in ("mnist", "fashion-mnist") for n in range(7, 12)]
    path = tmp_path / "runs.jsonl"
    first = series.execute(path)
    assert made == series.jobs
    assert series.execute(path) == first
    assert made == series.jobs
    lines = [json.loads(line) | {"code": "other"} for line in path.open()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made.clear()
    assert series.recheck(path) == []
    assert made == [("mnist", 7), ("fashion-mnist", 7)]
    assert series.execute(path) == first
    assert len(made) == 2


def test_ablations_are_settings_that_exist():
    for changes in [*plan.ABLATIONS.values(), *plan.LARGE_ABLATIONS.values()]:
        settings = settings_for(standard("mnist"), **changes)
        for name, value in changes.items():
            assert getattr(settings, name) == value
    one = run(TINY, 0, "L1 replaced by the mean", {"prediction": "mean"}).results[0]
    assert one.method == "L1 replaced by the mean"
    assert ablation_table([one]).rows[0]["edges of L1"] == "0"


def test_the_plan_names_every_run_once():
    jobs = plan.planned(plan.PARTS, ("mnist", "mnist-28", "fashion-mnist", "digits"), 8, 0)
    keys = [plan.key_of(job) for job in jobs]
    assert len(set(keys)) == len(keys)
    large = [job for job in jobs if job[0].data == "mnist-28"]
    ablated = len(plan.LARGE_ABLATIONS) * plan.FEW_SEEDS
    assert len(large) == 8 * (len(METHODS) - 1) + ablated + plan.FEW_SEEDS * len(WIDE)
    assert plan.TOO_WIDE_FOR_DIGITS[0] in METHODS
    assert not {job[2] for job in jobs if job[0].data == "digits"} & {*plan.TOO_WIDE_FOR_DIGITS}
    assert {job[2] for job in jobs} >= {*plan.SIZED, *plan.ABLATIONS, *plan.LARGE_ABLATIONS}


def test_sizes_beside_one_another(results):
    done = [replace(one, scenario=replace(TINY, data="mnist")) for one in results["ours (default)"]]
    stored = dict(zip(plan.SIZED, (5, 70, 60), strict=True))  # 6 modes kept fewer than 3
    done += [replace(done[0], method=name, n_bytes=n) for name, n in stored.items()]
    found = {table.title: table for table in tables.sections(done)}
    rows = found["Split-MNIST, 14 × 14: size against accuracy"].rows
    by_size = [1, 6, 3, 20]
    assert [row["bytes"] for row in rows[:3]] == ["5", "60", "70"]
    assert rows[3]["method"] == "ours (default)"
    assert len(found["Split-MNIST, 14 × 14: 3 tasks"].rows) == 2  # and EWC, driven
    points = sized_points(done)
    assert [modes for _, _, modes in points] == by_size
    (axes,) = draw_sizes(*curves(done), "sizes", points).axes
    (line,) = [line for line in axes.lines if line.get_label().startswith("ours")]
    assert list(line.get_xdata()) == [number for number, _, _ in points]
    assert {str(n) for n in by_size} <= {text.get_text() for text in axes.texts}
    (axes,) = draw_sizes(*curves(done), "one size", points[:1]).axes
    assert not [line for line in axes.lines if line.get_label().startswith("ours")]


def test_ours_is_told_nothing_of_tasks():
    ours = Ours(TINY, 64, 0, settings_for(TINY))
    assert ours.system.settings.l0.batch_size == TINY.batch_size
    assert ours.opened == []


def test_the_command(tmp_path, capsys):
    code = command(
        ["compare", "--data", "digits", "--parts", "main", "--orders", "1", "--workers", "1",
         "--quiet", "--out", str(tmp_path)]
    )  # fmt: skip
    assert code == 0
    page = (tmp_path / "comparison.md").read_text(encoding="utf-8")
    assert "ours (default)" in page
    assert "False alarms" in page
    record = json.loads((tmp_path / "comparison.json").read_text(encoding="utf-8"))
    assert record["command"].startswith("python -m experiments compare --data digits")
    assert (tmp_path / "comparison-digits-tasks.png").stat().st_size > 10_000
    capsys.readouterr()
    assert command(["compare", "--data", "digits", "--parts", "alarms"]) == 2
    assert "--parts alarms has nothing to do on --data digits" in capsys.readouterr().err
    assert command(["compare", "--data", "numerals"]) == 2
    told = capsys.readouterr().err
    assert "--data takes mnist, mnist-28, fashion-mnist, digits, letters, " in told
    assert "not 'numerals'" in told
