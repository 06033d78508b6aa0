"""The paper's tables from the paper's runs, the file of finished runs, and the page."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from dirad.datasets import Dataset
from dirad.plot.growth import draw_adaptation
from dirad.plot.timeline import draw_timeline
from dirad.streams.follow import follow
from dirad.streams.kinds import abrupt
from experiments.reproduction import plan, published
from experiments.reproduction.detection_tables import owner_task
from experiments.reproduction.figures import draw_flow
from experiments.reproduction.protocol import (
    Probe,
    Run,
    Setting,
    accuracies,
    class_accuracies,
    draw,
    missed_a_task,
    net_retention,
    task_retention,
)
from experiments.reproduction.tables import sections
from experiments.result_cache import ResultCache
from streams import WIDTH, learned, samples, system_of

# ------------------------------------------------------------------ the paper's own numbers


@pytest.mark.parametrize("T_CP", published.T_CP)
def test_the_papers_tables_follow_from_its_runs(T_CP):
    """Accuracies exactly; ratios to a unit or so of the last digit, as rounded runs allow."""
    runs = published.RUNS[T_CP]
    found = [one for one in runs if not missed_a_task(one)]
    every, without, missed = published.ACCURACIES[T_CP]
    assert accuracies(runs) == pytest.approx(every, abs=0.0101)
    assert accuracies(found) == pytest.approx(without, abs=0.0101)
    assert len(runs) - len(found) == missed
    net, net_found, by_task = published.RETENTION[T_CP]
    assert net_retention(runs) == pytest.approx(net, abs=0.0101)
    assert net_retention(found) == pytest.approx(net_found, abs=0.0101)
    assert list(task_retention(found).values()) == pytest.approx(by_task, abs=0.0101)


@pytest.mark.parametrize("T_CP", published.T_CP)
def test_the_papers_class_accuracies_follow_from_its_runs(T_CP):
    found = class_accuracies(published.RUNS[T_CP])
    for digit, (accuracy, count) in enumerate(published.CLASSES[T_CP]):
        assert found[digit][1] == count
        assert found[digit][0] == pytest.approx(accuracy, abs=0.0101)


def test_the_caption_of_the_retention_table_says_the_reverse():
    """Before ÷ after would be above 1 nearly everywhere; the printed ratios are below."""
    runs = published.RUNS[0.05]
    reverse = [1 / value for value in net_retention(runs)]
    assert min(reverse) > 1.1
    assert max(published.RETENTION[0.05][0]) < 0.9


# ------------------------------------------------------------------ the file of results


@dataclass(frozen=True)
class Toy:
    place: int
    value: float


def test_a_finished_run_is_kept(tmp_path):
    path = tmp_path / "deep" / "runs.jsonl"
    cache = ResultCache(path)
    cache.add("a", Toy(1, 0.1 + 0.2))
    cache.add("b", Toy(2, float("nan")))
    again = ResultCache(path)
    assert again.results["a"] == {"place": 1, "value": 0.1 + 0.2}
    assert np.isnan(again.results["b"]["value"])


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_line_cut_off_is_no_line(tmp_path, cut):
    path = tmp_path / "runs.jsonl"
    ResultCache(path).add("a", Toy(1, 1.0))
    ResultCache(path).add("b", Toy(2, 2.0))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    cache = ResultCache(path)
    assert set(cache.results) == {"a"}
    cache.add("b", Toy(2, 2.0))
    assert path.read_bytes() == whole
    assert set(ResultCache(path).results) == {"a", "b"}


def test_what_is_no_file_of_results_at_all_is_ignored(tmp_path):
    path = tmp_path / "runs.jsonl"
    path.write_text('[1]\nnonsense\n{"key": "a"}\n"text"\n')
    assert ResultCache(path).results == {}


def test_results_of_other_code_do_not_count(tmp_path):
    path = tmp_path / "runs.jsonl"
    ResultCache(path).add("a", Toy(1, 1.0))
    line = json.loads(path.read_text())
    path.write_text(json.dumps(line | {"code": "other"}) + "\n")
    assert ResultCache(path).results == {}


@dataclass(frozen=True)
class Timed:
    value: float
    seconds: float


def of_other_code(path: Path, code: str = "other", only: str | None = None) -> None:
    """Say that other code made all lines, or the last one of a key."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines if only is None else [x for x in lines if x["key"] == only][-1:]:
        line["code"] = code
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def rechecked(path: Path, values: dict[str, float]) -> tuple[list[str], list[str]]:
    """Return the kinds that came out otherwise, and which runs were made again.

    Kinds are the first letters of keys.
    """
    made = []

    def work(key: str) -> Timed:
        made.append(key)
        return Timed(values[key], 2.0)

    keys = list(values)
    cache = ResultCache(path)
    changed = cache.recheck(work, [(key,) for key in keys], keys, [key[0] for key in keys])
    return changed, made


