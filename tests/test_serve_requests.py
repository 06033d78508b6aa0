"""Every request that the service answers, as a client without `dirad` sends it."""

import csv
import io
import json
import time

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet
import pytest

from dirad.serve.bodies import ARROW, CSV, read_rows
from dirad.serve.errors import Refused
from dirad.serve.specification import Specification
from dirad.sources.samples import Layout, Naming
from feeding import ROWS, SPECIFICATION, requests
from service import serving

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")

BODIES = requests(16)  # the task changes after the first eight
JSON_ONLY = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    store = tmp_path_factory.mktemp("requests") / "store"
    with serving(store) as server, httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def taught(client):
    """A stream that has learned two tasks."""
    create(client, "taught")
    for body in BODIES:
        assert client.post("/streams/taught/samples", json=body).status_code == 200
    learned(client, "taught")
    return "/streams/taught"


def create(client, name):
    assert client.put(f"/streams/{name}", json=SPECIFICATION).status_code == 201


def learned(client, name):
    end = time.monotonic() + 60
    while not client.get(f"/streams/{name}").json()["current"]:
        assert time.monotonic() < end
        time.sleep(0.05)


def state(client, name):
    learned(client, name)
    return client.get(f"/streams/{name}/export", params={"to": "dirad"}).content


def test_a_stream_is_created_once(client):
    assert client.put("/streams/once", json=SPECIFICATION).status_code == 201
    assert client.put("/streams/once", json=SPECIFICATION).status_code == 200
    other = SPECIFICATION | {"columns": ["u", "w"]}
    assert client.put("/streams/once", json=other).status_code == 409
    found = client.get("/streams/once").json()
    assert (found["samples"], found["models"], found["events"]) == (0, 0, 0)
    assert client.put("/streams/..%2fonce", json=SPECIFICATION).status_code in (404, 422)


# ------------------------------------------------------------------ bodies


MIXED = Specification.from_json(
    {
        "kind": "detector",
        "columns": [
            "flow",
            {"name": "level", "gaps": True},
            {"name": "fluid", "kind": "category", "categories": ["oil", "water"], "other": True},
            {"name": "mode", "kind": "category", "categories": ["a", "b"]},
        ],
    }
)


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ([1.0, None, "oil", "a"], [1.0, np.nan, 1, 0, 0, 1, 0]),
        ([1.0, "NaN", "rum", "b"], [1.0, np.nan, 0, 0, 1, 0, 1]),
        ([None, 2.0, "oil", "a"], "'flow': the value is missing, and the column has no \"gaps\""),
        ([1.0, 2.0, None, "a"], "'fluid': the value is missing"),
        ([1.0, 2.0, "oil", "c"], "'c' is none of the categories 'a', 'b', and .* no \"other\""),
        ([1.0, True, "oil", "a"], "'level': 'true' is not a number"),
        ([1.0, 2.0, {"is": "oil"}, "a"], "a value of a row is"),
        ([1.0, "Infinity", "oil", "a"], "infinite"),
    ],
)
def test_values_of_mixed_columns(row, found):
    content = json.dumps({"rows": [row]}).encode()
    if isinstance(found, str):
        with pytest.raises(Refused, match=found):
            read_rows(MIXED, "application/json", content, 10)
    else:
        X = read_rows(MIXED, "application/json", content, 10).X
        np.testing.assert_array_equal(X, [found])


def as_table(body):
    u, v = np.array(body["rows"]).T.tolist()
    return {"u": u, "v": v, "label": body["labels"], "id": body["ids"]}


def as_csv(body):
    target = io.StringIO()
    table = as_table(body)
    writer = csv.writer(target)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return target.getvalue().encode()


def as_arrow(body, writer):
    target = io.BytesIO()
    table = pa.table(as_table(body))
    with writer(target, table.schema) as file:
        file.write_table(table)
    return target.getvalue()


def as_parquet(body):
    target = io.BytesIO()
    pa.parquet.write_table(pa.table(as_table(body)), target)
    return target.getvalue()


KINDS = {
    "application/json": lambda body: json.dumps(body).encode(),
    "text/csv": as_csv,
    "application/vnd.apache.arrow.stream": lambda body: as_arrow(body, pa.ipc.new_stream),
    "application/vnd.apache.arrow.file": lambda body: as_arrow(body, pa.ipc.new_file),
    "application/vnd.apache.parquet": as_parquet,
}


