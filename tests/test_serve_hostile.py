"""Hostile clients of a service: nothing they send breaks it, and nobody sees what is not theirs."""

import gzip
import http.client
import io
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from commands import run
from dirad.serve import guard, server
from dirad.serve.access import new_token, revoke_token
from dirad.serve.store import FILE, Store
from hostile import mutants
from service import SilentProcess, serving

COLUMNS = {"kind": "classifier", "columns": ["u", "v"], "settings": {"batch_size": 50}}
NEVER_SAID = (b"Traceback", b"site-packages", b'File "', b"/src/", b"sqlalchemy", b"sqlite3.")
BY_DESIGN = {503, 507}
HEADERS = {name.lower() for name in guard.HEADERS} | {"content-security-policy"}
MAX_BODY = 2_000_000


def fill(client, name, kind, rows=400):
    """Create a stream, and let it learn until it has a model."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 2))
    y = X.sum(1) if kind == "regressor" else (X[:, 0] > 0).astype(int)
    body = {"rows": X.tolist()} | ({} if kind == "detector" else {"labels": y.tolist()})
    assert client.put(f"/streams/{name}", json=COLUMNS | {"kind": kind}).status_code == 201
    assert client.post(f"/streams/{name}/samples", json=body).status_code == 200
    until(lambda: client.get(f"/streams/{name}").json()["models"] > 0)


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.05)


def memory(process):
    """Return the bytes that a server and its children use."""
    of_all = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
    return sum(one.memory_info().rss for one in of_all)


@pytest.fixture(scope="module")
def open_server(tmp_path_factory):
    """A server without tokens, with a stream of each kind."""
    store = tmp_path_factory.mktemp("open") / "store"
    options = ("--max-requests", "100000", "--max-body", str(MAX_BODY), "--max-streams", "60")
    with serving(store, *options, "--processes", "1") as one, httpx.Client(base_url=one.url) as c:
        for name, kind in (("c", "classifier"), ("r", "regressor"), ("d", "detector")):
            fill(c, name, kind)
        yield one


@pytest.fixture
def client(open_server):
    with httpx.Client(base_url=open_server.url, timeout=60) as client:
        yield client


def test_rows_are_refused_while_too_many_wait_and_predictions_go_on(tmp_path):
    """The learning process is stopped, and continued, as if it were very busy."""
    options = ("--max-pending", "500", "--processes", "1")
    with (
        serving(tmp_path, *options) as server,
        httpx.Client(base_url=server.url, timeout=60) as client,
    ):
        fill(client, "c", "classifier")
        until(lambda: client.get("/streams/c").json()["current"])
        [learning] = [
            one
            for one in psutil.Process(server.process.pid).children(recursive=True)
            if "spawn_main" in " ".join(one.cmdline())
            and one.rlimit(psutil.RLIMIT_AS)[0] < 0  # those that read bodies have little memory
        ]
        body = {"rows": [[0.5, 1.0]] * 100}
        learning.suspend()
        try:
            answers = [client.post("/streams/c/samples", json=body) for _ in range(8)]
            found = [client.post("/streams/c/predict", json=body) for _ in range(200)]
        finally:
            learning.resume()
        assert [one.status_code for one in answers] == [200] * 5 + [429] * 3
        assert all(int(one.headers["Retry-After"]) >= 1 for one in answers[5:])
        assert "500 rows wait to be learned" in answers[-1].json()["detail"]
        assert {one.status_code for one in found} == {200}
        until(lambda: client.post("/streams/c/samples", json=body).status_code == 200)
        until(lambda: client.get("/streams/c").json()["learned"] == 400 + 600)


# ------------------------------------------------------------------ mutated requests


def send(port, mutant):
    """Send a request as it is, however wrong; return the status, the headers and the body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        own_host = any(name == "Host" for name, _ in mutant.headers)
        connection.putrequest(mutant.method, mutant.path.replace("é", "%c3%a9"), skip_host=own_host)
        for name, value in mutant.headers:
            connection.putheader(name, value.encode("latin1"))
        connection.putheader("Content-Length", str(len(mutant.body)))
        connection.endheaders(mutant.body)
        answer = connection.getresponse()
        if answer.headers.get_content_type() == "text/event-stream":
            return answer.status, answer.headers, b""
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def attack(server, seed, n):
    """Send mutated requests; return how often each status was the answer."""
    found = Counter()
    for one in mutants(seed, n):
        if one.method == "DELETE" and one.path in ("/streams/c", "/streams/r", "/streams/d"):
            continue
        status, headers, body = send(server.port, one)
        found[status] += 1
        assert status < 500 or status in BY_DESIGN, (one, body)
        assert {name.lower() for name in headers} >= HEADERS, one
        if status >= 400:
            assert not [words for words in NEVER_SAID if words in body], (one, body)
    return found


