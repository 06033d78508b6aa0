"""`dirad.Client` against a running service, and against one that fails for a while."""

import json
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest

import dirad
from dirad import Client, ClientError
from service import serving

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

N = 1000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("store")) as running:
        yield running


def task(low, seed=0, n=N):
    """Two classes, one beside the other."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    return rng.normal(low + 2.0 * y[:, None], 0.3, (n, 2)), y


@pytest.fixture(scope="module")
def taught(server):
    """A stream that has learned two tasks."""
    with Client(server.url, "taught") as client:
        client.create("classifier", ["u", "v"])
        for low, names in ((0, ["a", "b"]), (20, ["c", "d"])):
            X, y = task(low)
            client.partial_fit(X, np.array(names)[y])
        yield client.wait()


def test_it_learns_and_answers_as_an_estimator_does(taught):
    X, y = task(20, seed=1, n=50)
    labels = np.array(["c", "d"])[y]
    assert (taught.predict(X) == labels).mean() > 0.95
    probabilities = taught.predict_proba(X)
    assert taught.classes_.tolist() == ["a", "b", "c", "d"]
    assert probabilities.shape == (50, 4)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert (taught.classes_[probabilities.argmax(axis=1)] == taught.predict(X)).all()
    assert set(taught.route(X)) == {1}
    assert taught.is_known(X).mean() > 0.8
    far = X + 500
    assert not taught.is_known(far).any()
    assert taught.novelty(far).min() > taught.novelty(X).max()
    explanation = taught.explain(far)
    assert explanation["kind"] == "new inputs"
    assert taught.explain(X, labels)["kind"] == "known"
    assert [model["number"] for model in taught.models()] == [0, 1]
    assert taught.state()["samples"] == 2 * N


def test_answers_are_those_of_the_same_learner_here(taught):
    here = dirad.PREVALClassifier(random_state=0, n_jobs=1)
    for low, names in ((0, ["a", "b"]), (20, ["c", "d"])):
        X, y = task(low)
        here.partial_fit(X, np.array(names)[y])
    X = np.concatenate([task(0, seed=2, n=40)[0], task(20, seed=2, n=40)[0]])
    np.testing.assert_array_equal(taught.predict_proba(X), here.predict_proba(X))
    np.testing.assert_array_equal(taught.novelty(X), here.novelty(X))


def test_data_frames_lists_and_missing_values(server):
    client = Client(server.url, "frames").create(
        "classifier",
        ["u", {"name": "state", "kind": "category", "categories": ["on", "off"]},
         {"name": "v", "kind": "number", "fill": 0.0}],
    )  # fmt: skip
    frame = pd.DataFrame({"v": [1.0, np.nan], "state": ["on", "off"], "u": [1, 2]})
    client.partial_fit(frame, pd.Series([1, None], dtype="Int64"))
    assert client.row_numbers_.tolist() == [0, 1]
    client.partial_fit([[1.0, "on", None], (np.float32(2), "off", 3)], [1, 2])
    assert client.row_numbers_.tolist() == [2, 3]
    assert client.state()["samples"] == 4
    with pytest.raises(ValueError, match="column 'v' is missing"):
        client.partial_fit(frame[["u", "state"]])
    with pytest.raises(ValueError, match="no column 'w'"):
        client.partial_fit(frame.assign(w=1))
    with pytest.raises(ValueError, match="rows and columns"):
        client.partial_fit([1.0, 2.0])
    with pytest.raises(ValueError, match="infinite"):
        client.partial_fit([[np.inf, "on", 1.0]])
    with pytest.raises(ValueError, match="y has 1 values, and there are 2 rows"):
        client.partial_fit(frame, [1])
    with pytest.raises(ClientError, match="purple") as caught:
        client.partial_fit([[1.0, "purple", 1.0]])
    assert caught.value.status == 422
    assert client.state()["samples"] == 4


def test_numbers_with_intervals(server):
    client = Client(server.url, "numbers").create("regressor", ["u"])
    X = np.random.default_rng(0).normal(size=(N, 1))
    client.partial_fit(X, 3 * X[:, 0]).finish().wait()
    interval = client.predict_interval(X[:20], coverage=0.8)
    assert interval.shape == (20, 2)
    assert (interval[:, 0] <= client.predict(X[:20])).all()


def test_exports(taught, tmp_path):
    path = tmp_path / "taught.dirad"
    path.write_bytes(taught.export("dirad"))
    X, _ = task(20, seed=1, n=50)
    np.testing.assert_array_equal(dirad.load(path).predict_proba(X), taught.predict_proba(X))
    assert b"model" in taught.export("c")
    with pytest.raises(ClientError, match="to must be one of"):
        taught.export("cobol")


def test_late_labels_by_number_and_by_id(server):
    client = Client(server.url, "late").create("classifier", ["u", "v"])
    X, y = task(0)
    client.partial_fit(X[:100], y[:100])
    client.partial_fit(X[100:200], ids=[f"id-{i}" for i in range(100)])
    client.label([f"id-{i}" for i in range(50)], y[100:150])
    client.label(client.row_numbers_[50:], y[150:200])
    with pytest.raises(ClientError, match="no sample with the id"):
        client.label(["nobody"], [1])
    with pytest.raises(ClientError, match="already") as caught:
        client.partial_fit(X[:1], ids=["id-7"])
    assert caught.value.status == 409
    assert client.wait().state()["too_late"] == 0
    assert client.predict(X).shape == (N,)


def test_a_repeated_call_with_its_key_learns_nothing_twice(server):
    client = Client(server.url, "repeated").create("detector", ["u", "v"])
    X = task(0, n=2500)[0]
    client.partial_fit(X, key="day-1")
    numbers = client.row_numbers_
    client.partial_fit(X, key="day-1")
    assert client.state()["samples"] == 2500
    np.testing.assert_array_equal(client.row_numbers_, numbers)
    client.partial_fit(X)
    assert client.state()["samples"] == 5000


def test_events_as_a_list_and_as_they_happen(taught):
    listed = taught.events()
    assert [event["kind"] for event in listed if event["alarm"]] == ["opened"]
    assert taught.events(after=listed[-1]["number"]) == []
    followed = taught.follow()
    assert [next(followed) for _ in listed] == listed
    later = taught.follow(after=listed[-2]["number"])
    assert next(later) == listed[-1]


def test_streams_are_listed_created_once_and_deleted(server):
    client = Client(server.url, "short")
    client.create("detector", ["u"]).create("detector", ["u"])
    assert "short" in [one["name"] for one in client.streams()]
    with pytest.raises(ClientError, match="different"):
        client.create("detector", ["u", "v"])
    client.delete()
    with pytest.raises(ClientError, match="no stream 'short'"):
        client.state()
    with pytest.raises(ValueError, match="name a stream"):
        Client(server.url).state()
    with pytest.raises(ClientError, match="no model yet"):
        Client(server.url, "empty").create("detector", ["u"]).predict([[1.0]])


def test_a_killed_server_costs_nothing_but_time(tmp_path):
    """Rows are sent all the while that the server is killed and started again."""
    with serving(tmp_path) as server:
        client = Client(server.url, "s").create("detector", ["u", "v"])
        events: list[int] = []

        def follow() -> None:
            with suppress(ClientError):  # it goes on until the server has ended for good
                events.extend(one["number"] for one in Client(server.url, "s").follow())

        threading.Thread(target=follow, daemon=True).start()
        X = np.concatenate([task(0, n=500)[0], task(30, n=500)[0]])
        sender = threading.Thread(
            target=lambda: [client.partial_fit(X[i : i + 10]) for i in range(0, len(X), 10)]
        )
        sender.start()
        for _ in range(2):
            time.sleep(0.2)
            server.restart()
        sender.join()
        state = client.wait().state()
        assert state["samples"] == state["learned"] == len(X)
        end = time.monotonic() + 20
        while len(events) < state["events"] and time.monotonic() < end:
            time.sleep(0.05)
    assert events == list(range(state["events"]))
    assert events


class Moody(BaseHTTPRequestHandler):
    """A server that carries out a request whose answer is lost, is busy, and then answers."""

    seen: list[tuple[str | None, bytes]]

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.seen.append((self.headers["Idempotency-Key"], body))
        place = len(self.seen)
        if place == 1:
            self.close_connection = True  # no answer at all
            return
        status = {2: 429, 3: 503}.get(place, 200)
        answer = b'{"first_row": 0, "rows": 1}' if status == 200 else b'{"detail": "busy"}'
        self.send_response(status)
        self.send_header("Retry-After", "1" if status == 429 else "0")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        """Say nothing."""


def test_a_request_is_repeated_unchanged_after_the_time_that_the_server_asks_for():
    moody = type("One", (Moody,), {"seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), moody) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}", "s")
        start = time.monotonic()
        client.partial_fit([[1.0]], [2])
        assert time.monotonic() - start >= 1.0
        server.shutdown()
    assert len(moody.seen) == 4
    assert len(set(moody.seen)) == 1
    assert moody.seen[0][0]
    assert json.loads(moody.seen[0][1]) == {"rows": [[1.0]], "labels": [2]}


def test_finish_is_carried_out_once_too():
    moody = type("One", (Moody,), {"seen": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), moody) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        Client(f"http://127.0.0.1:{server.server_port}", "s").finish()
        server.shutdown()
    [(key, body)] = set(moody.seen)
    assert key
    assert body == b""


def test_patience_ends():
    client = Client("http://127.0.0.1:9", "s", patience=0.3)
    start = time.monotonic()
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:9") as caught:
        client.state()
    assert caught.value.status is None
    assert time.monotonic() - start < 2


def test_a_token_is_sent(tmp_path, capfdbinary):
    from commands import run

    code, out, _ = run(
        capfdbinary, "token", "create", "--name", "n", "--scope", "read", "--store", tmp_path,
        "--json",
    )  # fmt: skip
    assert code == 0
    token = json.loads(out)["Token"]["token"]
    with serving(tmp_path) as server:
        assert Client(server.url, token=token).streams() == []
        with pytest.raises(ClientError, match="a token is needed") as caught:
            Client(server.url).streams()
        assert caught.value.status == 401
        with pytest.raises(ClientError, match="scope admin"):
            Client(server.url, "s", token).create("detector", ["u"])
