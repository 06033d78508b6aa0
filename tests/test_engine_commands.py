"""Commands with `--engine ray`: a cluster that is started and ended, and what is said without."""

import json
import subprocess
import sys

import pytest

from dirad.cli import run as command_line
from dirad.engine import rays

pytest.importorskip("ray", reason="the extra dirad[ray] is not installed")


PARITY = ["parity", "--bits", "2", "--seeds", "2", "--json", "--quiet"]


def ray_processes():
    found = subprocess.run(["pgrep", "-f", "raylet|gcs_server"], capture_output=True, text=True)
    return set(found.stdout.split())


def test_a_command_starts_its_own_cluster_and_leaves_nothing_behind(tmp_path, capsys):
    before = ray_processes()
    program = "from dirad.cli import main; main()"
    command = [*PARITY, "--engine", "ray", "--workers", "2", "--out", str(tmp_path / "ray")]
    done = subprocess.run([sys.executable, "-c", program, *command], capture_output=True)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert command_line([*PARITY, "--workers", "1", "--out", str(tmp_path / "local")]) == 0
    found = {"ray": json.loads(done.stdout), "local": json.loads(capsys.readouterr().out)}
    assert found["ray"]["command"] == found["local"]["command"]
    assert untimed(found["ray"]) == untimed(found["local"])
    assert ray_processes() == before


def untimed(outcome):
    """Return runs without their times, which no two have in common."""
    return [
        {key: value for key, value in run.items() if key != "seconds"} for run in outcome["runs"]
    ]


def test_wrong_addresses(capsys):
    assert command_line([*PARITY, "--address", "127.0.0.1:1"]) == 2
    assert "needs --engine ray" in capsys.readouterr().err
    assert command_line([*PARITY, "--engine", "ray", "--address", "127.0.0.1:1"]) == 1
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err


def test_without_ray_the_extra_is_named(monkeypatch, capsys):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(rays, "import_module", missing)
    assert command_line([*PARITY, "--engine", "ray"]) == 1
    assert "pip install 'dirad[ray]'" in capsys.readouterr().err
