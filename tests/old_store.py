"""Store of the service as a version of dirad writes it, for the tests of later versions.

```
python tests/old_store.py 0.1       # writes tests/files/0.1/store.sqlite.gz and store.json
```

Run it once for each version of the store, with that version of dirad. The store has a stream with a
snapshot, requests in the journal that were accepted after it, ids, keys, scores, events, a webhook
and a token. `store.json` has what its server answered.
"""

import gzip
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

import numpy as np

from dirad.serve import journal, records
from dirad.serve.access import new_token
from dirad.serve.store import FILE, Store
from feeding import ROWS, Feeder, events_of, requests
from service import serving

FILES = Path(__file__).parent / "files"
LEARNED, WAITING = 10, 3  # requests in the snapshot, and in the journal after it
BODIES = requests(LEARNED + WAITING, seed=18)
HOOK = {"url": "http://127.0.0.1:9/", "secret": "sixteen characters", "events": ["removed"]}


def main(version: str) -> None:
    """Write the store and the answers of its server."""
    target = FILES / version
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        expected = _fill(folder)
        with sqlite3.connect(Path(folder) / FILE) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.execute("VACUUM")
        content = (Path(folder) / FILE).read_bytes()
    (target / "store.sqlite.gz").write_bytes(gzip.compress(content, mtime=0))
    (target / "store.json").write_text(json.dumps(expected, indent=1) + "\n")


def _fill(folder: str) -> dict:
    with serving(folder) as server:
        feeder = Feeder(server.url)
        feeder.create()
        assert feeder.client.post("/streams/pump/hooks", json=HOOK).status_code == 201
        feeder.feed(BODIES[:LEARNED])
        feeder.learned()
        rows = [*BODIES[0]["rows"][:5], *BODIES[LEARNED - 1]["rows"][:5]]
        predicted = feeder.client.post("/streams/pump/predict", json={"rows": rows}).json()
        history = feeder.client.get("/streams/pump/history").json()
        expected = {"rows": rows, "predicted": predicted, "scores": history["scores"]}
        expected |= {"events": events_of(feeder), "answers": feeder.answers}
        assert server.stop() == 0
    store = Store(folder)
    store.own()
    with store.changing() as connection:
        stream = journal.all_streams(connection)[0]
        for body in BODIES[LEARNED:]:
            record = records.samples(np.array(body["rows"]), body["labels"])
            request = journal.Request(record, b'{"rows":%d}' % ROWS, ids=body["ids"])
            journal.append(connection, stream.id, request)
    expected["token"] = new_token(store, "old", "admin")[1]
    store.close()
    return expected


if __name__ == "__main__":
    main(*sys.argv[1:])
