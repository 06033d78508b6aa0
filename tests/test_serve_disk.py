"""A disk that is really full: samples are refused, answers go on, and nothing accepted is lost."""

import os
import subprocess
import time

import httpx
import numpy as np
import pytest

from feeding import ROWS, Feeder, check_rows, requests
from service import serving

pytest.importorskip("fastapi")

SIZE = 4_000_000  # bytes of the disk
PIECE = 4096


@pytest.fixture
def small_disk(tmp_path):
    """A file system of a few megabytes; only root can mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root alone")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(path):
    """Write until nothing more fits."""
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(PIECE))
        except OSError:
            pass


def test_full_disk_refuses_samples_and_answers_on(small_disk, tmp_path):
    bodies = requests(12)
    with serving(small_disk / "store") as server:
        feeder = Feeder(server.url)
        feeder.create()
        feeder.feed(bodies[:6])
        feeder.learned()
        ballast = small_disk / "ballast"
        stream = f"{server.url}/streams/pump"
        large = {"rows": np.zeros((5000, 2)).tolist()}
        fill(ballast)
        refused = [httpx.post(f"{stream}/samples", json=large, timeout=30) for _ in range(3)]
        assert [one.status_code for one in refused] == [507] * 3
        assert "full" in refused[0].json()["detail"]
        assert httpx.get(stream).json()["samples"] == 6 * ROWS
        answer = httpx.post(f"{stream}/predict", json={"rows": [[0.0, 0.0]]})
        assert answer.status_code == 200
        for path in ("/events", "/models", "/history"):
            found = httpx.get(stream + path, headers={"Accept": "application/json"})
            assert found.status_code == 200, path
        assert httpx.get(f"{server.url}/readyz").status_code == 200

        ballast.unlink()
        feeder.feed(bodies[6:])
        check_rows(feeder)
        learned = feeder.export()

        fill(ballast)  # a crash while the disk is full loses nothing either
        time.sleep(1.5)
        server.kill()
        ballast.unlink()
        server.start()
        check_rows(feeder)
        assert feeder.export() == learned
    with serving(tmp_path / "large") as server:
        other = Feeder(server.url)
        other.create()
        other.feed(bodies)
        assert other.export() == learned
