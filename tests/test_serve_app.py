"""The application within this process, where what it depends on can be broken."""

import asyncio
import threading
import time
from contextlib import contextmanager

import httpx
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")

from dirad.serve import journal, records
from dirad.serve import writer as writing
from dirad.serve.access import Doorkeeper
from dirad.serve.answers import Answers
from dirad.serve.app import create_app
from dirad.serve.engine import Engine
from dirad.serve.errors import StoreAway
from dirad.serve.learner import StreamLearner
from dirad.serve.service import Limits, LiveStream, Service
from dirad.serve.specification import Specification
from dirad.serve.store import Store
from service import SilentProcess

CLASSES = Specification.from_json({"kind": "classifier", "columns": ["u", "v"]})


def make_engine(store, published, has_events):
    return Engine(store, [SilentProcess()], published, has_events)


@pytest.fixture(scope="module")
def learned():
    """The state of a learner."""
    learner, rng = StreamLearner(CLASSES), np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    record = records.samples(X, (X[:, 0] > 0).astype(int).tolist())
    learner.carry_out(1, record.kind, record.payload)
    return learner.state()


@pytest.fixture
def service(tmp_path, learned):
    """A service without learning processes, whose stream `pump` has learned something."""
    service = Service(Store(tmp_path), Limits(), make_engine)
    service.create("pump", CLASSES)
    service.streams["pump"].answers = Answers(CLASSES, learned)
    yield service
    service.close()


@contextmanager
def asking(service):
    """Give a function that sends requests, many at once."""
    app = create_app(service, Doorkeeper(service.store, 1e6))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)

    def ask(*requests, **options):
        async def send():
            url = "http://localhost"
            async with httpx.AsyncClient(transport=transport, base_url=url) as client:
                return await asyncio.gather(*(client.request(*one, **options) for one in requests))

        return asyncio.run(send())

    yield ask


def test_predictions_do_not_wait_for_a_store_that_hangs(service, monkeypatch):
    over, reading = threading.Event(), service.store.reading
    app = create_app(service, Doorkeeper(service.store, 1e6))

    @contextmanager
    def hanging():
        over.wait(20)
        with reading() as connection:
            yield connection

    monkeypatch.setattr(service.store, "reading", hanging)
    ways = ("", "/events", "/history", "/hooks")

    async def send():
        transport = httpx.ASGITransport(app)
        json = {"Accept": "application/json"}
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            waiting = [
                asyncio.create_task(client.get(f"/streams/pump{ways[i % 4]}", headers=json))
                for i in range(100)
            ]
            await asyncio.sleep(0.5)
            try:
                async with asyncio.timeout(10):
                    body = {"rows": [[0.0, 1.0]]}
                    found = await client.post("/streams/pump/predict", json=body)
            finally:
                over.set()
            return found, await asyncio.gather(*waiting)

    found, others = asyncio.run(send())
    assert found.status_code == 200
    assert {one.status_code for one in others} == {200}


def test_errors_are_counted(service, monkeypatch):
    def broken(name):
        raise RuntimeError("secret")

    monkeypatch.setattr(service, "describe", broken)
    with asking(service) as ask:
        [answer] = ask(("GET", "/streams/pump"))
        assert answer.status_code == 500
        assert "secret" not in answer.text
        [measured] = ask(("GET", "/metrics"))
    line = 'dirad_requests_total{method="GET",route="/streams/{name}",status="500"} 1.0'
    assert line in measured.text


def test_a_stream_whose_state_cannot_be_read_is_named_and_others_are_served(
    tmp_path, learned, caplog
):
    store = Store(tmp_path)
    store.own()
    with store.changing() as connection:
        for name, state in (("bad", learned[:-9] + bytes(9)), ("good", learned)):
            row, _ = journal.create_stream(connection, name, CLASSES, 10)
            journal.store_snapshot(connection, row.id, 1, state)
    store.close()
    service = Service(Store(tmp_path), Limits(), make_engine)
    assert "state of stream 'bad' cannot be read: damaged" in caplog.text
    body = {"rows": [[0.0, 1.0]]}
    with asking(service) as ask:
        good, *bad = ask(
            ("POST", "/streams/good/predict"),
            ("POST", "/streams/bad/predict"),
            ("POST", "/streams/bad/samples"),
            json=body,
        )
        listed, state = ask(("GET", "/streams"), ("GET", "/streams/bad"))
        assert good.status_code == 200
        for one in (*bad, state):
            assert one.status_code == 503
            assert "the stored state of stream 'bad' cannot be read" in one.json()["detail"]
        assert [one["name"] for one in listed.json()["streams"]] == ["good"]
        [gone] = ask(("DELETE", "/streams/bad"))
        assert gone.status_code == 204
    service.close()


