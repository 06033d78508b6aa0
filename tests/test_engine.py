"""Ray on a real cluster of several nodes: the same bits as locally, whatever process is killed."""

import dataclasses
import json
import os
import signal
import subprocess
import threading
import time
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dirad.demo.problems import grow
from dirad.engine import (
    Local,
    current,
    on_ray,
    rays,
    run_all,
    using,
)
from dirad.estimators.progress import load_kernels
from dirad.growth.adapt import warm_up
from dirad.params import preset
from dirad.preval import l1
from dirad.preval.predictor import fit_state_scaling
from experiments.parity import fingerprint
from experiments.reproduction.plan import measure
from experiments.reproduction.protocol import Setting
from experiments.result_cache import ResultCache
from streams import SETTINGS, digest, learned, samples

pytest.importorskip("ray", reason="the extra dirad[ray] is not installed")

STORE = 200 * 2**20  # bytes
MOST_KILLS = 3  # that a quick test has time for


@pytest.fixture(scope="module")
def cluster():
    """A head that computes nothing, and two nodes of one core."""
    ray = rays.ray_package()
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": STORE}
    patch = pytest.MonkeyPatch()
    folders = [os.path.dirname(__file__), *filter(None, [os.environ.get("PYTHONPATH")])]
    patch.setenv("PYTHONPATH", os.pathsep.join(folders))  # workers import this module
    made = Cluster(True, head_node_args={"num_cpus": 0, "include_dashboard": False, **size})
    try:
        for _ in range(2):
            made.add_node(num_cpus=1, **size)
        yield made
    finally:
        ray.shutdown()
        made.shutdown()
        patch.undo()


@pytest.fixture(scope="module")
def systems():
    """Systems of two models, made here."""
    with using(Local()):
        return {name: learned(name, [0, 1]) for name in SETTINGS}


@pytest.fixture(scope="module")
def engine(cluster):
    with on_ray(cluster.address) as engine:
        yield engine


# ------------------------------------------------------------------ runs


@dataclasses.dataclass
class Toy:
    place: int
    value: float


