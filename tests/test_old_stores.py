"""Stores of earlier versions are served: nothing in them is lost, and learning goes on."""

import gzip
import json

import httpx
import numpy as np
import pytest

from dirad.serve import schema
from dirad.serve.store import FILE
from feeding import ROWS, Feeder
from old_store import BODIES, FILES, HOOK, LEARNED, WAITING
from service import serving

STORES = sorted(FILES.glob("*/store.sqlite.gz"))


def test_there_is_a_store_of_each_version():
    assert len(STORES) == schema.VERSION


@pytest.mark.parametrize("path", STORES, ids=lambda path: path.parent.name)
def test_a_store_is_served_as_by_its_version(path, tmp_path):
    (tmp_path / FILE).write_bytes(gzip.decompress(path.read_bytes()))
    expected = json.loads(path.with_name("store.json").read_text())
    with serving(tmp_path) as server:
        assert httpx.get(f"{server.url}/streams").status_code == 401  # its token is known
        feeder = Feeder(server.url)
        feeder.client.headers["Authorization"] = f"Bearer {expected['token']}"
        state = feeder.learned()  # also the requests in the journal
        assert state["samples"] == ROWS * (LEARNED + WAITING)
        check_answers(feeder, expected)
        again = Feeder(server.url)
        again.client.headers = feeder.client.headers
        again.feed(BODIES[:LEARNED])  # with the keys of then: nothing is learned twice
        assert again.answers == expected["answers"]
        feeder.label([BODIES[-1]["ids"][0], BODIES[0]["ids"][0]], [1, 0], "late")
        fresh = {"rows": BODIES[0]["rows"], "labels": BODIES[0]["labels"]}
        answer = feeder.client.post("/streams/pump/samples", json=fresh)
        assert answer.json()["first_row"] == ROWS * (LEARNED + WAITING)
        assert feeder.learned()["samples"] == ROWS * (LEARNED + WAITING + 1)


def check_answers(feeder, expected):
    client, headers = feeder.client, {"Accept": "application/json"}
    events = client.get("/streams/pump/events", headers=headers).json()["events"]
    then = expected["events"]
    found = [{name: one[name] for name in old} for one, old in zip(events, then, strict=False)]
    assert found == then
    found = client.post("/streams/pump/predict", json={"rows": expected["rows"]}).json()
    assert found["models"] == expected["predicted"]["models"]
    assert found["predictions"] == expected["predicted"]["predictions"]
    assert np.shape(found["probabilities"]) == np.shape(expected["predicted"]["probabilities"])
    scores = client.get("/streams/pump/history").json()["scores"]
    assert scores[: len(expected["scores"])] == expected["scores"]
    [hook] = client.get("/streams/pump/hooks").json()["hooks"]
    assert (hook["url"], hook["events"]) == (HOOK["url"], HOOK["events"])
