"""Clients for the benchmark of the service: processes of their own, one connection each."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

START_SECONDS = 120.0
WAITING = Path("/proc/thread-self/schedstat")  # of Linux
JSON = {"Content-Type": "application/json"}


def rows_of(part: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return part of a stream: two inputs, two classes, a task that never changes."""
    X = np.random.default_rng(part).normal(size=(n, 2))
    return X, (X[:, 0] > X[:, 1]).astype(int)


def body_of(part: int, n: int) -> bytes:
    """Return rows with labels as the body of a request."""
    X, y = rows_of(part, n)
    return json.dumps({"rows": X.tolist(), "labels": y.tolist()}).encode()


class Connection:
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._http.connect()
        self._http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        self._http.request(method, path, body, JSON if body else {})
        answer = self._http.getresponse()
        return answer.status, answer.read()

    def read(self, path: str) -> Any:
        """Return what a GET answers."""
        status, body = self.ask("GET", path)
        assert status == 200, body
        return json.loads(body)

    def send(self, path: str, body: bytes) -> None:
        """Send rows to learn, again while the server has too many waiting."""
        while True:
            status, answer = self.ask("POST", path, body)
            if status == 200:
                return
            assert status == 429, answer
            time.sleep(0.2)


class Answered(NamedTuple):
    """One answer, as its client measured it."""

    seconds: float
    waited: float  # seconds of these in which the client itself waited for a core


def latencies(port: int, path: str, seconds: float, body: bytes | None = None) -> list[Answered]:
    """Return the times of the predictions that one client got, one after another."""
    connection = Connection(port)
    if body is None:
        body = json.dumps({"rows": rows_of(0, 1)[0].tolist()}).encode()
    found = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        before, start = waited(), time.perf_counter()
        status, answer = connection.ask("POST", path, body)
        assert status == 200, answer
        now = time.perf_counter()
        found.append(Answered(now - start, waited() - before))
    return found


def waited() -> float:
    """Return for how many seconds this thread was ready to go on, and no core was free for it.

    It is zero where the system does not tell.
    """
    return int(WAITING.read_text().split()[1]) / 1e9 if WAITING.exists() else 0.0


def feed(port: int, path: str, rows: int, stop: Event) -> None:
    """Send rows until told to stop."""
    connection = Connection(port)
    bodies = [body_of(part, rows) for part in range(20)]
    part = 0
    while not stop.is_set():
        connection.send(path, bodies[part % len(bodies)])
        part += 1


def free_port() -> int:
    """Return a port on which nobody listens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@contextmanager
def running(*command: Any) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of this Python while the block runs."""
    process = subprocess.Popen([sys.executable, *map(str, command)], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def wait_for(port: int) -> float:
    """Wait until a service answers; return the seconds."""
    start = time.perf_counter()
    while time.perf_counter() < start + START_SECONDS:
        try:
            if Connection(port).ask("GET", "/healthz")[0] == 200:
                return time.perf_counter() - start
        except OSError:
            time.sleep(0.02)
    raise RuntimeError("the service did not start")
