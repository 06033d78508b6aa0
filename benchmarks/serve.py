"""The service under load: answers while it learns, rows per second, memory and restarts.

Everything is measured in one run on one machine, the clients included, so that figures in seconds
say little elsewhere; the requirements are ratios.
"""

import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil
from load import (
    Answered,
    Connection,
    body_of,
    feed,
    free_port,
    latencies,
    rows_of,
    running,
    wait_for,
)
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.linear_model import SGDClassifier

from dirad import PREVALClassifier

MOST_SLOWDOWN = 3.0  # of the 99th percentile while the service learns
LEAST_SHARE = 0.5  # of the speed of partial_fit in one process that is left through HTTP
MOST_RESTART_SECONDS = 10.0
MOST_GROWTH = 1.1  # of the memory, from the second fifth of a long run to the last

PHASE_SECONDS = 10.0
ROUNDS = 3  # idle and learning are measured in turns
ROWS = 100_000  # learned for the comparison of speeds
BATCH = 1_000  # rows of a request
STREAMS = 50
LONG_ROWS = 3_000_000  # a million take twenty seconds, in which memory is still being filled
MEMORY_SECONDS = 0.5  # between two looks at the memory
PLAIN = Path(__file__).with_name("plain_service.py")
FREE = ("--max-requests", "1000000")  # the rate is what is measured
DESCRIBED = b'{"kind": "classifier", "columns": ["u", "v"]}'


class Paths(NamedTuple):
    """Where a service takes rows to learn and rows to answer."""

    samples: str
    predict: str


OURS = Paths("/streams/s0/samples", "/streams/s0/predict")
THEIRS = Paths("/samples", "/predict")


def serve_table(console: Console) -> bool:
    """Print how the service does under load; True if it does as well as required."""
    with tempfile.TemporaryDirectory() as folder:
        kept = _ours(console, folder)
    _theirs(console)
    return kept & long_table(console)


def _ours(console: Console, folder: str) -> bool:
    port = free_port()
    command = ["-m", "dirad", "serve", "--store", folder, "--port", port, "--quiet", *FREE]
    with running(*command) as server:
        wait_for(port)
        Connection(port).ask("PUT", "/streams/s0", DESCRIBED)
        slowdown = _answer_table(console, "dirad serve", port, OURS, server.pid)
        wait_until_learned(port, ["s0"])
        share = _learn_table(console, "dirad serve", port, OURS, _preval_seconds)
    return _judge(console, "99th percentile while learning", slowdown, MOST_SLOWDOWN) & _judge(
        console, "rows per second through HTTP", share, LEAST_SHARE, at_least=True
    )


def _theirs(console: Console) -> None:
    port = free_port()
    with running(PLAIN, port) as server:
        wait_for(port)
        Connection(port).send(THEIRS.samples, body_of(0, BATCH))
        _answer_table(console, "FastAPI + SGDClassifier", port, THEIRS, server.pid)
        _learn_table(console, "FastAPI + SGDClassifier", port, THEIRS, _sgd_seconds)


def _answer_table(console: Console, name: str, port: int, paths: Paths, server: int) -> float:
    """Print the time of answers, idle and while learning; return by how much p99 is longer."""
    Connection(port).send(paths.samples, body_of(0, BATCH))
    if paths is OURS:
        wait_until_learned(port, ["s0"])
    latencies(port, paths.predict, 2.0)  # everything is compiled and in memory
    idle, learning = Phase(), Phase()
    for _ in range(ROUNDS):
        idle.measure(port, paths.predict, server)
        stop = multiprocessing.Event()
        feeder = multiprocessing.Process(target=feed, args=(port, paths.samples, BATCH, stop))
        feeder.start()
        time.sleep(1.0)
        learning.measure(port, paths.predict, server)
        stop.set()
        feeder.join()
        if paths is OURS:
            wait_until_learned(port, ["s0"])
    titles = (
        "",
        "answers per second",
        "p50, ms",
        "p99, ms",
        "p99 without the client's waiting, ms",
    )
    table = Table(*titles, "cores taken by others", title=f"{name}: one row, one client")
    for label, phase in (("idle", idle), ("while learning", learning)):
        table.add_row(label, *phase.row())
    console.print(table)
    return learning.percentile(99) / idle.percentile(99)


class Phase:
    """What was measured while the service was idle, or while it learned."""

    def __init__(self) -> None:
        self.answers: list[Answered] = []
        self.others = 0.0  # seconds of cores that programs took which have no part in this

    def measure(self, port: int, path: str, server: int) -> None:
        """Ask for answers for some seconds."""
        before = _others_seconds(server)
        self.answers += latencies(port, path, PHASE_SECONDS)
        self.others += _others_seconds(server) - before

    def percentile(self, percent: float) -> float:
        """Return the seconds within which so many percent of the answers came."""
        return float(np.percentile([one.seconds for one in self.answers], percent))

    def row(self) -> list[str]:
        """Return the numbers of the table."""
        seconds, waited = np.array(self.answers).T
        p50, p99 = 1000 * np.percentile(seconds, [50, 99])
        without = 1000 * np.percentile(seconds - waited, 99)
        others = self.others / (ROUNDS * PHASE_SECONDS)
        rate = f"{len(seconds) / seconds.sum():.0f}"
        return [rate, f"{p50:.2f}", f"{p99:.2f}", f"{without:.2f}", f"{others:.2f}"]


