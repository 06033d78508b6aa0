"""A server that is killed at any moment loses nothing and learns nothing twice."""

import threading
import time

import httpx
import numpy as np
import psutil
import pytest

from dirad.serve import records
from dirad.serve.learner import StreamLearner
from dirad.serve.specification import Specification
from service import Server, serving

DESCRIBED = {"kind": "classifier", "columns": ["u", "v"]}


def request(number: int) -> tuple[str, dict]:
    """Return request `number` of the stream: rows whose task changes now and then, or labels."""
    rng = np.random.default_rng(number)
    if number % 7 == 6:
        return "labels", {"rows": [37 * (number - 1)], "labels": [1]}
    X = rng.normal(size=(37, 2)) + 8 * (number // 90 % 2)
    labels = (X[:, 0] > X[:, 1]).astype(int).tolist()
    labels[0] = None
    return "samples", {"rows": X.tolist(), "labels": labels}


def place_of(number: int) -> int:
    """Return how many rows come before a request."""
    return 37 * (number - number // 7)


class Sender(threading.Thread):
    """Sends request after request, each until it is answered with success; the last one too."""

    def __init__(self, server: Server, first: int) -> None:
        super().__init__(daemon=True)
        self.server, self.number, self.stopped = server, first, threading.Event()
        self.refused: list[str] = []

    def run(self) -> None:
        while True:
            kind, body = request(self.number)
            if kind == "labels":
                body["rows"] = [place_of(self.number - 1)]
            headers = {"Idempotency-Key": f"request {self.number}"}
            url = f"{self.server.url}/streams/pump/{kind}"
            try:
                answer = httpx.post(url, json=body, headers=headers, timeout=20)
            except httpx.HTTPError:
                time.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.number += 1
                if self.stopped.is_set():  # only now: an earlier one may be on disk unanswered
                    return
            elif answer.status_code in (429, 503):
                time.sleep(0.05)
            else:
                self.refused.append(answer.text)
                return

    def stop(self) -> int:
        """Return how many requests were acknowledged."""
        self.stopped.set()
        self.join(60)
        assert not self.is_alive()
        return self.number


def state_of(server: Server, stream: str = "pump") -> bytes:
    """Wait until everything is learned, and return the state."""
    deadline = time.monotonic() + 300
    while httpx.get(f"{server.url}/streams/{stream}", timeout=60).json()["pending"]:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    url = f"{server.url}/streams/{stream}/export?to=dirad"
    return httpx.get(url, timeout=60).content


def expected_state(n_requests: int) -> bytes:
    """Return the state of a learner that was never interrupted."""
    learner = StreamLearner(Specification.from_json(DESCRIBED))
    for number in range(n_requests):
        kind, body = request(number)
        if kind == "labels":
            record = records.late_labels([place_of(number - 1)], body["labels"])
        else:
            record = records.samples(np.array(body["rows"]), body["labels"])
        learner.carry_out(number + 1, record.kind, record.payload)
    return learner.state() or b""


def killed_at_random(tmp_path, kills: int) -> None:
    rng = np.random.default_rng(kills)
    with serving(tmp_path / "store", "--max-pending", "1000000") as server:
        assert (
            httpx.put(f"{server.url}/streams/pump", json=DESCRIBED, timeout=60).status_code == 201
        )
        sender = Sender(server, 0)
        sender.start()
        for _ in range(kills):
            time.sleep(float(rng.uniform(0.0, 1.5)))
            server.restart()
        while sender.number <= 10 * kills and sender.is_alive():  # a slow machine had few so far
            time.sleep(0.05)
        n_requests = sender.stop()
        assert not sender.refused
        found = httpx.get(f"{server.url}/streams/pump", timeout=60).json()
        assert found["samples"] == place_of(n_requests)
        assert n_requests > 10 * kills
        assert state_of(server) == expected_state(n_requests)


def test_killed_at_some_moments(tmp_path):
    killed_at_random(tmp_path, kills=4)


@pytest.mark.slow
def test_killed_at_a_hundred_moments(tmp_path):
    killed_at_random(tmp_path, kills=100)


class OneOfMany(threading.Thread):
    """Sends rows of its own to a stream to which others send rows as well."""

    def __init__(self, server: Server, stream: str, number: int) -> None:
        super().__init__(daemon=True)
        self.server, self.stream, self.number = server, stream, number
        self.stopped = threading.Event()
        self.accepted: list[tuple[int, dict]] = []  # the first row that it was told, and the rows
        self.refused: list[str] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            place = len(self.accepted)
            rng = np.random.default_rng([self.number, place])
            X = rng.normal(size=(int(rng.integers(1, 60)), 2)) + 8 * (place // 40 % 2)
            body = {"rows": X.tolist(), "labels": (X[:, 0] > X[:, 1]).astype(int).tolist()}
            if not self._send(body, f"{self.number} {place}"):
                return
            time.sleep(0.05)

    def _send(self, body: dict, key: str) -> bool:
        """Send a request until it is answered with success."""
        url = f"{self.server.url}/streams/{self.stream}/samples"
        while True:
            try:
                answer = httpx.post(url, json=body, headers={"Idempotency-Key": key}, timeout=20)
            except httpx.HTTPError:
                time.sleep(0.02)
                continue
            if answer.status_code == 200:
                self.accepted.append((answer.json()["first_row"], body))
                return True
            if answer.status_code not in (429, 503):
                self.refused.append(answer.text)
                return False
            time.sleep(0.05)


def many_killed_at_random(tmp_path, kills: int) -> None:
    """As above, with several streams, each fed by several clients at the same time."""
    rng, names = np.random.default_rng(kills), ("pump", "valve", "fan")
    with serving(tmp_path / "store", "--max-pending", "1000000") as server:
        for name in names:
            url = f"{server.url}/streams/{name}"
            assert httpx.put(url, json=DESCRIBED, timeout=60).status_code == 201
        senders = [OneOfMany(server, names[i % 3], i) for i in range(6)]
        for sender in senders:
            sender.start()
        for _ in range(kills):
            time.sleep(float(rng.uniform(0.2, 1.5)))
            server.restart()
        time.sleep(1.0)
        for sender in senders:
            sender.stopped.set()
        for sender in senders:
            sender.join(60)
            assert not sender.is_alive()
            assert not sender.refused
            assert len(sender.accepted) > 2 * kills
        for name in names:
            expected, rows = StreamLearner(Specification.from_json(DESCRIBED)), 0
            found = [one for sender in senders if sender.stream == name for one in sender.accepted]
            for seq, (first, body) in enumerate(sorted(found, key=lambda one: one[0]), 1):
                assert first == rows  # none is lost, and none is there twice
                record = records.samples(np.array(body["rows"]), body["labels"])
                expected.carry_out(seq, record.kind, record.payload)
                rows += len(body["rows"])
            assert state_of(server, name) == expected.state()
            samples = httpx.get(f"{server.url}/streams/{name}", timeout=60).json()["samples"]
            assert samples == rows


def test_several_streams_killed_at_some_moments(tmp_path):
    many_killed_at_random(tmp_path, kills=3)


@pytest.mark.slow
def test_several_streams_killed_at_a_hundred_moments(tmp_path):
    many_killed_at_random(tmp_path, kills=100)


def test_ending_by_itself_leaves_nothing_to_repeat(tmp_path):
    """A server that is told to end stores all states: the next one has nothing to learn again."""
    with serving(tmp_path / "store") as server:
        httpx.put(f"{server.url}/streams/pump", json=DESCRIBED, timeout=60)
        sender = Sender(server, 0)
        sender.start()
        while sender.number < 60:
            time.sleep(0.05)
        sender.stop()
        before = state_of(server)
        assert server.stop() == 0
        server.start()
        assert httpx.get(f"{server.url}/streams/pump", timeout=60).json()["pending"] == 0
        assert state_of(server) == before


def test_learning_process_that_dies_is_started_again(tmp_path):
    """Predictions go on meanwhile, and nothing is lost."""
    with serving(tmp_path / "store") as server:
        httpx.put(f"{server.url}/streams/pump", json=DESCRIBED, timeout=60)
        sender = Sender(server, 0)
        sender.start()
        for _ in range(3):
            time.sleep(1.0)
            assert server.process is not None
            for child in psutil.Process(server.process.pid).children(recursive=True):
                if "spawn_main" in " ".join(child.cmdline()):
                    child.kill()
        n_requests = sender.stop()
        assert state_of(server) == expected_state(n_requests)
