"""The service on a cluster of several nodes: nothing is lost or learned twice."""

import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager

import pytest

import postgres
from commands import DIRAD
from dirad.engine import rays
from feeding import Feeder, check_rows, events_of, requests, uninterrupted
from service import serving

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")
pytest.importorskip("ray.serve", reason="the extra dirad[cluster] is not installed")

STORE = 200 * 2**20  # bytes
STREAMS = ("pump", "valve", "fan")


@pytest.fixture(scope="module")
def database():
    with postgres.running() as server:
        yield server


@contextmanager
def cluster_of(nodes):
    """A head that computes nothing, and nodes of one core."""
    rays.ray_package()
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": STORE}
    made = Cluster(True, head_node_args={"num_cpus": 0, "include_dashboard": False, **size})
    try:
        for _ in range(nodes):
            made.add_node(num_cpus=1, **size)
        yield made
    finally:
        made.shutdown()


def processes_of(node, name):
    """Return the processes of a node by what Ray calls them."""
    raylet = node.all_processes["raylet"][0].process.pid
    found = subprocess.run(["pgrep", "-P", str(raylet), "-f", name], capture_output=True)
    return list(map(int, found.stdout.split()))


def epoch_of(url):
    """Return how many servers have owned a store so far."""
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute("SELECT epoch FROM lease").fetchone()[0]


def feed_all(feeders, bodies, pause=0.0):
    """Feed several streams at the same time."""
    threads = [
        threading.Thread(target=one.feed, args=(bodies, lambda _: time.sleep(pause)))
        for one in feeders
    ]
    for thread in threads:
        thread.start()
    return threads


def test_a_folder_is_refused(tmp_path):
    command = [*DIRAD, "serve", "--engine", "ray", "--store", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "--engine ray needs --store postgresql://" in " ".join(done.stderr.split())


def test_actors_and_the_node_of_the_front_are_killed_under_load(database, tmp_path):
    run_with_kills(database, tmp_path, "short", n=24, kills=1)


@pytest.mark.slow
def test_nodes_are_killed_again_and_again(database, tmp_path):
    run_with_kills(database, tmp_path, "long", n=400, kills=6)


def an_actor(cluster):
    """Return the process of an actor that learns, as soon as there is one."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        for node in cluster.worker_nodes:
            for pid in processes_of(node, "LearningActor"):
                return pid
        time.sleep(0.1)
    raise AssertionError("no actor was started again")


def run_with_kills(database, tmp_path, name, n, kills):
    bodies = requests(n)
    file, events = uninterrupted(tmp_path, bodies)
    options = ("--engine", "ray", "--processes", "3", "--address")
    url = database.create(name)
    with cluster_of(2) as cluster, serving(url, *options, cluster.address) as one:
        before = epoch_of(url)
        feeders = [Feeder(one.url, stream) for stream in STREAMS]
        for feeder in feeders:
            feeder.create()
        threads = feed_all(feeders, bodies, pause=0.3)
        killed = {"actors": 0, "nodes": 0, "fronts": 0}
        for _ in range(kills):
            time.sleep(1.0)
            os.kill(an_actor(cluster), signal.SIGKILL)
            killed["actors"] += 1
            time.sleep(1.0)
            victim = max(cluster.worker_nodes, key=lambda node: len(processes_of(node, "front")))
            killed["fronts"] += len(processes_of(victim, "front"))
            killed["nodes"] += 1
            cluster.add_node(num_cpus=1, object_store_memory=STORE)
            cluster.remove_node(victim, allow_graceful=False)
        for thread in threads:
            thread.join()
        assert killed["fronts"] >= 1
        # Requests may not have noticed, since Ray Serve lets them wait: the database knows.
        assert epoch_of(url) - before >= killed["fronts"]
        for feeder in feeders:
            check_rows(feeder)
            assert events_of(feeder) == events
            assert feeder.export() == file
        assert one.process.poll() is None
        one.stop()
        said = "".join(one.said)
        assert "Traceback" not in said, said