def test_runs_of_other_code_count_again_where_the_first_of_their_kind_comes_out_the_same(tmp_path):
    path = tmp_path / "runs.jsonl"
    before = {"a1": 1.0, "a2": float("nan"), "a3": 3.0, "b1": 1.0, "b2": 2.0, "z1": 9.0}
    for key, value in before.items():
        ResultCache(path).add(key, Timed(value, 1.0))
    of_other_code(path)
    now = {"a1": 1.0, "a2": 7.0, "a3": 7.0, "b1": 1.5, "b2": 2.5, "c1": 5.0}
    changed, made = rechecked(path, now)
    assert changed == ["b"]
    assert made == ["a1", "b1"]
    results = ResultCache(path).results
    assert {key: one["value"] for key, one in results.items() if key != "a2"} == {
        "a1": 1.0, "a3": 3.0, "b1": 1.5,
    }  # fmt: skip
    assert np.isnan(results["a2"]["value"])
    # What counts stands there once; what was not asked for, and what did not count, stays.
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    others = [line["key"] for line in lines if line["code"] == "other"]
    assert sorted(others) == ["b1", "b2", "z1"]
    assert sorted(line["key"] for line in lines) == ["a1", "a2", "a3", "b1", "b1", "b2", "z1"]
    # One that came out otherwise speaks against its kind for good.
    assert rechecked(path, now | {"b2": 2.0}) == (["b"], [])
    ResultCache(path).add("b2", Timed(2.5, 1.0))
    assert rechecked(path, now) == ([], [])
    assert sum(line.count('"key"') for line in path.open()) == 6


def test_runs_of_one_code_say_nothing_of_those_of_another(tmp_path):
    path = tmp_path / "runs.jsonl"
    for value in (1.0, 2.0, 3.0):
        ResultCache(path).add(f"a{value:.0f}", Timed(value, 1.0))
    of_other_code(path, "first")
    ResultCache(path).add("a1", Timed(10.0, 1.0))
    of_other_code(path, "second", only="a1")
    now = {"a1": 10.0, "a2": 20.0, "a3": 30.0}
    changed, made = rechecked(path, now)
    assert (changed, made) == (["a"], ["a1", "a2"])
    assert {k: one["value"] for k, one in ResultCache(path).results.items()} == {
        "a1": 10.0,
        "a2": 20.0,
    }


def test_nothing_is_rechecked_where_there_is_nothing(tmp_path):
    path = tmp_path / "runs.jsonl"
    assert rechecked(path, {"a1": 1.0}) == ([], [])
    assert not path.exists()


KILLED = """
import sys, time
from pathlib import Path
sys.path.append("tests")
from test_reproduce import Toy
from experiments.result_cache import ResultCache
from dirad.engine import run_all

def work(place):
    time.sleep(0.05)
    return Toy(place, place / 3)

cache = ResultCache(Path(sys.argv[1]))
missing = [n for n in range(20) if str(n) not in cache.results]
print(len(missing), flush=True)
run_all(work, [(n,) for n in missing], on_result=lambda i, r: cache.add(str(missing[i]), r))
"""


def test_killed_at_any_moment_nothing_is_lost_and_nothing_made_twice(tmp_path):
    path = tmp_path / "runs.jsonl"
    command = [sys.executable, "-c", KILLED, str(path)]
    here = os.path.dirname(os.path.dirname(__file__))  # the root, for `experiments`
    for wait in (0.3, 0.45):
        process = subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(wait)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, cwd=here, check=True, capture_output=True)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(int(line["key"]) for line in lines) == list(range(20))
    assert all(line["result"]["value"] == int(line["key"]) / 3 for line in lines)


# ------------------------------------------------------------------ plan and page


def test_the_plan_has_every_run_once_and_long_ones_first():
    jobs = plan.planned("paper", plan.PARTS, 8, 3, 0)
    assert len({ResultCache.key(*job) for job in jobs}) == len(jobs) == 2 + 8 + 32 + 32 + 32
    assert jobs[0][0].side == 28
    assert len(plan.planned("paper", ["main"], 8, 3, 0)) == 32
    assert len(plan.planned("default", ["main"], 8, 3, 0)) == 8
    settings = jobs[2][0].settings()
    assert settings.l0.batch_size == settings.l1.batch_size == 300


