"""A client that feeds a stream, whatever happens to the server, and what comes of it."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

from service import serving

SPECIFICATION = {
    "kind": "classifier",
    "columns": ["u", "v"],
    "settings": {"batch_size": 20, "buffer_size": 400, "begin": 40, "steps_per_batch": 5},
}
ROWS = 40  # of a request
PATIENCE = 120.0  # seconds that a client tries


def requests(n: int, seed: int = 0) -> list[dict]:
    """Return bodies of samples with labels; halfway, the task changes."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        X = rng.normal(size=(ROWS, 2)) + (6.0 if i >= n // 2 else 0.0)
        y = X[:, 0] > X.mean(axis=0)[0]
        ids = [f"{i}-{j}" for j in range(ROWS)]
        found.append({"rows": X.tolist(), "labels": y.astype(int).tolist(), "ids": ids})
    return found


@dataclass
class Feeder:
    """Sends each request until it is answered with success."""

    url: str
    stream: str = "pump"
    answers: list[dict] = field(default_factory=list)
    refusals: list[tuple[int, str | None]] = field(default_factory=list)  # status, Retry-After
    lost: int = 0  # connections without an answer

    def __post_init__(self) -> None:
        self.client = httpx.Client(base_url=self.url, timeout=30)

    def create(self) -> None:
        """Create the stream."""
        self._until_done("PUT", "", SPECIFICATION)

    def feed(self, bodies: list[dict], between: Callable[[int], None] = lambda _: None) -> None:
        """Send requests one after the other; call `between` before each."""
        first = len(self.answers)
        for i, body in enumerate(bodies, first):
            between(i)
            answer = self._until_done("POST", "/samples", body, f"request {i}")
            self.answers.append(answer.json())

    def label(self, ids: list[str], labels: list[int], key: str) -> None:
        """Send late labels."""
        self._until_done("POST", "/labels", {"ids": ids, "labels": labels}, key)

    def state(self) -> dict:
        """Return what the server says of the stream."""
        return self._until_done("GET", "").json()

    def learned(self) -> dict:
        """Wait until everything is learned; return the state of the stream."""
        for _ in self._moments():
            state = self.state()
            if state["pending"] == 0:
                return state
        raise AssertionError(f"{state['pending']} rows were not learned")

    def export(self) -> bytes:
        """Return the model file of the stream, after everything is learned."""
        self.learned()
        return self._until_done("GET", "/export?to=dirad").content

    def _until_done(self, method: str, path: str, body=None, key=None) -> httpx.Response:
        headers = {} if key is None else {"Idempotency-Key": key}
        for _ in self._moments():
            try:
                answer = self.client.request(
                    method, f"/streams/{self.stream}{path}", json=body, headers=headers
                )
            except httpx.TransportError:
                self.lost += 1
                continue
            if answer.status_code < 300:
                return answer
            self.refusals.append((answer.status_code, answer.headers.get("Retry-After")))
            assert answer.status_code >= 500, answer.text
        raise AssertionError(f"no success: {self.refusals[-5:]}")

    @staticmethod
    def _moments() -> Iterator[None]:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            yield
            time.sleep(0.2)


def check_rows(feeder: Feeder) -> None:
    """Check that every request has its own rows, in order, each counted once."""
    assert [one["first_row"] for one in feeder.answers] == [
        i * ROWS for i in range(len(feeder.answers))
    ]
    state = feeder.learned()
    assert state["samples"] == state["learned"] == ROWS * len(feeder.answers)


def uninterrupted(folder: Path, bodies: list[dict]) -> tuple[bytes, list[dict]]:
    """Return the model file and the events of a server on SQLite to which nothing happens."""
    with serving(folder) as server:
        feeder = Feeder(server.url)
        feeder.create()
        feeder.feed(bodies)
        return feeder.export(), events_of(feeder)


def events_of(feeder: Feeder) -> list[dict]:
    """Return the events of the stream without the times at which they were stored."""
    headers = {"Accept": "application/json"}
    found = feeder.client.get(f"/streams/{feeder.stream}/events", headers=headers).json()["events"]
    return [{name: value for name, value in one.items() if name != "at"} for one in found]
