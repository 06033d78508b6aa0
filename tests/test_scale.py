"""Scale: laws, made-up data, every measurement at a tiny size, and the reckoning behind it."""

import json
import multiprocessing
import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from dirad.core.network import EDGE
from dirad.core.order import LENGTH, build_plan
from experiments.commands import run as command
from experiments.scale import clock, models, plan, simulate, tables
from experiments.scale.figures import Curve, Panel, draw_costs
from experiments.scale.growth import measure_edges, measure_inputs
from experiments.scale.planted import network_of, planted
from experiments.scale.power_law import PowerLaw, fit_power_law
from experiments.scale.stream import (
    CLASSES,
    INPUTS,
    STAY,
    TASKS,
    measure_stream,
    read_stream,
    write_stream,
)
from experiments.scale.targets import measure_targets

# ------------------------------------------------------------------ laws


def test_a_law_is_the_regression_of_logarithms():
    rng = np.random.default_rng(0)
    sizes = np.array([10, 30, 100, 300])
    costs = 0.2 * sizes**1.3 * np.exp(0.1 * rng.normal(size=4))
    law = fit_power_law(sizes, costs)
    twin = stats.linregress(np.log(sizes), np.log(costs))
    assert law.exponent == pytest.approx(twin.slope)
    assert law.spread == pytest.approx(twin.stderr)
    assert law.constant == pytest.approx(np.exp(twin.intercept))
    assert law.at(50) == pytest.approx(np.exp(twin.intercept + twin.slope * np.log(50)))


def test_a_law_is_that_of_the_largest_sizes():
    sizes, costs = [1, 10, 100, 1000], [100.0, 100.0, 100.0, 1000.0]
    assert fit_power_law(sizes, costs, largest=2).exponent == pytest.approx(1.0)
    assert fit_power_law(sizes[::-1], costs[::-1], largest=2).exponent == pytest.approx(1.0)
    assert fit_power_law(sizes, costs).exponent < 0.5
    assert np.isnan(fit_power_law(sizes, costs, largest=2).spread)


def test_a_law_needs_two_sizes_with_a_cost():
    with pytest.raises(ValueError, match="two sizes"):
        fit_power_law([10, 100], [0.0, 1.0])


# ------------------------------------------------------------------ made by hand


@pytest.mark.parametrize("n_inputs", [160, 400])
def test_planted_inputs_are_predictable_and_few_tell_the_class(n_inputs):
    X, y = planted(n_inputs, 2000)
    assert X.shape == (2000, n_inputs)
    assert y.mean() == pytest.approx(0.5, abs=0.01)
    target, others = X[:1000, 20], np.delete(X[:1000], 20, axis=1)
    weights = np.linalg.lstsq(others, target, rcond=None)[0]
    left = X[1000:, 20] - np.delete(X[1000:], 20, axis=1) @ weights
    assert left.var() < 0.7 * X[1000:, 20].var()
    telling = np.abs(np.corrcoef(X.T, y)[-1, :-1])
    assert telling[:10].mean() > 1.5 * telling[20:].mean()


@pytest.mark.parametrize("n_edges", [50, 1000])
def test_a_network_has_the_edges_asked_for_and_no_cycle(n_edges):
    network = network_of(n_edges, 30, 2)
    network_plan = build_plan(network)  # refuses a cycle
    assert network_plan.status[LENGTH] == 2 + network.n_hidden
    assert network.n_edges == n_edges
    assert network.n_hidden == n_edges // 10
    pairs = set(zip(network.edges["source"], network.edges["term"], strict=True))
    assert len(pairs) == n_edges
    outputs = (network.edges["source"] >= 30) & (network.edges["source"] < 32)
    assert not outputs.any()


def test_more_edges_than_places_are_refused():
    with pytest.raises(ValueError, match="do not fit"):
        network_of(5, 1, 2)


def test_squares_turn_in_eight_ways():
    image = np.random.default_rng(0).random((8, 8))
    found = [image.ravel()[models.turned(i)].reshape(8, 8) for i in range(8)]
    assert len({one.tobytes() for one in found}) == 8
    np.testing.assert_array_equal(found[2], image[::-1, ::-1])
    np.testing.assert_array_equal(found[4], image[:, ::-1])


def test_turned_tasks_come_once_each():
    found = [(task.digits, task.pixels.tobytes()) for task in models.tasks_of("turned", 0)]
    assert len(found) == len(set(found)) == 8 * 45


def test_a_stream_comes_back_from_its_file(tmp_path):
    path = write_stream(tmp_path, 5 * STAY)
    chunks = list(read_stream(path))
    X = np.concatenate([chunk[0] for chunk in chunks])
    y = np.concatenate([chunk[1] for chunk in chunks])
    assert X.shape == (5 * STAY, INPUTS)
    task = y.reshape(5, STAY) // CLASSES
    assert (task == (np.arange(5) % TASKS)[:, None]).all()
    centre = [X[:STAY][y[:STAY] == 0].mean(axis=0), X[-STAY:][y[-STAY:] == 0].mean(axis=0)]
    np.testing.assert_allclose(*centre, atol=1.0)  # the first task is the last again


