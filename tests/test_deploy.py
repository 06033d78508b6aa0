"""The files by which the service is deployed agree with the package and with each other."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
UNIT = ROOT / "deploy" / "dirad.service"
BUILD = ROOT / "deploy" / "build.sh"
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
EXTRAS = re.compile(r"\.whl\)?\"?\[([\w,]+)\]|wheel\[([\w,]+)\]")


def extras_of(text):
    return {found[0] or found[1] for found in EXTRAS.findall(text)}


def test_the_container_copies_what_exists():
    copied = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    sources = [name for line in copied for name in line.split()[:-1]]
    assert "src" in sources
    assert [name for name in sources if not (ROOT / name).exists()] == []


def test_container_and_script_install_the_same_extras():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = extras_of(DOCKERFILE)
    assert found == extras_of(BUILD.read_text(encoding="utf-8"))
    assert len(found) == 1
    names = found.pop().split(",")
    assert set(names) <= set(project["optional-dependencies"])
    needed = [one for name in names for one in project["optional-dependencies"][name]]
    assert "dirad[serve]" in needed


def test_the_unit_is_valid(tmp_path):
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd-analyze is not installed")
    text = UNIT.read_text(encoding="utf-8")
    there = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.MULTILINE)
    assert there != text
    copy = tmp_path / UNIT.name
    copy.write_text(there, encoding="utf-8")
    done = subprocess.run(
        [program, "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (done.returncode, said) == (0, [])


def test_unit_and_container_call_the_command_as_it_is(capfdbinary):
    from dirad.cli import run

    assert run(["serve", "--help"]) == 0
    known = capfdbinary.readouterr().out.decode()
    text = UNIT.read_text(encoding="utf-8") + DOCKERFILE
    started = [line for line in text.splitlines() if line.startswith(("ExecStart=", "CMD ["))]
    assert len(started) == 2
    options = {one for line in started for one in re.findall(r"--[a-z-]+", line)}
    assert {"--store", "--host", "--port"} <= options
    assert [one for one in options if one not in known] == []


@pytest.mark.slow
def test_the_build_steps_lead_to_a_service_that_answers(tmp_path):
    done = subprocess.run(
        ["sh", str(BUILD), str(tmp_path / "built")],
        env=os.environ | {"PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "starts, answers and ends" in done.stdout
