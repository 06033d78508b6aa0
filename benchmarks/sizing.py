"""What a stream of the service costs, by the number of its columns: speed, memory and disk."""

import json
import tempfile
import time
from pathlib import Path

import numpy as np
from load import Connection, free_port, latencies, running, wait_for
from rich.console import Console
from rich.table import Table
from serve import FREE, megabytes, wait_until_learned

COLUMNS = (2, 20, 100)
STREAMS = 8
ROWS = 4_000  # of each stream
BATCH = 1_000  # rows of a request
ANSWER_SECONDS = 3.0


def sizing_table(console: Console) -> None:
    """Print a row for each number of columns."""
    table = Table(
        "columns",
        "rows learned per second and process",
        "answers per second, one client",
        "memory of the server, MB",
        "memory of a stream, MB",
        "disk of a stream, MB",
        title=f"dirad serve: {STREAMS} classifiers, {ROWS:,} rows each, one learning process",
    )
    for columns in COLUMNS:
        with tempfile.TemporaryDirectory() as folder:
            found = _measured(folder, columns)
        table.add_row(str(columns), *found)
    console.print(table)


def _measured(folder: str, columns: int) -> list[str]:
    port = free_port()
    command = ["-m", "dirad", "serve", "--store", folder, "--port", port, "--quiet", *FREE]
    names = [f"s{number}" for number in range(STREAMS)]
    bodies = [_body(part, columns) for part in range(ROWS // BATCH)]
    with running(*command, "--processes", 1) as server:
        wait_for(port)
        connection = Connection(port)
        _learn(connection, port, ["first"], bodies[:1], columns)  # everything is in memory
        alone = megabytes(server.pid)
        start = time.perf_counter()
        _learn(connection, port, names, bodies, columns)
        seconds = time.perf_counter() - start
        full = megabytes(server.pid)
        row = json.dumps({"rows": [[0.0] * columns]}).encode()
        answered = latencies(port, "/streams/s0/predict", ANSWER_SECONDS, row)
    stored = sum(one.stat().st_size for one in Path(folder).iterdir()) / 1e6
    return [
        f"{STREAMS * ROWS / seconds:,.0f}",
        f"{len(answered) / sum(one.seconds for one in answered):,.0f}",
        f"{alone:.0f}",
        f"{(full - alone) / STREAMS:.1f}",
        f"{stored / (STREAMS + 1):.1f}",
    ]


def _learn(
    connection: Connection, port: int, names: list[str], bodies: list[bytes], columns: int
) -> None:
    described = {"kind": "classifier", "columns": [f"c{i}" for i in range(columns)]}
    for name in names:
        connection.ask("PUT", f"/streams/{name}", json.dumps(described).encode())
        for body in bodies:
            connection.send(f"/streams/{name}/samples", body)
    wait_until_learned(port, names)


def _body(part: int, columns: int) -> bytes:
    """Return rows of two classes, which two of the columns tell apart."""
    X = np.random.default_rng(part).normal(size=(BATCH, columns)).round(4)
    y = (X[:, 0] > X[:, 1]).astype(int)
    return json.dumps({"rows": X.tolist(), "labels": y.tolist()}).encode()