def toy_run(setting, number, detected=(True, True, True)):
    rng = np.random.default_rng(number)
    digits = rng.permutation(10)[:6].tolist()
    tests = []
    for task in range(3):
        seen = digits[: 2 * task + 2]
        right = 0.9 + 0.01 * number
        tests.append({d: right if detected[i // 2] else 0.0 for i, d in enumerate(seen)})
    sizes = ("L0_edges", "L0_hidden", "L0_steps", "L1_targets", "L1_confident", "L1_edges_grown")
    sizes += ("L1_edges", "L1_steps", "L1_error", "R_IS", "parameters")
    models = [dict.fromkeys(sizes, 1.0 + number) for _ in range(sum(detected))]
    probes = [Probe(i, 1.0 + 0.1 * i, [0.5], [0.9]) for i in range(len(models))]
    return Run(
        setting, number, digits, tests, list(detected), [0.0] * 3, [1.0] * 3, probes, models, 2.0
    )


def test_the_page_stands_on_any_runs():
    base = Setting()
    runs = []
    for T_CP in published.T_CP:
        runs += [toy_run(replace(base, T_CP=T_CP), n) for n in range(2)]
        runs += [toy_run(replace(base, T_CP=T_CP, told=True), n) for n in range(2)]
        missed = (True, False, True)
        runs.append(toy_run(replace(base, T_CP=T_CP, connectivity="top_down"), 3, missed))
    runs.append(toy_run(replace(base, T_CP=0.05, batch_size=300), 0))
    runs.append(toy_run(replace(base, T_CP=0.05, side=28), 0, (True, False, False)))
    tables = sections(runs)
    titles = [table.title for table in tables]
    assert len(titles) == len(set(titles))
    text = json.dumps(tables)
    assert "1/1" in text  # the run that missed a task
    assert "nan" not in text.replace("chance", "")
    missing = next(one for one in runs if one.setting.connectivity == "top_down")
    assert [owner_task(missing, model) for model in (0, 1, 2)] == [0, 2, None]
    ours = sections([toy_run(Setting(preset="default"), n) for n in range(3)])
    assert ours[0].rows[0]["T3"].startswith("0.91")


def test_runs_survive_their_file(tmp_path):
    one = toy_run(Setting(), 4)
    cache = ResultCache(tmp_path / "runs.jsonl")
    cache.add("key", one)
    assert plan.restored(ResultCache(tmp_path / "runs.jsonl").results["key"]) == one


def test_batches_hold_as_many_of_each_class():
    pools = [np.arange(100), np.arange(100, 200), np.arange(200, 300)]
    drawn = draw(np.random.default_rng(0), pools, 5, 50).reshape(5, 50)
    for batch in drawn:
        assert len(set(batch.tolist())) == 50
        assert sorted(np.bincount(batch // 100)) == [16, 17, 17]


# ------------------------------------------------------------------ pictures and streams


@pytest.mark.parametrize("name", ["paper", "default"])
def test_pictures_of_a_system(name, tmp_path):
    system = learned(name, [0, 1])
    assert WIDTH == 16  # an image of 4 × 4
    X = samples(1, 50, seed=4)[0]
    draw_adaptation(system.models[0]).savefig(tmp_path / "adaptation.png")
    figure = draw_flow(system, X, X[0])
    figure.savefig(tmp_path / "flow.png")
    text = " ".join(
        t.get_text()
        for part in figure.subfigs
        for ax in part.axes
        for t in [ax.yaxis.label, ax.xaxis.label]
    )
    assert "model 0" in text
    assert "← answers" in text


def test_a_system_follows_a_stream(tmp_path):
    system = system_of("default")
    parts = [samples(task, 30 * 50, seed=task) for task in (0, 1)]
    X, y = (np.concatenate(values) for values in zip(*parts, strict=True))
    stream = abrupt(Dataset(X, y, X, y), tasks=2, per_task=30 * 50, batch_size=50)
    moments = follow(system, stream)
    assert np.isnan(moments[0].accuracy)
    assert moments[29].accuracy > 0.9
    assert moments[30].verdict == "new"
    assert moments[30].p < 0.01
    assert moments[30].model == 1
    assert moments[59].accuracy > 0.9
    draw_timeline(moments, stream.classes, system.journal.events).savefig(tmp_path / "timeline.png")