def assert_well(server):
    """The server answers, learns, and has logged no error of its own."""
    with httpx.Client(base_url=server.url, timeout=60) as client:
        before = client.get("/streams/c").json()["samples"]
        body = {"rows": [[0.1, 0.2]], "labels": [1]}
        assert client.post("/streams/c/samples", json=body).status_code == 200
        assert client.get("/streams/c").json()["samples"] == before + 1
        assert client.post("/streams/c/predict", json=body).status_code == 200
    assert "Traceback" not in "".join(server.said)


def test_mutated_requests_break_nothing(open_server):
    found = attack(open_server, 0, 1500)
    assert found[200] > 50  # some mutants are harmless, and get far
    assert found[422] > 300
    assert_well(open_server)


@pytest.mark.slow
def test_ten_thousand_mutated_requests_break_nothing(open_server):
    attack(open_server, 2, 2_000)  # the processes that read tables and make reports are started
    before = memory(open_server.process)
    found = attack(open_server, 1, 10_000)
    assert found.total() > 9900
    assert_well(open_server)
    assert memory(open_server.process) - before < 100e6


def fuzz(server, examples):
    """Let Schemathesis make requests from the OpenAPI schema; return how many there were."""
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    sent = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/events") or operation.method == "delete":
            continue

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def check(case):
            nonlocal sent
            sent += 1
            answer = case.call(timeout=60)
            assert answer.status_code < 500 or answer.status_code in BY_DESIGN, answer.text
            assert not [words for words in NEVER_SAID if words in answer.content[:10_000]] or (
                answer.status_code == 200
            )

        given(case=operation.as_strategy())(check)()
    return sent


def test_requests_from_the_schema_break_nothing(open_server):
    assert fuzz(open_server, 10) > 100
    assert_well(open_server)


@pytest.mark.slow
def test_many_requests_from_the_schema_break_nothing(open_server):
    assert fuzz(open_server, 300) > 3000
    assert_well(open_server)


# ------------------------------------------------------------------ tokens