# ------------------------------------------------------------------ measurements


def test_memory_is_that_since_it_was_forgotten():
    before = clock.forget_peak()
    block = np.ones(20_000_000)
    assert clock.peak_memory() - before > 0.9 * block.nbytes
    del block
    if os.path.exists("/proc/self/clear_refs"):
        assert clock.forget_peak() - before < 0.5 * 160e6
        assert clock.peak_memory() - before < 0.5 * 160e6


def test_a_call_alone_has_a_process_of_its_own():
    assert clock.alone(os.getpid) != os.getpid()


def test_what_goes_wrong_there_is_told_here():
    with pytest.raises(ValueError, match="invalid literal"):
        clock.alone(int, "seven")
    with pytest.raises(RuntimeError, match="ended with 3"):
        clock.alone(os._exit, 3)


def test_who_stops_waiting_leaves_no_process_behind():
    others = set(multiprocessing.active_children())  # pools of other tests may live on
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored here
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            clock.alone(time.sleep, 600)
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(multiprocessing.active_children()) <= others


@pytest.fixture(scope="module")
def rows():
    """Tiny measurements of all parts but the paper's, which needs MNIST."""
    return {
        "inputs": [measure_inputs(n, 300) for n in (20, 40)],
        "targets": [measure_targets(n, 400) for n in (16, 32)],
        "edges": [measure_edges(n) for n in (100, 300)],
        "permuted": models.measure_models("permuted", (1, 3), 100, 2),
        "screening": [plan.measure_screening(n) for n in (20, 200)],
        "samples": measure_stream((2000, 4000)),
    }


def test_costs_are_positive_and_sizes_rise(rows):
    costs = {"inputs": ("step", "fit"), "targets": ("L0", "L1", "look"), "edges": ("response",)}
    costs |= {"permuted": ("route", "all", "batch"), "screening": ("screen",)}
    costs |= {"samples": ("seconds",)}
    for part, names in costs.items():
        sizes = [row["size"] for row in rows[part]]
        assert sizes == sorted(set(sizes))
        assert all(row[name] > 0 for row in rows[part] for name in names)


def test_what_is_counted_grows_with_the_size(rows):
    assert rows["targets"][1]["numbers"] > rows["targets"][0]["numbers"]
    assert rows["permuted"][1]["numbers"] > rows["permuted"][0]["numbers"]
    assert [row["hidden"] for row in rows["edges"]] == [10, 30]
    assert rows["screening"][1]["megabytes"] == pytest.approx(2 * 4 * 784 * 200 / 1e6)
    assert [row["reports"] for row in rows["samples"]] == [10, 20]
    assert rows["inputs"][1]["accuracy"] > 0.8


def test_few_models_are_routed_as_by_all(rows):
    assert all(row["otherwise"] == 0 for row in rows["permuted"])


def test_routing_by_all_models_is_the_lowest_score_of_all():
    crowd = models.Crowd("permuted")
    assert crowd.learn(3)
    X = crowd.samples(90)
    found = models.route_by_all(crowd.system, X)
    scores = crowd.system.scores(X)
    best = scores.shape[1] - 1 - scores[:, ::-1].argmin(axis=1)  # of equals the newest
    np.testing.assert_array_equal(found, best)
    asked = []
    selected = SimpleNamespace(rows=lambda X, most: asked.append(most))
    vars(crowd.system)["_preselection"] = lambda: selected
    np.testing.assert_array_equal(models.route_by_all(crowd.system, X), found)
    assert not asked


# ------------------------------------------------------------------ the plan


def test_every_measurement_is_planned_once():
    jobs = plan.planned(plan.PARTS, plan.FULL, 0)
    keys = [plan.key_of(job) for job in jobs]
    assert len(keys) == len(set(keys))
    assert {job[0] for job in jobs} == set(plan.MEASURED)
    assert not set(keys) & {plan.key_of(job) for job in plan.planned(plan.PARTS, plan.FULL, 1)}
    assert [job[2] for job in jobs if job[0] == "samples"] == [(100_000, 1_000_000, 10_000_000)]


def test_what_was_measured_is_not_measured_again(tmp_path, monkeypatch):
    made = []

    def measure(part, kind, sizes, extent, seed):
        made.append((part, sizes))
        return plan.Measured(part, [{"size": size} for size in sizes])

    monkeypatch.setattr(plan, "measure", measure)
    path = tmp_path / "scale.jsonl"
    jobs = plan.planned(["edges", "models"], plan.QUICK, 0)
    first = plan.execute(jobs[:2], path)
    assert first == {"edges": [{"size": 100}, {"size": 300}]}
    whole = plan.execute(jobs, path)
    assert len(made) == len(jobs) == 5
    assert whole["permuted"] == [{"size": 1}, {"size": 2}]
    assert plan.kept(jobs, path) == whole
    assert plan.kept(plan.planned(["inputs"], plan.QUICK, 0), path) == {}