def _others_seconds(server: int) -> float:
    """Return the seconds that cores spent on other programs than the service and its clients."""
    own = [psutil.Process(), psutil.Process(server)]
    own += [child for one in own for child in one.children(recursive=True)]
    times = psutil.cpu_times()
    busy = sum(times) - times.idle - times.iowait
    return busy - sum(sum(one.cpu_times()[:2]) for one in {one.pid: one for one in own}.values())


def _learn_table(console: Console, name: str, port: int, paths: Paths, alone: Any) -> float:
    """Print the rows learned per second through HTTP and in one process; return the ratio."""
    bodies = [body_of(part, BATCH) for part in range(ROWS // BATCH)]
    http, within = [], []
    for turn in range(ROUNDS):
        connection = Connection(port)
        path = paths.samples
        if paths is OURS:  # a new stream, as the learner beside it is new
            connection.ask("PUT", f"/streams/speed{turn}", DESCRIBED)
            path = f"/streams/speed{turn}/samples"
        start = time.perf_counter()
        for body in bodies:
            connection.send(path, body)
        if paths is OURS:
            wait_until_learned(port, [f"speed{turn}"])
        http.append(ROWS / (time.perf_counter() - start))
        within.append(ROWS / alone())
    table = Table(
        "", "rows per second", title=f"{name}: learning, {ROWS:,} rows, median of {ROUNDS}"
    )
    table.add_row(f"through HTTP, {BATCH:,} rows a request", f"{np.median(http):,.0f}")
    table.add_row("partial_fit in one process", f"{np.median(within):,.0f}")
    console.print(table)
    return float(np.median(http) / np.median(within))


def _preval_seconds() -> float:
    return _fit_seconds(PREVALClassifier())


def _sgd_seconds() -> float:
    return _fit_seconds(SGDClassifier(loss="log_loss", random_state=0))


def _fit_seconds(model: Any) -> float:
    parts = [rows_of(part, BATCH) for part in range(ROWS // BATCH)]
    start = time.perf_counter()
    for X, y in parts:
        model.partial_fit(X, y, classes=[0, 1])
    return time.perf_counter() - start


def wait_until_learned(port: int, names: list[str]) -> None:
    """Wait until streams have learned all that they accepted."""
    connection = Connection(port)
    for name in names:
        while connection.read(f"/streams/{name}")["pending"]:
            time.sleep(0.02)


def long_table(console: Console) -> bool:
    """Print the memory over a million rows in many streams, and how long a restart takes."""
    names = [f"s{number}" for number in range(STREAMS)]
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = ["-m", "dirad", "serve", "--store", folder, "--port", port, "--quiet", *FREE]
        with running(*command) as server:
            wait_for(port)
            memory = _fill(port, names, server.pid)
            before = [
                Connection(port).ask("GET", f"/streams/{one}/export?to=dirad") for one in names
            ]
            server.kill()
        stored = sum(one.stat().st_size for one in Path(folder).rglob("*") if one.is_file())
        start = time.perf_counter()
        with running(*command):
            wait_for(port)
            for name in names:
                Connection(port).read(f"/streams/{name}/models")
            answered = time.perf_counter() - start
            wait_until_learned(port, names)
            learned = time.perf_counter() - start
            after = [
                Connection(port).ask("GET", f"/streams/{one}/export?to=dirad") for one in names
            ]
    fifths = [np.median(part) for part in np.array_split(memory, 5)]
    title = f"dirad serve: {LONG_ROWS:,} rows in {STREAMS} streams, then kill -9"
    table = Table("", "", title=title)
    table.add_row("memory by fifths of the time, MB", "  ".join(f"{one:.0f}" for one in fifths))
    table.add_row("store on disk, MB", f"{stored / 1e6:.0f}")
    table.add_row("restart until all streams answer, s", f"{answered:.1f}")
    table.add_row("restart until all is learned again, s", f"{learned:.1f}")
    table.add_row("same states as before", "yes" if before == after else "NO")
    console.print(table)
    kept = _judge(console, "memory, last fifth against second", fifths[4] / fifths[1], MOST_GROWTH)
    kept &= _judge(console, "seconds of a restart", answered, MOST_RESTART_SECONDS)
    return kept and before == after


def _fill(port: int, names: list[str], pid: int) -> list[float]:
    """Send the rows, stream by stream in turns; return the memory of all processes in MB."""
    connection = Connection(port)
    for name in names:
        connection.ask("PUT", f"/streams/{name}", DESCRIBED)
    bodies = [body_of(part, BATCH) for part in range(20)]
    memory, start = [], time.perf_counter()
    for number in track(range(LONG_ROWS // BATCH), "Sending rows"):
        name = names[number % STREAMS]
        connection.send(f"/streams/{name}/samples", bodies[number // STREAMS % len(bodies)])
        if time.perf_counter() > start + MEMORY_SECONDS * len(memory):
            memory.append(megabytes(pid))
    for name in names:  # rows are accepted faster than they are learned
        while connection.read(f"/streams/{name}")["pending"]:
            memory.append(megabytes(pid))
            time.sleep(MEMORY_SECONDS)
    return memory


def megabytes(pid: int) -> float:
    """Return the memory of a process and its children; pages that they share count once."""
    process = psutil.Process(pid)
    return sum(one.memory_full_info().pss for one in [process, *process.children(True)]) / 1e6


def _judge(
    console: Console, what: str, found: float, bound: float, *, at_least: bool = False
) -> bool:
    kept = found >= bound if at_least else found <= bound
    sign = "≥" if at_least else "≤"
    colour = "green" if kept else "red"
    console.print(f"[{colour}]{what}: {found:.2f} (required: {sign} {bound:g})[/{colour}]")
    return kept