def test_bodies_of_all_kinds_teach_the_same(client):
    """Rows, labels and ids arrive to the last bit, whatever carries them."""
    states, found = [], []
    for number, (kind, written) in enumerate(KINDS.items()):
        create(client, f"kind{number}")
        address, headers = f"/streams/kind{number}", {"Content-Type": kind}
        for body in BODIES[:6]:
            answer = client.post(f"{address}/samples", content=written(body), headers=headers)
            assert answer.status_code == 200, (kind, answer.text)
        late = {"ids": ["5-1", "5-0"], "labels": [0, 1]}
        assert client.post(f"{address}/labels", json=late).status_code == 200
        states.append(state(client, f"kind{number}"))
        asked = client.post(f"{address}/predict", content=written(BODIES[0]), headers=headers)
        found.append(asked.json())
    assert len(states[0]) > 1000
    assert states == states[:1] * len(KINDS)
    assert found == found[:1] * len(KINDS)
    other = client.post("/streams/kind0/samples", content=b"", headers={"Content-Type": "a/b"})
    assert other.status_code == 415


def read_table(columns, kind="classifier", form="csv"):
    """Return the rows of a body whose inputs are zeros."""
    described = Specification.from_json({"kind": kind, "columns": ["u"]})
    columns = {"u": [0.0] * len(next(iter(columns.values())))} | columns
    if form == "arrow":
        target = io.BytesIO()
        table = pa.table(columns)
        with pa.ipc.new_stream(target, table.schema) as file:
            file.write_table(table)
        return read_rows(described, ARROW[0], target.getvalue(), 100)
    target = io.StringIO()
    writer = csv.writer(target)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return read_rows(described, CSV, target.getvalue().encode(), 100)


def test_ids_of_tables_are_exact_and_complete():
    large = [2**62 + 1, 2**62 + 2]
    for form in ("csv", "arrow"):
        assert read_table({"id": large}, form=form).ids == [str(one) for one in large]
    for wrong in (["a", None], [1, None], [1.5, 2.5]):
        with pytest.raises(Refused, match="an id is"):
            read_table({"id": wrong}, form="arrow")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["1.0", " 2 ", "NA"], [1, 2, None]),
        (["nan", "a", "null"], [None, "a", None]),
        (["1", "b", "2.0"], ["1", "b", "2.0"]),
        (["1" * 150, "2", ""], ["1" * 150, "2", None]),
        (["true", "", "false"], ["true", None, "false"]),
    ],
)
def test_labels_of_csv_bodies_are_those_of_dirad_tail(given, expected):
    rows = read_table({"label": given})
    assert rows.labels == expected
    if not {"1", "b"} <= set(given) and "1" * 150 not in given:  # the type is that of all labels
        layout = Layout(("u",), False, Naming())
        assert [layout.of_fields(["u", "label"], ["0", one]).label for one in given] == expected


def test_booleans_and_numbers_as_labels_of_tables():
    assert read_table({"label": [True, None, False]}, form="arrow").labels == [1, None, 0]
    assert read_table({"label": [1.0, 2.0, None]}, form="arrow").labels == [1, 2, None]
    assert read_table({"label": ["1.5", "NA", "2"]}, "regressor").labels == [1.5, None, 2.0]
    for wrong in ("1_0", "a", "inf"):
        with pytest.raises(Refused):
            read_table({"label": ["1", wrong]}, "regressor")


# ------------------------------------------------------------------ learning


def test_a_key_is_learned_once(client):
    create(client, "keys")
    key = {"Idempotency-Key": "monday"}
    first = client.post("/streams/keys/samples", json=BODIES[0], headers=key)
    again = client.post("/streams/keys/samples", json=BODIES[0], headers=key)
    assert (first.status_code, first.content) == (again.status_code, again.content)
    assert first.json()["first_row"] == 0
    assert first.json()["models"] == [None] * ROWS  # nothing is recognized yet
    other = client.post("/streams/keys/samples", json=BODIES[1], headers=key)
    assert other.status_code == 422
    assert client.get("/streams/keys").json()["samples"] == ROWS


