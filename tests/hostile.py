"""Requests that no honest client sends: mutated bodies, headers, methods and paths."""

import io
import json
import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

JSON = "application/json"
NAMES = ["c", "r", "d", "no-such", "..", "%2e%2e", "%00", "a%2fb", "%ff", "é", "a" * 300, "'", "-"]
PARTS = ["", "samples", "labels", "predict", "finish", "events", "models", "models/0", "history"]
PARTS += ["report", "hooks", "hooks/1", "export?to=c", "export?to=svg", "export?to=%00", "models/x"]
PARTS += ["hooks/99999999999999999999", "export?to=formula&number=-1", "events?after=9e9"]
METHODS = ["GET", "PUT", "POST", "POST", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE", "X"]
TYPES = [JSON, JSON, JSON, "text/csv", "application/vnd.apache.arrow.stream"]
TYPES += [
    "application/vnd.apache.parquet",
    "text/html",
    "",
    "application/json; charset=\xff",
    "a/b",
]
LEAVES = [
    None, True, False, 0, -1, 1, 0.5, 1e308, -1e308, 1e307, 9e306, 5e-324, 10**30, 10**400, 2**53,
    2**63, "", "x", "1", "nan", "\x00", "\x7f", "☃", "a" * 5000, "<script>", "../../etc/passwd", [],
    {}, [[]], [None], {"a": 1}, "red", "alarm", "text",
]  # fmt: skip
RAW = [
    b"", b"{", b"[" * 100_000, b'{"a":' * 100_000, b"NaN", b'{"rows": [[NaN, 1]]}', b"\xff\xfe",
    b'{"rows": [["\\ud800", 1]]}', b'{"rows": [[1, 2]], "rows": 3}', b"1" * 6000, b"-", b"\x00",
    b'{"rows": [[1' + b"0" * 5000 + b", 1]]}", b'{"rows": [[1e999, 1]]}',
    b'{"rows": [[1, "\x00"]]}', b"u,v\n1,2\n", b"u,v\n1\n", b'u,v\n"1,2\n',
    b"u,u\n1,2\n", b"\x00,v\n1,2\n",
    b"u,v,label\n1,2,x\n", b"u,v\n" + b"1" * 200_000 + b",2\n",
    b"\n" * 1000, b"," * 10_000, b"u,v,id\n1,2,\n1,2,\n",
]  # fmt: skip
OTHER_PATHS = [
    "/", "//", "/static/../app.py", "/static/%2e%2e/app.py", "/login", "/streams", "/metrics",
    "/docs", "/healthz", "/openapi.json", "/static/style.css", "/%00", "/streams/c/%2e%2e",
    "/" + "a/" * 500,
]  # fmt: skip
HEADERS: list[tuple[str, list[str]]] = [
    ("Idempotency-Key", ["k", "", "a" * 201, "\xff", "k" * 200, "a b"]),
    ("Content-Encoding", ["gzip", "br", "deflate", "identity", "gzip, gzip", "\xff"]),
    ("Accept", [JSON, "*/*", "text/html;q=x", ""]),
    ("Origin", ["null", "http://evil.example", "://", "http://[", "http://localhost"]),
    ("Host", ["localhost", "evil.example", "[", "127.0.0.1:99999", "[::1]:80"]),
    ("Authorization", ["Bearer", "Bearer x", "Basic Og==", "Bearer dirad_a_b", "Bearer \xff"]),
    ("Cookie", ["dirad_token=x", "dirad_token=\"", "=;=;", "a" * 4000, "dirad_token=\xff"]),
    ("Last-Event-ID", ["1", "-1", "9" * 30, "x", "\xb2"]),
    ("X-Forwarded-For", ["1.2.3.4", "x"]),
    ("Expect", ["100-continue", "x"]),
    ("Range", ["bytes=0-1"]),
]  # fmt: skip
GOOD: list[tuple[str, str, Any]] = [
    ("PUT", "", {"kind": "classifier",
                 "columns": ["u", {"name": "v", "kind": "number", "fill": 0}]}),
    ("PUT", "", {"kind": "detector", "columns": [{"name": "k", "kind": "category",
                 "categories": ["a", "b"]}], "settings": {"batch_size": 50, "false_alarms": 0.01}}),
    ("POST", "samples", {"rows": [[1, 2], [3, 4]], "labels": [1, None], "ids": ["a", "b"]}),
    ("POST", "samples", {"rows": [{"u": 1, "v": 2}], "labels": ["x"]}),
    ("POST", "labels", {"rows": [0, 1], "labels": [1, 0]}),
    ("POST", "labels", {"ids": ["a"], "labels": [1]}),
    ("POST", "predict", {"rows": [[1, 2]], "explain": True, "coverage": 0.9, "labels": [1]}),
    ("POST", "predict", {"rows": [[1e300, -1e300], [1e307, 1e307]]}),
    ("POST", "hooks", {"url": "http://127.0.0.1:9/x", "secret": "s" * 16, "events": ["alarm"],
                       "format": "text"}),
]  # fmt: skip


class Mutant(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes


def tables() -> dict[str, bytes]:
    """Return honest binary bodies by their type."""
    table = pa.table({"u": [1.0, 2.0, 3.0], "v": [1, 2, 3], "label": ["a", "b", None]})
    stream, file, parquet = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    pa.parquet.write_table(table, parquet)
    return {
        "application/vnd.apache.arrow.stream": stream.getvalue(),
        "application/vnd.apache.arrow.file": file.getvalue(),
        "application/vnd.apache.parquet": parquet.getvalue(),
    }


def mutants(seed: int, n: int) -> Iterator[Mutant]:
    """Yield mutated requests, the same ones for the same seed."""
    rng, binary = random.Random(seed), tables()
    for _ in range(n):
        method, part, obj = rng.choice(GOOD)
        kind, body = JSON, json.dumps(_mutated(rng, obj)).encode()
        choice = rng.random()
        if choice < 0.1:
            body = rng.choice(RAW)
            kind = rng.choice(TYPES)
        elif choice < 0.13:
            kind, body = rng.choice(list(binary.items()))
            method, part = "POST", rng.choice(["samples", "predict"])
            body = _flipped(rng, body)
        elif choice < 0.3:
            body = _flipped(rng, body)
        elif choice < 0.4:
            method, part = rng.choice(METHODS), rng.choice(PARTS)
        name = rng.choice(NAMES if rng.random() < 0.2 else NAMES[:3])
        path = f"/streams/{name}/{part}".rstrip("/")
        if rng.random() < 0.05:
            path = rng.choice(OTHER_PATHS)
        headers = [("Content-Type", kind)] if kind else []
        if rng.random() < 0.15:
            name, values = rng.choice(HEADERS)
            headers.append((name, rng.choice(values)))
        yield Mutant(method, path, headers, body)


def _mutated(rng: random.Random, obj: Any) -> Any:
    """Return JSON with one or two places replaced, removed or repeated."""
    result = json.loads(json.dumps(obj))
    for _ in range(rng.choice([0, 1, 1, 2])):
        places = list(_places(result))
        inside, key = rng.choice(places)
        if rng.random() < 0.2:
            del inside[key]
        elif isinstance(inside, list) and rng.random() < 0.3:
            inside.extend([inside[key]] * rng.choice([1, 3, 300]))
        else:
            inside[key] = deepcopy(rng.choice(LEAVES))
        if not result:
            break
    if rng.random() < 0.05:
        result[rng.choice(["extra", "", "\x00", "kind", "rows"])] = deepcopy(rng.choice(LEAVES))
    return result


def _places(obj: Any) -> Iterator[tuple[Any, Any]]:
    items = obj.items() if isinstance(obj, dict) else enumerate(obj)
    for key, value in list(items):
        yield obj, key
        if isinstance(value, dict | list):
            yield from _places(value)


def _flipped(rng: random.Random, body: bytes) -> bytes:
    """Return a body with some bytes changed, cut off or repeated."""
    changed = bytearray(body)
    for _ in range(rng.choice([1, 1, 3, 20])):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    if rng.random() < 0.2:
        del changed[rng.randrange(len(changed) + 1) :]
    return bytes(changed * (2 if rng.random() < 0.05 else 1))
