"""Two servers on one store: the second is refused, or the first is fenced; nothing is lost."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import postgres
from commands import DIRAD
from feeding import Feeder, check_rows, requests, uninterrupted
from service import serving

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")

BODIES = requests(16)


@pytest.fixture(scope="module")
def database():
    with postgres.running() as server:
        yield server


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    return uninterrupted(tmp_path_factory.mktemp("plain"), BODIES)[0]


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request, tmp_path):
    """A store, and a function that takes its lock from whoever has it."""
    if request.param == "sqlite":
        return tmp_path, lambda: Path(tmp_path, "lock").unlink()
    database = request.getfixturevalue("database")
    url = database.create(request.node.name)

    def take() -> None:
        database.stop("immediate")
        database.start()

    return url, take


def test_a_second_server_is_refused_while_the_first_one_runs_or_pauses(place, expected):
    store, _ = place
    with serving(store) as server:
        feeder = Feeder(server.url)
        feeder.create()
        feeder.feed(BODIES[:8])
        for pause in (False, True):
            if pause:
                feeder.learned()
                os.kill(server.process.pid, signal.SIGSTOP)
            command = [*DIRAD, "serve", "--store", str(store), "--port", "0", "--wait", "1"]
            second = subprocess.run(command, capture_output=True, text=True, timeout=60)
            assert second.returncode == 2
            said = " ".join(second.stderr.split())
            assert f"in use by another server (process {server.process.pid} on" in said
        os.kill(server.process.pid, signal.SIGCONT)
        feeder.feed(BODIES[8:])
        check_rows(feeder)
        assert feeder.export() == expected


def test_a_server_that_lost_the_store_is_fenced(place, expected):
    store, take = place
    with serving(store, "--wait", "5") as first:
        feeder = Feeder(first.url)
        feeder.create()
        feeder.feed(BODIES[:8])
        feeder.learned()
        os.kill(first.process.pid, signal.SIGSTOP)
        take()
        with serving(store, "--wait", "5") as second:
            answers = Feeder(second.url)
            answers.answers = feeder.answers
            answers.feed(BODIES[8:12])
            # The first one goes on, and has a request at once: it is refused, and not written.
            refused = []

            def send() -> None:
                body = BODIES[15]
                refused.append(feeder.client.post("/streams/pump/samples", json=body))

            sender = threading.Thread(target=send)
            sender.start()
            os.kill(first.process.pid, signal.SIGCONT)
            sender.join()
            assert refused[0].status_code == 503
            assert "another server has taken over" in refused[0].text
            assert first.process.wait(30) == 2
            assert f"(process {second.process.pid} on" in "".join(first.said)
            answers.feed(BODIES[12:])
            check_rows(answers)
            assert answers.export() == expected


def test_a_server_stands_by_and_takes_over(place, expected):
    store, _ = place
    with serving(store) as first:
        feeder = Feeder(first.url)
        feeder.create()
        feeder.feed(BODIES[:8])
        killer = threading.Timer(3.0, first.kill)
        killer.start()
        with serving(store, "--wait", "50") as second:
            killer.join()
            answers = Feeder(second.url)
            answers.answers = feeder.answers
            answers.feed(BODIES[8:])
            check_rows(answers)
            assert answers.export() == expected