def test_labels_come_later_by_number_or_by_id(client):
    """Both ways lead to the same state, and a label that is late is not as one that is missing."""
    states = []
    for name in ("numbers", "ids", "none"):
        create(client, name)
        for body in BODIES[:4]:
            unlabelled = {"rows": body["rows"], "ids": body["ids"]}
            assert client.post(f"/streams/{name}/samples", json=unlabelled).status_code == 200
        labels = BODIES[2]["labels"]
        for_rows = {"rows": list(range(2 * ROWS, 3 * ROWS)), "labels": labels}
        late = {"numbers": for_rows, "ids": {"ids": BODIES[2]["ids"], "labels": labels}}
        if name in late:
            answer = client.post(f"/streams/{name}/labels", json=late[name])
            assert answer.json() == {"labels": ROWS}
        states.append(state(client, name))
    assert states[0] == states[1] != states[2]
    for body in ({"rows": [4 * ROWS], "labels": [1]}, {"ids": ["x"], "labels": [1]}):
        assert client.post("/streams/ids/labels", json=body).status_code == 422


# ------------------------------------------------------------------ answers


def test_predictions_say_what_why_and_by_which_model(client, taught):
    rows = [*BODIES[0]["rows"][:3], *BODIES[-1]["rows"][:3], [50.0, -50.0]]
    found = client.post(f"{taught}/predict", json={"rows": rows}).json()
    assert found["models"][0] != found["models"][3]
    assert found["predictions"][:3] == BODIES[0]["labels"][:3]
    assert np.allclose(np.sum(found["probabilities"], axis=1), 1.0)
    assert len(found["novelty"]) == len(rows)
    assert found["known"][-1] is False
    assert "explanation" not in found
    asked = client.post(f"{taught}/predict?explain=true", json={"rows": [[50.0, 0.0]] * 60})
    why = asked.json()["explanation"]
    assert why["kind"] == "new inputs"
    assert why["inputs"][0]["name"] == "u"
    same = client.post(f"{taught}/predict", json={"rows": [[50.0, 0.0]] * 60, "explain": True})
    assert same.json()["explanation"] == why


def followed(client, address, n, headers=None):
    """Return the first events that the server sends, with their names and numbers."""
    found, fields = [], {}
    with client.stream("GET", address, headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if name:  # a line without one is a comment
                fields[name] = value
            elif not line and fields:
                found.append(fields)
                fields = {}
            if len(found) == n:
                return found
    raise AssertionError("the events ended")


def test_events_are_sent_and_resumed(client, taught):
    stored = client.get(f"{taught}/events", headers=JSON_ONLY).json()["events"]
    assert [one["number"] for one in stored] == list(range(len(stored)))
    assert any(one["alarm"] for one in stored)
    sent = followed(client, f"{taught}/events", len(stored))
    assert [json.loads(one["data"]) for one in sent] == stored
    assert [one["event"] for one in sent] == [one["kind"] for one in stored]
    rest = followed(client, f"{taught}/events", len(stored) - 2, {"Last-Event-ID": sent[1]["id"]})
    assert rest == sent[2:]


def test_what_was_learned_can_be_read_and_taken_away(client, taught):
    models = client.get(f"{taught}/models", params={"networks": True}).json()["models"]
    assert [one["number"] for one in models] == [0, 1]
    assert all(one["network"]["edges"] for one in models)
    report = client.get(f"{taught}/report")
    assert report.headers["content-type"].startswith("text/html")
    assert "Stream taught" in report.text
    source = client.get(f"{taught}/export", params={"to": "c"})
    assert "#include" in source.text
    assert source.headers["content-disposition"] == 'attachment; filename="taught.h"'
    assert client.get(f"{taught}/export", params={"to": "cobol"}).status_code == 422


def test_operators_can_see_how_it_is(client, taught):
    assert client.get("/healthz").json()["status"] == "ok"
    assert client.get("/readyz").json() == {"ready": True}
    measured = client.get("/metrics").text
    for words in (
        'dirad_samples_accepted_total{stream="taught"} 640.0',
        'dirad_samples_learned_total{stream="taught"} 640.0',
        'dirad_models{stream="taught"} 2.0',
        'dirad_request_seconds_count{route="/streams/{name}/samples"}',
    ):
        assert words in measured
    page = client.get("/docs").text
    schema = client.get("/openapi.json").json()
    assert len(schema["paths"]) > 12
    for path in schema["paths"]:
        assert path in page
