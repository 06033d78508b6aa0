"""Webhooks: signed, repeated until they are received, and never a way into other networks."""

import asyncio
import hashlib
import hmac
import json
import socket
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from dirad.serve import journal, schema
from dirad.serve.addresses import ForbiddenAddress, check_address, resolved
from dirad.serve.hooks import MOST_ATTEMPTS, Deliverer, create_hook, hooks_of
from dirad.serve.metrics import Metrics
from dirad.serve.store import Store
from feeding import Feeder, events_of, requests
from service import serving

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")

SECRET = "a secret of some length"
BODIES = requests(16)  # the task changes halfway


class Receiver:
    """Takes what hooks send, after it has refused some of it; it redirects the path /moved."""

    def __init__(self, refusals: int = 0) -> None:
        self.calls: list[tuple[str, dict, bytes, int]] = []  # path, headers, body, answer
        self.refusals = refusals
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                status = 302 if self.path == "/moved" else 503 if receiver.refusals > 0 else 204
                receiver.refusals -= self.path != "/moved"
                receiver.calls.append((self.path, dict(self.headers), body, status))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            def log_message(self, *_) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.server.server_port}{path}"


@contextmanager
def receiving(refusals: int = 0):
    receiver = Receiver(refusals)
    try:
        yield receiver
    finally:
        receiver.server.shutdown()
        receiver.server.server_close()


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def hook(feeder, url, **more):
    body = {"url": url, "secret": SECRET} | more
    return feeder.client.post("/streams/pump/hooks", json=body)


def test_alarms_are_signed_repeated_and_survive_a_restart(tmp_path):
    with receiving(refusals=3) as receiver, serving(tmp_path / "store") as server:
        feeder = Feeder(server.url)
        feeder.create()
        created = hook(feeder, receiver.url("/all", "localhost"), events=["opened", "alarm"])
        assert created.status_code == 201
        chat = hook(feeder, receiver.url("/chat"), format="text")
        hook(feeder, receiver.url("/moved"))
        hook(feeder, "http://127.0.0.1:9/")  # nobody listens there
        gone = hook(feeder, receiver.url("/gone")).json()["id"]
        assert feeder.client.delete(f"/streams/pump/hooks/{gone}").status_code == 204
        feeder.feed(BODIES)
        feeder.learned()
        until(lambda: receiver.calls)
        server.restart()  # what was not delivered is delivered by the next server
        events = [one for one in events_of(feeder) if one["kind"] == "opened" or one["alarm"]]
        alarms = [one for one in events if one["alarm"]]
        assert len(events) > len(alarms) == 1
        until(lambda: [one[3] for one in receiver.calls if one[0] == "/chat"][-1:] == [204])
        until(lambda: len(delivered(receiver, "/all")) == len(events))
        for heads, body in delivered(receiver, "/all"):
            check_signature(heads, body)
            content = json.loads(body)
            assert content["stream"] == "pump"
            assert heads["Host"].startswith("localhost:")
            assert int(heads["X-Dirad-Event"]) == content["number"]
        numbers = {json.loads(body)["number"] for _, body in delivered(receiver, "/all")}
        assert numbers == {one["number"] for one in events}
        [(_, text), *_] = delivered(receiver, "/chat")
        assert json.loads(text) == {"text": f"pump: {alarms[0]['text']}"}
        statuses = [status for *_, status in receiver.calls]
        assert statuses.count(503) == 3
        assert not delivered(receiver, "/gone")
        assert not [one for one in receiver.calls if one[0] == "/elsewhere"]
        until(lambda: waiting(feeder, receiver.url("/chat"))[0] == 0)
        until(lambda: waiting(feeder, receiver.url("/moved")) == (1, "status 302"))
        until(lambda: waiting(feeder, "http://127.0.0.1:9/")[1])
        listed = feeder.client.get("/streams/pump/hooks")
        for answer in (created, chat, listed):
            assert SECRET not in answer.text
            assert "secret" not in answer.text


def waiting(feeder, url):
    """Return how many calls of a hook wait, and why."""
    found = feeder.client.get("/streams/pump/hooks").json()["hooks"]
    return next((one["waiting"], one["last_error"]) for one in found if one["url"] == url)


def delivered(receiver, path):
    return [
        (heads, body) for one, heads, body, status in receiver.calls if (one, status) == (path, 204)
    ]


def check_signature(heads, body):
    """Check a signature as the documentation tells receivers to."""
    signed = dict(part.split("=") for part in heads["X-Dirad-Signature"].split(","))
    content = f"{signed['t']}.".encode() + body
    assert hmac.new(SECRET.encode(), content, hashlib.sha256).hexdigest() == signed["v1"]
    assert abs(time.time() - int(signed["t"])) < 300


@pytest.mark.parametrize(
    "change",
    [
        {"url": "ftp://example.org/"},
        {"url": "http://user:pass@example.org/"},
        {"url": "http://169.254.169.254/latest/meta-data"},
        {"url": "http://[fe80::1]/"},
        {"url": "http://[::ffff:169.254.169.254]/"},
        {"url": "http://0.0.0.0/"},
        {"secret": "short"},
        {"secret": "a secret with\0, which no database keeps"},
        {"events": []},
        {"events": ["everything"]},
        {"format": "xml"},
        {"token": "x"},
    ],
)
def test_hooks_that_make_no_sense_are_refused(one_stream, change):
    body = {"url": "http://8.8.8.8/", "secret": SECRET} | change  # private ones are refused here
    answer = one_stream.post("/streams/pump/hooks", json=body)
    assert answer.status_code == 422, answer.text
    assert SECRET not in answer.text


