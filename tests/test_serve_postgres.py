"""A store in PostgreSQL: as one in SQLite, and nothing is lost when the database goes away."""

import threading
import time

import httpx
import pytest

import postgres
from dirad.serve.store import Store
from feeding import ROWS, Feeder, check_rows, events_of, requests, uninterrupted
from service import serving

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")

MANY = requests(40)


@pytest.fixture(scope="module")
def database():
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """The model file and the events of all requests, learned without interruption."""
    return uninterrupted(tmp_path_factory.mktemp("plain"), MANY)


def test_it_works_as_sqlite_does_also_through_restarts(database, expected):
    with serving(database.create("restarts")) as server:
        feeder = Feeder(server.url)
        feeder.create()
        feeder.feed(MANY[:20])
        server.restart()
        feeder.feed(MANY[20:32])
        feeder.learned()
        server.stop()
        server.start()
        feeder.feed(MANY[32:])
        check_rows(feeder)
        file, events = expected
        assert len(events) > 1
        assert events_of(feeder) == events
        assert feeder.export() == file


def test_commits_wait_for_the_disk_whatever_the_database_says(database):
    url = database.create("lazy")
    database.execute('ALTER DATABASE "lazy" SET synchronous_commit = off')
    store = Store(url)
    with store.reading() as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    store.close()


def test_a_repeated_request_is_answered_as_before_and_learned_once(database):
    with serving(database.create("repeated")) as server:
        feeder = Feeder(server.url)
        feeder.create()
        feeder.feed(MANY[:2])
        again = Feeder(server.url)
        again.feed(MANY[:2])  # with the same keys
        assert again.answers == feeder.answers
        assert feeder.learned()["samples"] == 2 * ROWS
        client = httpx.Client(base_url=f"{server.url}/streams/pump")
        same_id = client.post("/samples", json=MANY[0])
        assert same_id.status_code == 409
        other = client.post("/samples", json=MANY[2], headers={"Idempotency-Key": "request 0"})
        assert other.status_code == 422
        feeder.label(["0-3", "1-5"], [1, 0], "late")
        unknown = client.post("/labels", json={"ids": ["0-3", "9-9"], "labels": [1, 0]})
        assert unknown.status_code == 422
        assert "9-9" in unknown.text
        assert httpx.delete(f"{server.url}/streams/pump").status_code == 204
        assert httpx.get(f"{server.url}/streams/pump").status_code == 404
        feeder.create()
        assert feeder.learned()["samples"] == 0


def test_many_ids_in_one_request(database):
    n = 19_000
    ids = [f"sample {i}" for i in range(n)]
    with serving(database.create("ids")) as server:
        feeder = Feeder(server.url)
        feeder.create()
        client = httpx.Client(base_url=f"{server.url}/streams/pump", timeout=60)
        body = {"rows": [[0.0, 1.0]] * n, "ids": ids}
        assert client.post("/samples", json=body).status_code == 200
        repeated = {
            "rows": [[0.0, 1.0]] * n,
            "ids": [f"other {i}" for i in range(n - 1)] + ids[-1:],
        }
        assert client.post("/samples", json=repeated).status_code == 409
        late = {"ids": ids, "labels": [1] * n}
        assert client.post("/labels", json=late).json() == {"labels": n}


def test_the_database_stops_and_starts_under_load(database, expected):
    file, events = expected
    with serving(database.create("stopped")) as server:
        feeder, over = Feeder(server.url), threading.Event()
        feeder.create()
        feeder.feed(MANY[:10])
        feeder.learned()

        def interrupt():
            for _ in range(2):
                database.stop("immediate")
                time.sleep(2.0)
                database.start()
                time.sleep(1.0)
            over.set()

        asked: list[httpx.Response] = []

        def ask():
            client = httpx.Client(base_url=server.url, timeout=30)
            while not over.wait(0.02):
                asked.append(client.post("/streams/pump/predict", json={"rows": MANY[0]["rows"]}))

        threads = [threading.Thread(target=one) for one in (interrupt, ask)]
        for thread in threads:
            thread.start()
        feeder.feed(MANY[10:], lambda _: time.sleep(0.1))
        for thread in threads:
            thread.join()
        refused = [status for status, _ in feeder.refusals]
        assert refused
        assert set(refused) == {503}
        assert all(wait for _, wait in feeder.refusals)
        assert {one.status_code for one in asked} == {200}  # answers do not need the database
        assert len(asked) > 20
        check_rows(feeder)
        assert events_of(feeder) == events
        assert feeder.export() == file
        said = "".join(server.said)
        assert "Traceback" not in said
        assert holders(database, "stopped") == 1  # it holds the lock again
        server.restart()
        check_rows(feeder)
        assert feeder.export() == file


def holders(database, name):
    """Return how many connections hold the lock of a store."""
    query = (
        "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid "
        f"WHERE locktype = 'advisory' AND granted AND datname = '{name}'"
    )
    for _ in range(50):
        found = database.execute(query)[0][0]
        if found:
            return found
        time.sleep(0.1)
    return 0