# ------------------------------------------------------------------ tables and pictures


def test_tables_end_with_the_exponent():
    rows = [{"size": n, "hidden": 1, "step": n, "response": n**2, "megabytes": n} for n in (1, 10)]
    table = tables.edges_table(rows)
    assert table.rows[-1] == {
        "edges": "exponent",
        "a step": "1.00",
        "response per sample": "2.00",
        "memory": "1.00",
    }
    assert table.rows[0]["a step"] == "1.00 s"


def test_memory_is_compared_with_the_first_row():
    row = {"seconds": 1.0, "models": 4, "reports": 1, "events": 1}
    found = tables.samples_table(
        [{"size": 10, "megabytes": 200.0, **row}, {"size": 20, "megabytes": 210.0, **row}]
    )
    assert [one["above the first"] for one in found.rows] == ["0.00%", "5.00%"]


def test_pictures_show_points_laws_and_limits():
    law = PowerLaw(2.0, 1.0, 0.1)
    curve = Curve([1, 10], [2.0, 20.0], law.at, str(law))
    panels = [Panel("s", {"a": curve}, limit=30.0), Panel("MB", {"b": Curve([1, 10], [5, 5])})]
    time_axes, memory_axes = draw_costs("title", "things", panels).axes
    assert [text.get_text() for text in time_axes.get_legend().get_texts()] == [
        "a: exponent 1.00 ± 0.10",
        "required: below",
    ]
    assert len(time_axes.lines) == 3
    assert len(memory_axes.lines) == 1


# ------------------------------------------------------------------ on paper

LINEAR = {
    "targets": [
        {
            "size": n,
            "numbers": 10 * n,
            "L0": 0.01 * n,
            "L1": 0.1 * n,
            "look": 1e-6 * n,
            "megabytes": n * n / 1e3,
        }
        for n in (100, 1000)
    ],
    "screening": [{"size": n, "inputs": 50, "screen": 1e-9 * 50 * n} for n in (100, 1000)],
}


def test_the_world_follows_from_the_laws():
    laws = simulate.laws_of(LINEAR)
    world = simulate.World(models=1000, inputs=10_000, worker_bytes=0.9e9, link_bytes=1e9)
    assert simulate.model_bytes(laws, world.inputs) == pytest.approx(10 * 10_000 * EDGE.itemsize)
    found = simulate.routing(laws, world)
    assert found.workers == 4  # 3.2 MB a model
    assert found.screen_workers == 1  # 80 MB
    assert found.to_all == pytest.approx(4 * 40_000)
    assert found.to_screen == pytest.approx(40_000 + 4 * 1000)
    assert found.to_likely == pytest.approx(8 * 40_000)
    assert found.screen_seconds == pytest.approx(1e-9 * 1e7)
    assert found.look_seconds == pytest.approx(8 * 1e-2)
    assert simulate.learners(laws, world) == 1
    assert simulate.learners(laws, simulate.World(inputs=10**8)) == 128  # 1.1e7 s in a day
    assert laws.peak is not None
    assert laws.peak.at(10_000) == pytest.approx(1e5)


def test_what_breaks_first_is_full_at_the_fewest_inputs():
    memory = 64e9
    found = simulate.holds()
    first = simulate.first_to_break(found, memory)
    fits = {hold.name: simulate.largest(hold, memory) for hold in found}
    assert fits[first.name] == min(fits.values())
    for hold in found:
        most = fits[hold.name]
        assert hold.bytes(most) <= memory < hold.bytes(most + 1)
    rows = simulate.limits(simulate.World())
    numbers = [int(row["full at inputs"].replace(",", "")) for row in rows]
    assert numbers == sorted(fits.values())


def test_without_measurements_nothing_is_reckoned():
    with pytest.raises(ValueError, match="run screening first"):
        simulate.laws_of({"targets": LINEAR["targets"]})


# ------------------------------------------------------------------ the command


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(plan, "alone", lambda function, *arguments: function(*arguments))


@pytest.mark.usefixtures("in_this_process")
def test_the_command_measures_then_reckons_from_what_it_kept(tmp_path, capsys):
    out = ["--quick", "--quiet", "--out", str(tmp_path)]
    assert command(["scale", "--parts", "simulate", *out]) == 1
    assert "run targets, screening first" in capsys.readouterr().err
    assert command(["scale", "--parts", "inputs,targets,screening", *out]) == 0
    assert (tmp_path / "scale-inputs.png").exists()
    lines = (tmp_path / "scale.jsonl").read_text().splitlines()
    assert command(["scale", "--parts", "simulate", "--models", "50", *out]) == 0
    assert (tmp_path / "scale.jsonl").read_text().splitlines() == lines
    text = (tmp_path / "scale.md").read_text()
    assert "50 models of 1,000,000 inputs" in text
    assert json.loads((tmp_path / "scale.json").read_text())["options"]["models"] == 50


def test_an_unknown_part_is_named(capsys):
    assert command(["scale", "--parts", "atoms"]) == 2
    assert "'atoms'" in capsys.readouterr().err