ROUTES = [  # method, path, body, the scope that it needs, and the status with it
    ("GET", "/streams", None, "read", 200),
    ("GET", "/streams/{}", None, "read", 200),
    ("PUT", "/streams/{}", COLUMNS, "admin", 200),
    ("POST", "/streams/{}/samples", {"rows": [[0.1, 0.2]], "labels": [1]}, "write", 200),
    ("POST", "/streams/{}/labels", {"rows": [0], "labels": [1]}, "write", 200),
    ("POST", "/streams/{}/finish", None, "write", 200),
    ("POST", "/streams/{}/predict", {"rows": [[0.1, 0.2]]}, "read", 200),
    ("GET", "/streams/{}/events", None, "read", 200),
    ("GET", "/streams/{}/models", None, "read", 200),
    ("GET", "/streams/{}/history", None, "read", 200),
    ("GET", "/streams/{}/report", None, "read", 200),
    ("GET", "/streams/{}/export?to=python", None, "read", 200),
    ("GET", "/streams/{}/hooks", None, "admin", 200),
    ("POST", "/streams/{}/hooks", {"url": "http://127.0.0.1:9/", "secret": "s" * 16}, "admin", 201),
    ("DELETE", "/streams/{}/hooks/99", None, "admin", 404),
    ("DELETE", "/streams/{}/models/99", None, "admin", 404),
    ("GET", "/metrics", None, "read", 200),
    ("DELETE", "/streams/{}", None, "admin", 204),
]
SCOPES = ("read", "write", "admin")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A server with tokens of all scopes, for all streams and for one; and their texts."""
    path = tmp_path_factory.mktemp("guarded") / "store"
    store = Store(path)
    tokens = {scope: new_token(store, scope, scope)[1] for scope in SCOPES}
    for scope in SCOPES:
        tokens[f"{scope} mine"] = new_token(store, scope, scope, ("mine",))[1]
    id, tokens["revoked"] = new_token(store, "old", "admin")
    revoke_token(store, id)
    store.close()
    with serving(path, "--max-requests", "100000", "--processes", "1") as server:
        yield server, tokens


def bearer(token):
    return {"Authorization": f"Bearer {token}", "Accept": "application/json"}


def call(server, token, method, path, body=None):
    headers = {} if token is None else bearer(token)
    return httpx.request(method, server.url + path, json=body, headers=headers, timeout=60)


@pytest.fixture
def two_streams(guarded):
    """The streams `mine` and `other`, with a model each."""
    server, tokens = guarded
    with httpx.Client(base_url=server.url, headers=bearer(tokens["admin"]), timeout=60) as client:
        for name in ("mine", "other"):
            client.delete(f"/streams/{name}")
            fill(client, name, "classifier")
    return server, tokens


def test_every_route_is_in_the_table(guarded):
    schema = httpx.get(guarded[0].url + "/openapi.json").json()
    free = {"/healthz", "/readyz", "/login", "/docs"}
    there = {(m.upper(), p) for p, ms in schema["paths"].items() for m in ms if p not in free}
    table = {(m, p.split("?")[0].replace("{}", "{name}")) for m, p, *_ in ROUTES}
    numbered = {("DELETE", "/streams/{name}/hooks/99"), ("DELETE", "/streams/{name}/models/99")}
    assert len(there) == len(table)
    assert table - numbered <= there


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("limited", ["", " mine"])
def test_scopes_on_every_route(two_streams, scope, limited):
    server, tokens = two_streams
    token = tokens[scope + limited]
    for method, path, body, needed, status in ROUTES:
        expected = status if SCOPES.index(scope) >= SCOPES.index(needed) else 403
        if path == "/metrics" and limited:
            expected = 403
        if limited and "{}" in path:
            other = call(server, token, method, path.format("other"), body)
            absent = call(server, token, method, path.format("absent"), body)
            assert other.status_code == absent.status_code == 404, (method, path)
            assert other.text.replace("other", "absent") == absent.text
        answer = call(server, token, method, path.format("mine"), body)
        assert answer.status_code == expected, (method, path, answer.text)
        if path == "/streams":
            names = [one["name"] for one in answer.json()["streams"]]
            assert names == (["mine"] if limited else ["mine", "other"])
    assert call(server, tokens["read"], "GET", "/streams/other").status_code == 200


@pytest.mark.parametrize(
    "text",
    [None, "x", "dirad", "dirad__", "dirad_00000000_x", "dirad_é_x", "revoked", "changed", "id"],
)
def test_wrong_tokens_open_nothing(two_streams, text):
    server, tokens = two_streams
    good = tokens["admin"]
    forged = {"revoked": tokens["revoked"], "changed": good[:-1] + "~", "id": good[:15]}
    text = forged.get(text, text)
    for method, path, body, *_ in [*ROUTES, ("GET", "/no-such", None), ("TRACE", "/", None)]:
        headers = {} if text is None else {"Authorization": f"Bearer {text}".encode()}
        url = server.url + path.format("mine")
        answer = httpx.request(method, url, json=body, headers=headers)
        assert answer.status_code == (405 if path == "/" else 401), (method, path)
        assert "mine" not in answer.text
        if path != "/":
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.slow
def test_a_revoked_token_ends_its_events(tmp_path):
    store = Store(tmp_path)
    id, text = new_token(store, "a", "admin")
    new_token(store, "b", "read")
    with serving(tmp_path, "--processes", "1") as server:
        assert call(server, text, "PUT", "/streams/s", COLUMNS).status_code == 201
        url = f"{server.url}/streams/s/events"
        authorization = {"Authorization": f"Bearer {text}"}
        with httpx.stream("GET", url, headers=authorization, timeout=30) as answer:
            lines = answer.iter_raw()
            assert next(lines).startswith(b": connected")
            revoke_token(store, id)
            assert b"".join(lines).strip() in (b"", b":")  # it ends within one quiet period


def test_a_server_that_others_reach_stays_closed_without_its_last_token(tmp_path):
    store = Store(tmp_path)
    id, text = new_token(store, "only", "admin")
    with serving(tmp_path, "--host", "0.0.0.0", "--processes", "1") as server:
        assert call(server, text, "GET", "/streams").status_code == 200
        revoke_token(store, id)
        until(lambda: call(server, text, "GET", "/streams").status_code == 401, 10)
        assert call(server, None, "GET", "/streams").status_code == 401


def test_others_are_served_with_tokens_alone(tmp_path, capfdbinary):
    """Without tokens, it listens on this machine, says so, and refuses to listen elsewhere."""
    for host in ("0.0.0.0", "192.0.2.1", "::"):
        code, _, said = run(capfdbinary, "serve", "--store", tmp_path, "--host", host)
        assert code == 2
        assert f"listens on this machine alone, not on {host}" in " ".join(said.split())
    with serving(tmp_path, "--processes", "1") as server:
        notice = "No tokens: everyone on this machine, and nobody else, has access."
        until(lambda: any(notice in line for line in server.said), 10)


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_a_front_on_ray_that_others_reach_stays_closed_without_its_last_token(
    tmp_path, monkeypatch, capfdbinary, host
):
    """As above, of the front that Ray Serve runs; its actors are never asked anything here."""
    from dirad.serve import on_ray

    plans = []
    monkeypatch.setattr(on_ray, "serve_on_ray", lambda plan, *_: plans.append(plan))
    monkeypatch.setattr(on_ray, "Actor", SilentProcess)
    monkeypatch.delattr(on_ray.Front, "__del__")  # which Ray Serve awaits
    store = Store(tmp_path)
    id, _ = new_token(store, "only", "admin")
    command = ("serve", "--engine", "ray", "--store", tmp_path, "--host", host)
    assert run(capfdbinary, *command)[0] == 0
    revoke_token(store, id)
    front = on_ray.Front(plans[0])
    try:
        assert front.doorkeeper.is_open == (host == "127.0.0.1")
    finally:
        front.service.close()
        store.close()


def test_tokens_and_files_are_private(guarded):
    server, tokens = guarded
    folder = Path(server.store)
    assert folder.stat().st_mode & 0o777 == 0o700
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    for text in tokens.values():
        assert text.split("_", 2)[2].encode() not in stored  # a secret may have more of them
    for path in folder.glob(f"{FILE}*"):
        assert path.stat().st_mode & 0o077 == 0


def test_secrets_are_compared_in_constant_time(monkeypatch, tmp_path):
    from dirad.serve import access

    store = Store(tmp_path)
    _, text = new_token(store, "a", "read")
    compared = []
    real = access.hmac.compare_digest
    monkeypatch.setattr(access.hmac, "compare_digest", lambda *s: compared.append(s) or real(*s))
    keeper = access.Doorkeeper(store, 10.0)
    assert keeper.bearer(text).scope == "read"
    with pytest.raises(access.Refused):
        keeper.bearer("dirad_00000000_x")  # no token of this id: compared all the same
    assert len(compared) == 2
    store.close()


@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_the_rate_of_each_token_is_limited(tmp_path, rate):
    store = Store(tmp_path)
    one, other = (new_token(store, name, "read")[1] for name in "ab")
    with serving(tmp_path, "--max-requests", str(rate), "--processes", "1") as server:
        answers = [call(server, one, "GET", "/streams") for _ in range(8)]
        assert answers[0].status_code == 200
        refused = [one for one in answers if one.status_code == 429]
        assert len(refused) >= 3
        assert int(refused[0].headers["retry-after"]) >= 1 / rate
        assert call(server, other, "GET", "/streams").status_code == 200


# ------------------------------------------------------------------ headers


def test_every_answer_has_the_security_headers(client, open_server):
    paths = ["/", "/docs", "/static/style.css", "/openapi.json", "/healthz", "/metrics", "/nothing"]
    paths += ["/streams", "/streams/c", "/streams/absent", "/streams/c/report", "/static/../x"]
    answers = [client.get(path) for path in paths]
    answers += [client.request("TRACE", "/"), client.post("/streams/c/samples", content=b"{")]
    answers += [client.post("/streams/c/samples", content=b"1" * (MAX_BODY + 1))]
    answers += [client.get("/", headers={"Host": "evil.example"})]
    assert {one.status_code for one in answers} >= {200, 400, 404, 405, 413, 421}
    for one in answers:
        assert set(one.headers) >= HEADERS, one.url
        policy = one.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
    report = client.get("/streams/c/report").text
    assert "Content-Security-Policy" in report  # its own, with hashes
    raw = raw_answer(open_server.port, b"no http at all\r\n\r\n")
    assert raw.startswith(b"HTTP/1.1 400")
    assert b"x-content-type-options: nosniff" in raw.lower()


def raw_answer(port, sent, seconds=5.0):
    with socket.create_connection(("127.0.0.1", port), seconds) as connection:
        connection.sendall(sent)
        return connection.recv(65536)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": ""}, 421),
        ({"Host": "localhost:1"}, 200),
        ({"X-Forwarded-For": "1.2.3.4"}, 421),
        ({"Forwarded": "for=1.2.3.4"}, 421),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_other_sites_cannot_use_a_server_without_tokens(client, headers, status):
    body = {"rows": [[1, 2]]}
    answer = client.post("/streams/c/predict", json=body, headers=headers)
    assert answer.status_code == status


# ------------------------------------------------------------------ too much


def test_bodies_are_bounded(client):
    def endless():
        while True:
            yield b" " * 65536

    large = b" " * (MAX_BODY + 1)
    assert client.post("/streams/c/samples", content=large).status_code == 413
    with suppress(httpx.WriteError):  # the connection is closed while more is sent
        assert client.post("/streams/c/samples", content=endless()).status_code == 413
    packed = {"Content-Encoding": "gzip"}
    bomb = gzip.compress(b" " * 500_000_000)
    assert client.post("/streams/c/samples", content=bomb, headers=packed).status_code == 413
    cut = gzip.compress(b'{"rows": [[1, 2]]}')[:-9]
    assert client.post("/streams/c/samples", content=cut, headers=packed).status_code == 400
    whole = gzip.compress(b'{"rows": [[1, 2]]}')
    assert client.post("/streams/c/predict", content=whole, headers=packed).status_code == 200


def test_a_connection_whose_body_never_ends_is_closed(open_server):
    head = (
        b"POST /streams/c/samples HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", open_server.port), 30) as connection:
        connection.sendall(head)
        with suppress(ConnectionError):
            while time.monotonic() < start + 30:
                connection.sendall(chunk)
    assert time.monotonic() - start < server.REST_SECONDS + 15


def test_slow_heads_are_cut_off_and_others_served(open_server, client):
    """Many connections send their heads byte by byte."""
    slow = connections(open_server, 200, b"GET / HTTP/1.1\r\nX-A: ")
    start, seconds = time.monotonic(), []
    while time.monotonic() < start + server.HEAD_SECONDS + 1:
        for one in slow:
            with suppress(OSError):
                one.send(b"x")
        seconds.append(seconds_of_prediction(client))
        time.sleep(0.5)
    assert np.median(seconds) < 0.5
    for one in slow:
        one.settimeout(1)
        with suppress(ConnectionResetError):
            assert one.recv(100) == b""
        one.close()


@pytest.mark.slow
def test_slow_bodies_are_cut_off_and_others_served(open_server, client):
    head = b"POST /streams/c/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n"
    slow = connections(open_server, 200, head)
    start, seconds = time.monotonic(), []
    while time.monotonic() < start + guard.BODY_SECONDS - 2:
        for one in slow:
            one.send(b" ")
        seconds.append(seconds_of_prediction(client))
        time.sleep(0.5)
    assert np.median(seconds) < 0.5
    for one in slow:
        one.settimeout(5)
        assert one.recv(20).startswith(b"HTTP/1.1 408")
        one.close()


def connections(server, n, sent):
    """Open connections, and send the same on each."""
    found = [socket.create_connection(("127.0.0.1", server.port), 60) for _ in range(n)]
    for one in found:
        one.sendall(sent)
    return found


def seconds_of_prediction(client):
    start = time.monotonic()
    assert client.post("/streams/c/predict", json={"rows": [[1, 2]]}).status_code == 200
    return time.monotonic() - start


def test_many_idle_connections_keep_nobody_out(open_server, client):
    address = ("127.0.0.1", open_server.port)
    idle = [socket.create_connection(address, 10) for _ in range(server.MOST_CONNECTIONS + 50)]
    try:
        with httpx.Client(base_url=open_server.url, timeout=10) as late:
            assert late.get("/streams/c").status_code == 200
    finally:
        for one in idle:
            one.close()


def binary(table, **options):
    target = io.BytesIO()
    pa.parquet.write_table(table, target, **options)
    return target.getvalue()


def test_tables_that_unpack_to_much_are_refused(open_server, client):
    """Dictionaries and compression turn a small body into a large table."""
    before = memory(open_server.process)
    n = 20_000_000
    same = pa.DictionaryArray.from_arrays(np.zeros(n, np.int8), pa.array([1.5])).cast(pa.float64())
    rows = binary(pa.table({"u": same, "v": same}), use_dictionary=True)
    assert len(rows) < MAX_BODY
    text = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), pa.array(["x" * 1_000_000]))
    wide = pa.table({"u": text, "v": [1.0] * 20_000})
    many = pa.table({f"c{i}": [1.0] for i in range(5000)})
    bodies = {"rows": rows, "text": binary(wide, compression="zstd"), "columns": binary(many)}
    parquet = {"Content-Type": "application/vnd.apache.parquet"}
    for name, body in bodies.items():
        assert len(body) < MAX_BODY, name
        answer = client.post("/streams/c/samples", content=body, headers=parquet)
        assert answer.status_code in (400, 413, 422), (name, answer.text)
    assert_well(open_server)
    good = binary(pa.table({"u": [1.0], "v": [2.0]}))
    assert client.post("/streams/c/predict", content=good, headers=parquet).status_code == 200
    assert memory(open_server.process) - before < 1.5e9


def test_arrow_buffers_that_lie_are_refused(client):
    """Lengths and offsets that point outside of the body must not be followed."""
    target = io.BytesIO()
    table = pa.record_batch({"u": pa.array(["ab", "c"]), "v": pa.array([1.0, 2.0])})
    with pa.ipc.new_stream(target, table.schema) as writer:
        writer.write_batch(table)
    honest, lie = (np.array([0, 2, end], np.int32).tobytes() for end in (3, 2_000_000_000))
    assert target.getvalue().count(honest) == 1
    body = target.getvalue().replace(honest, lie)
    arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
    answer = client.post("/streams/c/samples", content=body, headers=arrow)
    assert answer.status_code == 400
    assert "offset" in answer.text.lower()  # it was found by a check, not by a crash
    assert client.get("/healthz").status_code == 200


def test_too_many_rows_columns_and_streams(client):
    assert client.post("/streams/c/samples", json={"rows": [[1, 2]] * 20_001}).status_code == 413
    columns = [f"c{i}" for i in range(2001)]
    answer = client.put("/streams/wide", json={"kind": "detector", "columns": columns})
    assert answer.status_code == 413
    category = {"name": "k", "kind": "category", "categories": [str(i) for i in range(1000)]}
    wide = {"kind": "detector", "columns": [category]}
    assert client.put("/streams/wide", json=wide).status_code in (201, 200)
    answer = client.post("/streams/wide/samples", json={"rows": [["1"]] * 20_000})
    assert answer.status_code == 413
    assert "8000 rows at once" in answer.text
    for i in range(70):
        answer = client.put(f"/streams/more{i}", json=COLUMNS)
    assert answer.status_code == 409  # not 507, after which clients try again
    for one in client.get("/streams").json()["streams"]:
        if one["name"] not in ("c", "r", "d"):
            assert client.delete(f"/streams/{one['name']}").status_code == 204


def test_event_followers_are_bounded_and_their_places_become_free(open_server, client):
    request = b"GET /streams/c/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
    address = ("127.0.0.1", open_server.port)
    for _ in range(300):  # clients that leave at once
        with socket.create_connection(address, 10) as one:
            one.sendall(request)
    until(lambda: b" 200 " in raw_answer(open_server.port, request))
    followers = []

    def is_full():
        one = socket.create_connection(address, 10)
        one.sendall(request)
        followers.append(one)
        return b" 429 " in one.recv(100)

    until(is_full)
    assert len(followers) > 90
    for one in followers:
        one.close()
    until(lambda: b" 200 " in raw_answer(open_server.port, request))


def test_large_requests_at_once_are_bounded(open_server):
    """Bodies that unpack to many objects, from many clients at the same time."""
    body = b'{"rows": [' + b"[]," * ((MAX_BODY - 100) // 3) + b"[]]}"
    before, statuses = memory(open_server.process), Counter()

    def post():
        answer = httpx.post(f"{open_server.url}/streams/c/samples", content=body, timeout=60)
        statuses[answer.status_code] += 1

    threads = [threading.Thread(target=post) for _ in range(40)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert set(statuses) <= {413, 429}
    assert memory(open_server.process) - before < 1e9
    assert_well(open_server)