def test_keys_count_for_finish_and_removal_too(service):
    def records_of():
        with service.store.reading() as connection:
            found = journal.pending(connection, service.streams["pump"].row.id, 0, 100, 100, 10**6)
        return [one.kind for one in found]

    with asking(service) as ask:
        for _ in range(2):
            [done] = ask(("POST", "/streams/pump/finish"), headers={"Idempotency-Key": "a"})
            assert done.status_code == 200
        for _ in range(2):
            [done] = ask(("DELETE", "/streams/pump/models/0"), headers={"Idempotency-Key": "b"})
            assert done.status_code == 200
            service.streams["pump"].answers.system.models.clear()  # as when it was learned
        assert records_of() == ["finish", "remove"]
        [other] = ask(("POST", "/streams/pump/finish"), headers={"Idempotency-Key": "b"})
        assert other.status_code == 422
        [gone] = ask(("DELETE", "/streams/pump/models/0"))
        assert gone.status_code == 404


def test_readyz_says_that_the_database_is_away(service, monkeypatch):
    monkeypatch.setattr("dirad.serve.service.KEEP_SECONDS", 0.05)

    def away():
        raise StoreAway("the database cannot be used at the moment")

    def ready(ask, status):
        end = time.monotonic() + 10
        while ask(("GET", "/readyz"))[0].status_code != status:
            assert time.monotonic() < end
            time.sleep(0.05)

    with asking(service) as ask:
        ready(ask, 200)
        with monkeypatch.context() as broken:
            broken.setattr(service.store, "keep", away)
            ready(ask, 503)
            assert service.is_ready  # feeds of events go on
        ready(ask, 200)


def test_the_rate_of_a_stream_can_be_read_while_rows_are_accepted(service, monkeypatch):
    now = [0.0]
    monkeypatch.setattr("dirad.serve.service.time.monotonic", lambda: now[0])
    row = service.streams["pump"].row
    live = LiveStream(row)
    assert live.rate() == 0.0
    for i in range(2001):
        now[0] = i / 20
        live.accepted(journal.StreamRow(**{**vars(row), "samples": 5 * i}))
    assert live.rate() == pytest.approx(100, rel=0.01)
    assert len(live._rates) < 200
    now[0] += 61
    assert live.rate() == 0.0


def test_what_was_written_without_an_answer_is_noticed_under_load(monkeypatch):
    """The writer looks for it in time, also when it has requests all the time."""
    written, noticed = [], []
    monkeypatch.setattr(writing, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(writing.journal, "append", lambda _, stream, __: (b"{}", row(stream)))
    monkeypatch.setattr(writing.journal, "all_streams", lambda _: [row(1), row(2)])

    def row(stream):
        return journal.StreamRow(stream, f"stream {stream}", CLASSES, 0.0, 1, 1, None)

    class Away:
        """A store whose first transaction is written, and not answered."""

        @contextmanager
        def changing(self):
            yield None
            written.append(1)
            if len(written) == 1:
                raise StoreAway("away")

        @contextmanager
        def reading(self):
            yield None

    writer = writing.Writer(Away(), lambda stream: noticed.append(stream.id))
    request = journal.Request(records.finish(), b"{}")
    with pytest.raises(StoreAway):
        writer.submit(1, request).result(5)
    end = time.monotonic() + 5
    while 1 not in noticed:
        assert time.monotonic() < end
        writer.submit(2, request).result(5)
        time.sleep(0.01)
    writer.close()
