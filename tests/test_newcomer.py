"""What a newcomer does: the commands of the README and of the tutorial, as they are written there.

Only the ports differ, which other programs may have taken, and `dirad` is that of this checkout.
"""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from commands import DIRAD
from service import Server

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "docs"))

from blocks import blocks  # noqa: E402

pytest.importorskip("fastapi", reason="the extra dirad[serve] is not installed")
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
README, TUTORIAL = ROOT / "README.md", ROOT / "docs" / "tutorials" / "service.md"
CHANGE = 4000  # the row at which the bearing begins to wear


def commands_of(page, words):
    """Return the commands of the block in which all words are."""
    [text] = [one.text for one in blocks(page) if all(word in one.text for word in words)]
    return text.replace("\\\n", " ").splitlines()


def write_readings(page, folder):
    """Run the block that writes the readings of the pump."""
    [code] = [
        one.text for one in blocks(page) if one.language == "python" and "savetxt" in one.text
    ]
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    assert (folder / "pump.csv").is_file()


@contextmanager
def served(command, folder):
    """Carry out the command that serves."""
    name, serve, *options = shlex.split(command, comments=True)
    assert (name, serve, options) == ("dirad", "serve", ["--store", "plant"])
    server = Server(folder / "plant").start()
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def running(command, server, folder, **options):
    """Carry out a command that goes on until Ctrl-C."""
    words = shlex.split(command, comments=True)
    if words[0] == "dirad":
        words = [*DIRAD, *words[1:], "--url", server.url]
    words = [word.replace("localhost:8000", f"localhost:{server.port}") for word in words]
    process = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, text=True, **options)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        finally:
            process.kill()


def do(command, server, folder, *changes):
    """Carry out a command in a shell."""
    command = command.replace("localhost:8000", f"localhost:{server.port}")
    for old, new in changes:
        assert old in command
        command = command.replace(old, new)
    command = command.replace("curl", "curl --fail-with-body", 1)
    done = subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, (command, done.stdout)
    return done.stdout


def alarm_of(feed):
    """Return the first alarm of a feed of events."""
    for line in feed.stdout:
        if '"alarm":true' in line:
            return json.loads(line.removeprefix("data: "))
    raise AssertionError("the feed has ended")


@needs_curl
def test_the_readme_leads_to_an_alarm(tmp_path):
    write_readings(README, tmp_path)
    serve, tail, curl = commands_of(README, ["dirad serve", "dirad tail", "curl"])
    with served(serve, tmp_path) as server, running(tail, server, tmp_path):
        end, curl = time.monotonic() + 60, curl.replace("curl", "curl -sf", 1)
        while time.monotonic() < end:  # until there is a stream
            with running(curl, server, tmp_path) as feed:
                first = feed.stdout.readline()
                if first:
                    alarm = alarm_of(feed)
                    break
            time.sleep(0.2)
    assert alarm["row"] == CHANGE
    assert [one["name"] for one in alarm["inputs"]] == ["vibration"]
    assert "vibration" in alarm["text"]


@needs_curl
def test_the_tutorial_leads_to_an_alarm_in_a_chat(tmp_path):
    write_readings(TUTORIAL, tmp_path)
    [serve] = commands_of(TUTORIAL, ["dirad serve"])
    create, send, follow = commands_of(TUTORIAL, ["curl -X PUT", "--data-binary"])
    [hook] = commands_of(TUTORIAL, ["/hooks"])
    [start] = commands_of(TUTORIAL, ["python receiver.py"])
    [receiver] = [one.text for one in blocks(TUTORIAL) if one.file == "receiver.py"]
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    assert "9000" in receiver
    (tmp_path / "receiver.py").write_text(receiver.replace("9000", port))
    secret, *words = shlex.split(start)
    assert words == ["python", "receiver.py"]
    environment = os.environ | dict([secret.split("=", 1)])
    listening = f"{shlex.quote(sys.executable)} receiver.py"
    with (
        served(serve, tmp_path) as server,
        running(listening, server, tmp_path, env=environment) as chat,
    ):
        do(create, server, tmp_path)
        do(hook, server, tmp_path, ("9000", port))
        do(send, server, tmp_path)
        with running(follow, server, tmp_path) as feed:
            alarm = alarm_of(feed)
        assert alarm["row"] == CHANGE
        assert [one["name"] for one in alarm["inputs"]] == ["vibration"]
        assert json.loads(chat.stdout.readline()) == {"text": f"pump: {alarm['text']}"}
