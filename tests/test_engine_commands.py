"""Commands with `--engine ray`: a cluster that is started and ended, and what is said without."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from dirad.engine import ClusterError, rays
from experiments.commands import run as command_line

pytest.importorskip("ray", reason="the extra dirad[ray] is not installed")


PARITY = ["parity", "--bits", "2", "--seeds", "2", "--json", "--quiet"]


def processes_with(variable):
    """Return the processes in whose environment a variable is set; they inherit it."""
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if variable.encode() in (process / "environ").read_bytes():
                result.append((process / "cmdline").read_text())
    return result


def test_a_command_starts_its_own_cluster_and_leaves_nothing_behind(tmp_path, capsys):
    command = [*PARITY, "--engine", "ray", "--workers", "2", "--out", str(tmp_path / "ray")]
    variable = f"STARTED_BY_{os.getpid()}"
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *command],
        capture_output=True,
        env={**os.environ, variable: "1"},
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert command_line([*PARITY, "--workers", "1", "--out", str(tmp_path / "local")]) == 0
    found = {"ray": json.loads(done.stdout), "local": json.loads(capsys.readouterr().out)}
    assert found["ray"]["command"] == found["local"]["command"]
    assert untimed(found["ray"]) == untimed(found["local"])
    assert not processes_with(variable)


def untimed(outcome):
    """Return runs without their times, which no two have in common."""
    return [
        {key: value for key, value in run.items() if key != "seconds"} for run in outcome["runs"]
    ]


def test_wrong_addresses(capsys):
    assert command_line([*PARITY, "--address", "127.0.0.1:1"]) == 2
    assert "needs --engine ray" in capsys.readouterr().err
    assert command_line([*PARITY, "--engine", "ray", "--address", "127.0.0.1:1"]) == 1
    assert "no cluster answers at 127.0.0.1:1" in capsys.readouterr().err
    assert command_line([*PARITY, "--time-limit", "3"]) == 2
    assert "needs --engine ray" in capsys.readouterr().err


def test_what_listens_but_is_no_cluster_is_told_soon(capsys):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(ClusterError, match="timed out"),
            rays.on_ray(address, connect_within=0.2),
        ):
            pass
        answering = threading.Thread(target=answered, args=(server,))
        answering.start()
        assert command_line([*PARITY, "--engine", "ray", "--address", address]) == 1
        answering.join()
    errors = capsys.readouterr().err
    assert errors == f"dirad: Ray: no cluster answers at {address}: this is something else\n"


def answered(server):
    """Answer one connection as a web server does."""
    server.accept()[0].close()  # that of the first attempt
    connection, _ = server.accept()
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    connection.close()


def test_without_ray_the_extra_is_named(monkeypatch, capsys):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(rays, "import_module", missing)
    assert command_line([*PARITY, "--engine", "ray"]) == 1
    assert "pip install ray" in capsys.readouterr().err


CLUSTER = """
import os, signal, sys, time
from pathlib import Path
from dirad.engine import ClusterError, on_ray, rays

def listening():
    found = set()
    for family in ("tcp", "tcp6"):
        with open(f"/proc/net/{family}") as lines:
            parts = [line.split() for line in lines][1:]
        found |= {(p[1].rpartition(":")[0], p[9]) for p in parts if p[3] == "0A"}
    return found  # addresses, and the number of each socket

def sockets_of_ray():
    numbers = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"ray" in (process / "cmdline").read_bytes():
                names = [os.readlink(file) for file in (process / "fd").iterdir()]
                numbers |= {name[8:-1] for name in names if name.startswith("socket:[")}
        except OSError:
            continue  # the process has ended
    return numbers

def deadly(marks):
    with open(marks, "a") as file:
        file.write("x")
    os.kill(os.getpid(), signal.SIGKILL)

before = listening()  # sockets that other programs open meanwhile are not Ray's
rays.RETRIES = 2
with on_ray(workers=1) as engine:
    assert list(engine.finished(abs, [(-1,)])) == [(0, 1)]
    of_ray = sockets_of_ray()
    assert of_ray
    print(*sorted({address for address, number in listening() - before if number in of_ray}))
    for function, job, seconds in ((deadly, sys.argv[1], 60.0), (time.sleep, 1000, 0.5)):
        engine.answer_within = seconds
        try:
            list(engine.finished(function, [(job,)]))
        except ClusterError as error:
            print(error)
"""


@pytest.mark.skipif(not os.path.exists("/proc/net/tcp"), reason="there is no /proc")
def test_a_cluster_of_ones_own_listens_here_alone_and_ends_what_does_not_end(tmp_path):
    program = [sys.executable, "-c", CLUSTER, tmp_path / "marks"]
    done = subprocess.run(program, capture_output=True, text=True)
    addresses, *errors = done.stdout.splitlines()
    assert set(addresses.split()) <= {"0100007F", "0000000000000000FFFF00000100007F"}, done.stderr
    assert errors == [
        "Ray: every worker that tried it has died",
        "Ray: there is no answer in the time that it may take",
    ]
    assert (tmp_path / "marks").read_text() == "xxx"