@pytest.fixture(scope="module")
def one_stream(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("hooks") / "store", "--public-hooks") as server:
        feeder = Feeder(server.url)
        feeder.create()
        yield feeder.client


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/", "http://10.1.2.3/", "http://[::1]/"])
def test_private_addresses_can_be_forbidden(one_stream, url):
    answer = one_stream.post("/streams/pump/hooks", json={"url": url, "secret": SECRET})
    assert answer.status_code == 422
    assert "public addresses alone" in answer.text


def test_names_are_resolved_before_they_are_called(one_stream):
    """A name is allowed when the hook is created, and its address is refused at the call."""
    body = {"url": "http://localhost:9/", "secret": SECRET, "events": ["opened"]}
    assert one_stream.post("/streams/pump/hooks", json=body).status_code == 201
    for one in BODIES[:8]:
        assert one_stream.post("/streams/pump/samples", json=one).status_code == 200

    def error():
        return one_stream.get("/streams/pump/hooks").json()["hooks"][0]["last_error"] or ""

    until(error)
    assert "public addresses alone" in error()


ALWAYS = ["169.254.169.254", "fe80::1%eth0", "::", "0.0.0.0", "224.0.0.1", "255.255.255.255"]
ALWAYS += ["168.63.129.16", "fd00:ec2::254", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1"]
PRIVATE = ["127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "::1", "fd00::1", "100.64.0.1"]


@pytest.mark.parametrize("address", [*ALWAYS, *PRIVATE, "8.8.8.8", "2600::1"])
def test_addresses(address):
    for public_only in (False, True):
        if address in ALWAYS or (public_only and address in PRIVATE):
            with pytest.raises(ForbiddenAddress):
                check_address(address, public_only)
        else:
            check_address(address, public_only)


def test_all_addresses_of_a_name_are_checked(monkeypatch):
    async def found(*_, **__):
        return [(0, 0, 0, "", (one, 80)) for one in ("93.184.216.34", "169.254.169.254")]

    async def ask():
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found, raising=False)
        return await resolved("example.org", 80, public_only=False)

    with pytest.raises(ForbiddenAddress):
        asyncio.run(ask())


def test_certificates_are_those_of_the_name(monkeypatch):
    """The address is pinned, and the certificate of the host is asked for all the same."""
    from dirad.serve import hooks

    async def fixed(*_, **__):
        return "93.184.216.34"

    monkeypatch.setattr(hooks, "resolved", fixed)
    request = httpx.Request("POST", "https://chat.example.org/x")
    asyncio.run(hooks._check_and_pin(request, public_only=True))
    assert str(request.url) == "https://93.184.216.34/x"
    assert request.headers["Host"] == "chat.example.org"
    assert request.extensions["sni_hostname"] == "chat.example.org"


def test_only_calls_that_go_through_a_proxy_leave_the_address_to_it(monkeypatch):
    from dirad.serve.hooks import proxy_of

    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    plain, safe = httpx.URL("http://inside.example.org/x"), httpx.URL("https://example.com:8443/")
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    assert (proxy_of(plain), proxy_of(safe)) == (None, "http://proxy:3128")
    monkeypatch.setenv("all_proxy", "other:3128")
    assert proxy_of(plain) == "http://other:3128"
    monkeypatch.setenv("no_proxy", "example.org,example.com:8443")
    assert (proxy_of(plain), proxy_of(safe)) == (None, None)


@pytest.fixture
def delivering(tmp_path):
    """A store with a stream, its hooks, and a deliverer that is called by hand."""
    from dirad.serve.specification import Specification

    store = Store(tmp_path)
    store.own()
    with store.changing() as connection:
        described = Specification.from_json({"kind": "detector", "columns": ["u"]})
        stream = journal.create_stream(connection, "pump", described, 10)[0].id
    yield store, stream, Deliverer(store, Metrics())
    store.close()


def add_events(store, stream, n):
    with store.changing() as connection:
        found = [{"number": i, "kind": "opened", "text": f"event {i}"} for i in range(n)]
        assert len(journal.add_events(connection, stream, found)) == n


def test_a_receiver_that_hangs_delays_no_other_one(delivering, caplog):
    """It has more to receive than there are calls at once."""
    store, stream, deliverer = delivering
    with receiving() as receiver, socket.create_server(("127.0.0.1", 0), backlog=64) as hanging:
        for url in (f"http://127.0.0.1:{hanging.getsockname()[1]}/", receiver.url("/well")):
            create_hook(store, stream, {"url": url, "secret": SECRET, "events": ["opened"]})
        add_events(store, stream, 50)

        async def deliver():
            task = asyncio.create_task(deliverer.run())
            await asyncio.to_thread(until, lambda: len(delivered(receiver, "/well")) == 50, 8)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        asyncio.run(deliver())
    assert not caplog.records


def test_what_is_given_up_is_logged_and_counted(delivering, caplog):
    store, stream, deliverer = delivering
    hook = {"url": "http://127.0.0.1:9/", "secret": SECRET, "events": ["opened"]}
    create_hook(store, stream, hook)  # nobody listens there
    add_events(store, stream, 1)
    with store.changing() as connection:
        connection.execute(schema.deliveries.update().values(attempts=MOST_ATTEMPTS - 1))

    def given_up():
        return b'dirad_hook_deliveries_total{result="given_up"} 1.0' in deliverer._metrics.text()

    async def deliver():
        task = asyncio.create_task(deliverer.run())
        await asyncio.to_thread(until, given_up, 20)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(deliver())
    assert "event 0 is given up after 20 attempts: ConnectError" in caplog.text
    assert hooks_of(store, stream)[0]["waiting"] == 0