def grown(seed):
    """Return a network grown on noisy data, its errors, and who made it."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 4))
    params = preset("default", max_steps=200, settle_steps=20)
    made = grow(X, (X[:, :1] * X[:, 1:2] > 0).astype(float), params, seed)
    return fingerprint(made.network), made.history.error, os.getpid()


def test_runs_are_the_same_to_the_last_bit_and_in_order(engine):
    load_kernels()
    seen = []
    there = run_all(grown, [(n,) for n in range(6)], on_result=lambda i, result: seen.append(i))
    assert current() is engine
    with using(Local()):
        here = run_all(grown, [(n,) for n in range(6)])
    assert [name for name, *_ in there] == [name for name, *_ in here]
    assert len({name for name, *_ in here}) == 6
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(there, here, strict=True))
    assert sorted(seen) == list(range(6))
    assert os.getpid() not in {pid for *_, pid in there}
    assert isinstance(current(), type(engine))


def changed(array, nested):
    """Write into what was given, as a kernel may."""
    array += 1.0
    nested["inner"][0] += 1.0
    return array.sum(), nested["inner"], np.zeros(10)


def test_arrays_may_be_written_and_large_ones_stand_in_the_store_once(engine, monkeypatch):
    large, nested = np.zeros(rays.LARGE // 8), {"inner": np.zeros(3)}
    put = []
    monkeypatch.setattr(
        engine.ray, "put", lambda value, put_it=engine.ray.put: put.append(value) or put_it(value)
    )
    results = run_all(changed, [(large, nested)] * 4)
    assert sum(value is large for value in put) == 1
    assert [total for total, *_ in results] == [large.size] * 4  # each its own copy
    for _, inner, array in results:
        assert inner.tolist() == [1.0, 0.0, 0.0]
        array += 1.0
    assert not large.any()


def fails(n):
    if n == 2:
        raise KeyError("the third job is bad")
    return n


def test_an_error_is_raised_as_it_was(engine):
    for _ in range(30):  # what ends beside it at any moment does no harm
        with pytest.raises(KeyError, match="the third job") as found:
            run_all(fails, [(n,) for n in range(6)])
        assert type(found.value) is KeyError
    assert run_all(fails, [(0,), (1,)]) == [0, 1]


def deadly(folder, n):
    """Die at the first attempt; all the time, tell who works at what."""
    Path(folder, f"{n}-{os.getpid()}").touch()
    if len(list(Path(folder).glob(f"{n}-*"))) == 1 and n % 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.4)
    return Toy(n, n / 3)


def kill_workers(folder, every, over, killed):
    """Kill the process that began last, again and again."""
    while len(killed) < MOST_KILLS and not over.wait(every):
        made = sorted(Path(folder).iterdir(), key=lambda path: path.stat().st_mtime)
        if made:
            pid = int(made[-1].name.split("-")[1])
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def test_workers_that_are_killed_lose_nothing_and_nothing_counts_twice(engine, tmp_path):
    folder, over, killed = tmp_path / "pids", threading.Event(), []
    folder.mkdir()
    killer = threading.Thread(target=kill_workers, args=(folder, 0.7, over, killed))
    killer.start()
    cache = ResultCache(tmp_path / "runs.jsonl")
    try:
        found = cache.run(deadly, [(str(folder), n) for n in range(8)], list(map(str, range(8))))
    finally:
        over.set()
        killer.join()
    assert [one["place"] for one in found] == list(range(8))
    assert [one["value"] for one in found] == [n / 3 for n in range(8)]
    lines = [json.loads(line) for line in cache.path.read_text().splitlines()]
    assert sorted(line["key"] for line in lines) == sorted(map(str, range(8)))
    attempts = Counter(path.name.split("-")[0] for path in folder.iterdir())
    assert all(attempts[str(n)] >= 2 for n in range(1, 8, 2))
    assert killed


def kill_at_random(cluster, every, over, killed):
    """Kill a worker of some node again and again."""
    rng = np.random.default_rng(0)
    while not over.wait(every):
        raylets = [
            str(node.all_processes["raylet"][0].process.pid) for node in cluster.worker_nodes
        ]
        found = subprocess.run(
            ["pgrep", "-P", ",".join(raylets), "ray::single"], capture_output=True
        )
        pids = sorted(map(int, found.stdout.split()))
        if pids:
            pid = pids[rng.integers(len(pids))]
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


@pytest.mark.slow
def test_a_reproduction_whose_workers_are_killed_every_20_seconds(cluster, engine, tmp_path):
    jobs = [(Setting(T_CP=T), number) for T in (0.05, 0.1) for number in range(3)]
    over, killed = threading.Event(), []
    killer = threading.Thread(target=kill_at_random, args=(cluster, 20.0, over, killed))
    killer.start()
    try:
        there = measure(jobs, tmp_path / "there.jsonl")
    finally:
        over.set()
        killer.join()
    with using(Local()):
        here = measure(jobs, tmp_path / "here.jsonl", workers=2)
    untimed = [[dataclasses.replace(run, seconds=0.0) for run in runs] for runs in (there, here)]
    assert untimed[0] == untimed[1]
    keys = [json.loads(line)["key"] for line in (tmp_path / "there.jsonl").open()]
    assert sorted(keys) == sorted(ResultCache.key(*job) for job in jobs)
    assert killed


def test_kernels_are_loaded_once_on_every_node(engine, tmp_path):
    engine.on_every_node(leave_a_mark, str(tmp_path))
    assert len(list(tmp_path.iterdir())) == 2
    engine.on_every_node(warm_up, "float32")


def leave_a_mark(folder):
    import ray

    Path(folder, ray.get_runtime_context().get_node_id()).touch()


# ------------------------------------------------------------------ one large model


@pytest.mark.parametrize("name", SETTINGS)
def test_models_made_of_shards_are_the_same(engine, systems, name, monkeypatch):
    shards = []
    finished = engine.finished
    monkeypatch.setattr(
        engine, "finished", lambda work, jobs: shards.append(len(jobs)) or finished(work, jobs)
    )
    assert digest(learned(name, [0, 1])) == digest(systems[name])
    assert max(shards) > engine.n_cpus


def slowly_trained(folder, shared, pathways):
    """Train pathways slowly enough to be killed, and leave a file that names the node."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    Path(folder, f"{pathways[0].target}-{node}").touch()
    time.sleep(1.0)
    return l1.advance_pathways(shared, pathways)


def test_a_node_that_is_killed_changes_nothing(cluster, engine, systems, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    l0, settings = systems["paper"].models[0].network, SETTINGS["paper"]
    X = rng.permutation(samples(0, 60 * settings.l1.batch_size)[0])
    states = fit_state_scaling(l0, X[:40], standardize=settings.standardize)
    expected = l1.new_l1(states, X[:40], settings, 7)
    with using(Local()):
        expected.step_per_batch(X)

    victim = cluster.add_node(num_cpus=1, object_store_memory=STORE)
    found = l1.new_l1(states, X[:40], settings, 7)
    monkeypatch.setattr(l1, "advance_pathways", partial(slowly_trained, str(tmp_path)))

    def kill():
        while not list(tmp_path.glob(f"*-{victim.node_id}")):
            time.sleep(0.05)
        cluster.remove_node(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    found.step_per_batch(X)
    killer.join()
    places = Counter(path.name.split("-")[0] for path in tmp_path.iterdir())
    assert max(places.values()) > 1  # a shard of the removed node was trained again elsewhere
    assert found.step == expected.step
    for mine, its in zip(found.pathways, expected.pathways, strict=True):
        assert fingerprint(mine.network) == fingerprint(its.network)
    for mine, its in zip(found.histories, expected.histories, strict=True):
        assert np.array_equal(mine.error, its.error)
        assert np.array_equal(mine.events, its.events)
